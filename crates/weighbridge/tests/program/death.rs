//! Interrupts and kills, of the program and of its peers. Whatever dies, the record is valid and no process is left.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use weighbridge_record::{Line, StoppedBy};

use crate::emulator::Emulator;
use crate::{files, folder, start, text, valid_record, wait_for, weighbridge};

/// The second of two peers stalls while it attaches, until its deadline.
const STALLED: &[&str] = &["run", "roundtrip/mock/1/free/fault=stalls", "--out", "r.jsonl", "--html", "none"];

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

/// State, parent and command line of a process; nothing when it is gone, or only waits to be reaped.
fn process(pid: u32) -> Option<(char, u32, String)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    (state != 'Z' && state != 'X').then(|| (state, parent, String::from_utf8_lossy(&command).into_owned()))
}

/// The peers that a coordinator has started and that are alive.
fn peers_of(coordinator: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        process(*pid).is_some_and(|(_, parent, command)| parent == coordinator && command.contains("__peer"))
    })
    .collect()
}

/// Both peers of a stalled run, once they sleep.
fn stalled_peers(coordinator: u32) -> [u32; 2] {
    wait_for("two peers that sleep", || {
        let peers: [u32; 2] = peers_of(coordinator).try_into().ok()?;
        let asleep = |pid: &u32| process(*pid).is_some_and(|(state, ..)| state == 'S');
        peers.iter().all(asleep).then_some(peers)
    })
}

fn gone(peers: &[u32]) {
    wait_for("the end of all peers", || {
        let is_peer = |pid: &u32| process(*pid).is_some_and(|(_, _, command)| command.contains("__peer"));
        (!peers.iter().any(is_peer)).then_some(())
    });
}

fn last_line(folder: &Path) -> Line {
    valid_record(folder.join("r.jsonl")).lines.pop().unwrap()
}

#[test]
fn ctrl_c_in_the_middle_leaves_a_valid_partial_record_and_its_table() {
    let folder = folder();
    let values: Vec<String> = (100_001..=100_200).map(|latency| latency.to_string()).collect();
    let set = format!("latency-ns={}", values.join(","));
    let args = ["run", "roundtrip/mock/1/free", "--set", &set, "--out", "r.jsonl", "--html", "none"];
    let mut child = start(folder.path(), &args);
    wait_for("some runs in the record", || {
        (text(folder.path().join("r.jsonl")).matches("\"kind\":\"run\"").count() > 5).then_some(())
    });
    kill(child.id(), Signal::INT);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{}", text(folder.path().join("stderr")));
    assert!(peers_of(child.id()).is_empty());
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    assert!(matches!(lines.last(), Some(Line::End(end)) if !end.complete));
    let interrupted = lines.iter().filter(
        |line| matches!(line, Line::Summary(summary) if summary.stopped_by == StoppedBy::Interrupted),
    );
    assert!(interrupted.count() > 0);
    let stdout = text(folder.path().join("stdout"));
    assert!(stdout.contains("■ roundtrip at free") && stdout.contains("Ended early"), "{stdout}");
    let stderr = text(folder.path().join("stderr"));
    let how = "interrupted: the record is valid, and holds what was measured until then; \
               `weighbridge report r.jsonl --format html --out r.html` makes a page of it\n";
    assert!(stderr.ends_with(how), "{stderr}");
    let made = ["report", "r.jsonl", "--format", "html", "--out", "r.html"];
    weighbridge(folder.path()).args(made).assert().success();
    assert!(text(folder.path().join("r.html")).contains("Ended early"));
}

#[test]
fn sigterm_during_a_run_that_stalls_ends_it_at_once() {
    let folder = folder();
    let mut child = start(folder.path(), STALLED);
    let peers = stalled_peers(child.id());
    kill(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    gone(&peers);
    assert!(matches!(last_line(folder.path()), Line::End(end) if !end.complete));
}

#[test]
fn a_killed_coordinator_takes_its_peers_along_and_leaves_whole_lines() {
    let folder = folder();
    let mut child = start(folder.path(), STALLED);
    let peers = stalled_peers(child.id());
    kill(child.id(), Signal::KILL);
    child.wait().unwrap();
    gone(&peers);
    assert!(matches!(last_line(folder.path()), Line::Header(_)));
}

#[test]
fn a_killed_peer_is_a_skip_with_its_step_and_its_signal() {
    let folder = folder();
    let mut child = start(folder.path(), STALLED);
    let peers = stalled_peers(child.id());
    kill(peers[1], Signal::KILL);
    assert_eq!(child.wait().unwrap().code(), Some(2));
    gone(&peers);
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let skipped =
        lines.iter().find_map(|line| if let Line::Skipped(skipped) = line { Some(skipped) } else { None });
    let skipped = skipped.unwrap();
    assert_eq!(skipped.step, "attach");
    assert!(skipped.why.contains("ended: signal 9 (SIGKILL)"), "{}", skipped.why);
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.complete), "nothing was left to measure");
    let stderr = text(folder.path().join("stderr"));
    assert!(stderr.contains("error: no case gave a number"), "{stderr}");
}

#[test]
fn an_interrupt_ends_the_guest_and_leaves_no_record() {
    let folder = folder();
    let emulator = Emulator::that(folder.path(), "exec sleep 1000");
    let mut program = emulator.boots(&["--out", "r.jsonl"]);
    emulator.pid();
    kill(program.id(), Signal::INT);
    assert_eq!(program.wait().unwrap().code(), Some(130));
    emulator.is_gone();
    assert!(!folder.path().join("r.jsonl").exists(), "a record without lines is of no use");
}

#[test]
fn a_guest_ends_with_the_program_whatever_kills_it() {
    let folder = folder();
    let emulator = Emulator::that(folder.path(), "exec sleep 1000");
    let mut program = emulator.boots(&["--out", "r.jsonl"]);
    emulator.pid();
    kill(program.id(), Signal::KILL);
    program.wait().unwrap();
    emulator.is_gone();
    assert_eq!(files(folder.path()), ["emulator"], "not even an empty record is left");
}

#[test]
fn a_guest_that_hangs_is_ended_at_its_deadline_and_leaves_no_record() {
    let folder = folder();
    let emulator = Emulator::that(folder.path(), "echo Linux >&3; exec sleep 1000");
    let output = emulator.boots(&["--out", "r.jsonl", "--deadline", "2s"]).wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("did not start our program within 2 s"), "{stderr}");
    assert!(stderr.contains("last lines of the guest's console:\n  Linux\n"), "{stderr}");
    emulator.is_gone();
    assert!(!folder.path().join("r.jsonl").exists());
}
