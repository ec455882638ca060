//! Help, completions, manual pages; and readers who have seen enough.

use std::process::{Command, Stdio};

use causeway_testkit::help::assert_one_form;
use causeway_waiting::{duration, size};

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
    let flags = "suite sizes place wait set precision budget runs seed cpus out force color html format dry-run quiet";
    for flag in flags.split(' ') {
        assert!(help.contains(&format!("--{flag}")), "{flag} is not in\n{help}");
    }
}

#[test]
fn bytes_and_times_of_all_options_are_written_in_one_form() {
    let folder = folder();
    let program = |words: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.current_dir(folder.path()).args(words);
        command
    };
    let [sizes, times] = assert_one_form(program, size::FORM, duration::FORM);
    assert!(sizes >= 10 && times >= 15, "{sizes} {times}");
}

#[test]
fn a_command_of_a_command_has_a_page() {
    let page = stdout("man dbus replay");
    assert!(page.contains("weighbridge\\-dbus\\-replay") && page.contains("native\\-share"), "{page}");
    let folder = crate::folder();
    for (words, why) in [
        ("man dbus repla", "there is no command `repla`; did you mean `replay`?"),
        ("man dbus replay x", "has no commands; leave `x` out"),
    ] {
        let said = crate::said(folder.path(), words).with(2).stderr;
        assert!(said.contains(why), "{words}: {said}");
    }
}

#[test]
fn what_one_says_once_is_said_by_variables_and_a_word_counts_more() {
    let folder = crate::folder();
    let shown = |words: &str, variable: (&str, &str)| {
        let command = crate::weighbridge(folder.path());
        crate::Said::by(command.args(words.split(' ')).env(variable.0, variable.1))
    };
    let record = "run roundtrip/mock/1/free --runs 1 --no-system-calls --html none --out r.jsonl";
    let said = shown(record, ("WEIGHBRIDGE_QUIET", "1")).with(0);
    assert!(!said.stderr.contains("record:"), "{}", said.stderr);
    let has_color = |words: &str, choice: &str| {
        shown(words, ("WEIGHBRIDGE_COLOR", choice)).with(0).stdout.contains('\x1b')
    };
    assert!(!has_color("report r.jsonl", "auto"), "a pipe has no colors");
    assert!(has_color("report r.jsonl", "always"));
    assert!(!has_color("report r.jsonl --color never", "always"));
    let wrong = shown("plan roundtrip/pipe/1/free", ("WEIGHBRIDGE_CPUS", "many")).with(2).stderr;
    assert!(wrong.contains("--cpus") && wrong.contains("many") && wrong.lines().count() == 1, "{wrong}");
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
