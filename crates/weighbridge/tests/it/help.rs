//! Help, completions, manual pages; and readers who have seen enough.

use std::process::{Command, Stdio};

use crate::{PROGRAM, Said, folder, said};

const COMMANDS: &str =
    "run plan list env report history compare explain import check dbus guest bloat completions man";

fn stdout(words: &str) -> String {
    let said = said(folder().path(), words).with(0);
    assert!(said.stderr.is_empty(), "{words}: {}", said.stderr);
    said.stdout
}

#[test]
fn help_completions_and_manual_have_every_command_with_its_options() {
    for words in ["--help", "man", "completions bash", "completions zsh", "completions fish"] {
        let page = stdout(words);
        for command in COMMANDS.split(' ') {
            assert!(page.contains(command), "{command} is not in\n{page}");
        }
    }
    for command in COMMANDS.split(' ') {
        let help = stdout(&format!("{command} --help"));
        assert!(help.contains(&format!("weighbridge {command}")), "{command}");
        assert!(stdout(&format!("man {command}")).contains(command), "{command}");
    }
    let help = stdout("run --help");
    let flags =
        "suite sizes place wait set precision budget runs seed cpus out force html format dry-run quiet";
    for flag in flags.split(' ') {
        assert!(help.contains(&format!("--{flag}")), "{flag} is not in\n{help}");
    }
}

#[test]
fn the_version_says_how_the_program_was_built() {
    let version = stdout("--version");
    assert!(version.contains(env!("CARGO_PKG_VERSION")) && version.contains("build)"), "{version}");
}

/// The reader is gone before anything is written.
#[test]
fn a_broken_pipe_is_silent() {
    let folder = folder();
    for words in [
        "--help",
        "list",
        "env",
        "plan roundtrip/mock/1/free",
        "completions bash",
        "man",
        "run roundtrip/mock/1/free --runs 6 --quiet --html none --out r.jsonl",
        "report r.jsonl",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(PROGRAM);
        command.current_dir(folder.path()).args(words.split(' ')).stdout(writer).stderr(Stdio::piped());
        let stderr = Said::of(command.output().unwrap()).with(0).stderr;
        let is_silent = stderr.lines().all(|line| line.starts_with("warning: this is a debug build"));
        assert!(is_silent, "{words}: {stderr}");
    }
    crate::valid_record(folder.path().join("r.jsonl"));
}
