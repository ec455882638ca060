//! What refusals advise: each option that a text names is one of the program, and each limit one of the configuration.

use std::path::Path;

use causewayd::Config;

use crate::support::*;

/// The lines of the program's source that are no comments.
fn source_lines(folder: &Path, lines: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_lines(&path, lines);
        } else {
            let text = std::fs::read_to_string(&path).unwrap();
            lines.extend(text.lines().filter(|line| !line.trim_start().starts_with("//")).map(str::to_owned));
        }
    }
}

/// The words of this beginning, made of letters and these marks.
fn words<'a>(line: &'a str, beginning: &'a str, marks: &'static [char]) -> impl Iterator<Item = &'a str> {
    let words = line.split(move |letter: char| !letter.is_ascii_lowercase() && !marks.contains(&letter));
    words.filter(move |word| word.starts_with(beginning) && word.len() > beginning.len())
}

#[test]
fn options_and_limits_named_in_the_source_exist() {
    let mut lines = Vec::new();
    source_lines(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut lines);
    let help = causewayd(&["--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let (mut options, mut limits) = (0, 0);
    for line in &lines {
        for option in words(line, "--", &['-']).filter(|option| *option != "--detached") {
            options += 1;
            assert!(help.contains(option), "there is no option {option}: {line}");
        }
        for limit in words(line, "max_", &['_']).filter(|_| line.contains('"')) {
            // Attributes of a policy's rule.
            if limit == "max_fds" {
                continue;
            }
            limits += 1;
            assert_eq!(Config::default().limits.set(limit, 1), Ok(true), "there is no limit {limit}: {line}");
        }
    }
    assert!(options > 10 && limits > 20, "{options} options, {limits} limits");
}
