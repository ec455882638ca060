//! Shape checks: what the counters of a case must look like, whatever its time is.
//!
//! A violation does not delete a number. It stands beside it and says why the number may not mean what its name says. It compares
//! by ratios and has no unit of time, because the clock of a guest may count instructions.

use weighbridge_record::derive::HELD;
use weighbridge_record::{CaseId, PerOp, Run};
use weighbridge_stats::{self as stats, Interval, load};

use crate::axis::{DOSE, NO_DOSE};
use crate::contract::{Caps, Prepared};
use crate::ctx;
use crate::params::{CaseParams, Touch, Wait};
use crate::pattern::working_set;

/// Up to this size a message crosses a mechanism in one piece. One that gives less at once has a counter check of its own.
const ONE_PIECE_BYTES: usize = 4096;

/// Switches or faults in a whole run that are ascribed to the system, however few operations the run has.
const STRAYS: f64 = 10.0;

/// Anomalies in the counts of a case whose runs count `ops` operations. The harness itself is not checked; everybody
/// else knows their own.
pub fn check(case: &Prepared, per_op: &PerOp, ops: f64) -> Vec<String> {
    if case.target.caps.has(Caps::HARNESS) {
        Vec::new()
    } else {
        (case.target.counter_check)(case, &without_strays(per_op, ops))
    }
}

fn without_strays(per_op: &PerOp, ops: f64) -> PerOp {
    let unless_stray = |count: f64| if count * ops < STRAYS { 0.0 } else { count };
    PerOp {
        voluntary_switches: unless_stray(per_op.voluntary_switches),
        involuntary_switches: unless_stray(per_op.involuntary_switches),
        minor_faults: unless_stray(per_op.minor_faults),
        ..per_op.clone()
    }
}

/// Anomalies in the counts of two ends that exchange messages.
pub fn of_messages(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    let caps = case.target.caps;
    let params = &case.params;
    let switches = per_op.voluntary_switches + per_op.involuntary_switches;
    let mut anomalies = Vec::new();
    if case.pattern.id == "roundtrip" && params.same_cpu() && params.wait != Wait::Spin {
        let per_hop = switches / 2.0;
        let said = format!("{per_hop:.2} context switches per hop on one CPU");
        if per_hop < 0.9 {
            anomalies.push(format!("{said}; a round trip needs one for each hop"));
        } else if per_hop > 1.5 && params.payload_bytes <= ONE_PIECE_BYTES && !does_more(params) {
            anomalies.push(format!(
                "{said}, where one suffices: the scheduler runs the sender again before the receiver, the receiver is woken for \
                 nothing, or it gets the message in several pieces"
            ));
        }
    }
    if params.wait == Wait::Spin && ctx::rate(params).is_none() {
        anomalies.extend(blocked(switches));
    } else if case.pattern.id == "self" {
        anomalies.extend(Quiet { switches: true, faults: false }.check(per_op, None));
    }
    if !caps.has(Caps::MAPS) {
        let faults = if case.pattern.id == "stream" { working_set::faults(params) } else { 0.0 };
        anomalies.extend(faulted_unlike(per_op.minor_faults, faults));
    }
    anomalies
}

/// Do the roles do something besides, which may be to switch, or sleep until an operation is due?
fn does_more(params: &CaseParams) -> bool {
    params.axes.get(DOSE.name).is_some_and(|dose| dose != NO_DOSE) || ctx::rate(params).is_some()
}

/// Spinning roles that give up the CPU.
pub fn blocked(switches: f64) -> Option<String> {
    (switches > 0.01).then(|| format!("{switches:.3} context switches per operation although all roles spin"))
}

/// What an operation of one role must not do.
#[derive(Clone, Copy, Debug)]
pub struct Quiet {
    /// Give up the CPU.
    pub switches: bool,
    /// Fault more or less than it says.
    pub faults: bool,
}

impl Quiet {
    /// An operation that makes neither a context switch nor a page fault.
    pub const ALL: Quiet = Quiet { switches: true, faults: true };

    /// Anomalies in the counts of an operation, given the page faults that it takes where that number is known.
    pub fn check(self, per_op: &PerOp, faults: Option<f64>) -> Vec<String> {
        let switches = per_op.voluntary_switches;
        let switched = (self.switches && switches > 0.001).then(|| {
            format!("{switches:.3} voluntary context switches per operation, which has nothing to wait for")
        });
        let faults = faults.filter(|_| self.faults);
        let faulted = faults.and_then(|faults| faulted_unlike(per_op.minor_faults, faults));
        switched.into_iter().chain(faulted).collect()
    }
}

/// More or fewer faults than belong to an operation.
fn faulted_unlike(faults: f64, expected: f64) -> Option<String> {
    match expected {
        0.0 => faulted(faults),
        _ if (0.9..1.1).contains(&(faults / expected)) => None,
        _ => Some(format!("{faults:.3} page faults per operation, where {expected:.3} belong to it")),
    }
}

/// Faults on memory that was touched before anything was timed.
pub fn faulted(faults: f64) -> Option<String> {
    (faults > 0.001)
        .then(|| format!("{faults:.3} page faults per operation although all memory was touched before"))
}

/// From this size on a round trip is compared with a memory copy.
pub const COPY_BOUNDS_FROM_BYTES: usize = 4096;
/// A copy that is slower than a plain one of the same size in the same process by this factor was not made.
const COPY_TOLERANCE: f64 = 1.1;
/// The same where payloads are not touched as a whole: the kernel may copy from and to pages that lie in a nearer cache than
/// the two buffers of the plain copy.
const KERNEL_COPY_TOLERANCE: f64 = 2.0;

/// Anomalies of one run. `copy_bytes_per_s` is what a plain memory copy reached in the receiver, where that was tried.
pub fn flags(case: &Prepared, run: &Run, copy_bytes_per_s: Option<f64>) -> Vec<String> {
    let mut flags =
        Vec::from_iter(copy_bytes_per_s.and_then(|copy| faster_than_a_copy(case, run.value, copy)));
    if let Some(switches @ 1..) = run.noise.coordinator_switches {
        flags.push(format!("anomaly: the coordinator woke {switches} times in the timed part"));
    }
    flags.extend(rate_not_held(case, run));
    flags
}

/// Operations were due more often than they could be done: the figure is what waits in a queue that grows.
fn rate_not_held(case: &Prepared, run: &Run) -> Option<String> {
    let (asked, held) = (ctx::rate(&case.params)?, run.series.get(HELD)?.first()?);
    (!load::is_held(asked, *held))
        .then(|| format!("anomaly: holds {:.1} % of the rate that it asks for", held / asked * 100.0))
}

/// A figure that a mechanism cannot have which copies each message at least once, or whose ends touch every byte: `value` is
/// that of a run, `copy_rate` that of a plain memory copy of the same size in the same process, in bytes per second.
fn faster_than_a_copy(case: &Prepared, value: f64, copy_rate: f64) -> Option<String> {
    let params = &case.params;
    let is_touched = params.touch == Touch::All;
    let copies = !case.target.caps.has(Caps::ZERO_COPY);
    let (ends, rate, path) = match case.pattern.id {
        "stream" if is_touched || copies => ("the receiver", value, ""),
        // One message after the other; the reply may be empty.
        "roundtrip" if copies => {
            let messages = if params.axis("direction") == "request" { 1.0 } else { 2.0 };
            let rate = messages * params.payload_bytes as f64 * 1e9 / value;
            ("the client", rate, " on the way of each message")
        }
        _ => return None,
    };
    let tolerance = if is_touched { COPY_TOLERANCE } else { KERNEL_COPY_TOLERANCE };
    (params.payload_bytes > 0 && rate > tolerance * copy_rate).then(|| {
        let times = rate / copy_rate;
        format!(
            "anomaly: {times:.2} times as fast{path} as a memory copy of this size in {ends}, where {tolerance} times is the most \
             that a copy allows"
        )
    })
}

/// Patterns whose loop around a mechanism does nothing but touch the payload; the others look at the clock now and then, or
/// acknowledge messages.
const BARE_LOOPS: [&str; 6] = ["roundtrip", "stream", "pingpong", "contend", "parallel", "solo"];
/// Payloads up to this size are touched in a time that [`TOUCH_NS_PER_BYTE`] bounds on every machine.
const SMALL_BYTES: usize = 64;
/// For touching a byte of a small payload, both ways.
const TOUCH_NS_PER_BYTE: f64 = 0.5;

/// What the harness may cost for each operation, in nanoseconds: one reading of the clock, and the touching of the payload.
///
/// A loop without anything in it takes a few nanoseconds; one that reads a clock or a counter, or allocates, takes at least as
/// long as one reading of the clock and the empty loop besides. So the bound scales with the machine and lies between the two.
pub fn harness_ceiling_ns(payload_bytes: usize, clock_read_ns: f64) -> f64 {
    clock_read_ns + payload_bytes as f64 * TOUCH_NS_PER_BYTE
}

/// Is this a case of the harness itself whose cost has a ceiling?
pub fn has_ceiling(case: &Prepared) -> bool {
    let caps = case.target.caps;
    caps.has(Caps::HARNESS)
        && !caps.has(Caps::VIRTUAL_TIME)
        && BARE_LOOPS.contains(&case.pattern.id)
        && case.params.payload_bytes <= SMALL_BYTES
}

/// The harness costs more than it may: `cost_ns` is the median over the samples of a run.
pub fn expensive_harness(case: &Prepared, cost_ns: f64, clock_read_ns: f64) -> Option<String> {
    let ceiling_ns = harness_ceiling_ns(case.params.payload_bytes, clock_read_ns);
    (has_ceiling(case) && cost_ns > ceiling_ns).then(|| {
        format!(
            "anomaly: the harness itself takes {:.1} times as long for an operation as one reading of the clock and touching the \
             payload take, the most that it may: something beside the mechanism is in the timed loop, or the program was built \
             without optimisation",
            cost_ns / ceiling_ns
        )
    })
}

/// Do two cases differ that are the same kernel code under two names? `pairs` are their values in the same rounds.
pub fn disagree(of: &CaseId, equivalent: &CaseId, pairs: &[(f64, f64)]) -> Option<String> {
    let ratio = stats::paired_ratio(pairs, 0.95);
    let Interval { low, high, .. } = ratio.interval?;
    (low > 1.1 || high < 1.0 / 1.1).then(|| {
        let (variant, times) = (of.variant(), ratio.median);
        format!(
            "{variant} is the same code in the kernel as {equivalent}, but gives {times:.2} times its value (interval {low:.2}–{high:.2})"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;

    /// What is said of counts per operation in a run of so many operations.
    fn said(id: &str, cpus: &[u32], [switches, faults, ops]: [f64; 3]) -> Vec<String> {
        let counts = PerOp { voluntary_switches: switches, minor_faults: faults, ..PerOp::default() };
        check(&case(id, cpus), &counts, ops)
    }

    #[test]
    fn switches_and_faults_that_do_not_belong_to_an_operation_are_said() {
        const MANY: f64 = 1e6;
        for (id, cpus, counts, words) in [
            ("roundtrip/pipe/1/same-cpu", [0, 0], [2.0, 0.0, MANY], None),
            // Three loop turns per wake-up.
            ("roundtrip/pipe/1/same-cpu", [0, 0], [0.66, 0.0, MANY], Some("0.33 context switches per hop")),
            ("roundtrip/pipe/1/same-cpu", [0, 0], [4.0, 0.0, MANY], Some("2.00 context switches per hop")),
            // Many pieces, many switches.
            ("roundtrip/pipe/1048576/same-cpu", [0, 0], [60.0, 0.0, MANY], None),
            ("roundtrip/ring-spin/1/two-cpus", [0, 1], [0.001, 0.0, MANY], None),
            ("roundtrip/ring-spin/1/two-cpus", [0, 1], [0.5, 0.0, MANY], Some("spin")),
            ("roundtrip/pipe/4096/same-cpu", [0, 0], [2.0, 1.0, MANY], Some("page faults")),
            // Each message is mapped anew.
            ("roundtrip/memfd-pass/4096/same-cpu", [0, 0], [2.0, 1.0, MANY], None),
            // Two stray faults in forty operations.
            ("roundtrip/pipe/4194304/two-cpus", [0, 1], [0.0, 0.05, 40.0], None),
        ] {
            let found = said(id, &cpus, counts);
            let is_as_expected =
                words.map_or(found.is_empty(), |words| found.len() == 1 && found[0].contains(words));
            assert!(is_as_expected, "{id}, {counts:?}: {found:?}");
        }
    }

    #[test]
    fn a_rate_that_is_not_held_is_said_with_what_was_and_pauses_are_no_anomaly() {
        let id = "roundtrip/ring-spin/1/two-cpus/rate=20000";
        let run = |held: f64| Run { series: [(HELD.to_owned(), vec![held])].into(), ..Run::default() };
        assert_eq!(flags(&case(id, &[0, 1]), &run(19_900.0), None), Vec::<String>::new());
        let slow = flags(&case(id, &[0, 1]), &run(12_345.6), None);
        assert_eq!(slow, ["anomaly: holds 61.7 % of the rate that it asks for"]);
        assert_eq!(flags(&case("roundtrip/pipe/1/same-cpu", &[0, 0]), &run(1.0), None), Vec::<String>::new());
        // Who spins sleeps until an operation is due.
        assert!(said(id, &[0, 1], [1.0, 0.0, 1e6]).is_empty());
        assert!(said("roundtrip/pipe/1/same-cpu/rate=100", &[0, 0], [3.4, 0.0, 1e6]).is_empty());
    }

    #[test]
    fn no_mechanism_that_copies_is_faster_than_a_copy() {
        const COPY: f64 = 10e9;
        let said = |id: &str, value: f64| faster_than_a_copy(&case(id, &[0, 1]), value, COPY);
        for (id, possible, impossible) in [
            ("stream/pipe/65536/two-cpus", 9e9, Some(11.5e9)),
            ("stream/ring-spin/65536/two-cpus", 9e9, Some(11.5e9)),
            ("stream/pipe/65536/two-cpus/touch=none", 11.5e9, Some(383e9)),
            ("stream/pipe/65536/two-cpus/touch=lines", 11.5e9, Some(21e9)),
            ("roundtrip/pipe/65536/two-cpus", 14_000.0, Some(11_000.0)),
            ("roundtrip/pipe/65536/two-cpus/direction=request", 7_000.0, Some(5_500.0)),
            ("roundtrip/pipe/65536/two-cpus/touch=none", 7_000.0, Some(6_000.0)),
            // Nothing is copied or touched, and another pattern.
            ("stream/ring-spin/65536/two-cpus/touch=none", 383e9, None),
            ("solo/memcpy/65536/same-cpu", 383e9, None),
        ] {
            assert_eq!(said(id, possible), None, "{id}");
            let Some(impossible) = impossible else { continue };
            let why = said(id, impossible).unwrap_or_else(|| panic!("{id}: {impossible} is no anomaly"));
            assert!(why.starts_with("anomaly: ") && why.contains("memory copy"), "{id}: {why}");
            assert!(!why.contains("B/s"), "a unit of time: {why}");
        }
    }

    #[test]
    fn a_harness_that_reads_a_clock_in_its_loop_is_expensive() {
        const CLOCK_NS: f64 = 26.0;
        for (id, cost_ns, is_expensive) in [
            ("roundtrip/noop/1/two-cpus", 9.0, false),
            ("roundtrip/noop/1/two-cpus", 9.0 + CLOCK_NS, true),
            ("pingpong/noop/0/two-cpus", 9.0, false),
            ("pingpong/noop/0/two-cpus", 9.0 + CLOCK_NS, true),
            ("solo/noop/0/same-cpu", 9.0 + CLOCK_NS, true),
            // Touching takes its time.
            ("roundtrip/noop/64/two-cpus", 50.0, false),
            ("roundtrip/noop/65536/two-cpus", 50_000.0, false),
            // It is not the harness, or its loop looks at the clock.
            ("roundtrip/pipe/1/two-cpus", 5000.0, false),
            ("fan-in/noop/1/two-cpus", 500.0, false),
        ] {
            let said = expensive_harness(&case(id, &[0, 1]), cost_ns, CLOCK_NS);
            assert_eq!(said.is_some(), is_expensive, "{id}, {cost_ns}: {said:?}");
            let is_ratio = |why: String| why.contains("takes 1.3 times as long") && !why.contains(" ns");
            assert!(said.is_none_or(is_ratio), "{id}");
        }
    }

    #[test]
    fn the_same_kernel_code_under_two_names_must_agree() {
        let [id, equivalent] =
            ["roundtrip/fifo/1/same-cpu", "roundtrip/pipe/1/same-cpu"].map(|id| id.parse().unwrap());
        let said = |value, pairs| disagree(&id, &equivalent, &vec![(100.0, value); pairs]);
        assert_eq!(said(103.0, 6), None);
        assert!(said(130.0, 6).unwrap().contains("1.30 times"));
        assert_eq!(said(130.0, 5), None, "no interval below six pairs");
    }
}
