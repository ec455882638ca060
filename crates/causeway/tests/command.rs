//! The command, as a shell user sees it.
#![cfg(all(feature = "cli", not(loom)))]

mod common;

use std::io::Write;
use std::process::{Child, Command, Stdio};

use common::eventually;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn causeway(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_causeway"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn lines_cross_from_publish_to_subscribe_and_stat_sees_both() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group");
    let socket = path.to_str().unwrap();
    let mut server = Running(causeway(&["serve", socket]).spawn().unwrap());
    eventually("nobody serves", || causeway::Group::join(&path).is_ok());
    let subscriber = causeway(&["subscribe", socket]).spawn().unwrap();
    let mut publisher = causeway(&["publish", socket]).spawn().unwrap();
    let report = || {
        let out = causeway(&["stat", socket]).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    eventually("stat does not show both", || {
        let report = report();
        report.contains("publisher   0") && report.contains("receiver    0") && report.contains("reliable")
    });
    let mut lines = publisher.stdin.take().unwrap();
    lines.write_all(b"one\ntwo\n\nthree").unwrap();
    drop(lines);
    assert!(publisher.wait().unwrap().success());
    let out = subscriber.wait_with_output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "one\ntwo\n\nthree\n");
    // Asked to end, the server takes its socket along.
    Command::new("kill").arg(server.0.id().to_string()).status().unwrap();
    assert!(server.0.wait().unwrap().success());
    assert!(!path.exists());
}

#[test]
fn a_group_that_is_not_there_is_one_line_and_exit_code_two() {
    let out = causeway(&["subscribe", "/nonexistent/group"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let message = String::from_utf8(out.stderr).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("/nonexistent/group") && message.contains("No such file"), "{message}");
}
