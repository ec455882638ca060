//! The parts of a case with measured prices, and the primitives that have them.

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_analysis::explain::{Direct, Formula, names};
use weighbridge_record::{CaseId, PerOp, SystemCalls};

use super::LEAST;
use crate::contract::Prepared;

/// Axes that the same mechanism to itself does not have.
const NOT_TO_ITSELF: [&str; 6] = ["time", "rate", "warm", "idle", "peers", "dose"];

pub(in crate::explain) struct Counts {
    pub(in crate::explain) per_op: BTreeMap<CaseId, PerOp>,
    pub(in crate::explain) calls: BTreeMap<CaseId, SystemCalls>,
    /// Why the system calls of a case were not counted.
    pub(in crate::explain) not_counted: BTreeMap<CaseId, String>,
    /// The same of cases that are in neither.
    pub(in crate::explain) otherwise: &'static str,
}

/// The same mechanism with both ends in one role.
pub(super) fn to_itself(case: &CaseId, payload_bytes: u64) -> CaseId {
    let placement = if case.placement == "free" { "free" } else { "same-cpu" };
    let mut id = CaseId::new("self", &case.mechanism, payload_bytes, placement);
    id.axes = case.axes.clone();
    id.axes.retain(|axis, _| !NOT_TO_ITSELF.contains(&axis.as_str()));
    id
}

pub(super) fn solo(op: &str, bytes: u64) -> CaseId {
    CaseId::new("solo", op, bytes, "same-cpu")
}

pub(in crate::explain) fn futex_wake() -> CaseId {
    solo("futex-wake", 0)
}

/// A hop of two processes that yield to each other, less a yield without another task.
pub(in crate::explain) fn switch() -> Formula {
    Formula::of(yields()).less(1.0, solo("sched-yield", 0))
}

pub(in crate::explain) fn cache_line(case: &CaseId) -> CaseId {
    CaseId::new("pingpong", "atomic", 0, &case.placement)
}

pub(super) fn yields() -> CaseId {
    CaseId::new("pingpong", "spin-yield", 0, "same-cpu")
}

/// Ways that the payload goes in a round trip.
pub(super) fn hops(case: &CaseId) -> f64 {
    if case.axes.get("direction").is_some_and(|direction| direction == "request") { 1.0 } else { 2.0 }
}

/// The parts with measured prices, as far as their prices were measured.
pub(super) fn parts(
    case: &Prepared,
    like: &CaseId,
    payload_bytes: u64,
    counts: &Counts,
    measured: &BTreeSet<&CaseId>,
    remarks: &mut Vec<String>,
) -> Vec<Direct> {
    let id = &case.params.id;
    let own = to_itself(id, payload_bytes);
    let (entry, copy) = (solo("getppid", 0), solo("memcpy", payload_bytes));
    let mut parts: Vec<Direct> = Vec::new();
    let mut add = |name, of: Option<String>, about: &str, count: f64, price: Formula| {
        if count > LEAST {
            parts.push(Direct { name, of, about: about.into(), count, price });
        }
    };
    let calls_to_itself = counts.calls.get(&to_itself(id, id.payload_bytes));
    let has_entry = measured.contains(&entry);
    let calls = calls_to_itself.filter(|_| has_entry).map_or(0.0, |calls| calls.per_op);
    let copies = if measured.contains(&copy) { f64::from(case.target.copies()) * hops(id) } else { 0.0 };
    // Rates of memory operations are costs of a byte.
    let bytes = payload_bytes as f64;
    let size = if payload_bytes == 1 { "1 byte".to_owned() } else { format!("{payload_bytes} bytes") };
    add(names::SYSTEM_CALLS, None, "a trivial system call: solo/getppid", calls, Formula::of(entry.clone()));
    add(
        names::COPIES,
        Some(size.clone()),
        "one copy of the payload between two buffers that are used again: solo/memcpy",
        copies,
        Formula::times(bytes, copy.clone()),
    );
    if measured.contains(&own) {
        let mut price = Formula::of(own.clone());
        if calls > LEAST {
            price = price.less(calls, entry.clone());
        }
        if copies > LEAST {
            price = price.less(copies * bytes, copy);
        }
        let axes: String = own.axes.iter().map(|(name, value)| format!(", {name}={value}")).collect();
        let of = format!("{}, {size}{axes}", id.mechanism);
        let about =
            format!("the round trip of one role with both ends, {own}, less its system calls and copies");
        add(names::OWN_WORK, Some(of), &about, 1.0, price);
    } else {
        remarks.push(format!(
            "what the mechanism does itself was not measured ({own}); it is in the unexplained part"
        ));
    }
    let further = counts.calls.get(like).zip(calls_to_itself).map(|(all, own)| more_calls(all, own));
    let (futexes, others) = further.filter(|_| has_entry).unwrap_or((0.0, 0.0));
    if measured.contains(&futex_wake()) {
        let about = "FUTEX_WAKE of a word on which no thread sleeps: solo/futex-wake";
        add(names::FUTEX_CALLS, None, about, futexes, Formula::of(futex_wake()));
    }
    let about = "calls that the mechanism to itself does not make, as a trivial system call: solo/getppid";
    add(names::FURTHER_CALLS, None, about, others, Formula::of(entry));
    let of_case = |case: &CaseId| counts.per_op.get(case).cloned().unwrap_or_default();
    let (per_op, per_op_own) = (of_case(like), of_case(&own));
    if measured.contains(&yields()) && measured.contains(&solo("sched-yield", 0)) {
        let switches = per_op.voluntary_switches + per_op.involuntary_switches;
        let about = "a hop of two processes that yield to each other on one CPU, pingpong/spin-yield, less a yield without another task, solo/sched-yield";
        add(names::SWITCHES, None, about, switches, switch());
    }
    if measured.contains(&solo("first-touch", 0)) {
        let faults = per_op.minor_faults - per_op_own.minor_faults;
        let about = "the first write to a page of anonymous memory, with its share of giving 64 pages back: solo/first-touch";
        add(names::PAGE_FAULTS, None, about, faults, Formula::of(solo("first-touch", 0)));
    }
    if measured.contains(&cache_line(id)) {
        let about = "a word from one CPU to the other, where both read it all the time: pingpong/atomic";
        add(names::CACHE_LINES, None, about, 2.0, Formula::of(cache_line(id)));
    }
    parts
}

/// Calls beyond those that the mechanism makes to itself: of `futex`, and of all other names.
fn more_calls(all: &SystemCalls, own: &SystemCalls) -> (f64, f64) {
    let by_name = |calls: &SystemCalls| {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for (name, count) in calls.roles.iter().flat_map(|role| &role.calls) {
            *sums.entry(name.clone()).or_default() += count;
        }
        sums
    };
    let own = by_name(own);
    by_name(all).into_iter().fold((0.0, 0.0), |(futex, others), (name, count)| {
        let more = (count - own.get(&name).copied().unwrap_or(0.0)).max(0.0);
        if name == "futex" { (futex + more, others) } else { (futex, others + more) }
    })
}
