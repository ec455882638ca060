//! Commands that a test starts, and that end with it.
//!
//! # Safety
//!
//! What a test starts is tied to the thread of the test between `fork` and `exec`. There, in the copy of one thread of many,
//! only what needs no lock of another thread may be done: two system calls.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub use causeway_testkit::{
    Cause, Running, TempDir, eventually, eventually_seen, has_program, skipped, temp_dir, trial_succeeds,
};

/// A command that is killed when the test that starts it ends, however it ends. With pipes to all three streams.
pub fn tied(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let own = std::process::id();
    // SAFETY: `die_with` makes two system calls. It does more only if no process is left to wait for this one (it
    // ends it) or where the kernel refuses what no kernel is known to refuse.
    unsafe { command.pre_exec(move || Ok(causeway_os::process::die_with(own)?)) };
    command
}

pub fn causeway(arguments: &[&str]) -> Command {
    let mut command = tied(env!("CARGO_BIN_EXE_causeway"));
    command.args(arguments);
    command
}

/// causewayd, where it was built; `None`, with the skip printed, where not.
pub fn causewayd() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_BIN_EXE_causeway")).with_file_name("causewayd");
    let found = path.exists().then_some(path);
    if found.is_none() {
        skipped(
            Cause::Missing("causewayd"),
            "`cargo build -p causewayd` puts it next to the program that is tested",
        );
    }
    found
}

/// What a program has printed that must have succeeded.
#[track_caller]
pub fn printed(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a program has said that must have failed: with exit code 2 for what was typed, 3 for anything else.
#[track_caller]
pub fn complaint(output: Output) -> String {
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(2 | 3)), "{:?}: {error}", output.status);
    error
}

/// Sends a signal as a shell does: not every machine has a program for it.
pub fn kill(signal: &str, pid: u32) {
    let script = format!("kill -s {signal} {pid}");
    assert!(tied("sh").args(["-c", &script]).status().unwrap().success(), "{script}");
}
