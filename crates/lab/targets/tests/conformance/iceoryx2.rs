//! What every mechanism of the laboratory promises, and that nothing of iceoryx2's own outlives a run, whatever is killed.
//!
//! The promises are those of `weighbridge-targets`'s own conformance tests, which this program takes as they are. After each
//! test names in `/dev/shm` and the temporary directory are what they were before, among other things.

use std::fs;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Facts, Prepared, Target};
use weighbridge_harness::coordinator::Outcome;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_record::CaseId;
use weighbridge_targets::libraries::iceoryx2::FAMILY;

use crate::runs::Promises;
use crate::{fan_out, measured, pairs, runs};

/// Long enough to be killed in.
const LONG: Timing =
    Timing { sample_ns: 20_000_000, samples: 200, least_samples: 200, run_ns: 4_000_000_000 };

/// Of the mechanism between two ends, beyond what all between two ends promise.
const OF_PAIRS: Promises = &[
    ("settings_are_made_and_read_back", settings),
    ("queues_that_shared_memory_does_not_hold_are_refused_with_its_size", too_deep),
    ("keeps_its_names_only_while_it_runs_and_not_when_both_peers_are_killed", both_killed),
    ("what_a_killed_coordinator_left_is_taken_away_by_the_next_one", coordinator_killed),
];

/// Of one publisher with many subscribers, beyond what all that reach many promise.
const OF_MANY: Promises = &[
    ("settings_are_made_and_read_back", settings_of_many),
    ("queues_that_shared_memory_does_not_hold_are_refused_with_its_size", too_many),
];

pub fn trials(host: &'static Host) -> Vec<Trial> {
    let target = |pattern: &str| {
        let mut all = FAMILY.targets.iter();
        all.find(|target| target.patterns[0].id == pattern).expect("it has both")
    };
    let (pair, many) = (target("roundtrip"), target("fan-out"));
    runs::trials_of(host, pair, pairs::PROMISES)
        .chain(runs::trials_of(host, pair, OF_PAIRS))
        .chain(runs::trials_of(host, many, fan_out::PROMISES))
        .chain(runs::trials_of(host, many, OF_MANY))
        .collect()
}

/// A case that works on one CPU too.
fn blocking(host: &Host) -> Prepared {
    let id = CaseId::new("roundtrip", "iceoryx2", 64, "free").with("wait", "block");
    runs::prepare(host, &id).unwrap()
}

/// Queue and largest payload are as asked for, and nothing is dropped when a queue is full.
fn check_settings(facts: &Facts, prefix: &str, depth: &str) {
    let backpressure = "RetryUntilDelivered";
    for (name, value) in [
        ("depth", depth),
        ("history", "0"),
        ("loaned_max", "1"),
        ("payload_bytes_max", "1000"),
        ("backpressure", backpressure),
    ] {
        assert_eq!(facts.get(&format!("{prefix}{name}")).map(String::as_str), Some(value), "{facts:?}");
    }
    assert!(facts[&format!("{prefix}iceoryx2_version")].starts_with("0.10."), "{facts:?}");
}

fn settings(host: &Host, _target: &'static Target) {
    let id = CaseId::new("stream", "iceoryx2", 1000, "free").with("wait", "block").with("depth", "3");
    let facts = runs::measure(host, &runs::prepare(host, &id).unwrap(), runs::SHORT).facts;
    check_settings(&facts, "", "3");
}

/// As between two ends, and a queue holds a whole burst.
fn settings_of_many(host: &Host, _target: &'static Target) {
    let id = CaseId::new("fan-out", "iceoryx2", 1000, "free").with("receivers", "3").with("burst", "100");
    let facts = measured::measure(host, &id).expect("three receivers are no limit").facts;
    check_settings(&facts, "sender.", "100");
}

fn too_deep(host: &Host, _target: &'static Target) {
    let id = "roundtrip/iceoryx2/1048576/free/depth=1000000000";
    runs::refuses(host, &[(id, &["/dev/shm", "lower depth", "remount"])]);
}

fn too_many(host: &Host, _target: &'static Target) {
    let id = "fan-out/iceoryx2/1073741824/free/receivers=400";
    runs::refuses(host, &[(id, &["/dev/shm", "fewer receivers", "remount"])]);
}

/// Names of what iceoryx2 keeps for the runs of a coordinator.
fn names_of(coordinator: u32) -> Vec<String> {
    let ours = format!("weighbridge-iox2-{coordinator}-");
    ["/dev/shm".into(), std::env::temp_dir()]
        .iter()
        .flat_map(|dir| fs::read_dir(dir).unwrap().flatten())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&ours))
        .collect()
}

/// Do the ends know each other?
fn is_connected(coordinator: u32) -> bool {
    names_of(coordinator).iter().filter(|name| name.ends_with(".connection")).count() == 2
}

/// Waits until it is so, or says that it did not come to be.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "not {what} in a minute");
        thread::sleep(Duration::from_millis(1));
    }
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}

fn both_killed(host: &Host, _target: &'static Target) {
    let (case, us) = (blocking(host), std::process::id());
    let was_connected = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            until("connected", || is_connected(us));
            was_connected.store(true, Ordering::Relaxed);
            runs::children().into_iter().for_each(|pid| kill(pid as u32));
        });
        runs::run(host, &case, LONG)
    });
    let Outcome::Failed { why, .. } = outcome else { panic!("{outcome:?}") };
    assert!(why.contains("SIGKILL"), "{why}");
    assert!(was_connected.into_inner());
    assert_eq!(names_of(us), [""; 0]);
}

const COORDINATE: &str = "coordinate";

/// The exit code of a program that was started as a coordinator that somebody kills.
pub fn coordinate_if_asked() -> Option<ExitCode> {
    if std::env::args().nth(1).as_deref() != Some(COORDINATE) {
        return None;
    }
    let host = Host::look().unwrap();
    let outcome = runs::run(&host, &blocking(&host), LONG);
    eprintln!("nobody has killed this: {outcome:?}");
    Some(ExitCode::FAILURE)
}

fn coordinator_killed(_host: &Host, _target: &'static Target) {
    let mut child = Command::new("/proc/self/exe").arg(COORDINATE).stdin(Stdio::null()).spawn().unwrap();
    let coordinator = child.id();
    until("connected", || is_connected(coordinator));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ne!(names_of(coordinator), [""; 0], "nobody was there to take them away");
    // Peers end with their coordinator. One that is ending may still make a name; so they are gone first.
    until("without peers", || !processes_of(coordinator));
    catalogue::cleanup();
    assert_eq!(names_of(coordinator), [""; 0]);
}

/// Are there peers of this coordinator? It is their last argument.
fn processes_of(coordinator: u32) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        line.ends_with(&format!("__peer\0{coordinator}\0"))
    })
}
