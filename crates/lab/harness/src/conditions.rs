//! What a case says is what was run: each role tells where it ran and how, and a run whose roles differ from its case is void.
//!
//! Checked here are conditions, not counts ([`counter_check`](crate::counter_check) judges those): the CPU of each role before and after the
//! timed part, processes or threads, policy and nice value, operations that were reported but not counted, CPU time for which the reported
//! time has no room, and roles that stay awake although they are said to wait in the kernel.
//!
//! # The CPU law
//!
//! A role cannot use more CPU time for an operation than the operation takes, and roles that share a CPU cannot do so together. The kernel
//! counts the CPU time and each role its own operations, so figures that are too good because time is missing or operations were counted
//! twice break the law as soon as the roles are busy. It is looked at where roles count the operations of each sample: batches that all
//! roles do one by one, the slices of streams, and of a stream alone its receiver; the windows of concurrent roles begin and end in each
//! role at another time. Of a stream the messages that arrived are also compared with those that its sender counts.

use std::collections::BTreeSet;

use crate::axis::{self, Peers, Wait};
use crate::contract::{Caps, Prepared};
use crate::coordinator::Measured;
use crate::ctx::{Time, Whereabouts};
use crate::peer::RoleReport;
use crate::shared::Sample;

/// The step of a run that is void because it is not what its case says.
pub const STEP: &str = "conditions";

/// The step of a run that is void because CPU time was withheld.
pub const THROTTLED: &str = "throttled";

/// CPU time that a control group withheld during a run, which makes it void: the kernel stops every role of a throttled group.
pub fn throttled(case: &Prepared, measured: &Measured) -> Option<String> {
    let throttling = measured.noise.throttling.filter(|throttling| throttling.periods > 0)?;
    let (periods, ms) = (throttling.periods, throttling.ns as f64 / 1e6);
    let why = "the control group of this program was throttled in";
    (case.target.time() != Time::Virtual)
        .then(|| format!("{why} {periods} periods, for {ms:.1} ms; give it more CPU time (cpu.max)"))
}

/// Why a run has no number, with the step in which that was seen.
pub fn void(case: &Prepared, measured: &Measured) -> Option<(&'static str, String)> {
    if let Some(why) = throttled(case, measured) {
        return Some((THROTTLED, format!("the run is void: {why}")));
    }
    match &violations(case, measured)[..] {
        [] => None,
        found => Some((STEP, format!("the run is void: {}", found.join("; ")))),
    }
}

/// Everything in which a run differs from what its case says, a sentence each. Any of it makes the run void.
pub fn violations(case: &Prepared, measured: &Measured) -> Vec<String> {
    let mut found = Vec::new();
    let names = case.role_names();
    for report in &measured.roles {
        let name = names[report.role];
        found.extend(misplaced(case, report, name));
        found.extend(mislabeled(case, report, name));
    }
    found.extend([not_apart, uncounted, unsent, overspent, awake].iter().filter_map(|of| of(case, measured)));
    found
}

/// A pinned role that may run elsewhere, or does.
fn misplaced(case: &Prepared, report: &RoleReport, name: &str) -> Option<String> {
    let cpu = *case.params.cpus.get(report.role)?;
    let strays = |at: &&Whereabouts| at.allowed != [cpu] || at.cpu != cpu;
    let at = report.counted.whereabouts.iter().find(strays)?;
    Some(format!("{name} ran on CPU {} and may run on {:?}; its case says CPU {cpu}", at.cpu, at.allowed))
}

/// Axes that endpoints read back from the kernel under the same name.
const READ_BACK: [&str; 1] = ["nodelay"];

/// Policy, nice value, or a socket's option, read back from the kernel.
fn mislabeled(case: &Prepared, report: &RoleReport, name: &str) -> Option<String> {
    let differs = |axis: &&str| {
        let (is, wanted) = (report.facts.get(*axis)?, case.params.axes.get(*axis)?);
        (is != wanted).then(|| format!("{name} has {axis} {is}; its case says {axis}={wanted}"))
    };
    let of_role = |(fact, axis): (&str, &str)| {
        let wanted = axis::of_role(case.params.axis(axis), report.role);
        // The kernel's policy is written with a colon where an axis, which a colon would divide by roles, has a dash.
        let is = report.facts.get(fact)?.replace(':', "-");
        (is != wanted).then(|| format!("{name} has {fact} {is}; its case says {axis}={wanted}"))
    };
    READ_BACK
        .iter()
        .find_map(differs)
        .or_else(|| [("nice", "nice"), ("policy", "sched")].into_iter().find_map(of_role))
}

/// Threads where the case says processes, or the other way round.
fn not_apart(case: &Prepared, measured: &Measured) -> Option<String> {
    let processes: BTreeSet<u32> = measured.roles.iter().map(|report| report.process).collect();
    let (roles, processes) = (measured.roles.len(), processes.len());
    let said = match case.params.choice() {
        Peers::Process if processes < roles => "one process each",
        Peers::Thread if processes > 1 => "threads of one",
        _ => return None,
    };
    Some(format!("{roles} roles ran in {processes} processes; the case says {said}"))
}

/// Samples with more operations than the leading role has counted.
fn uncounted(case: &Prepared, measured: &Measured) -> Option<String> {
    if case.pattern.is_symmetric || case.target.time() == Time::Virtual {
        return None;
    }
    let sampled: u64 = measured.samples.iter().map(|sample| sample.ops).sum();
    let counted = measured.roles.iter().map(|report| report.counted.ops).max()?;
    if sampled > counted {
        return Some(format!("the samples have {sampled} operations, of which only {counted} were counted"));
    }
    let names = case.role_names();
    let differs = |report: &&RoleReport| ![0, sampled].contains(&report.counted.sampled.ops);
    let report = measured.roles.iter().find(differs)?;
    let (name, ops) = (names[report.role], report.counted.sampled.ops);
    Some(format!("the samples have {sampled} operations, of which {name} has counted {ops}"))
}

/// Bytes, or messages of at most 32 bytes, that the buffers of a stream may hold when its sender begins to count.
const IN_FLIGHT_BYTES: u64 = 4 << 20;

/// More messages of a stream arrived than its sender says it sent.
fn unsent(case: &Prepared, measured: &Measured) -> Option<String> {
    let [sender, receiver] = &measured.roles[..] else { return None };
    if case.pattern.id != "stream"
        || case.target.time() == Time::Virtual
        || case.target.caps.has(Caps::HARNESS)
    {
        return None;
    }
    let (sent, received) = (sender.counted.ops, receiver.counted.ops);
    let in_flight = IN_FLIGHT_BYTES / (case.params.payload_bytes as u64).max(32) + 1;
    (received as f64 > sent as f64 * (1.0 + CLOCKS_DIFFER_BY) + in_flight as f64).then(|| {
        format!("the receiver has counted {received} messages, of which the sender has counted only {sent}")
    })
}

/// What the clocks of CPU time and of elapsed time may differ by.
const CLOCKS_DIFFER_BY: f64 = 0.03;
/// What reading the counters costs beside each sample: some system calls.
const READINGS_NS: u64 = 20_000;

/// What a set of samples took, where every role that does anything has counted them one by one.
struct Spent {
    ops: f64,
    elapsed_ns: f64,
    /// What is beside the samples, which may count as CPU time in them.
    beside_ns: f64,
}

impl Spent {
    fn of(case: &Prepared, measured: &Measured) -> Option<Spent> {
        // In an open loop a sample is the sum of what requests took, which overlap.
        let is_open_loop = case.params.axes.get("rate").is_some_and(|rate| rate != axis::DEFAULT);
        let is_sampled = measured.roles.iter().any(|report| report.counted.sampled.ops > 0);
        if is_open_loop || !is_sampled || case.target.time() == Time::Virtual {
            return None;
        }
        let raw_ns = |sample: &Sample| if sample.extra > 0 { sample.extra } else { sample.elapsed_ns };
        let gaps_ns: u64 = measured.roles.iter().map(|report| report.counted.sampled.gaps_ns).sum();
        Some(Spent {
            ops: measured.samples.iter().map(|sample| sample.ops).sum::<u64>() as f64,
            elapsed_ns: measured.samples.iter().map(raw_ns).sum::<u64>() as f64,
            beside_ns: (gaps_ns + measured.samples.len() as u64 * READINGS_NS) as f64,
        })
    }

    /// The CPU time for which there is room, in nanoseconds per operation.
    fn room_ns(&self) -> f64 {
        (self.elapsed_ns * (1.0 + CLOCKS_DIFFER_BY) + self.beside_ns) / self.ops
    }

    fn ns_per_op(&self) -> f64 {
        self.elapsed_ns / self.ops
    }
}

/// CPU time of a role for each operation that it has counted.
fn cpu_ns_per_op(report: &RoleReport) -> f64 {
    let sampled = report.counted.sampled;
    if sampled.ops == 0 { 0.0 } else { sampled.cpu_ns as f64 / sampled.ops as f64 }
}

/// The CPU law.
fn overspent(case: &Prepared, measured: &Measured) -> Option<String> {
    let spent = Spent::of(case, measured)?;
    let names = case.role_names();
    let over = |who: &str, cpu_ns: f64, why: &str| {
        let op_ns = spent.ns_per_op();
        let said = format!("for an operation that is said to take {op_ns:.0} ns{why}");
        (cpu_ns > spent.room_ns()).then(|| format!("{who} used {cpu_ns:.0} ns of CPU time {said}"))
    };
    let each = |report: &RoleReport| over(names[report.role], cpu_ns_per_op(report), "");
    measured.roles.iter().find_map(each).or_else(|| {
        let all_ns = measured.roles.iter().map(cpu_ns_per_op).sum();
        over("all roles together", all_ns, ", on one CPU").filter(|_| case.params.same_cpu())
    })
}

/// Below so many voluntary switches an operation, no role has waited in the kernel.
const NEVER: f64 = 0.01;
/// From this share of the time on, a CPU is busy.
const BUSY: f64 = 0.9;
/// Fewer operations than this may by chance have found everything ready.
const ENOUGH_OPS: f64 = 100.0;

/// Roles that keep their CPUs although the case says that they wait in the kernel: one of two that answer each other has
/// nothing to do while the other one works.
fn awake(case: &Prepared, measured: &Measured) -> Option<String> {
    let waits_in_kernel = matches!(case.params.wait, Wait::Block | Wait::Poll | Wait::Epoll | Wait::Uring);
    let takes_turns = ["roundtrip", "pingpong"].contains(&case.pattern.id);
    if !waits_in_kernel || !takes_turns || case.target.caps.has(Caps::HARNESS) {
        return None;
    }
    let spent = Spent::of(case, measured).filter(|spent| spent.ops >= ENOUGH_OPS)?;
    let switches_of = |report: &RoleReport| {
        report.counted.task.voluntary_switches as f64 / report.counted.ops.max(1) as f64
    };
    let switches: f64 = measured.roles.iter().map(switches_of).sum();
    let cpu_ns: f64 = measured.roles.iter().map(cpu_ns_per_op).sum();
    let cpus = if case.params.same_cpu() { 1.0 } else { measured.roles.len() as f64 };
    (switches < NEVER && cpu_ns > BUSY * cpus * spent.ns_per_op()).then(|| {
        format!(
            "{switches:.3} voluntary context switches per operation and busy CPUs: the roles did not wait in the kernel; the \
             case says wait={}",
            case.params.wait.name()
        )
    })
}
