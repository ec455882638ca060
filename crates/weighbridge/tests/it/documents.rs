//! The documents are true where a program can tell: links lead somewhere, commands are understood, cases and files exist, a figure
//! is of the program that it says, and one that stands in two places is the same in both.
//!
//! Each rule is a function from documents to complaints. `fixtures/documents/` has a document for each that it must refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use weighbridge_harness::catalogue;
use weighbridge_record::CaseId;

use crate::markdown::{
    case_ids, commands, excerpt, headings, is_placeholder, links, marks, named_files, shell_words, split_code,
};
use crate::workspace::{Package, crates, has_cargo, packages};
use crate::{dry, items};

/// No line is longer, tables and addresses apart.
const COLUMNS: usize = 120;

/// What British dictionaries have and these documents do not, in prose; names in code are as their owners spell them.
const BRITISH: &[&str] = &[
    "neighbour",
    "behaviour",
    "colour",
    "favour",
    "honour",
    "labelled",
    "modelled",
    "cancelled",
    "centre",
    "licence",
];

/// What is wrong with a document: a rule looks at one after the other, and at what it has seen before.
type Rule = fn(&[Document]) -> Vec<String>;

/// Each rule, with the fixture that it must refuse and a part of its complaint.
const RULES: &[(&str, Rule, &str)] = &[
    ("links", |all| each(all, broken_links), "no-such-file.md"),
    ("anchors", |all| each(all, broken_links), "#no-such-heading has no such heading"),
    ("commands", |all| each(all, refused_commands), "no-such-suite"),
    ("cases", |all| each(all, unknown_cases), "roundtrip/no-such-mechanism/1/same-cpu"),
    ("files", |all| each(all, missing_files), "causeway/src/no_such_file.rs"),
    ("packages", |all| each(all, missing_programs), "no package no-such-package"),
    ("programs", |all| each(all, missing_programs), "causeway-ipc has no --test no_such_test"),
    ("features", |all| each(all, wrong_dependencies), "causeway-bus has no feature no-such-feature"),
    ("rows", contradicting_rows, "disagree"),
    ("width", |all| each(all, long_lines), "line 3"),
    ("spelling", |all| each(all, british_words), "neighbours"),
    ("figures", |all| each(all, figures_of_other_programs), "is not the program that is here"),
    ("marks", |all| each(all, figures_of_other_programs), "is the program that is here"),
];

/// The complaints about each document by itself.
fn each(documents: &[Document], rule: fn(&Document) -> Vec<String>) -> Vec<String> {
    let named =
        |of: &Document| rule(of).into_iter().map(|why| format!("{}: {why}", of.name)).collect::<Vec<_>>();
    documents.iter().flat_map(named).collect()
}

#[test]
fn documents_keep_every_rule() {
    if !has_cargo() {
        return;
    }
    let documents = documents();
    let complaints: Vec<_> = RULES.iter().flat_map(|(_, rule, _)| rule(&documents)).collect();
    let once: BTreeSet<_> = complaints.iter().map(String::as_str).collect();
    assert!(once.is_empty(), "{}", once.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_rule_refuses_its_counter_example() {
    if !has_cargo() {
        return;
    }
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
fn the_readers_find_enough_in_these_documents() {
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
        assert!(!is_figure || list.contains(&format!("({name})")), "docs/figures/README.md has no {name}");
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
    let missing = lines.iter().find(|line| !report.lines().any(|other| other == **line));
    assert_eq!(missing, None, "quick.txt has no such line; run docs/figures.sh");
}

/// A figure that is typed into the text becomes untrue without a sign: those of the answers stand in the files that their row links.
#[test]
fn every_figure_in_readme_stands_in_a_file_of_figures() {
    const UNITS: &[&str] = &[" ns", " µs", " ms", "B/s", " times "];
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
        let figure = UNITS.iter().find(|unit| line.match_indices(**unit).any(|(at, _)| is_figure(at)));
        assert!(inside || figure.is_none(), "a figure in README.md that is not generated: `{line}`");
    }
}

fn broken_links(document: &Document) -> Vec<String> {
    let broken = |link: &String| {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { document.path.clone() } else { document.folder().join(file) };
        if !target.exists() {
            return Some(format!("{link} leads nowhere"));
        }
        let has_heading = || {
            let text = fs::read_to_string(&target).expect("a link with an anchor leads to a text");
            headings(&text).any(|heading| heading == anchor)
        };
        (!anchor.is_empty() && !has_heading()).then(|| format!("{link} has no such heading"))
    };
    links(&document.text).iter().filter(|link| !link.starts_with("http")).filter_map(broken).collect()
}

fn refused_commands(document: &Document) -> Vec<String> {
    // Its rows are tried by `items`.
    let commands = if document.name == items::TABLE { Vec::new() } else { commands(&document.text) };
    commands.iter().filter_map(|command| dry::refusal(command)).collect()
}

fn unknown_cases(document: &Document) -> Vec<String> {
    let unknown = |id: &String| {
        let case = id.parse::<CaseId>().map_err(|error| format!("{error:?}"));
        let why = case.and_then(|case| catalogue::resolve(&case).map(drop)).err()?;
        Some(format!("no such case {id}: {why}"))
    };
    case_ids(&document.text).iter().filter_map(unknown).collect()
}

/// `harness/ctx.rs` is short for `crates/lab/harness/src/ctx.rs`: whatever ends so, with or without its `src/` or `it/`, is there.
fn missing_files(document: &Document) -> Vec<String> {
    static FILES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let files = files_below(&root());
        let names = files.iter().map(|path| path.strip_prefix(root()).unwrap().display().to_string());
        let short = |name: &str| name.replacen("/src/", "/", 1).replacen("/tests/it/", "/tests/", 1);
        names.flat_map(|name| [format!("/{}", short(&name)), format!("/{name}")]).collect()
    });
    let is_there = |name: &str| FILES.iter().any(|file| file.ends_with(&format!("/{name}")));
    let missing = |name: &String| !is_there(name) && !document.folder().join(name).exists();
    named_files(&document.text).into_iter().filter(missing).map(|name| format!("no file {name}")).collect()
}

/// `PACKAGE = { path = "…/FOLDER", features = ["FEATURE"] }`, as a line of `Cargo.toml` for a program that uses one of our packages.
fn wrong_dependencies(document: &Document) -> Vec<String> {
    static PACKAGES: LazyLock<Vec<Package>> = LazyLock::new(|| packages().expect("cargo is installed"));
    let mut wrong = Vec::new();
    let code = split_code(&document.text).1.into_iter();
    for line in code.flat_map(|block| block.lines().map(str::to_owned).collect::<Vec<_>>()) {
        let Some((name, rest)) = line.split_once(" = { path = \"") else { continue };
        let Some(package) = PACKAGES.iter().find(|package| package.name == name.trim()) else {
            wrong.push(format!("no package {name}"));
            continue;
        };
        let mut quoted = rest.split('"').step_by(2);
        let folder = Path::new("crates").join(&package.folder);
        if !quoted.next().is_some_and(|path| Path::new(path).ends_with(&folder)) {
            wrong.push(format!("{name} is in {}", folder.display()));
        }
        let unknown = quoted.filter(|feature| {
            !feature.contains(['}', ']']) && !package.features.iter().any(|known| known == feature)
        });
        wrong.extend(unknown.map(|feature| format!("{name} has no feature {feature}")));
    }
    wrong
}

/// `cargo … -p PACKAGE --test NAME`, and the same of `--example`.
fn missing_programs(document: &Document) -> Vec<String> {
    static PACKAGES: LazyLock<BTreeMap<String, PathBuf>> = LazyLock::new(|| {
        let packages = packages().expect("cargo is installed");
        packages.into_iter().map(|package| (package.name, crates().join(package.folder))).collect()
    });
    let mut missing = Vec::new();
    let code = split_code(&document.text).1.into_iter().map(|block| block.replace("\\\n", " "));
    for line in code.flat_map(|block| block.lines().map(shell_words).collect::<Vec<_>>()) {
        let after = |option: &str| {
            let pairs = line.windows(2).filter(move |pair| pair[0] == option);
            pairs.map(|pair| pair[1].clone()).filter(|word| !is_placeholder(word)).collect::<Vec<_>>()
        };
        let packages = after("-p");
        if !line.iter().any(|word| word == "cargo") {
            continue;
        }
        let folders: Vec<_> = packages.iter().filter_map(|package| PACKAGES.get(package)).collect();
        let unknown = packages.iter().filter(|package| !PACKAGES.contains_key(*package));
        missing.extend(unknown.map(|package| format!("no package {package}")));
        for (option, folder) in [("--test", "tests"), ("--example", "examples")] {
            for name in after(option).iter().filter(|name| !name.contains(['*', '$'])) {
                let is_in = |of: &&PathBuf| {
                    let places = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/main.rs")];
                    places.iter().any(|place| of.join(place).exists())
                };
                if !folders.is_empty() && !folders.iter().any(is_in) {
                    missing.push(format!("{} has no {option} {name}", packages.join(", ")));
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

fn long_lines(document: &Document) -> Vec<String> {
    let is_free =
        |line: &str| line.starts_with('|') || line.contains("http") || line.trim_start().starts_with("[`");
    let lines = document.text.lines().enumerate();
    lines
        .filter(|(_, line)| line.chars().count() > COLUMNS && !is_free(line))
        .map(|(index, _)| format!("line {} has more than {COLUMNS} columns", index + 1))
        .collect()
}

fn british_words(document: &Document) -> Vec<String> {
    let prose = split_code(&document.text).0;
    let words = prose.split(|c: char| !c.is_alphabetic());
    let is_british = |word: &&str| BRITISH.iter().any(|british| word.to_lowercase().starts_with(british));
    words.filter(is_british).map(|word| format!("`{word}` is not spelled as in America")).collect()
}

/// What measured a figure is what is here, or the document says that it was an earlier program. `docs/figures.sh mark` says so.
fn figures_of_other_programs(document: &Document) -> Vec<String> {
    let complaint = |(is_earlier, program): (bool, String)| {
        let is_here = ["lab", "dbus"].iter().any(|kind| fingerprint(kind) == program);
        match (is_earlier, is_here) {
            (true, true) => Some(format!("`{program}` is the program that is here")),
            (false, false) => Some(format!(
                "`{program}` is not the program that is here: measure again, or run `docs/figures.sh mark`"
            )),
            _ => None,
        }
    };
    marks(&document.text).into_iter().filter_map(complaint).collect()
}

/// What the crates that measure contain, as the script says that writes figures.
fn fingerprint(kind: &str) -> &'static str {
    static KNOWN: LazyLock<[(&str, String); 2]> = LazyLock::new(|| {
        ["lab", "dbus"].map(|kind| {
            let mut script = Command::new("bash");
            let output = script.arg(root().join("docs/figures.sh")).args(["fingerprint", kind]).output();
            let output = output.expect("bash is there");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            (kind, String::from_utf8_lossy(&output.stdout).trim().to_owned())
        })
    });
    &KNOWN.iter().find(|(known, _)| *known == kind).expect("one of the two").1
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

pub fn root() -> PathBuf {
    crates().parent().expect("the repository is there").to_owned()
}

/// A file of the repository, by its name from the root.
pub fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All documents that people write.
fn documents() -> Vec<Document> {
    let document = |path: PathBuf| Document {
        name: path.strip_prefix(root()).expect("it is below the root").display().to_string(),
        text: fs::read_to_string(&path).expect("a document is text"),
        path,
    };
    let paths = files_below(&root()).into_iter();
    let mut documents: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "md")).map(document).collect();
    documents.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(documents.len() >= 30, "documents are missing");
    documents
}

/// Files of the repository, without what is built, hidden, or there to be refused.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
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
