//! What every mechanism of the laboratory promises, of the brokers that are installed, and of libraries of D-Bus as their clients; and
//! that no broker outlives its run, whatever is killed.
//!
//! The promises are those of `weighbridge-targets`'s own conformance tests, which this program takes as they are.

#![allow(clippy::print_stderr, reason = "a filter without a test is an error")]

mod broker_killed;
#[path = "../../../../lab/targets/tests/conformance/carrying.rs"]
#[allow(dead_code, reason = "the laboratory's own tests use the rest")]
mod carrying;
#[path = "../../../../lab/targets/tests/conformance/fan_out.rs"]
mod fan_out;
#[path = "../../../../lab/targets/tests/conformance/faults.rs"]
#[allow(dead_code, reason = "the laboratory's own tests use the rest")]
mod faults;
#[path = "../../../../lab/targets/tests/conformance/killed.rs"]
mod killed;
mod libraries;
#[path = "../../../../lab/targets/tests/conformance/measured.rs"]
mod measured;
#[path = "../../../../lab/targets/tests/conformance/pairs.rs"]
mod pairs;
#[path = "../../../../lab/targets/tests/conformance/runs.rs"]
#[allow(dead_code, reason = "the laboratory's own tests use the rest")]
mod runs;

use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use causeway_bus::client::native_path;
use causeway_testkit::{Cause, eventually, proc, skipped};
use libtest_mimic::Trial;
use weighbridge_dbus_client::brokers::{Broker, Limits, Program};
use weighbridge_harness::catalogue;
use weighbridge_harness::contract::{Prepared, Target};
use weighbridge_harness::coordinator::{
    Coordinator, Counted, Measured, Outcome, PeerStart, SetOutcome, SliceTiming,
};
use weighbridge_harness::host::Host;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::plan::Changes;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::summary;
use weighbridge_record::derive::{CPU_SHARE, HELD};
use weighbridge_record::{CaseId, PerOp, Run};

use broker_killed::{LONG, brokers};
use runs::{Promises, SHORT};

fn main() -> ExitCode {
    weighbridge_dbus_bench::register();
    if std::env::args().nth(1).as_deref() == Some(COORDINATE) {
        return coordinate();
    }
    runs::main(trials)
}

/// Beyond what all between two ends promise.
const OF_PAIRS: Promises = &[
    ("calls_come_when_they_are_due", calls_at_a_rate),
    ("runs_where_the_case_says_and_is_counted_beside_the_roles", placed_and_counted),
    ("takes_turns_with_a_hub", takes_turns),
    ("a_broker_that_is_killed_is_a_failure", |host, target| {
        broker_killed::broker_killed(host, &case(host, CaseId::new("roundtrip", target.id, 64, "free")));
    }),
    ("dies_with_its_coordinator", coordinator_killed),
    ("what_it_does_not_carry_is_refused_with_the_limit", refusals),
];

/// Tests that leave more in a queue than sockets hold. A machine that is busy with something else may then run a receiver too late for
/// busd, which ends a connection that does not read for 100 ms.
const TOO_SLOW_FOR_BUSD: &[&str] = &[
    "carries_every_size_whole_and_in_order_or_names_the_limit",
    "every_receiver_has_every_message",
    "messages_of_every_size_arrive_whole",
];

/// Of two native members, beyond what all between two ends promise.
const OF_MEMBERS: Promises = &[
    ("calls_come_when_they_are_due", calls_at_a_rate),
    ("the_process_that_serves_the_bus_is_not_in_the_path", not_in_the_path),
    ("a_d_bus_client_at_one_end_is_served_by_the_process_that_serves_the_bus", served_client),
    ("a_d_bus_client_at_one_end_whose_bus_is_killed_is_a_failure", |host, target| {
        for role in ["first", "last"] {
            let id = CaseId::new("roundtrip", target.id, 64, "free").with("dbus-client", role);
            broker_killed::broker_killed(host, &case(host, id));
        }
    }),
    ("sleeps_on_a_descriptor_where_the_case_says", |host, target| {
        for (pattern, placement) in [("roundtrip", "same-cpu"), ("roundtrip", "free"), ("stream", "free")] {
            let id = CaseId::new(pattern, target.id, 100, placement).with("sleeps-on", "descriptor");
            runs::measure(host, &case(host, id), SHORT);
        }
    }),
    ("takes_turns_with_a_hub", takes_turns),
    ("dies_with_its_coordinator", coordinator_killed),
    ("what_it_does_not_carry_is_refused_with_the_limit", refusals),
];

/// Of one sender of signals, beyond what all that reach many promise.
const OF_SIGNALS: Promises = &[
    ("rules_that_match_nothing_change_nothing_but_the_cost", rules),
    ("switches_are_those_of_the_broker_too", switches),
    ("the_sender_calls_only_what_it_sends_with", sender_calls),
    ("a_burst_that_a_broker_would_not_queue_is_refused", bursts),
    ("takes_turns_with_a_hub", takes_turns),
];

/// Of calls to the broker itself.
const OF_CALLS: Promises = &[
    ("answers_each_of_the_calls_and_is_counted", calls),
    ("takes_turns_with_a_hub", takes_turns),
    ("a_killed_role_is_a_failure_with_its_step", |host, target| {
        killed::killed(host, &CaseId::new("solo", target.id, 0, "free"), &["client"]);
    }),
];

/// Of many writers of messages.
const OF_WRITERS: Promises = &[
    ("each_message_is_timed_from_when_it_was_due", written_at_a_rate),
    ("every_way_to_wait_reads_all_that_is_written", written_in_every_way),
    ("messages_of_every_size_arrive_whole", written_of_every_size),
    ("a_killed_role_is_a_failure_with_its_step", |host, target| {
        let id = CaseId::new("fan-in", target.id, 64, "free").with("writers", "2");
        killed::killed(host, &id, &["reader", "writer", "writer"]);
    }),
];

/// A process that was a native member once keeps a thread that watches for ends, and a descriptor; every test begins with them.
fn join_once() {
    let Ok(broker) = Broker::start(Program::CausewayBus, &Limits::default()) else { return };
    let path = native_path(broker.address()).expect("it has native members");
    drop(causeway_bus::Connection::open(path));
}

fn trials(host: &'static Host) -> Vec<Trial> {
    join_once();
    let mut trials = vec![runs::trial("every_case_of_every_suite_exists_and_is_named_once", suites)];
    trials.extend(libraries::trials(host));
    for target in weighbridge_dbus_bench::ALL {
        let program = program(target);
        if program.path().is_none() {
            let name = format!("{}/{program}/is_installed", target.patterns[0].id);
            trials
                .push(runs::trial(name, move || skipped(Cause::Missing(program.name()), program.package())));
            continue;
        }
        let turns: Promises = &[("takes_turns_with_a_hub", takes_turns)];
        let (common, own) = match target.patterns[0].id {
            "roundtrip" if program.is_native() => (pairs::PROMISES, OF_MEMBERS),
            "roundtrip" => (pairs::PROMISES, OF_PAIRS),
            "fan-out" if program.is_native() => (fan_out::PROMISES, turns),
            "fan-out" => (fan_out::PROMISES, OF_SIGNALS),
            "solo" => (OF_CALLS, &[][..]),
            _ => (OF_WRITERS, turns),
        };
        let left_out = if program == Program::Busd { TOO_SLOW_FOR_BUSD } else { &[] };
        let is_kept = |(name, _): &&(&'static str, _)| !left_out.contains(name);
        let kept: Vec<_> = common.iter().filter(is_kept).copied().collect();
        trials.extend(runs::trials_of(host, target, Vec::leak(kept)));
        trials.extend(runs::trials_of(host, target, own));
    }
    trials
}

fn suites() {
    for suite in weighbridge_dbus_bench::SUITES {
        let cases = suite.cases(&Changes::default());
        assert!(cases.len() >= 20, "{}: {} cases", suite.name, cases.len());
        for id in &cases {
            let found = catalogue::resolve(id);
            assert!(found.is_ok(), "{}: {:?}", suite.name, found.err());
            assert_eq!(cases.iter().filter(|other| *other == id).count(), 1, "{}: {id}", suite.name);
        }
    }
}

fn program(target: &Target) -> Program {
    Program::ALL.into_iter().find(|program| program.name() == target.id).expect("a target is a broker")
}

fn case(host: &Host, id: CaseId) -> Prepared {
    runs::prepare(host, &id).unwrap()
}

/// The line of a round trip, whose broker is counted beside its roles.
fn with_broker(case: &Prepared, measured: Measured) -> Run {
    let run = summary::run_line(case, measured, 0, 0);
    let names: Vec<&str> = run.roles.iter().map(|role| role.role.as_str()).collect();
    assert_eq!(names, ["client", "server", "broker"], "{}", case.params.id);
    run
}

/// Calls that come when they are due, by each broker: what it costs is that of its process too.
fn calls_at_a_rate(host: &Host, target: &'static Target) {
    for placement in runs::PLACEMENTS {
        let id = CaseId::new("roundtrip", target.id, 100, placement).with("rate", "500");
        let Some(case) = runs::prepare_or_skip(host, &id) else { continue };
        let measured = runs::measured(host, &case, SHORT);
        measured::at_a_rate(&id, &measured, 1, 500);
        let run = with_broker(&case, measured);
        let paced = run.paced.expect("it was at a rate");
        let sampled = run.sampled_total.expect("it has samples");
        let cpu_ns = run.roles.iter().map(|role| role.per_op.cpu_ns).sum::<f64>() * sampled.ops as f64;
        let share = cpu_ns * 100.0 / paced.wall_ns as f64;
        assert!((run.series[CPU_SHARE][0] / share - 1.0).abs() < 1e-6, "{id}: {share} and {:?}", run.series);
        assert!(
            (run.series[HELD][0] - paced.operations as f64 * 1e9 / paced.wall_ns as f64).abs() < 1e-3,
            "{id}"
        );
    }
}

/// Messages of writers that send their share of 500 a second.
fn written_at_a_rate(host: &Host, target: &'static Target) {
    for placement in runs::PLACEMENTS {
        let id = CaseId::new("fan-in", target.id, 64, placement).with("writers", "2").with("rate", "500");
        let Some(measured) = measured::measure(host, &id) else { continue };
        let counted = &measured.roles[0].counted;
        let bytes: u64 = measured.samples.iter().map(|sample| sample.bytes).sum();
        let timed: u64 =
            counted.latencies.iter().flat_map(|latencies| &latencies.counts).map(|(_, count)| count).sum();
        assert!(timed > 0 && timed * 64 == bytes, "{id}: {timed} messages timed, {bytes} bytes arrived");
    }
}

fn switches_of(per_op: &PerOp) -> f64 {
    per_op.voluntary_switches + per_op.involuntary_switches
}

/// The broker's part of a round trip is two receptions and two sends.
fn placed_and_counted(host: &Host, target: &'static Target) {
    for placement in runs::PLACEMENTS {
        for place in ["first", "last", "free"] {
            let id = CaseId::new("roundtrip", target.id, 100, placement).with("broker", place);
            let Some(case) = runs::prepare_or_skip(host, &id) else { continue };
            let wanted: Vec<u32> = match place {
                "first" => vec![case.params.cpus[0]],
                "last" => vec![case.params.cpus[1]],
                _ => host.measured_cpus.clone(),
            };
            let (allowed, measured) = watched(host, &case, |pid| proc::status(pid, "Cpus_allowed_list"));
            assert_eq!(cpus(&allowed.expect("the broker was seen")), wanted, "{id}");
            let run = with_broker(&case, measured);
            let broker = &run.roles[2];
            assert_eq!(broker.ops, run.roles[0].ops);
            assert!(broker.per_op.cpu_ns > 500.0, "{id}: {broker:?}");
            let parts = broker.per_op.user_ns.unwrap() + broker.per_op.kernel_ns.unwrap();
            assert!((parts / broker.per_op.cpu_ns - 1.0).abs() < 1e-6, "{id}: {broker:?}");
            let total: f64 = run.roles.iter().map(|role| role.per_op.cpu_ns).sum();
            assert!((run.per_op.cpu_ns / total - 1.0).abs() < 1e-6, "{id}");
        }
    }
}

/// Two members exchange messages; the process that serves their bus is where the case says, and sleeps.
fn not_in_the_path(host: &Host, target: &'static Target) {
    for place in ["first", "last", "free"] {
        let id = CaseId::new("roundtrip", target.id, 100, "same-cpu").with("broker", place);
        let case = case(host, id);
        let run = with_broker(&case, runs::measure(host, &case, MEDIUM));
        let switches = |role: usize| switches_of(&run.roles[role].per_op);
        assert!(switches(0) > 0.5 && switches(1) > 0.5, "{place}: {:?}", run.roles);
        assert!(switches(2) < 0.1, "{place}: {:?}", run.roles[2]);
    }
}

/// A member calls a D-Bus client, or is called by one: each of the two messages is work of the process that serves the bus.
fn served_client(host: &Host, target: &'static Target) {
    for role in ["first", "last"] {
        for placement in runs::PLACEMENTS {
            let id = CaseId::new("roundtrip", target.id, 100, placement).with("dbus-client", role);
            let Some(case) = runs::prepare_or_skip(host, &id) else { continue };
            let run = with_broker(&case, runs::measure(host, &case, MEDIUM));
            let broker = &run.roles[2].per_op;
            assert!(broker.cpu_ns > 1000.0, "{id}: {broker:?}");
            let switches = switches_of(&run.per_op);
            // Client, process that serves the bus, server, and the same way back.
            assert!(placement != "same-cpu" || switches > 0.9 * 4.0, "{id}: {:?}", run.roles);
        }
        for (pattern, bytes) in [("roundtrip", 0), ("roundtrip", 300_000), ("stream", 1), ("stream", 300_000)]
        {
            let id = CaseId::new(pattern, target.id, bytes, "free").with("dbus-client", role);
            let measured = runs::measure(host, &case(host, id.clone()), SHORT);
            let broker = measured.roles.iter().find_map(|role| role.counted.beside.clone());
            assert!(broker.is_some_and(|(_, counted)| counted.cpu_ns > 0), "{id}");
        }
    }
    let alone = CaseId::new("self", target.id, 64, "same-cpu").with("dbus-client", "last");
    assert!(runs::prepare(host, &alone).unwrap_err().contains("leave out the axis dbus-client"));
    for pattern in ["fan-out", "fan-in", "solo"] {
        let id = CaseId::new(pattern, target.id, 0, "free").with("dbus-client", "first");
        assert!(catalogue::resolve(&id).is_err(), "{id}");
    }
}

/// `0-1,3` as numbers.
fn cpus(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        low.parse::<u32>().unwrap()..=high.parse().unwrap()
    };
    list.split(',').flat_map(range).collect()
}

/// What a look at the broker gives while a run goes on, and what the run gave.
fn watched<T: Send>(
    host: &Host,
    case: &Prepared,
    look: impl Fn(u32) -> Option<T> + Send + Sync,
) -> (Option<T>, Measured) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let seen = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Peers are started when the broker is where it shall be.
                if let [_, ..] = runs::peers()[..]
                    && let Some(seen) = brokers(case.target.id).first().and_then(|pid| look(*pid))
                {
                    return Some(seen);
                }
                thread::sleep(Duration::from_micros(200));
            }
            None
        });
        let measured = runs::measure(host, case, MEDIUM);
        is_over.store(true, Ordering::Relaxed);
        (seen.join().unwrap(), measured)
    })
}

/// Long enough that ticks find the broker.
const MEDIUM: Timing = Timing { sample_ns: 2_000_000, samples: 20, least_samples: 20, run_ns: 60_000_000 };

/// In slices, with a case without a broker.
fn takes_turns(host: &Host, target: &'static Target) {
    // A broker has no round trip to itself.
    for pattern in target.patterns.iter().filter(|pattern| pattern.id != "self") {
        let payload_bytes = if pattern.id == "solo" { 0 } else { 100 };
        // The process that serves native members is asked in calls of the bus itself only.
        let has_work = !program(target).is_native() || pattern.id == "solo";
        take_turns(host, CaseId::new(pattern.id, target.id, payload_bytes, "same-cpu"), has_work);
    }
}

/// A case takes turns with one without a broker; its own broker is counted, and has something to do if it has work there.
fn take_turns(host: &Host, id: CaseId, has_work: bool) {
    let hub = match id.pattern.as_str() {
        "solo" => CaseId::new("solo", "getppid", 0, "same-cpu"),
        "stream" | "fan-in" => CaseId::new("stream", "pipe", 65_536, "same-cpu"),
        _ => CaseId::new("roundtrip", "pipe", 1, "same-cpu"),
    };
    let (ours, hub) = (case(host, id.clone()), case(host, hub));
    let interrupt = Interrupt::install().unwrap();
    let slices = SliceTiming { blocks: 12, slice_ns: 2_000_000, seed: 1 };
    let mut coordinator = Coordinator::new(host, &interrupt, "/proc/self/exe".into(), 1);
    match coordinator.run_set(&[&ours, &hub], MEDIUM, slices) {
        SetOutcome::Measured(measured) => {
            let beside = measured[0].roles.iter().find_map(|role| role.counted.beside.clone());
            let (_, beside) = beside.expect("the broker is counted");
            assert!(beside.cpu_ns > 0 || !has_work, "{id}: {beside:?}");
            assert!(measured[1].roles.iter().all(|role| role.counted.beside.is_none()));
        }
        other => panic!("{id}: {other:?}"),
    }
}

const COORDINATE: &str = "coordinate";

/// This program as a coordinator that somebody kills; the case is its second argument.
fn coordinate() -> ExitCode {
    let host = Host::look().unwrap();
    let id: CaseId = std::env::args().nth(2).unwrap().parse().unwrap();
    let outcome = runs::run(&host, &case(&host, id), LONG);
    eprintln!("nobody has killed this: {outcome:?}");
    ExitCode::FAILURE
}

fn coordinator_killed(_host: &Host, target: &'static Target) {
    let id = CaseId::new("roundtrip", target.id, 64, "free").to_string();
    let mut child =
        Command::new("/proc/self/exe").args([COORDINATE, &id]).stdin(Stdio::null()).spawn().unwrap();
    let coordinator = child.id();
    let below = || proc::children(coordinator);
    eventually("the coordinator is at work", || below().len() >= 3);
    let below = below();
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("neither broker nor peers are left", || below.iter().all(|pid| proc::state(*pid).is_none()));
}

fn rules(host: &Host, target: &'static Target) {
    for by in ["path", "interface", "arg0"] {
        let id = CaseId::new("fan-out", target.id, 64, "free").with("receivers", "3");
        let measured = measured::measure(host, &id.with("rules", "100").with("rules-by", by)).unwrap();
        assert_eq!(measured::series(&measured, "lost").iter().sum::<f64>(), 0.0);
    }
    let id = CaseId::new("fan-out", target.id, 64, "free").with("rules", "100001");
    assert!(runs::prepare(host, &id).unwrap_err().contains("fewer rules"));
}

/// Each receiver waits for each message, and so does the broker; the sender may find all there already.
fn switches(host: &Host, target: &'static Target) {
    let id = CaseId::new("fan-out", target.id, 64, "same-cpu").with("receivers", "5");
    let case = case(host, id);
    let measured = runs::run(host, &case, MEDIUM);
    let Outcome::Measured(measured) = measured else { panic!("{measured:?}") };
    let counted = summary::run_line(&case, *measured, 0, 0);
    let mut of_samples = counted.series["switches_per_message"].clone();
    of_samples.sort_by(f64::total_cmp);
    let median = of_samples[of_samples.len() / 2];
    let broker = counted.roles.iter().find(|role| role.role == "broker").unwrap();
    let own = switches_of(&broker.per_op);
    assert!(own > 0.5, "{broker:?}");
    let of_all = switches_of(&counted.per_op);
    // The figure of all samples and that of the whole run have the same roles in them.
    assert!(
        (median - of_all).abs() < 0.5 * own.max(1.0) + 0.1 * of_all,
        "{median} and {of_all}, {own} of the broker"
    );
}

/// Looking at the broker's counters is work of the laboratory, and none of a message.
fn sender_calls(host: &Host, target: &'static Target) {
    let case = case(host, CaseId::new("fan-out", target.id, 64, "free").with("receivers", "3"));
    let interrupt = Interrupt::install().unwrap();
    let counted = runs::coordinator(host, &interrupt).count_calls(&case, &PeerStart::default());
    let calls = match counted {
        Counted::Calls(calls) => calls,
        Counted::Failed { why, .. } if why.contains("cannot trace") => {
            return skipped(Cause::Rights("ptrace"), why);
        }
        other => panic!("{other:?}"),
    };
    let sender = &calls.roles[0];
    let of_the_laboratory = ["openat", "getdents64", "statx", "newfstatat", "pread64"];
    let found: Vec<_> =
        sender.calls.iter().filter(|(name, _)| of_the_laboratory.contains(&&***name)).collect();
    assert!(found.is_empty(), "{found:?} among {:?}", sender.calls);
}

fn calls(host: &Host, target: &'static Target) {
    let is_native = program(target).is_native();
    let refused = runs::prepare(host, &CaseId::new("solo", target.id, 0, "free").with("call", "signal"));
    // A native sender knows itself when its signal is on the bus.
    assert!(refused.map_or_else(|why| why.contains("pause-us=1000"), |_| is_native));
    for call in ["GetId", "NameHasOwner", "GetNameOwner", "match", "name", "connect", "relay", "signal"] {
        for (placement, wait) in [("same-cpu", "block"), ("free", target.waits.last().unwrap().name())] {
            let id = CaseId::new("solo", target.id, 0, placement).with("call", call).with("wait", wait);
            let id = if call == "signal" { id.with("pause-us", "100") } else { id };
            let measured = measured::measure(host, &id).unwrap();
            let counted = &measured.roles[0].counted;
            let (name, beside) = counted.beside.clone().unwrap();
            // Of each operation, also of a signal, for which the client does not wait. Native members pass messages themselves.
            let is_in_path = !is_native || !["relay", "signal"].contains(&call);
            assert!(
                name == "broker" && (beside.cpu_ns > 500 * counted.ops || !is_in_path),
                "{id}: {} of {beside:?}",
                counted.ops
            );
        }
    }
    if is_native {
        let id = CaseId::new("solo", target.id, 0, "free").with("call", "signal").with("idle-members", "5");
        let measured = measured::measure(host, &id).unwrap();
        assert!(measured.facts.keys().any(|fact| fact.ends_with("idle_member_kib")), "{:?}", measured.facts);
    }
}

fn bursts(host: &Host, target: &'static Target) {
    let id = CaseId::new("fan-out", target.id, 1 << 20, "free").with("receivers", "10").with("burst", "10");
    assert!(runs::prepare(host, &id).unwrap_err().contains("smaller burst"));
}

fn written(host: &Host, id: &CaseId) {
    let measured = measured::measure(host, id).unwrap();
    let fact = |name: &str| -> u64 { measured.facts[&format!("reader.first_run_{name}")].parse().unwrap() };
    assert_eq!(fact("reads"), fact("writes"), "{id}");
    assert!(fact("reads") > 0, "{id}");
    let ops = measured.roles[0].counted.ops;
    assert!(measured.roles.iter().all(|role| role.counted.ops == ops), "{id}");
}

fn written_in_every_way(host: &Host, target: &'static Target) {
    for wait in target.waits {
        for (placement, peers, writers) in
            [("same-cpu", "process", "3"), ("two-cpus", "process", "1"), ("free", "thread", "4")]
        {
            let id = CaseId::new("fan-in", target.id, 64, placement).with("wait", wait.name());
            written(host, &id.with("peers", peers).with("writers", writers));
        }
    }
}

fn written_of_every_size(host: &Host, target: &'static Target) {
    for (bytes, touch, depth) in
        [(0, "all", "1"), (1, "none", "3"), (4097, "lines", "default"), (300_000, "all", "default")]
    {
        let id = CaseId::new("fan-in", target.id, bytes, "free").with("touch", touch);
        written(host, &id.with("depth", depth));
    }
}

fn refusals(host: &Host, target: &'static Target) {
    for (axes, bytes, words) in
        [(&[][..], 64 << 20, &["32 MiB", "smaller size"][..]), (&[("broker-nice", "0:1")], 1, &["one value"])]
    {
        let id = CaseId::new("roundtrip", target.id, bytes, "free");
        let id = axes.iter().fold(id, |id, (name, value)| id.with(name, value));
        let why = runs::prepare(host, &id).unwrap_err();
        assert!(words.iter().all(|word| why.contains(word)), "{id}: {why}");
    }
    // One has a setting for what it reads at once. Where members share memory there is no such axis.
    let id = CaseId::new("roundtrip", target.id, 100_000, "free").with("broker-read-bytes", "2048");
    match (!program(target).is_native()).then(|| runs::prepare(host, &id)) {
        None => {}
        Some(Ok(case)) => {
            assert_eq!(program(target), Program::Causewayd);
            runs::measure(host, &case, SHORT);
        }
        Some(Err(why)) => assert!(why.contains("broker-read-bytes is of causewayd"), "{why}"),
    }
    // Where every CPU has a role there is none for the broker alone.
    let id = CaseId::new("roundtrip", target.id, 1, "two-cpus").with("broker", "own");
    match runs::prepare(host, &id) {
        Ok(case) => drop(runs::measure(host, &case, SHORT)),
        Err(why) => assert!(why.contains("two CPUs") || why.contains("broker=first"), "{why}"),
    }
}
