//! The whole program, as a user meets it. Almost everything is measured with `mock`, whose latency is known and whose time
//! is virtual, so that figures are the same on every machine.

#[macro_use]
extern crate causeway_testkit;

mod advise;
mod bisect;
mod bustle;
#[path = "../../../dbus/traffic/tests/it/common/mod.rs"]
mod captures;
mod check;
mod compare;
mod conditions;
mod dbus;
mod dbus_live;
mod death;
mod disk;
mod documents;
mod dry;
mod emulator;
mod explain;
mod guest;
mod help;
mod history;
mod import;
mod imports;
mod items;
mod laws;
mod layering;
mod markdown;
mod mistakes;
mod observe;
mod own;
mod plan;
mod planned;
mod real;
mod record;
mod report;
mod run;
mod selection;
mod timeline;
mod watched;
mod workspace;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use causeway_testkit::{Running, TempDir, proc, temp_dir};
use serde_json::Value;
use snapbox::{IntoData, assert_data_eq, cmd};
use weighbridge_record::{Line, Reading};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_weighbridge");
/// Where the user's state is, in the folder of a test.
const STATE: &str = ".state";

/// Contents of the lines of one kind: `all!(lines, Summary)`.
macro_rules! all {
    ($lines:expr, $kind:ident) => {
        $lines
            .iter()
            .filter_map(|line| if let weighbridge_record::Line::$kind(of) = line { Some(of) } else { None })
            .collect::<Vec<_>>()
    };
}
use all;

/// The program in a folder of its own, to be asserted on.
fn weighbridge(folder: &Path) -> cmd::Command {
    cmd::Command::new(PROGRAM)
        .current_dir(folder)
        .env("RUST_BACKTRACE", "0")
        .env_remove("GIT_COMMIT")
        .env("XDG_STATE_HOME", folder.join(STATE))
}

/// What the program said, and its exit code.
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Said {
    /// By a command that runs to its end.
    fn by(command: cmd::Command) -> Said {
        Said::of(command.output().unwrap())
    }

    fn of(output: std::process::Output) -> Said {
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        Said { code: output.status.code(), stdout, stderr }
    }

    /// The same, where the exit code must be this one.
    #[track_caller]
    fn with(self, code: i32) -> Said {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// The same, where it must have been refused (2) or have failed (3).
    #[track_caller]
    fn fails(self) -> Said {
        assert!(matches!(self.code, Some(2 | 3)), "{:?}: {}\n{}", self.code, self.stdout, self.stderr);
        self
    }

    /// The same, where nothing is shown, and one sentence with this in it says why.
    #[track_caller]
    fn refuses(self, why: &str) -> Said {
        let said = self.fails();
        assert!(said.stdout.is_empty() && said.stderr.contains(why), "{}\n{}", said.stdout, said.stderr);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
        said
    }

    /// The same, where standard output must match this; `[..]` is any text in a line, `...` any lines.
    #[track_caller]
    fn shows(self, pattern: impl IntoData) -> Said {
        assert_data_eq!(&self.stdout[..], pattern.into_data());
        self
    }

    /// The same of standard error.
    #[track_caller]
    fn says(self, pattern: impl IntoData) -> Said {
        assert_data_eq!(&self.stderr[..], pattern.into_data());
        self
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

/// The program run to its end with these words, none of which has a space in it.
fn said(folder: &Path, words: &str) -> Said {
    Said::by(weighbridge(folder).args(words.split_whitespace()))
}

/// What the program shows; it must succeed.
#[track_caller]
fn shown(folder: &Path, words: &str) -> String {
    said(folder, words).with(0).stdout
}

/// Runs `run` with these words; the lines of its record, `r.jsonl`.
#[track_caller]
fn measured(folder: &Path, words: &str) -> Vec<Line> {
    said(folder, &format!("run {words} --out r.jsonl --html none --quiet")).with(0);
    valid_record(folder.join("r.jsonl")).lines
}

/// The program started in a folder, its output going to the files `stdout` and `stderr` there.
fn start(folder: &Path, words: &str) -> Running {
    let file = |name| std::fs::File::create(folder.join(name)).unwrap();
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).env("XDG_STATE_HOME", folder.join(STATE)).args(words.split_whitespace());
    Running::start(command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")))
}

/// A program that is a script of the shell.
fn script(path: &Path, does: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{does}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Nothing runs any more; a zombie waits for a parent that reaps it.
fn has_ended(pid: u32) -> bool {
    matches!(proc::state(pid), None | Some('Z' | 'X'))
}

fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A record that must be valid to its last line.
fn valid_record(path: impl AsRef<Path>) -> Reading {
    let reading = weighbridge_record::read_file(path.as_ref()).unwrap();
    assert_eq!(reading.problems, [], "{}", path.as_ref().display());
    assert!(matches!(reading.lines.first(), Some(Line::Header(_))));
    reading
}

/// Where runs of a test keep their records.
fn store(folder: &Path) -> PathBuf {
    folder.join(STATE).join("weighbridge")
}

/// Names of what lies in a folder, the user's state aside.
fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != STATE);
    names.sort();
    names
}

fn folder() -> TempDir {
    temp_dir("weighbridge")
}
