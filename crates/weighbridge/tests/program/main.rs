//! The whole program, as a user meets it. Almost everything is measured with `mock`, whose latency is known and whose time
//! is virtual, so that figures are the same on every machine.

#![allow(clippy::print_stdout)]

mod bustle;
#[path = "../../../dbus/traffic/tests/common/mod.rs"]
mod captures;
mod check;
mod compare;
mod conditions;
mod dbus;
mod death;
mod disk;
mod emulator;
mod explain;
mod guest;
mod help;
mod history;
mod import;
mod mistakes;
mod observe;
mod plan;
mod real;
mod report;
mod run;
mod selection;
mod timeline;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use snapbox::cmd;
use weighbridge_record::{Line, Reading};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_weighbridge");
/// Where the user's state is, in the folder of a test.
const STATE: &str = ".state";
/// For what happens sooner or later; no test waits so long unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program in a folder of its own, to be asserted on.
fn weighbridge(folder: &Path) -> cmd::Command {
    cmd::Command::new(PROGRAM)
        .current_dir(folder)
        .env("RUST_BACKTRACE", "0")
        .env_remove("GIT_COMMIT")
        .env("XDG_STATE_HOME", folder.join(STATE))
        .env("XDG_STATE_HOME", folder.join(STATE))
}

/// The program started in a folder, its output going to the files `stdout` and `stderr` there.
fn start(folder: &Path, args: &[&str]) -> Child {
    let file = |name| std::fs::File::create(folder.join(name)).unwrap();
    Command::new(PROGRAM)
        .current_dir(folder)
        .env("XDG_STATE_HOME", folder.join(STATE))
        .args(args)
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .unwrap()
}

/// Waits for something that comes sooner or later.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
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

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}
