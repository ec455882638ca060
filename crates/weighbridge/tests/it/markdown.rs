//! What stands in a document: links, headings, files, marks of figures, commands, cases, code.

use weighbridge_harness::catalogue;

/// A library that the default build leaves out; commands and cases that name it are checked for their form only.
pub const OPTIONAL: &str = "iceoryx2";

/// What a document has where its reader puts something of his own, and something to put there.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("SHELL", "bash"),
    ("RECORD", "record.jsonl"),
    ("FILE", "record.jsonl"),
    ("CASE", "roundtrip/pipe/64/same-cpu"),
    ("CASE|FILE", "record.jsonl"),
    ("COMMAND", "run"),
    ("TIME", "1s"),
];

#[test]
fn the_readers_of_documents_find_what_they_must() {
    let text = "`weighbridge report RECORD`, [a](b.md#c-d)\n\n```\n$ weighbridge run 'a b' \\\n    --sizes 1 | cat  # x\n\
                cargo run --release -- list\ncargo run -p other -- list\ncauseway bus list\n```\n# What, a `case`\nroundtrip/pipe/1/free.";
    assert_eq!(
        commands(text),
        [
            vec!["weighbridge", "report", "record.jsonl"],
            vec!["weighbridge", "run", "a b", "--sizes", "1"],
            vec!["weighbridge", "list"],
            vec!["causeway", "bus", "list"]
        ]
    );
    assert_eq!(links(text), ["b.md#c-d"]);
    assert_eq!(headings(text).collect::<Vec<_>>(), ["what-a-case"]);
    assert_eq!(case_ids(text), ["roundtrip/pipe/1/free"]);
}

/// The targets of `[text](target)` outside of code.
pub fn links(text: &str) -> Vec<String> {
    let prose = split_code(text).0;
    let ends = prose.match_indices("](").map(|(at, _)| &prose[at + 2..]);
    ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// Headings as links spell them.
pub fn headings(text: &str) -> impl Iterator<Item = String> {
    let slug = |line: &str| {
        let kept = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        };
        line.trim_start_matches('#').trim().chars().filter_map(kept).collect()
    };
    text.lines().filter(|line| line.starts_with('#')).map(slug)
}

/// Files that a document names between backquotes, with a folder.
pub fn named_files(text: &str) -> Vec<String> {
    let is_file = |code: &String| {
        let ends = [".rs", ".sh", ".md", ".csv"].iter().any(|end| code.ends_with(end));
        ends && code.contains('/') && !code.contains([' ', '*', '{', '~', '$']) && !code.starts_with('/')
    };
    split_code(text).1.into_iter().filter(is_file).collect()
}

/// What measured figures: whether it was an earlier program, and its fingerprint or commit.
pub fn marks(text: &str) -> Vec<(bool, String)> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let of = |words: &str, is_earlier| {
        let rest = text.split(words).skip(1).filter_map(|rest| rest.split_once('`'));
        rest.map(|(program, _)| (is_earlier, program.to_owned())).collect::<Vec<_>>()
    };
    let is_program = |(_, program): &(bool, String)| program.chars().all(|c| c.is_ascii_hexdigit());
    [of("an earlier program `", true), of("the program `", false)]
        .concat()
        .into_iter()
        .filter(is_program)
        .collect()
}

/// Each command of one of our programs in the code of a document: the program, and its arguments.
pub fn commands(text: &str) -> Vec<Vec<String>> {
    let (_, code) = split_code(text);
    let joined: Vec<_> = code.iter().map(|block| block.replace("\\\n", " ")).collect();
    joined.iter().flat_map(|block| block.lines()).filter_map(command).collect()
}

/// The program and its arguments in a line of shell, without what is redirected or commented.
fn command(line: &str) -> Option<Vec<String>> {
    let words = shell_words(line.trim_start().trim_start_matches("$ "));
    let (program, arguments) = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [program @ ("weighbridge" | "causeway" | "causewayd"), ref rest @ ..] => (program, rest.to_vec()),
        // The program is the default of the workspace.
        ["cargo", "run", ref rest @ ..] if !rest.contains(&"-p") => {
            let at = rest.iter().position(|word| *word == "--")?;
            ("weighbridge", rest[at + 1..].to_vec())
        }
        _ => return None,
    };
    // `weighbridge …` stands for any command; `causeway = …` is a line of Cargo.toml.
    let is_open = arguments.first().is_none_or(|word| *word == "=")
        || arguments.iter().any(|word| word.contains(['…', '→']) || *word == "...");
    (!is_open).then(|| [program].into_iter().chain(arguments).map(filled_in).collect())
}

fn filled_in(word: &str) -> String {
    let known = PLACEHOLDERS.iter().find(|(placeholder, _)| *placeholder == word);
    known.map_or(word, |(_, value)| value).to_owned()
}

pub fn is_placeholder(word: &str) -> bool {
    word.split('/').any(|part| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase()))
}

/// Words as a shell takes them apart, up to a comment, a pipe or a redirection.
pub fn shell_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in line.chars() {
        let last = words.last_mut().expect("there is always one");
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => last.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '|' | '>' | '<' | ';' | '&') => break,
            (None, '#') if last.is_empty() => break,
            (None, c) if c.is_whitespace() => {
                if !last.is_empty() {
                    words.push(String::new());
                }
            }
            (None, c) => last.push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// With which word a case begins.
pub fn patterns() -> Vec<&'static str> {
    weighbridge_dbus_bench::register();
    catalogue::patterns().iter().map(|pattern| pattern.id).collect()
}

/// Complete ids of cases, in code and in prose.
pub fn case_ids(text: &str) -> Vec<String> {
    let patterns = patterns();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_/=:.,{}*".contains(c);
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_matches(|c: char| ".,:/".contains(c)));
    let ids = words.filter(|word| {
        let parts: Vec<_> = word.split('/').collect();
        let is_complete =
            parts.len() >= 4 && parts[2].chars().all(|c| c.is_ascii_digit()) && !parts[2].is_empty();
        is_complete
            && patterns.contains(&parts[0])
            && !word.contains(['{', '*'])
            && !word.contains(OPTIONAL)
            && !is_placeholder(word)
    });
    ids.map(str::to_owned).collect()
}

/// A document's prose, and its pieces of code: fenced blocks, and spans between backquotes.
pub fn split_code(text: &str) -> (String, Vec<String>) {
    let (mut prose, mut code) = (String::new(), Vec::new());
    for (index, part) in text.split("```").enumerate() {
        if index % 2 == 1 {
            code.push(part.to_owned());
            continue;
        }
        for (index, part) in part.split('`').enumerate() {
            if index % 2 == 1 { code.push(part.replace('\n', " ")) } else { prose.push_str(part) }
        }
    }
    (prose, code)
}

/// The lines of an excerpt, without its fence.
pub fn excerpt<'a>(readme: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("<!-- figures: {name} -->");
    let lines = readme.lines().skip_while(move |line| *line != begin).skip(1);
    lines.take_while(|line| *line != "<!-- end of figures -->").filter(|line| !line.starts_with("```"))
}
