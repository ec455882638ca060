//! Shape checks: what the counters of a case must look like, whatever its time is.
//!
//! A violation does not delete a number. It stands beside it and says why the number may not mean what its name says.

use weighbridge_record::{CaseId, PerOp, Run};
use weighbridge_stats as stats;

use crate::contract::Caps;
use crate::link::{Touch, Wait};
use crate::subject::Prepared;

/// Up to this size a message crosses every mechanism in one piece.
const ONE_PIECE_BYTES: usize = 4096;

/// What is odd about the counts of a case. The harness itself has no shape; everybody else knows their own.
pub fn check(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    match case.subject.caps.has(Caps::HARNESS) {
        true => Vec::new(),
        false => (case.subject.shape)(case, per_op),
    }
}

/// What is odd about the counts of two ends that exchange messages.
pub fn of_messages(case: &Prepared, per_op: &PerOp) -> Vec<String> {
    let caps = case.subject.caps;
    let link = &case.link;
    let mut odd = Vec::new();
    let switches = per_op.voluntary_switches + per_op.involuntary_switches;
    if case.pattern.id == "roundtrip" && link.same_cpu() && link.wait != Wait::Spin {
        let per_hop = switches / 2.0;
        let is_one_piece = link.payload_bytes <= ONE_PIECE_BYTES;
        if per_hop < 0.9 {
            odd.push(format!(
                "{per_hop:.2} context switches per hop on one CPU; a round trip needs one for each hop"
            ));
        } else if per_hop > 1.5 && is_one_piece {
            odd.push(format!(
                "{per_hop:.2} context switches per hop on one CPU, where one suffices: \
                 the scheduler runs the sender again before the receiver, or the receiver is woken for nothing"
            ));
        }
    }
    if link.wait == Wait::Spin {
        odd.extend(blocked(switches));
    }
    if !caps.has(Caps::MAPS) {
        odd.extend(faulted(per_op.minor_faults));
    }
    odd
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
    /// Neither.
    pub const ALL: Quiet = Quiet { switches: true, faults: true };

    /// What is odd about the counts of an operation that takes so many page faults, where that is known.
    pub fn check(self, per_op: &PerOp, faults: Option<f64>) -> Vec<String> {
        let mut odd = Vec::new();
        if self.switches && per_op.voluntary_switches > 0.001 {
            odd.push(format!(
                "{:.3} voluntary context switches per operation, which has nothing to wait for",
                per_op.voluntary_switches
            ));
        }
        match faults {
            Some(0.0) if self.faults => odd.extend(faulted(per_op.minor_faults)),
            Some(faults) if self.faults && !(0.9..1.1).contains(&(per_op.minor_faults / faults)) => {
                odd.push(format!(
                    "{:.3} page faults per operation, where {faults:.3} belong to it",
                    per_op.minor_faults
                ));
            }
            _ => {}
        }
        odd
    }
}

/// Faults on memory that was touched before anything was timed.
pub fn faulted(faults: f64) -> Option<String> {
    (faults > 0.001)
        .then(|| format!("{faults:.3} page faults per operation although all memory was touched before"))
}

/// What is odd about one run. `copy_bytes_per_s` is what a plain memory copy reached in the receiver, where that was tried.
pub fn flags(case: &Prepared, run: &Run, copy_bytes_per_s: Option<f64>) -> Vec<String> {
    let mut flags = Vec::new();
    if let Some(switches @ 1..) = run.noise.coordinator_switches {
        flags.push(format!("shape: the coordinator woke {switches} times in the timed part"));
    }
    if case.pattern.id != "stream" {
        return flags;
    }
    let (sent, received) = (&run.roles[0], &run.roles[1]);
    if case.subject.caps.has(Caps::LOSSY) && sent.ops > 0 {
        // The sender begins and ends to count a chunk away from the receiver, so a small surplus is no loss.
        let lost = 1.0 - received.ops as f64 / sent.ops as f64;
        if lost > 0.02 {
            flags.push(format!("lost: {:.1} % of the messages offered", lost * 100.0));
        }
    }
    if let (Some(copy_rate), Touch::All) = (copy_bytes_per_s, case.link.touch)
        && case.link.payload_bytes > 0
        && run.value > 1.1 * copy_rate
    {
        flags.push(format!(
            "shape: {:.2} GB/s is more than 1.1 times the {:.2} GB/s of a memory copy of this size in the receiver",
            run.value / 1e9,
            copy_rate / 1e9
        ));
    }
    flags
}

/// Do two cases differ that are the same kernel code under two names? `pairs` are their values in the same rounds.
pub fn twins(of: &CaseId, twin: &CaseId, pairs: &[(f64, f64)]) -> Option<String> {
    let ratio = stats::paired_ratio(pairs, 0.95);
    let interval = ratio.interval?;
    let disagree = interval.low > 1.1 || interval.high < 1.0 / 1.1;
    disagree.then(|| {
        format!(
            "{} is the same code in the kernel as {twin}, but gives {:.2} times its value (interval {:.2}–{:.2})",
            of.variant(),
            ratio.median,
            interval.low,
            interval.high
        )
    })
}

/// The case that must agree with this one, if there is such a case.
pub fn twin_of(case: &CaseId) -> Option<CaseId> {
    let mut twin = case.clone();
    if case.mechanism == "fifo" {
        twin.mechanism = "pipe".into();
        return Some(twin);
    }
    if twin.axes.get("backing").is_some_and(|backing| backing == "shm") {
        twin.axes.remove("backing");
        return Some(twin);
    }
    None
}
