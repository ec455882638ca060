//! Shape checks: what the counters of a case must look like, whatever its time is.
//!
//! A violation does not delete a number. It stands beside it and says why the number may not mean what its name says.

use weighbridge_record::{CaseId, PerOp, Run};
use weighbridge_stats as stats;

use crate::axis::Choice;
use crate::contract::{Caps, Prepared};
use crate::mechanism::backing::Backing;
use crate::params::{Touch, Wait};
use crate::pattern::working_set;

/// Up to this size a message crosses a mechanism in one piece. One that gives less at once has a counter check of its own.
const ONE_PIECE_BYTES: usize = 4096;

/// Switches or faults in a whole run that are ascribed to the system, however few operations the run has.
const STRAYS: f64 = 10.0;

/// Anomalies in the counts of a case whose runs count `ops` operations. The harness itself is not checked; everybody
/// else knows their own.
pub fn check(case: &Prepared, per_op: &PerOp, ops: f64) -> Vec<String> {
    match case.target.caps.has(Caps::HARNESS) {
        true => Vec::new(),
        false => (case.target.counter_check)(case, &without_strays(per_op, ops)),
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
    let mut anomalies = Vec::new();
    let switches = per_op.voluntary_switches + per_op.involuntary_switches;
    if case.pattern.id == "roundtrip" && params.same_cpu() && params.wait != Wait::Spin {
        let per_hop = switches / 2.0;
        let is_one_piece = params.payload_bytes <= ONE_PIECE_BYTES;
        if per_hop < 0.9 {
            anomalies.push(format!(
                "{per_hop:.2} context switches per hop on one CPU; a round trip needs one for each hop"
            ));
        } else if per_hop > 1.5 && is_one_piece {
            anomalies.push(format!(
                "{per_hop:.2} context switches per hop on one CPU, where one suffices: \
                 the scheduler runs the sender again before the receiver, the receiver is woken for nothing, \
                 or it gets the message in several pieces"
            ));
        }
    }
    if params.wait == Wait::Spin {
        anomalies.extend(blocked(switches));
    }
    if !caps.has(Caps::MAPS) {
        let faults = if case.pattern.id == "stream" { working_set::faults(params) } else { 0.0 };
        anomalies.extend(faulted_unlike(per_op.minor_faults, faults));
    }
    anomalies
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
        let mut anomalies = Vec::new();
        if self.switches && per_op.voluntary_switches > 0.001 {
            anomalies.push(format!(
                "{:.3} voluntary context switches per operation, which has nothing to wait for",
                per_op.voluntary_switches
            ));
        }
        if let Some(faults) = faults.filter(|_| self.faults) {
            anomalies.extend(faulted_unlike(per_op.minor_faults, faults));
        }
        anomalies
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

/// Anomalies of one run. `copy_bytes_per_s` is what a plain memory copy reached in the receiver, where that was tried.
pub fn flags(case: &Prepared, run: &Run, copy_bytes_per_s: Option<f64>) -> Vec<String> {
    let mut flags = Vec::new();
    if let Some(switches @ 1..) = run.noise.coordinator_switches {
        flags.push(format!("anomaly: the coordinator woke {switches} times in the timed part"));
    }
    if case.pattern.id != "stream" {
        return flags;
    }
    let (sent, received) = (&run.roles[0], &run.roles[1]);
    if case.target.caps.has(Caps::LOSSY) && sent.ops > 0 {
        // The sender begins and ends to count a chunk away from the receiver, so a small surplus is no loss.
        let lost = 1.0 - received.ops as f64 / sent.ops as f64;
        if lost > 0.02 {
            flags.push(format!("lost: {:.1} % of the messages offered", lost * 100.0));
        }
    }
    if let (Some(copy_rate), Touch::All) = (copy_bytes_per_s, case.params.touch)
        && case.params.payload_bytes > 0
        && run.value > 1.1 * copy_rate
    {
        flags.push(format!(
            "anomaly: {:.2} GB/s is more than 1.1 times the {:.2} GB/s of a memory copy of this size in the receiver",
            run.value / 1e9,
            copy_rate / 1e9
        ));
    }
    flags
}

/// Do two cases differ that are the same kernel code under two names? `pairs` are their values in the same rounds.
pub fn disagree(of: &CaseId, equivalent: &CaseId, pairs: &[(f64, f64)]) -> Option<String> {
    let ratio = stats::paired_ratio(pairs, 0.95);
    let interval = ratio.interval?;
    let disagree = interval.low > 1.1 || interval.high < 1.0 / 1.1;
    disagree.then(|| {
        format!(
            "{} is the same code in the kernel as {equivalent}, but gives {:.2} times its value (interval {:.2}–{:.2})",
            of.variant(),
            ratio.median,
            interval.low,
            interval.high
        )
    })
}

/// The case that must agree with this one, if there is such a case.
pub fn equivalent_case(case: &CaseId) -> Option<CaseId> {
    let mut equivalent = case.clone();
    if case.mechanism == "fifo" {
        equivalent.mechanism = "pipe".into();
        return Some(equivalent);
    }
    if equivalent.axes.get(Backing::AXIS.name).is_some_and(|backing| backing == Backing::Shm.name()) {
        equivalent.axes.remove(Backing::AXIS.name);
        return Some(equivalent);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    const MANY: f64 = 1e6;

    fn case(id: &str, cpus: [u32; 2]) -> Prepared {
        let (target, pattern, mut params) = catalogue::resolve(&id.parse().unwrap()).unwrap();
        params.cpus = cpus.to_vec();
        Prepared { params, target, pattern, resolved_placement: "same-llc" }
    }

    fn counts(switches: f64, faults: f64) -> PerOp {
        PerOp { voluntary_switches: switches, minor_faults: faults, ..PerOp::default() }
    }

    #[test]
    fn a_round_trip_on_one_cpu_switches_about_once_per_hop() {
        let pipe = case("roundtrip/pipe/1/same-cpu", [0, 0]);
        assert_eq!(check(&pipe, &counts(2.0, 0.0), MANY), [] as [&str; 0]);
        let few = check(&pipe, &counts(0.66, 0.0), MANY);
        assert!(few[0].contains("0.33 context switches per hop"), "three loop turns per wake-up: {few:?}");
        let many = check(&pipe, &counts(4.0, 0.0), MANY);
        assert!(many[0].contains("2.00 context switches per hop"), "{many:?}");
        let large = case("roundtrip/pipe/1048576/same-cpu", [0, 0]);
        assert_eq!(check(&large, &counts(60.0, 0.0), MANY), [] as [&str; 0], "many pieces, many switches");
    }

    #[test]
    fn who_spins_does_not_switch() {
        let ring = case("roundtrip/ring-spin/1/two-cpus", [0, 1]);
        assert_eq!(check(&ring, &counts(0.001, 0.0), MANY), [] as [&str; 0]);
        assert!(check(&ring, &counts(0.5, 0.0), MANY)[0].contains("spin"));
    }

    #[test]
    fn touched_memory_does_not_fault_unless_messages_are_mapped() {
        let faults = counts(2.0, 1.0);
        assert!(
            check(&case("roundtrip/pipe/4096/same-cpu", [0, 0]), &faults, MANY)[0].contains("page faults")
        );
        assert_eq!(
            check(&case("roundtrip/memfd-pass/4096/same-cpu", [0, 0]), &faults, MANY),
            [] as [&str; 0]
        );
    }

    #[test]
    fn a_stray_fault_in_a_run_of_few_operations_is_none_of_theirs() {
        let large = case("roundtrip/pipe/4194304/two-cpus", [0, 1]);
        assert_eq!(check(&large, &counts(0.0, 0.05), 40.0), [] as [&str; 0]);
    }

    #[test]
    fn the_same_kernel_code_under_two_names_must_agree() {
        let id: CaseId = "roundtrip/fifo/1/same-cpu".parse().unwrap();
        let equivalent = equivalent_case(&id).unwrap();
        assert_eq!(equivalent.to_string(), "roundtrip/pipe/1/same-cpu");
        assert_eq!(disagree(&id, &equivalent, &[(100.0, 103.0); 6]), None);
        assert!(disagree(&id, &equivalent, &[(100.0, 130.0); 6]).unwrap().contains("1.30 times"));
        assert_eq!(disagree(&id, &equivalent, &[(100.0, 130.0); 5]), None, "no interval below six pairs");
        let shm: CaseId = "stream/ring-spin/1/two-cpus/backing=shm".parse().unwrap();
        assert_eq!(equivalent_case(&shm).unwrap().to_string(), "stream/ring-spin/1/two-cpus");
    }
}
