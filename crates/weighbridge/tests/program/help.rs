//! Help, completions, manual pages; and readers who have seen enough.

use std::process::{Command, Stdio};

use crate::{PROGRAM, folder, weighbridge};

const COMMANDS: &[&str] = &[
    "run",
    "plan",
    "list",
    "env",
    "report",
    "history",
    "compare",
    "explain",
    "import",
    "check",
    "dbus",
    "guest",
    "bloat",
    "completions",
    "man",
];

fn stdout(args: &[&str]) -> String {
    let output = weighbridge(folder().path()).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}");
    assert!(output.stderr.is_empty(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_completions_and_manual_mention_every_command() {
    let pages = [
        stdout(&["--help"]),
        stdout(&["man"]),
        stdout(&["completions", "bash"]),
        stdout(&["completions", "zsh"]),
        stdout(&["completions", "fish"]),
    ];
    for page in pages {
        for command in COMMANDS {
            assert!(page.contains(command), "{command} is not in\n{page}");
        }
    }
}

#[test]
fn every_command_has_help_with_its_options_and_a_manual_page() {
    for command in COMMANDS {
        assert!(stdout(&[command, "--help"]).contains(&format!("weighbridge {command}")), "{command}");
        assert!(stdout(&["man", command]).contains(command), "{command}");
    }
    let help = stdout(&["run", "--help"]);
    for flag in [
        "--suite",
        "--sizes",
        "--place",
        "--wait",
        "--set",
        "--precision",
        "--budget",
        "--max-runs",
        "--seed",
        "--cpus",
        "--out",
        "--html",
        "--format",
        "--dry-run",
        "--quiet",
    ] {
        assert!(help.contains(flag), "{flag} is not in\n{help}");
    }
}

#[test]
fn the_version_says_how_the_program_was_built() {
    let version = stdout(&["--version"]);
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    assert!(version.contains("build)"), "{version}");
}

/// The reader is gone before anything is written.
#[test]
fn a_broken_pipe_is_silent() {
    let folder = folder();
    for args in [
        &["--help"][..],
        &["list"],
        &["env"],
        &["plan", "roundtrip/mock/1/free"],
        &["completions", "bash"],
        &["man"],
        &["run", "roundtrip/mock/1/free", "--max-runs", "6", "--quiet", "--html", "none", "--out", "r.jsonl"],
        &["report", "r.jsonl"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(PROGRAM)
            .current_dir(folder.path())
            .args(args)
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        assert!(
            stderr.lines().all(|line| line.starts_with("warning: this is a debug build")),
            "{args:?}: {stderr}"
        );
    }
    crate::valid_record(folder.path().join("r.jsonl"));
}
