//! Many streams into one reader, one sender to many receivers: by runs of real peers, fresh processes of this very program.
//!
//! As in `conformance`, tests run one after the other in the main thread, and leave nothing behind.

#![allow(clippy::print_stderr, reason = "a test says there why it is skipped")]

#[path = "conformance/runs.rs"]
#[allow(dead_code, reason = "shared with the conformance of mechanisms")]
mod runs;

use std::fs::{self, OpenOptions};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use weighbridge_lab::contract::Caps;
use weighbridge_lab::coordinator::{Measured, Outcome};
use weighbridge_lab::host::Host;
use weighbridge_lab::planner::Timing;
use weighbridge_lab::shared::{Shared, Step};
use weighbridge_lab::subject::{Prepared, Subject};
use weighbridge_lab::{fan_in, fan_out};
use weighbridge_record::CaseId;

use runs::{PLACEMENTS, SHORT, prepare, run, trial};

fn main() -> ExitCode {
    runs::main(trials)
}

fn trials(host: &'static Host) -> Vec<Trial> {
    let families: [(&'static [Subject], Promises); 2] = [(fan_in::ALL, FAN_IN), (fan_out::ALL, FAN_OUT)];
    let mut trials = Vec::new();
    for (subjects, promises) in families {
        for subject in subjects.iter().filter(|subject| !subject.caps.has(Caps::HARNESS)) {
            for (promise, test) in of_causeway(subject).unwrap_or(promises) {
                let name = format!("{}::{}::{promise}", subject.patterns[0].id, subject.id);
                trials.push(trial(name, move || test(host, subject)));
            }
        }
    }
    for (name, test) in TESTS {
        trials.push(trial(*name, move || test(host)));
    }
    trials
}

/// Causeway has logs and no streams, so fan-in promises other things of it.
fn of_causeway(subject: &Subject) -> Option<Promises> {
    (subject.patterns[0].id == "fan-in" && subject.id.starts_with("causeway")).then_some(FAN_IN_CAUSEWAY)
}

type Promises = &'static [(&'static str, fn(&Host, &'static Subject))];
type Test = (&'static str, fn(&Host));

const FAN_IN: Promises = &[
    ("every_way_to_wait_reads_all_that_is_written", waits),
    ("messages_of_every_size_arrive_whole", sizes),
    ("writers_share_the_streams_in_any_order_and_as_threads_too", variants),
    ("a_killed_role_is_a_failure_with_its_step", |host, subject| {
        killed(host, &fan_in_case(subject, 1, "free").with("writers", "2"), &["reader", "writer", "writer"]);
    }),
];

const FAN_IN_CAUSEWAY: Promises = &[
    ("every_way_to_wait_reads_all_that_is_written", log_waits),
    ("messages_of_every_size_arrive_whole", log_sizes),
    ("any_number_of_writers_is_read_as_threads_too", log_writers),
    ("a_killed_role_is_a_failure_with_its_step", |host, subject| {
        let id = CaseId::new("fan-in", subject.id, 64, "free").with("writers", "2");
        killed(host, &id, &["reader", "writer", "writer"]);
    }),
];

const FAN_OUT: Promises = &[
    ("every_receiver_has_every_message", reaches_all),
    ("a_killed_role_is_a_failure_with_its_step", |host, subject| {
        let id = CaseId::new("fan-out", subject.id, 64, "free").with("receivers", "2");
        killed(host, &id, &["sender", "receiver", "receiver"]);
    }),
];

const TESTS: &[Test] = &[
    ("what_exceeds_a_limit_is_refused_with_its_name", refusals),
    ("the_harness_itself_is_measured", harness),
    ("losses_are_counted_where_they_are_missed", losses),
    ("a_hundred_receivers_start_in_time", hundred_receivers),
    ("causeway_reaches_many_in_every_way_to_wait_and_with_either_policy", causeway_variants),
    ("twenty_one_runs_leave_nothing_behind", three_times_seven_runs),
];

const WAITS: [&str; 7] = ["epoll-et", "epoll-lt", "epoll-oneshot", "poll", "select", "uring", "none"];

fn fan_in_case(subject: &Subject, payload_bytes: u64, placement: &str) -> CaseId {
    CaseId::new("fan-in", subject.id, payload_bytes, placement).with("streams", "50")
}

/// One run that must give numbers: `None` and a printed reason where the machine does not allow it.
fn measure(host: &Host, id: &CaseId) -> Option<Measured> {
    let case = match prepare(host, id) {
        Ok(case) => case,
        Err(why) => {
            eprintln!("skipped: {id}: {why}");
            return None;
        }
    };
    match run(host, &case, SHORT) {
        Outcome::Measured(measured) => {
            assert!(measured.samples.iter().all(|sample| sample.elapsed_ns > 0 && sample.ops > 0), "{id}");
            Some(*measured)
        }
        other => panic!("{id}: {other:?}"),
    }
}

/// What the leading role kept of each sample under a name.
fn series<'a>(measured: &'a Measured, name: &str) -> &'a [f64] {
    let series = &measured.roles[0].counted.series;
    series.get(name).unwrap_or_else(|| panic!("no series {name} among {:?}", series.keys()))
}

/// One run of many streams, all bytes of which are accounted for.
fn read_all(host: &Host, id: &CaseId) {
    let Some(measured) = measure(host, id) else { return };
    let fact = |name: &str| -> u64 { measured.facts[&format!("reader.first_run_{name}")].parse().unwrap() };
    assert_eq!(fact("bytes_written"), fact("bytes_read"), "{id}");
    assert_eq!(fact("bytes_written"), fact("writes") * id.payload_bytes, "{id}");
    assert!(fact("reads") > 0, "{id}");
    if id.mechanism.starts_with("causeway") {
        // A message is an event, and none is lost.
        assert_eq!((fact("reads"), fact("lost")), (fact("writes"), 0), "{id}");
    }
    assert_eq!(measured.samples.len(), SHORT.samples, "{id}");
    for name in [
        "events_per_call",
        "bytes_per_s",
        "writes_per_s",
        "empty_reads_per_s",
        "voluntary_switches_per_s",
        "involuntary_switches_per_s",
    ] {
        assert_eq!(series(&measured, name).len(), SHORT.samples, "{id}: {name}");
    }
    for (sample, bytes_per_s) in measured.samples.iter().zip(series(&measured, "bytes_per_s")) {
        let counted = sample.bytes as f64 * 1e9 / sample.elapsed_ns as f64;
        assert!(
            (counted - bytes_per_s).abs() <= 1e-6 * counted,
            "{id}: {counted} bytes/s, and {bytes_per_s}"
        );
    }
    // An operation is an event, for all roles.
    assert!(measured.roles.iter().all(|role| role.counted.ops == measured.roles[0].counted.ops), "{id}");
}

fn waits(host: &Host, subject: &'static Subject) {
    for wait in WAITS {
        for placement in PLACEMENTS {
            read_all(host, &fan_in_case(subject, 1, placement).with("wait", wait).with("writers", "2"));
        }
    }
}

fn sizes(host: &Host, subject: &'static Subject) {
    for payload_bytes in [1023, 1025, 5_000, 100_000] {
        for wait in ["epoll-et", "poll", "uring", "none"] {
            let id = fan_in_case(subject, payload_bytes, "free").with("wait", wait).with("streams", "7");
            // Without optimisation, reading all that TCP keeps in its buffers takes long.
            read_all(host, &if payload_bytes > 5_000 { id.with("touch", "none") } else { id });
        }
    }
}

fn variants(host: &Host, subject: &'static Subject) {
    let of = |axes: &[(&str, &str)]| {
        let id = fan_in_case(subject, 3, "free");
        axes.iter().fold(id, |id, (name, value)| id.with(name, value))
    };
    read_all(host, &of(&[("peers", "thread"), ("writers", "3")]));
    read_all(host, &of(&[("order", "cyclic"), ("max-events", "1"), ("touch", "none")]));
    read_all(host, &of(&[("yield-limit", "0"), ("streams", "1")]));
    // More than one message full of descriptors for each writer.
    read_all(host, &of(&[("streams", "450"), ("writers", "2")]));
    if subject.id == "tcp" {
        read_all(host, &of(&[("nodelay", "no")]));
    }
}

fn log_case(subject: &Subject, payload_bytes: u64, placement: &str, axes: &[(&str, &str)]) -> CaseId {
    axes.iter().fold(CaseId::new("fan-in", subject.id, payload_bytes, placement), |id, (name, value)| {
        id.with(name, value)
    })
}

/// Those that can wait for logs of so many writers; a futex is that of one log.
fn waits_of_logs(subject: &Subject, writers: &str) -> &'static [&'static str] {
    match subject.id == "causeway-mw" || writers == "1" {
        true => &["spin-block", "block", "epoll", "spin"],
        false => &["epoll", "spin"],
    }
}

fn log_waits(host: &Host, subject: &'static Subject) {
    for wait in waits_of_logs(subject, "4") {
        for placement in ["same-cpu", "two-cpus", "free"] {
            // On one CPU spinning is refused, and that is tested elsewhere.
            if (*wait, placement) == ("spin", "same-cpu") {
                continue;
            }
            for receive in ["copy", "in-place"] {
                read_all(
                    host,
                    &log_case(
                        subject,
                        64,
                        placement,
                        &[("wait", wait), ("receive", receive), ("writers", "2")],
                    ),
                );
            }
        }
    }
}

fn log_sizes(host: &Host, subject: &'static Subject) {
    for payload_bytes in [0, 1, 64, 4096, 65_536, 1_000_000] {
        for receive in ["copy", "in-place"] {
            read_all(host, &log_case(subject, payload_bytes, "free", &[("receive", receive)]));
        }
    }
    // The smallest log holds four of these at most; the writers wait for room all the time.
    for touch in ["none", "first", "lines", "all", "write"] {
        read_all(host, &log_case(subject, 1000, "free", &[("capacity", "4096"), ("touch", touch)]));
    }
}

fn log_writers(host: &Host, subject: &'static Subject) {
    for writers in ["1", "2", "8"] {
        for wait in waits_of_logs(subject, writers) {
            for peers in ["process", "thread"] {
                let axes = [("writers", writers), ("wait", wait), ("peers", peers)];
                let id = log_case(subject, 24, "free", &axes);
                read_all(host, &id);
                assert_eq!(
                    prepare(host, &id).unwrap().role_names().len(),
                    1 + writers.parse::<usize>().unwrap()
                );
            }
        }
    }
}

fn reaches_all(host: &Host, subject: &'static Subject) {
    let of = |payload_bytes: u64, placement: &str, axes: &[(&str, &str)]| {
        let id = CaseId::new("fan-out", subject.id, payload_bytes, placement).with("receivers", "5");
        axes.iter().fold(id, |id, (name, value)| id.with(name, value))
    };
    let cases = [
        of(8, "same-cpu", &[]),
        of(8, "two-cpus", &[]),
        of(4096, "free", &[("burst", "4")]),
        of(100, "free", &[("peers", "thread"), ("burst", "3"), ("touch", "none")]),
        of(16_384, "free", &[("touch", "lines")]),
        of(64, "two-cpus", &[("receivers", "1")]),
    ];
    for id in cases {
        let Some(measured) = measure(host, &id) else { continue };
        let sent = measured.roles[0].counted.ops;
        assert!(measured.roles.iter().all(|role| role.counted.ops == sent), "{id}");
        for name in [
            "sender_ns",
            "switches_per_message",
            "voluntary_switches_per_message",
            "involuntary_switches_per_message",
        ] {
            assert_eq!(series(&measured, name).len(), measured.samples.len(), "{id}: {name}");
        }
        let lost: f64 = series(&measured, "lost").iter().sum();
        assert!(lost == 0.0 || subject.caps.has(Caps::LOSSY), "{id}: {lost} lost");
        for (sample, sender_ns) in measured.samples.iter().zip(series(&measured, "sender_ns")) {
            let all_ns = sample.elapsed_ns as f64 / sample.ops as f64;
            assert!(*sender_ns > 0.0 && *sender_ns <= all_ns, "{id}: {sender_ns} of {all_ns} ns");
        }
    }
}

fn refusals(host: &Host) {
    for (id, words) in [
        ("fan-in/pipe/1/free/streams=600000000", &["RLIMIT_NOFILE", "ulimit -Hn", "limits.conf"][..]),
        ("fan-in/pipe/1/free/wait=select", &["FD_SETSIZE", "1024", "another wait"]),
        ("fan-in/tcp/1/free/streams=3/writers=4", &["4 writers", "3 streams"]),
        ("fan-in/tcp/1/free/order=random/wait=none", &["order=cyclic"]),
        ("fan-in/pipe/0/free", &["empty message"]),
        ("fan-in/pipe/1/free/streams=1000/writers=600", &["512"]),
        ("fan-in/causeway-sw/64/free/wait=block", &["futex of one log", "4 of them", "5.16", "wait=epoll"]),
        ("fan-in/causeway-sw/64/free/wait=spin-block", &["futex of one log", "causeway-mw"]),
        ("fan-in/causeway-mw/64/free/writers=65", &["64 publishers", "causeway-sw"]),
        ("fan-in/causeway-mw/1025/free/capacity=4096", &["a quarter", "capacity=8192"]),
        ("fan-in/causeway-mw/64/same-cpu/wait=spin", &["spinning on one CPU"]),
        ("fan-out/unix-stream/1/free/receivers=600", &["512"]),
        ("fan-out/unix-seqpacket/1000000000/free", &["net.core.wmem_default", "sysctl"]),
        ("fan-out/udp-multicast/65508/free", &["65507"]),
        ("fan-out/udp-multicast/7/free", &["8 bytes"]),
        ("fan-out/pipe-tee/65537/free", &["17 pages", "16"]),
        ("fan-out/ring-broadcast/0/free", &["at least 1 byte"]),
    ] {
        let why = prepare(host, &id.parse().unwrap()).map(|_| ()).expect_err(id);
        for word in words {
            assert!(why.contains(word), "{id}: {why}");
        }
    }
}

fn harness(host: &Host) {
    for placement in PLACEMENTS {
        measure(host, &CaseId::new("fan-in", "noop", 1, placement));
        let id = CaseId::new("fan-out", "noop", 64, placement).with("burst", "3");
        let Some(measured) = measure(host, &id) else { continue };
        assert_eq!(series(&measured, "sender_ns").len(), measured.samples.len());
    }
}

/// Bursts of many times what a receive buffer holds, from a sender that the receivers cannot keep up with.
fn losses(host: &Host) {
    for mechanism in ["udp-multicast", "netlink-multicast"] {
        let id = CaseId::new("fan-out", mechanism, 60_000, "same-cpu")
            .with("receivers", "3")
            .with("burst", "500")
            .with("nice", "0:19");
        let Some(measured) = measure(host, &id) else { continue };
        let by_receiver: Vec<u64> = measured.facts["sender.first_run_lost_by_receiver"]
            .split(' ')
            .map(|lost| lost.parse().unwrap())
            .collect();
        assert_eq!(by_receiver.len(), 3, "{id}");
        assert!(by_receiver.iter().all(|lost| *lost > 0), "{id}: {by_receiver:?}");
        let in_samples: f64 = series(&measured, "lost").iter().sum();
        assert!(in_samples > 0.0 && in_samples <= by_receiver.iter().sum::<u64>() as f64, "{id}");
    }
}

fn hundred_receivers(host: &Host) {
    for mechanism in ["ring-broadcast", "unix-stream"] {
        let id = CaseId::new("fan-out", mechanism, 64, "free").with("receivers", "100");
        let measured = measure(host, &id).expect("a hundred receivers are no limit");
        assert_eq!(measured.roles.len(), 101);
    }
}

fn causeway_variants(host: &Host) {
    for mechanism in ["causeway-sw", "causeway-mw"] {
        let of = |axes: &[(&str, &str)]| {
            let id = CaseId::new("fan-out", mechanism, 300, "free").with("receivers", "3").with("burst", "5");
            axes.iter().fold(id, |id, (name, value)| id.with(name, value))
        };
        for wait in ["spin-block", "block", "epoll", "spin", "yield"] {
            measure(host, &of(&[("wait", wait)]));
            measure(host, &of(&[("wait", wait), ("policy", "lossy"), ("peers", "thread")]));
        }
        let why = prepare(host, &of(&[("capacity", "4096")])).map(|_| ()).expect_err("five do not fit");
        assert!(why.contains("capacity="), "{why}");
    }
}

/// Descriptors, threads, processes and names are compared after every test; this one has many runs.
fn three_times_seven_runs(host: &Host) {
    let ids = [
        "fan-in/pipe/1/free/streams=50",
        "fan-in/tcp/1/free/streams=50/wait=uring",
        "fan-in/unix-stream/1/free/peers=thread/streams=50",
        "fan-in/causeway-mw/64/free",
        "fan-in/causeway-sw/64/free/peers=thread",
        "fan-out/unix-seqpacket/64/free/receivers=5",
        "fan-out/pipe-tee/64/free/receivers=5",
    ];
    for id in ids.iter().cycle().take(21) {
        measure(host, &id.parse().unwrap());
    }
}

/// Long enough to be caught in it.
const LONG: Timing = Timing { sample_ns: 2_000_000, samples: 50, least_samples: 50, run_ns: 100_000_000 };
/// A machine that is busy may end a run before the killer comes to it; then once more.
const ATTEMPTS: usize = 10;

/// Every role in turn is killed in its timed part: the run fails with that step and names the role, and nobody waits for
/// the dead.
fn killed(host: &Host, id: &CaseId, roles: &[&str]) {
    let case = match prepare(host, id) {
        Ok(case) => case,
        Err(why) => return eprintln!("skipped: {id}: {why}"),
    };
    for (role, name) in roles.iter().enumerate() {
        let failed = (0..ATTEMPTS).find_map(|_| match run_and_kill(host, &case, role, roles.len()) {
            Outcome::Failed { step, why } => Some((step, why)),
            Outcome::Measured(_) => None,
            other => panic!("{id}: {other:?}"),
        });
        let (step, why) = failed.unwrap_or_else(|| panic!("{id}: every run was quicker"));
        assert_eq!((step.as_str(), why), ("batches", format!("{name} ended: signal 9 (SIGKILL)")), "{id}");
    }
}

fn run_and_kill(host: &Host, case: &Prepared, role: usize, roles: usize) -> Outcome {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let shared = until(&is_over, memory_of_the_run)?;
            until(&is_over, || (shared.step(role) >= Step::Batches).then_some(()))?;
            let pids = runs::children();
            if pids.len() == roles {
                let _ = kill_process(Pid::from_raw(pids[role]).unwrap(), Signal::KILL);
            }
            Some(())
        });
        let outcome = run(host, case, LONG);
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
}

/// The words of the run that this process coordinates, by the name of their memory.
fn memory_of_the_run() -> Option<Shared> {
    fs::read_dir("/proc/self/fd").unwrap().flatten().find_map(|entry| {
        let link = fs::read_link(entry.path()).ok()?;
        if !link.to_str()?.starts_with("/memfd:weighbridge-run") {
            return None;
        }
        let file = OpenOptions::new().read(true).write(true).open(entry.path()).ok()?;
        Shared::open(file.into()).ok()
    })
}

fn until<T>(is_over: &AtomicBool, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        thread::sleep(Duration::from_micros(50));
    }
}
