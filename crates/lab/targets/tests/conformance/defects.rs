//! Defects of the kinds that made published figures wrong, put into a mechanism one at a time: each is noticed by a real run.
//!
//! The mechanism is one of this program only. Its peers are this very program, so they know it too.

use causeway_testkit::{Cause, skipped};
use rustix::process::Signal;
use weighbridge_harness::conditions::{self, violations};
use weighbridge_harness::coordinator::Outcome;
use weighbridge_harness::host::Host;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::shared::Step;
use weighbridge_harness::summary;

use crate::runs::{beside, measured_or_skip, prepare_or_skip, run, send};

const TIMING: Timing = Timing { sample_ns: 2_000_000, samples: 8, least_samples: 5, run_ns: 16_000_000 };

pub const TESTS: &[crate::Test] = &[
    ("without_a_defect_nothing_is_found", sound),
    ("a_reader_that_spins_where_the_case_says_that_it_blocks_makes_a_run_void", spins),
    ("a_reader_of_a_stream_that_spins_makes_a_run_void", spins_in_a_stream),
    ("a_payload_that_is_not_sent_because_it_is_unchanged_makes_a_run_void", sends_changes),
    ("roles_that_move_to_other_cpus_make_a_run_void", strays),
    ("a_run_whose_role_was_stopped_for_a_while_is_thrown_away", stopped),
    ("data_that_is_damaged_after_the_first_messages_and_never_read_ends_a_run", damages_late),
    ("a_rate_above_that_of_a_memory_copy_is_an_anomaly_whatever_is_touched", faster_than_a_copy),
    ("a_harness_with_a_reading_of_the_clock_in_its_loop_is_an_anomaly", reads_the_clock),
];

fn sound(host: &Host) {
    for id in ["roundtrip/defective/64/two-cpus", "roundtrip/defective/64/same-cpu"] {
        let Some((case, measured)) = measured_or_skip(host, id, TIMING) else { continue };
        assert_eq!(violations(&case, &measured), [""; 0], "{id}");
    }
}

fn spins(host: &Host) {
    // What it spends where no other program takes its CPU away, or its calls, however little it runs.
    let words = ["did not wait in the kernel", "law `blocks`"];
    breaks(host, "roundtrip/defective/64/two-cpus/defect=spins", TIMING, &words);
}

/// A law that real runs of a defective case break, in one of some runs where other programs may be in the way.
fn breaks(host: &Host, id: &str, timing: Timing, words: &[&str]) {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let Some((case, measured)) = measured_or_skip(host, id, timing) else { return };
        let found = violations(&case, &measured);
        if found.iter().any(|why| words.iter().any(|words| why.contains(words))) {
            return;
        }
        seen.push((found, measured));
    }
    panic!("{id}: {seen:?}");
}

fn spins_in_a_stream(host: &Host) {
    let words = ["law `blocks`", "law `sleeps`"];
    breaks(host, "stream/defective/64/two-cpus/defect=spins", TIMING, &words);
}

fn sends_changes(host: &Host) {
    for pattern in ["stream", "roundtrip"] {
        let id = format!("{pattern}/defective/4096/same-cpu/defect=sends-changes/touch=none");
        breaks(host, &id, TIMING, &["law `moved`: the kernel saw"]);
    }
}

fn strays(host: &Host) {
    if host.topology.cpus.len() < 2 {
        return skipped(Cause::Hardware("two CPUs"), "");
    }
    breaks(host, "roundtrip/defective/64/same-cpu/defect=strays", TIMING, &["law `placed`"]);
}

fn stopped(host: &Host) {
    let case = prepare_or_skip(host, &"roundtrip/pipe/1/free".parse().unwrap()).unwrap();
    let long = Timing { sample_ns: 20_000_000, samples: 20, least_samples: 20, run_ns: 400_000_000 };
    for _ in 0..20 {
        let (outcome, done) = beside(
            || run(host, &case, long),
            |watched| {
                watched.await_step(1, Step::Batches)?;
                let server = watched.peer(1)?;
                watched.stop(server)?;
                send(server, Signal::CONT);
                Some(())
            },
        );
        let (Outcome::Measured(measured), Some(_)) = (outcome, done) else { continue };
        let (step, why) = conditions::void(&case, &measured).expect("a run with a gap in it");
        assert!(conditions::may_pass(step) && why.contains("was stopped and went on"), "{step}: {why}");
        return;
    }
    panic!("the run was always over before its server could be stopped");
}

/// With `touch=write` nobody reads the messages of the timed part.
fn damages_late(host: &Host) {
    for (pattern, touch) in
        [("roundtrip", "write"), ("stream", "write"), ("stream", "none"), ("roundtrip", "all")]
    {
        let id = format!("{pattern}/defective/64/same-cpu/defect=damages-late/touch={touch}");
        let case = prepare_or_skip(host, &id.parse().unwrap()).expect("every machine has one CPU");
        let outcome = run(host, &case, TIMING);
        let Outcome::Failed { why, .. } = outcome else { panic!("{id}: {outcome:?}") };
        let words =
            if touch == "all" { "arrived damaged" } else { "after the timed part: message 0 does not hold" };
        assert!(why.contains(words), "{id}: {why}");
    }
}

/// Figures of real runs, made impossible: the copy that they are compared with is measured in the run itself.
fn faster_than_a_copy(host: &Host) {
    for id in [
        "stream/pipe/65536/same-cpu",
        "stream/pipe/65536/same-cpu/touch=none",
        "roundtrip/pipe/65536/same-cpu/touch=lines",
    ] {
        let (case, mut measured) = measured_or_skip(host, id, TIMING).expect("every machine has one CPU");
        for sample in &mut measured.samples {
            sample.ops *= 10_000;
            sample.bytes *= 10_000;
        }
        let flags = summary::run_line(&case, measured, 0, 0).flags;
        assert!(flags.iter().any(|flag| flag.contains("as a memory copy of this size")), "{id}: {flags:?}");
    }
}

fn reads_the_clock(host: &Host) {
    let (case, measured) = measured_or_skip(host, "roundtrip/defective-harness/1/free", TIMING).unwrap();
    let flags = summary::run_line(&case, measured, 0, 0).flags;
    assert!(flags.iter().any(|flag| flag.contains("the harness itself takes")), "{flags:?}");
}
