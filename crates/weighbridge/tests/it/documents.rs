//! The documents are true where a program can tell: links lead somewhere, commands are understood, cases and files exist, a figure
//! is of the program that it says, and one that stands in two places is the same in both.
//!
//! Each rule is a function from documents to complaints. `fixtures/documents/` has a document for each that it must refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex};

use weighbridge_harness::catalogue;
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

/// No line is longer, tables and addresses apart.
const COLUMNS: usize = 120;

type Rule = fn(&[Document]) -> Vec<String>;

/// Each rule, with the fixture that it must refuse and a part of its complaint.
const RULES: &[(&str, Rule, &str)] = &[
    ("links", broken_links, "no-such-file.md"),
    ("anchors", broken_links, "#no-such-heading has no such heading"),
    ("commands", refused_commands, "no-such-suite"),
    ("cases", unknown_cases, "roundtrip/no-such-mechanism/1/same-cpu"),
    ("files", missing_files, "causeway/src/no_such_file.rs"),
    ("packages", missing_programs, "no package no-such-package"),
    ("programs", missing_programs, "causeway has no --test no_such_test"),
    ("rows", contradicting_rows, "disagree"),
    ("width", long_lines, "line 3"),
    ("figures", figures_of_other_programs, "is not the program that is here"),
    ("marks", figures_of_other_programs, "is the program that is here"),
];

#[test]
fn documents_keep_every_rule() {
    let documents = documents();
    let complaints: Vec<_> = RULES.iter().flat_map(|(_, rule, _)| rule(&documents)).collect();
    let once: BTreeSet<_> = complaints.iter().map(String::as_str).collect();
    assert!(once.is_empty(), "{}", once.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_rule_refuses_its_counter_example() {
    for (name, rule, complaint) in RULES {
        let path = root().join(format!("crates/weighbridge/tests/fixtures/documents/{name}.md"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // A mark that pretends to be of an earlier program has the fingerprint of this one.
        let text = text.replace("FINGERPRINT", fingerprint("lab"));
        let parts = text.split("\n<!-- another document -->\n").enumerate();
        let named = |(part, text): (usize, &str)| Document {
            name: format!("{name}-{part}.md"),
            path: path.clone(),
            text: text.to_owned(),
        };
        let complaints = rule(&parts.map(named).collect::<Vec<_>>());
        assert_eq!(complaints.len(), 1, "{name}: {complaints:?}");
        assert!(complaints[0].contains(complaint), "{name}: {complaints:?}");
    }
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
    let documents = documents();
    let found =
        |count: fn(&str) -> usize| documents.iter().map(|document| count(&document.text)).sum::<usize>();
    assert!(found(|text| links(text).len()) >= 50);
    assert!(found(|text| commands(text).len()) >= 50);
    assert!(found(|text| case_ids(text).len()) >= 30);
    assert!(found(|text| named_files(text).len()) >= 20);
    assert!(found(|text| marks(text).len()) >= 10);
}

/// mdBook shows what `SUMMARY.md` lists, and nothing else: each page is there, and links to nothing outside of the book.
#[test]
fn the_book_has_every_page() {
    let listed: BTreeSet<_> = links(&read("docs/SUMMARY.md")).into_iter().collect();
    for document in documents() {
        if let Some(page) = document.name.strip_prefix("docs/")
            && page != "SUMMARY.md"
        {
            assert!(listed.contains(page), "docs/SUMMARY.md does not list {page}");
            let up = "../".repeat(page.matches('/').count() + 1);
            let outside: Vec<_> =
                links(&document.text).into_iter().filter(|link| link.starts_with(&up)).collect();
            assert!(outside.is_empty(), "{page} links to what the book does not have: {outside:?}");
        }
    }
}

/// A figure that nobody lists would have no program and no command.
#[test]
fn every_figure_is_listed_with_what_measured_it() {
    let list = read("docs/figures/README.md");
    for path in files_below(&root().join("docs/figures")) {
        let name = path.strip_prefix(root().join("docs/figures")).unwrap().display().to_string();
        let is_figure = !["README.md", ".sh", ".awk", ".c"].iter().any(|end| name.ends_with(end));
        assert!(
            !is_figure || list.contains(&format!("({name})")),
            "docs/figures/README.md does not list {name}"
        );
    }
    for row in list.lines().filter(|line| line.starts_with("| [")) {
        let kind = row.split(" | ").nth(2).unwrap_or("");
        assert!(["lab", "dbus"].contains(&kind) && marks(row).len() == 1, "who measured this? {row}");
    }
}

/// `docs/figures.sh` writes both; an edit of one by hand is found here.
#[test]
fn every_line_of_an_excerpt_stands_in_the_report_that_it_is_cut_from() {
    let (readme, report) = (read("README.md"), read("docs/figures/quick.txt"));
    let lines: Vec<_> = excerpt(&readme, "quick").collect();
    let figures = lines.iter().filter(|line| has_digit(line)).count();
    assert!(figures >= 3, "README.md has no excerpt `quick`; docs/figures.sh writes it");
    for line in lines {
        assert!(
            report.lines().any(|other| other == line),
            "quick.txt has no line `{line}`; run docs/figures.sh"
        );
    }
}

/// A figure that is typed into the text becomes untrue without a sign: those of the answers stand in the files that their row links.
#[test]
fn every_figure_in_readme_stands_in_a_file_of_figures() {
    const UNITS: &[&str] = &[" ns", " µs", " ms", "B/s", " times ", " and ", " against "];
    let readme = read("README.md");
    let answers: Vec<_> = excerpt(&readme, "answers").collect();
    assert!(answers.len() >= 5, "README.md has no answers");
    for row in answers.iter().skip(2) {
        let texts: Vec<_> = links(row)
            .iter()
            .filter(|link| link.starts_with("docs/figures/"))
            .map(|link| read(link))
            .collect();
        let numbers = row.split(|c: char| !c.is_ascii_digit() && c != '.').map(|word| word.trim_matches('.'));
        for number in numbers.filter(|number| number.contains('.')) {
            assert!(texts.iter().any(|text| text.contains(number)), "{number} is in no figure of {row}");
        }
    }
    let mut inside = false;
    for line in readme.lines() {
        inside = (inside || line.starts_with("<!-- figures:")) && line != "<!-- end of figures -->";
        let is_figure = |at: usize| line[..at].ends_with(|c: char| c.is_ascii_digit());
        let figure = UNITS[..5].iter().find(|unit| line.match_indices(**unit).any(|(at, _)| is_figure(at)));
        assert!(inside || figure.is_none(), "a figure in README.md that is not generated: `{line}`");
    }
}

fn broken_links(documents: &[Document]) -> Vec<String> {
    let mut broken = Vec::new();
    for document in documents {
        for link in links(&document.text).into_iter().filter(|link| !link.starts_with("http")) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { document.path.clone() } else { document.folder().join(file) };
            if !target.exists() {
                broken.push(format!("{}: {link} leads nowhere", document.name));
            } else if !anchor.is_empty() {
                let text = fs::read_to_string(&target).expect("a link with an anchor leads to a text");
                if !headings(&text).any(|heading| heading == anchor) {
                    broken.push(format!("{}: {link} has no such heading", document.name));
                }
            }
        }
    }
    broken
}

fn refused_commands(documents: &[Document]) -> Vec<String> {
    let mut refused = Vec::new();
    for document in documents {
        for command in commands(&document.text) {
            // What comes before --help has been read when help is printed: a mistake ends the program with another code.
            let selects = command.first().is_some_and(|name| name == "run" || name == "plan")
                && !command.iter().any(|word| word.contains(OPTIONAL) || is_placeholder(word));
            let mut tries = vec![[&command[..], &["--help".to_owned()]].concat()];
            if selects {
                let dry = (command[0] == "run").then(|| "--dry-run".to_owned());
                tries.push(command.iter().cloned().chain(dry).collect());
            }
            for arguments in tries {
                let output = run(&arguments);
                let stderr = String::from_utf8_lossy(&output.stderr);
                // A machine with one CPU has no case between two of them; the selection is understood all the same.
                if !output.status.success() && !stderr.contains("nothing is left to measure") {
                    let words = command.join(" ");
                    refused.push(format!("{}: weighbridge {words}\n    {}", document.name, stderr.trim()));
                    break;
                }
            }
        }
    }
    refused
}

fn unknown_cases(documents: &[Document]) -> Vec<String> {
    weighbridge_dbus_bench::register();
    let mut unknown = Vec::new();
    for document in documents {
        for id in case_ids(&document.text) {
            let case = id.parse::<CaseId>().map_err(|error| format!("{error:?}"));
            if let Err(why) = case.and_then(|case| catalogue::resolve(&case).map(|_| ())) {
                unknown.push(format!("{}: no such case {id}: {why}", document.name));
            }
        }
    }
    unknown
}

/// `harness/ctx.rs` is short for `crates/lab/harness/src/ctx.rs`: whatever ends so, with or without its `src/` or `it/`, is there.
fn missing_files(documents: &[Document]) -> Vec<String> {
    static FILES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let files = files_below(&root());
        let names = files.iter().map(|path| path.strip_prefix(root()).unwrap().display().to_string());
        let short = |name: &str| name.replacen("/src/", "/", 1).replacen("/tests/it/", "/tests/", 1);
        names.flat_map(|name| [format!("/{}", short(&name)), format!("/{name}")]).collect()
    });
    let mut missing = Vec::new();
    for document in documents {
        for name in named_files(&document.text) {
            let is_there = |name: &str| FILES.iter().any(|file| file.ends_with(&format!("/{name}")));
            if !is_there(&name) && !document.folder().join(&name).exists() {
                missing.push(format!("{}: no file {name}", document.name));
            }
        }
    }
    missing
}

/// `cargo … -p PACKAGE --test NAME`, and the same of `--example`.
fn missing_programs(documents: &[Document]) -> Vec<String> {
    static PACKAGES: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| {
        let manifests =
            files_below(&root().join("crates")).into_iter().filter(|path| path.ends_with("Cargo.toml"));
        let named = |path: PathBuf| {
            let text = fs::read_to_string(&path).expect("a manifest is text");
            let name = text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
            Some((name?.to_owned(), path.parent()?.to_owned()))
        };
        manifests.filter_map(named).collect()
    });
    let mut missing = Vec::new();
    for document in documents {
        let code = split_code(&document.text).1.into_iter().map(|block| block.replace("\\\n", " "));
        for line in code.flat_map(|block| block.lines().map(shell_words).collect::<Vec<_>>()) {
            let after = |option: &str| {
                let pairs = line.windows(2).filter(move |pair| pair[0] == option);
                pairs.map(|pair| pair[1].clone()).filter(|word| !is_placeholder(word)).collect::<Vec<_>>()
            };
            let packages = after("-p");
            if !line.iter().any(|word| word == "cargo") || packages.is_empty() {
                continue;
            }
            for package in packages.iter().filter(|package| !PACKAGES.contains_key(*package)) {
                missing.push(format!("{}: no package {package}", document.name));
            }
            let folders: Vec<_> = packages.iter().filter_map(|package| PACKAGES.get(package)).collect();
            for (option, folder) in [("--test", "tests"), ("--example", "examples")] {
                for name in after(option).iter().filter(|name| !name.contains(['*', '$'])) {
                    let is_in = |of: &&PathBuf| {
                        let places = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/main.rs")];
                        places.iter().any(|place| of.join(place).exists())
                    };
                    if !folders.is_empty() && !folders.iter().any(is_in) {
                        missing.push(format!(
                            "{}: {} has no {option} {name}",
                            document.name,
                            packages.join(", ")
                        ));
                    }
                }
            }
        }
    }
    missing
}

fn contradicting_rows(documents: &[Document]) -> Vec<String> {
    let mut seen: BTreeMap<(String, String), (&str, &str)> = BTreeMap::new();
    let mut complaints = Vec::new();
    for document in documents {
        let (mut header, mut before) = ("", "");
        for line in document.text.lines() {
            let first = line.trim_matches('|').split('|').next().unwrap_or("").trim();
            if line.starts_with("| ---") || line.starts_with("|---") {
                header = before;
            } else if line.starts_with('|') && !header.is_empty() && !first.is_empty() && has_digit(line) {
                let key = (header.to_owned(), first.to_owned());
                let (other, figures) = *seen.entry(key).or_insert((&document.name, line));
                if other != document.name && figures != line {
                    complaints.push(format!("{other} and {} disagree:\n{figures}\n{line}", document.name));
                }
            }
            before = line;
        }
    }
    complaints
}

fn has_digit(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
}

fn long_lines(documents: &[Document]) -> Vec<String> {
    let mut long = Vec::new();
    for document in documents {
        for (index, line) in document.text.lines().enumerate() {
            let is_free =
                line.starts_with('|') || line.contains("http") || line.trim_start().starts_with("[`");
            if line.chars().count() > COLUMNS && !is_free {
                long.push(format!("{}: line {} has more than {COLUMNS} columns", document.name, index + 1));
            }
        }
    }
    long
}

/// What measured a figure is what is here, or the document says that it was an earlier program. `docs/figures.sh mark` says so.
fn figures_of_other_programs(documents: &[Document]) -> Vec<String> {
    let here = [fingerprint("lab"), fingerprint("dbus")];
    let mut complaints = Vec::new();
    for document in documents {
        for (is_earlier, program) in marks(&document.text) {
            let is_here = here.contains(&program.as_str());
            if is_earlier && is_here {
                complaints.push(format!("{}: `{program}` is the program that is here", document.name));
            } else if !is_earlier && !is_here {
                complaints.push(format!(
                    "{}: `{program}` is not the program that is here: measure again, or run `docs/figures.sh mark`",
                    document.name
                ));
            }
        }
    }
    complaints
}

/// What the crates that measure contain, as the script says that writes figures.
fn fingerprint(kind: &str) -> &'static str {
    let ask = |kind: &str| {
        let output =
            Command::new("bash").arg(root().join("docs/figures.sh")).args(["fingerprint", kind]).output();
        let output = output.expect("bash is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    static KNOWN: Mutex<BTreeMap<String, &str>> = Mutex::new(BTreeMap::new());
    KNOWN.lock().unwrap().entry(kind.to_owned()).or_insert_with(|| ask(kind).leak())
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

/// All documents that people write.
fn documents() -> Vec<Document> {
    let paths =
        files_below(&root()).into_iter().filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut documents: Vec<_> = paths
        .map(|path| Document {
            name: path.strip_prefix(root()).expect("it is below the root").display().to_string(),
            text: fs::read_to_string(&path).expect("a document is text"),
            path,
        })
        .collect();
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(documents.len() >= 30, "documents are missing");
    documents
}

/// Files of the repository, without what is built, hidden, or there to be refused.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("a folder can be read").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy();
        if name.starts_with('.') || ["target", "fixtures", "snapshots"].contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
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

/// Files that a document names between backquotes, with a folder.
fn named_files(text: &str) -> Vec<String> {
    let is_file = |code: &String| {
        let ends = [".rs", ".sh", ".md", ".csv"].iter().any(|end| code.ends_with(end));
        ends && code.contains('/') && !code.contains([' ', '*', '{', '~', '$']) && !code.starts_with('/')
    };
    split_code(text).1.into_iter().filter(is_file).collect()
}

/// What measured figures: whether it was an earlier program, and its fingerprint or commit.
fn marks(text: &str) -> Vec<(bool, String)> {
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
    weighbridge_dbus_bench::register();
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
