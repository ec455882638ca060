//! Interrupts and kills, of the program and of its peers. Whatever dies, the record is valid and no process is left.

use std::path::Path;
use std::time::Duration;

use causeway_testkit::{Running, eventually, eventually_some, proc};
use rustix::process::{Pid, Signal, kill_process};
use weighbridge_record::{Line, StoppedBy};

use crate::emulator::Emulator;
use crate::{all, files, folder, has_ended, said, start, text, valid_record};

/// The second of two peers stalls while it attaches, until its deadline.
const STALLED: &str = "run roundtrip/mock/1/free/fault=stalls --out r.jsonl --html none";

fn is_peer(pid: u32) -> bool {
    !has_ended(pid) && proc::command_line(pid).iter().any(|word| word == "__peer")
}

/// The peers that a coordinator has started and that are alive.
fn peers_of(coordinator: u32) -> Vec<u32> {
    proc::children(coordinator).into_iter().filter(|pid| is_peer(*pid)).collect()
}

/// A run that stalls, and both its peers, once they sleep. They do so too while they wait for the coordinator; then it is at work, or waits
/// for a CPU.
fn stalled(folder: &Path) -> (Running, [u32; 2]) {
    let running = start(folder, STALLED);
    let peers = eventually_some("two peers that sleep, and a coordinator that waits for them", || {
        let peers: [u32; 2] = peers_of(running.pid()).try_into().ok()?;
        let sleeps = || [running.pid(), peers[0], peers[1]].map(proc::state) == [Some('S'); 3];
        let stays = (0..5).all(|_| {
            std::thread::sleep(Duration::from_millis(10));
            sleeps()
        });
        stays.then_some(peers)
    });
    (running, peers)
}

fn gone(peers: &[u32]) {
    eventually("the end of all peers", || !peers.iter().any(|pid| is_peer(*pid)));
}

fn last_line(folder: &Path) -> Line {
    valid_record(folder.join("r.jsonl")).lines.pop().unwrap()
}

#[test]
fn ctrl_c_in_the_middle_leaves_a_valid_partial_record_and_its_table() {
    let folder = folder();
    let values: Vec<String> = (100_001..=100_200).map(|latency| latency.to_string()).collect();
    let set = format!("run roundtrip/mock/1/free --set latency-ns={}", values.join(","));
    let mut child = start(folder.path(), &(set + " --out r.jsonl --html none"));
    eventually("some runs in the record", || {
        text(folder.path().join("r.jsonl")).matches("\"kind\":\"run\"").count() > 5
    });
    child.signal(Signal::INT).unwrap();
    let code = child.wait().code();
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| text(folder.path().join(name)));
    assert_eq!(code, Some(130), "{stderr}");
    assert!(peers_of(child.pid()).is_empty());
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    assert!(matches!(lines.last(), Some(Line::End(end)) if !end.complete));
    assert!(all!(lines, Summary).iter().any(|summary| summary.stopped_by == StoppedBy::Interrupted));
    assert!(stdout.contains("■ roundtrip at free") && stdout.contains("Ended early"), "{stdout}");
    let how = "interrupted: the record is valid, and holds what was measured until then; \
               `weighbridge report r.jsonl --format html --out r.html` makes a page of it\n";
    assert!(stderr.ends_with(how), "{stderr}");
    said(folder.path(), "report r.jsonl --format html --out r.html").with(0);
    assert!(text(folder.path().join("r.html")).contains("Ended early"));
}

#[test]
fn sigterm_during_a_run_that_stalls_ends_it_at_once() {
    let folder = folder();
    let (mut child, peers) = stalled(folder.path());
    child.signal(Signal::TERM).unwrap();
    assert_eq!(child.wait().code(), Some(130));
    gone(&peers);
    assert!(matches!(last_line(folder.path()), Line::End(end) if !end.complete));
}

#[test]
fn a_killed_coordinator_takes_its_peers_along_and_leaves_whole_lines() {
    let folder = folder();
    let (mut child, peers) = stalled(folder.path());
    child.kill();
    gone(&peers);
    assert!(matches!(last_line(folder.path()), Line::Header(_)));
}

#[test]
fn a_killed_peer_is_a_skip_with_its_step_and_its_signal() {
    let folder = folder();
    let (mut child, peers) = stalled(folder.path());
    kill_process(Pid::from_raw(peers[1].cast_signed()).unwrap(), Signal::KILL).unwrap();
    assert_eq!(child.wait().code(), Some(3));
    gone(&peers);
    let lines = valid_record(folder.path().join("r.jsonl")).lines;
    let skipped = all!(lines, Skipped)[0];
    assert_eq!(skipped.step, "attach");
    assert!(skipped.why.contains("ended: signal 9 (SIGKILL)"), "{}", skipped.why);
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.complete), "nothing was left to measure");
    let stderr = text(folder.path().join("stderr"));
    assert!(stderr.contains("error: no case gave a number"), "{stderr}");
}

#[test]
fn an_interrupt_or_a_kill_ends_the_guest_and_leaves_no_record() {
    for signal in [Signal::INT, Signal::KILL] {
        let folder = folder();
        let emulator = Emulator::that(folder.path(), "exec sleep 1000");
        let mut program = emulator.boots("--out r.jsonl");
        emulator.pid();
        program.signal(signal).unwrap();
        assert_eq!(program.wait().code(), (signal == Signal::INT).then_some(130));
        emulator.is_gone();
        assert_eq!(files(folder.path()), ["emulator"], "a record without lines is of no use");
    }
}

#[test]
fn a_guest_that_hangs_is_ended_at_its_deadline_and_leaves_no_record() {
    let folder = folder();
    let emulator = Emulator::that(folder.path(), "echo Linux >&3; exec sleep 1000");
    let (said, code) = emulator.says("--out r.jsonl --timeout 2s");
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("did not start our program within 2 s"), "{said}");
    assert!(said.contains("last lines of the guest's console:\n  Linux\n"), "{said}");
    emulator.is_gone();
    assert_eq!(files(folder.path()), ["emulator"]);
}
