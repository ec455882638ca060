//! The watchdog looks after each test, and each skip has a cause: nothing but `causeway-testkit` prints one.

use std::fs;

use crate::documents::{files_below, root};

/// Programs of tests without the watchdog, and why.
const UNWATCHED: &[(&str, &str)] = &[(
    "crates/causeway/causeway/tests/loom.rs",
    "its schedules depend on threads, and it has its own limits",
)];

/// What the watchdog or a list of skips would not see, and the file in which it is right.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("#[tokio::test", "", "write #[test(tokio::test)]"),
    ("Trial::test(", "crates/lab/targets/tests/conformance/runs.rs", "call `watched` of runs.rs"),
    ("println!(\"skipped", "", "call causeway_testkit::skipped"),
];

/// A file of Rust: its name from the root of the repository, and its text.
type Source = (String, String);

#[test]
fn each_test_is_watched_and_each_skip_has_a_cause() {
    let own = file!().trim_start_matches("./");
    let name = |path: &std::path::PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let sources: Vec<Source> = files_below(&root())
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs") && name(path) != own)
        .map(|path| (name(path), fs::read_to_string(path).unwrap()))
        .collect();
    assert!(sources.len() > 1000, "{} files", sources.len());
    for (program, _) in UNWATCHED {
        assert!(sources.iter().any(|(name, _)| name == program), "there is no {program}");
    }
    assert_eq!(complaints(&sources), [""; 0]);
}

#[test]
fn unwatched_programs_and_printed_skips_are_found() {
    const WATCHED: &str = "#[macro_use]\nextern crate causeway_testkit;\n";
    for (sources, found) in [
        (&[("a/src/lib.rs", ""), ("a/src/b.rs", "#[test]")][..], "a/src/lib.rs"),
        (&[("a/src/main.rs", "#[test]")], "a/src/main.rs"),
        (&[("a/src/lib.rs", WATCHED), ("a/tests/it.rs", "#[test]")], "a/tests/it.rs"),
        (&[("a/tests/it/main.rs", "mod b;"), ("a/tests/it/b.rs", "#[test]")], "a/tests/it/main.rs"),
        (&[("a/tests/it/main.rs", "fn main() {}")], "a/tests/it/main.rs"),
        (&[("a/tests/it/main.rs", WATCHED), ("a/tests/it/b.rs", "#[tokio::test]")], "a/tests/it/b.rs"),
        (&[("a/src/lib.rs", WATCHED), ("a/src/b.rs", "eprintln!(\"skipped: x\")")], "a/src/b.rs"),
    ] {
        let owned: Vec<Source> =
            sources.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
        let complaints = complaints(&owned);
        assert!(complaints.len() == 1 && complaints[0].starts_with(found), "{sources:?}: {complaints:?}");
    }
}

fn complaints(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in sources {
        let forbidden = FORBIDDEN.iter().filter(|(words, but_in, _)| text.contains(words) && name != but_in);
        found.extend(forbidden.map(|(words, _, instead)| format!("{name}: `{words}`: {instead}")));
        let Some(folder) = folder_of_root(name) else { continue };
        let has_lib = || sources.iter().any(|(other, _)| *other == format!("{folder}lib.rs"));
        let is_covered = UNWATCHED.iter().any(|(program, _)| program == name)
            || (name.ends_with("src/main.rs") && has_lib());
        let is_test = |line: &str| line.trim_start().starts_with("#[test");
        let has_tests =
            || sources.iter().any(|(other, text)| other.starts_with(&folder) && text.lines().any(is_test));
        // A program of tests without any has its own harness.
        let is_watched = if has_tests() {
            text.contains("#[macro_use]\nextern crate causeway_testkit")
        } else {
            folder.ends_with("src/") || text.contains("runs::main(")
        };
        if !is_covered && !is_watched {
            found.push(format!(
                "{name}: its tests have no watchdog: `#[macro_use] extern crate causeway_testkit;`"
            ));
        }
    }
    found
}

/// Where the modules of a crate are, if this is its root: a library, a program, or a program of tests.
fn folder_of_root(name: &str) -> Option<String> {
    let (folder, file) = name.rsplit_once('/')?;
    let parts: Vec<&str> = folder.split('/').collect();
    match parts[..] {
        [.., "src"] if ["lib.rs", "main.rs"].contains(&file) => Some(format!("{folder}/")),
        [.., "tests"] => Some(format!("{folder}/{file}")),
        [.., "tests", _] if file == "main.rs" => Some(format!("{folder}/")),
        _ => None,
    }
}
