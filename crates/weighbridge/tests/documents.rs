//! The documents are true where a program can tell: links lead somewhere, commands are understood, cases exist, and a figure
//! that stands in two places is the same in both.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;

use weighbridge_lab::catalogue;
use weighbridge_record::CaseId;

/// A library that the default build leaves out; commands and cases that name it are checked for their form only.
const OPTIONAL: &str = "iceoryx2";

/// What a document has where its reader puts something of his own, and something to put there.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("SHELL", "bash"),
    ("RECORD", "record.jsonl"),
    ("FILE", "record.jsonl"),
    ("CASE", "roundtrip/pipe/64/same-cpu"),
    ("CASE|FILE", "record.jsonl"),
    ("COMMAND", "run"),
];

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_in_it() {
    let mut broken = Vec::new();
    for document in documents() {
        for link in links(&document.text) {
            if link.starts_with("http") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { document.path.clone() } else { document.folder().join(file) };
            if !target.exists() {
                broken.push(format!("{}: {link}", document.name));
            } else if !anchor.is_empty() {
                let text = fs::read_to_string(&target).expect("a link with an anchor leads to a text");
                if !headings(&text).any(|heading| heading == anchor) {
                    broken.push(format!("{}: {link} has no such heading", document.name));
                }
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn every_command_in_a_document_is_understood_by_the_program() {
    let mut refused = Vec::new();
    let mut checked = 0;
    for document in documents() {
        for command in commands(&document.text) {
            checked += 1;
            let mut arguments = command.clone();
            // What comes before --help has been read when help is printed: a mistake ends the program with another code.
            arguments.push("--help".into());
            let output = run(&arguments);
            if !output.status.success() {
                refused.push(complaint(&document, &command, &output));
                continue;
            }
            let selects = command.first().is_some_and(|name| name == "run" || name == "plan");
            if selects && !command.iter().any(|word| word.contains(OPTIONAL) || is_placeholder(word)) {
                let mut arguments = command.clone();
                if arguments[0] == "run" {
                    arguments.push("--dry-run".into());
                }
                let output = run(&arguments);
                let stderr = String::from_utf8_lossy(&output.stderr);
                // A machine with one CPU has no case between two of them; the selection is understood all the same.
                if !output.status.success() && !stderr.contains("nothing is left to measure") {
                    refused.push(complaint(&document, &command, &output));
                }
            }
        }
    }
    assert!(checked >= 30, "only {checked} commands were found in the documents");
    assert!(refused.is_empty(), "refused:\n{}", refused.join("\n"));
}

/// Hands the brokers of D-Bus to the catalogue, as the program does. The first look at the catalogue must come after it.
fn with_brokers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| catalogue::add(weighbridge_dbus_bench::FAMILIES));
}

#[test]
fn every_case_in_a_document_exists() {
    with_brokers();
    let mut unknown = Vec::new();
    let mut checked = 0;
    for document in documents() {
        for id in case_ids(&document.text) {
            checked += 1;
            let case = id.parse::<CaseId>().map_err(|error| format!("{error:?}"));
            if let Err(why) = case.and_then(|case| catalogue::resolve(&case).map(|_| ())) {
                unknown.push(format!("{}: {id}: {why}", document.name));
            }
        }
    }
    assert!(checked >= 30, "only {checked} cases were found in the documents");
    assert!(unknown.is_empty(), "no such cases:\n{}", unknown.join("\n"));
}

#[test]
fn every_source_file_that_a_document_names_exists() {
    let root = root();
    let crates: Vec<_> = ["crates", "."].iter().map(|folder| root.join(folder)).collect();
    let mut missing = Vec::new();
    let mut checked = 0;
    for document in documents().into_iter().filter(|document| document.name != "CHANGELOG.md") {
        for path in split_code(&document.text).1.iter().filter(|path| is_source_path(path)) {
            checked += 1;
            // `lab/ctx.rs` is short for `crates/lab/lab/src/ctx.rs`, and what is named inside a crate's document is in that crate.
            let (first, rest) = path.split_once('/').expect("a path has a folder");
            let in_src = root.join("crates").join(first).join("src").join(rest);
            let mut candidates = vec![in_src, document.folder().join(path)];
            candidates.extend(crates.iter().map(|folder| folder.join(path)));
            let within = |of: &str| root.join("crates").join(of).join(path);
            candidates.extend(
                ["lab", "lab/src", "lab/tests", "causeway", "cli", "report/src", "peers"].map(within),
            );
            if !candidates.iter().any(|candidate| candidate.exists()) {
                missing.push(format!("{}: {path}", document.name));
            }
        }
    }
    assert!(checked >= 20, "only {checked} files are named in the documents");
    assert!(missing.is_empty(), "no such files:\n{}", missing.join("\n"));
}

fn is_source_path(code: &str) -> bool {
    let is_file = [".rs", ".sh", ".md", ".csv"].iter().any(|end| code.ends_with(end));
    is_file && code.contains('/') && !code.contains([' ', '*', '{', '~', '$']) && !code.starts_with('/')
}

/// `docs/figures.sh` writes both; an edit of one by hand is found here.
#[test]
fn every_line_of_an_excerpt_stands_in_the_report_that_it_is_cut_from() {
    let readme = read("README.md");
    for name in ["quick"] {
        let report = read(&format!("docs/figures/{name}.txt"));
        let lines: Vec<_> = excerpt(&readme, name).collect();
        let figures = lines.iter().filter(|line| line.contains(|c: char| c.is_ascii_digit())).count();
        assert!(figures >= 3, "README.md has no excerpt `{name}`; docs/figures.sh writes it");
        for line in lines.into_iter().filter(|line| line.trim() != "…") {
            assert!(
                report.lines().any(|other| other == line),
                "docs/figures/{name}.txt has no line `{line}`; run docs/figures.sh"
            );
        }
    }
}

/// A figure that is typed into the text becomes untrue without a sign.
#[test]
fn readme_has_no_measured_figure_outside_of_its_excerpts() {
    const UNITS: &[&str] =
        &[" ns", " µs", " ms", " MB/s", " GB/s", " MiB/s", " GiB/s", " times ", "messages/s"];
    let readme = read("README.md");
    let mut inside = false;
    for line in readme.lines() {
        inside = (inside || line.starts_with("<!-- figures:")) && line != "<!-- end of figures -->";
        let is_figure = |at: usize| line[..at].ends_with(|c: char| c.is_ascii_digit());
        let figure = UNITS.iter().find(|unit| line.match_indices(**unit).any(|(at, _)| is_figure(at)));
        assert!(inside || figure.is_none(), "a figure in README.md that is not generated: `{line}`");
    }
}

#[test]
fn a_row_that_stands_in_two_documents_has_the_same_figures() {
    let mut seen: BTreeMap<(String, String), (String, String)> = BTreeMap::new();
    let mut rows = 0;
    for document in documents().into_iter().filter(|document| document.name.ends_with(".md")) {
        let mut header = String::new();
        let mut before = "";
        for line in document.text.lines() {
            if line.starts_with("| ---") || line.starts_with("|---") {
                header = before.into();
            } else if line.starts_with('|')
                && !header.is_empty()
                && line.contains(|c: char| c.is_ascii_digit())
            {
                let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
                if cells[0].is_empty() {
                    continue;
                }
                rows += 1;
                let key = (header.clone(), cells[0].to_owned());
                let (other, figures) =
                    seen.entry(key).or_insert_with(|| (document.name.clone(), line.to_owned()));
                assert!(
                    *other == document.name || figures == line,
                    "{other} and {} disagree:\n{figures}\n{line}",
                    document.name
                );
            }
            before = line;
        }
    }
    assert!(rows > 0, "no table has a figure");
}

#[test]
fn the_readers_of_documents_find_what_they_must() {
    let text = "`weighbridge report RECORD`, [a](b.md#c-d)\n\n```\n$ weighbridge run 'a b' \\\n    --sizes 1 | cat  # x\n\
                cargo run --release -- list\ncargo run -p other -- list\n```\n# What, a `case`\nroundtrip/pipe/1/free.";
    assert_eq!(
        commands(text),
        [vec!["report", "record.jsonl"], vec!["run", "a b", "--sizes", "1"], vec!["list"]]
    );
    assert_eq!(links(text), ["b.md#c-d"]);
    assert_eq!(headings(text).collect::<Vec<_>>(), ["what-a-case"]);
    assert_eq!(case_ids(text), ["roundtrip/pipe/1/free"]);
    assert!(
        !run(&["run".into(), "--suite".into(), "no-such-suite".into(), "--help".into()]).status.success()
    );
}

struct Document {
    /// From the root of the repository.
    name: String,
    path: PathBuf,
    text: String,
}

impl Document {
    fn folder(&self) -> &Path {
        self.path.parent().expect("a file is in a folder")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All documents that people write. Reports under docs/figures are written by the program.
fn documents() -> Vec<Document> {
    let mut folders = vec![root(), root().join("docs"), root().join("docs/decisions")];
    folders.extend(
        fs::read_dir(root().join("crates")).expect("crates are there").map(|entry| entry.unwrap().path()),
    );
    let mut documents: Vec<_> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("a folder can be read"))
        .map(|entry| entry.expect("a folder can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| Document {
            name: path.strip_prefix(root()).expect("it is below the root").display().to_string(),
            text: fs::read_to_string(&path).expect("a document is text"),
            path,
        })
        .collect();
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(documents.len() >= 15, "documents are missing");
    documents
}

/// The targets of `[text](target)` outside of code.
fn links(text: &str) -> Vec<String> {
    let prose = split_code(text).0;
    let ends = prose.match_indices("](").map(|(at, _)| &prose[at + 2..]);
    ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// Headings as links spell them.
fn headings(text: &str) -> impl Iterator<Item = String> {
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

/// The arguments of each `weighbridge …` in the code of a document.
fn commands(text: &str) -> Vec<Vec<String>> {
    let (_, code) = split_code(text);
    let joined: Vec<_> = code.iter().map(|block| block.replace("\\\n", " ")).collect();
    joined.iter().flat_map(|block| block.lines()).filter_map(command).collect()
}

/// The arguments of the program in a line of shell, without what is redirected or commented.
fn command(line: &str) -> Option<Vec<String>> {
    let words = shell_words(line.trim_start().trim_start_matches("$ "));
    let arguments = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["weighbridge", ref rest @ ..] => rest.to_vec(),
        // The program is the default of the workspace.
        ["cargo", "run", ref rest @ ..] if !rest.contains(&"-p") => {
            let at = rest.iter().position(|word| *word == "--")?;
            rest[at + 1..].to_vec()
        }
        _ => return None,
    };
    // `weighbridge …` stands for any command.
    let is_open =
        arguments.is_empty() || arguments.iter().any(|word| word.contains(['…', '→']) || *word == "...");
    (!is_open).then(|| arguments.into_iter().map(filled_in).collect())
}

fn filled_in(word: &str) -> String {
    let known = PLACEHOLDERS.iter().find(|(placeholder, _)| *placeholder == word);
    known.map_or(word, |(_, value)| value).to_owned()
}

fn is_placeholder(word: &str) -> bool {
    word.split('/').any(|part| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase()))
}

/// Words as a shell takes them apart, up to a comment, a pipe or a redirection.
fn shell_words(line: &str) -> Vec<String> {
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

/// Complete ids of cases, in code and in prose.
fn case_ids(text: &str) -> Vec<String> {
    with_brokers();
    let patterns: Vec<_> = catalogue::patterns().iter().map(|pattern| pattern.id).collect();
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
fn split_code(text: &str) -> (String, Vec<String>) {
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
fn excerpt<'a>(readme: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!("<!-- figures: {name} -->");
    let lines = readme.lines().skip_while(move |line| *line != begin).skip(1);
    lines.take_while(|line| *line != "<!-- end of figures -->").filter(|line| !line.starts_with("```"))
}

fn run(arguments: &[String]) -> Output {
    // A folder without records, so that no run of the user's is read.
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents");
    Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .args(arguments)
        .env("XDG_STATE_HOME", state)
        .output()
        .expect("the program starts")
}

fn complaint(document: &Document, command: &[String], output: &Output) -> String {
    let why = String::from_utf8_lossy(&output.stderr);
    format!("{}: weighbridge {}\n    {}", document.name, command.join(" "), why.trim())
}
