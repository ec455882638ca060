//! A run is void when its roles did not run as its case says. Real runs, judged by cases that say something else.

use causeway_testkit::eventually;
use weighbridge_harness::conditions::{self, violations};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::Measured;
use weighbridge_harness::host::Host;
use weighbridge_probe::counters::Throttling;

use crate::runs::{self, SHORT, measured};
use weighbridge_harness::planner::Timing;

pub const TESTS: &[crate::Test] = &[
    ("a_run_that_is_as_its_case_says_is_valid", as_said),
    ("a_role_on_another_cpu_makes_a_run_void", elsewhere),
    ("threads_in_place_of_processes_make_a_run_void", not_apart),
    ("another_policy_or_nice_value_makes_a_run_void", mislabeled),
    ("a_setting_that_one_end_lacks_makes_a_run_void", delayed_at_one_end),
    ("messages_of_a_stream_that_nobody_sent_make_a_run_void", unsent),
    ("operations_that_nobody_counted_make_a_run_void", uncounted),
    ("operations_that_the_other_role_did_not_count_make_a_run_void", counted_by_one),
    ("cpu_time_without_room_in_the_reported_time_makes_a_run_void", overspent),
    ("a_throttled_control_group_makes_a_run_void", throttled),
];

fn case(host: &Host, id: &str) -> Prepared {
    runs::prepare(host, &id.parse().unwrap()).expect("every machine has this case")
}

fn as_said(host: &Host) {
    for id in [
        "roundtrip/pipe/1/same-cpu",
        "roundtrip/pipe/1/same-cpu/peers=thread",
        "roundtrip/pipe/1/free/nice=0:5",
        "roundtrip/pipe/1/same-cpu/sched=batch",
        "stream/pipe/4096/same-cpu",
        "fan-in/pipe/64/free/streams=3",
        // Its policy is not that of a scheduler.
        "fan-out/causeway-sw/64/free/receivers=2",
        "contend/mutex/0/free/roles=2",
        "solo/getppid/0/same-cpu",
    ] {
        let case = case(host, id);
        assert_eq!(violations(&case, &measured(host, &case, SHORT)), [""; 0], "{id}");
    }
}

/// A run of this case, after `change` of what its case or the roles say, is void in a sentence with these words.
fn is_void(
    host: &Host,
    id: &str,
    timing: Timing,
    change: impl FnOnce(&mut Prepared, &mut Measured),
    words: &str,
) {
    let mut case = case(host, id);
    let mut measured = measured(host, &case, timing);
    let is_told = |found: &[String]| found.iter().any(|why| why.contains(words));
    assert!(!is_told(&violations(&case, &measured)), "{id}: told before the change");
    change(&mut case, &mut measured);
    let found = violations(&case, &measured);
    assert!(is_told(&found), "{id}: {found:?}");
}

const PIPE: &str = "roundtrip/pipe/1/same-cpu";

fn elsewhere(host: &Host) {
    is_void(host, PIPE, SHORT, |case, _| case.params.cpus[1] += 1, "server ran on CPU");
}

fn not_apart(host: &Host) {
    let [threads, processes] =
        ["/peers=thread", ""].map(|peers| case(host, &format!("roundtrip/pipe/1/same-cpu{peers}")));
    let found = violations(&processes, &measured(host, &threads, SHORT));
    assert!(
        matches!(&found[..], [why] if why.contains("2 roles ran in 1 processes; expected: its case says one process each")),
        "{found:?}"
    );
    let found = violations(&threads, &measured(host, &processes, SHORT));
    assert!(matches!(&found[..], [why] if why.contains("threads of one")), "{found:?}");
}

fn mislabeled(host: &Host) {
    for (axis, value) in [("nice", "0:3"), ("sched", "batch:other")] {
        let relabel =
            |case: &mut Prepared, _: &mut _| drop(case.params.axes.insert(axis.into(), value.into()));
        is_void(host, PIPE, SHORT, relabel, axis);
    }
}

/// Nagle's algorithm is off at one end only.
fn delayed_at_one_end(host: &Host) {
    for id in ["roundtrip/tcp/1/same-cpu", "stream/tcp/4096/same-cpu", "fan-in/tcp/64/free/streams=3"] {
        let delay = |_: &mut _, measured: &mut Measured| {
            let report = measured.roles.iter_mut().rfind(|report| report.facts.contains_key("nodelay"));
            report.expect("a role that tells").facts.insert("nodelay".into(), "no".into());
        };
        is_void(host, id, SHORT, delay, "nodelay no; expected: its case says nodelay=yes");
    }
}

/// A receiver that counts a tenth too much.
fn unsent(host: &Host) {
    const LONGER: Timing =
        Timing { sample_ns: 4_000_000, samples: 20, least_samples: 20, run_ns: 80_000_000 };
    let count_more = |_: &mut _, measured: &mut Measured| {
        let sent = measured.roles[0].counted.ops;
        measured.roles[1].counted.ops = sent + sent / 10 + 100;
    };
    let words = "of which the sender has counted only";
    is_void(host, "stream/pipe/65536/same-cpu", LONGER, count_more, words);
}

fn uncounted(host: &Host) {
    let double = |_: &mut _, measured: &mut Measured| {
        measured.samples.iter_mut().for_each(|sample| sample.ops *= 2);
    };
    is_void(host, PIPE, SHORT, double, "only");
}

fn counted_by_one(host: &Host) {
    let count_more = |_: &mut _, measured: &mut Measured| {
        measured.samples.iter_mut().for_each(|sample| sample.ops += sample.ops.div_ceil(10));
        measured.roles[0].counted.ops *= 2;
    };
    is_void(host, PIPE, SHORT, count_more, "of which client has counted");
}

/// Times that are too short by more than a loaded machine takes from the roles.
fn overspent(host: &Host) {
    const LONGER: Timing = Timing { sample_ns: 4_000_000, samples: 8, least_samples: 8, run_ns: 32_000_000 };
    for id in [
        "roundtrip/pipe/1/same-cpu",
        "solo/getppid/0/same-cpu",
        "pingpong/atomic/0/two-cpus",
        "stream/pipe/65536/two-cpus",
    ] {
        let Some(case) = runs::prepare_or_skip(host, &id.parse().unwrap()) else { continue };
        // A role that other programs keep from its CPU uses little of it; then once more.
        let is_too_short = || {
            let mut measured = measured(host, &case, LONGER);
            assert_eq!(violations(&case, &measured), [""; 0], "{id}");
            // Beside a load what is between samples may be as long as they are.
            measured.roles.iter_mut().for_each(|role| role.counted.sampled.gaps_ns /= 100);
            for sample in &mut measured.samples {
                sample.elapsed_ns /= 100;
                sample.extra /= 100;
            }
            violations(&case, &measured).iter().any(|why| why.contains("of CPU time for an operation"))
        };
        eventually(&format!("{id}: a hundredth of the time has no room for its CPU time"), is_too_short);
    }
}

fn throttled(host: &Host) {
    let case = case(host, "roundtrip/pipe/1/same-cpu");
    let mut measured = measured(host, &case, SHORT);
    measured.noise.throttling = Some(Throttling { periods: 0, ns: 0 });
    assert_eq!(conditions::throttled(&case, &measured), None);
    measured.noise.throttling = Some(Throttling { periods: 2, ns: 3_500_000 });
    let why = conditions::throttled(&case, &measured).expect("CPU time was withheld");
    assert!(why.contains("in 2 periods, for 3.5 ms"), "{why}");
}
