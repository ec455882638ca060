//! One run: where its roles ran and how, what they counted of it, and the CPU time for which there is room.
//!
//! # The CPU law
//!
//! A role cannot use more CPU time for an operation than the operation takes, and roles that share a CPU cannot do so together. The kernel
//! counts the CPU time and each role its own operations, so figures that are too good because time is missing or operations were counted
//! twice break the law as soon as the roles are busy. It is looked at where roles count the operations of each sample: batches that all
//! roles do one by one, the slices of streams, and of a stream alone its receiver; the windows of concurrent roles begin and end in each
//! role at another time.

use std::collections::BTreeSet;

use weighbridge_stats::load;

use super::found::{CONDITIONS, DEFECT, Found, MECHANISM};
use crate::{Case, Machine, Paced, RoleCounters, Run};

pub(super) fn check(case: &Case, run: &Run, machine: Option<&Machine>, found: &mut Found) {
    placement(case, run, machine, found);
    placed(case, run, found);
    settings(case, run, found);
    processes(case, run, found);
    if case.has("virtual-time") != Some(true) {
        counted(case, run, found);
        due(case, run, found);
        cpu(case, run, found);
        awake(case, run, found);
    }
}

/// The roles of the case: an auxiliary process is counted beside them.
fn own<'a>(case: &'a Case, run: &'a Run) -> &'a [RoleCounters] {
    &run.roles[..run.roles.len().min(case.roles.len())]
}

fn same_cpu(case: &Case) -> bool {
    case.cpus.first().is_some_and(|first| case.cpus.iter().all(|cpu| cpu == first))
}

/// CPUs that stand to each other as the placement says.
fn placement(case: &Case, run: &Run, machine: Option<&Machine>, found: &mut Found) {
    for cpus in [&case.cpus].into_iter().chain(&case.places) {
        if !stands(case, cpus, run, machine, found) {
            return;
        }
    }
}

/// Do these CPUs of the roles stand so, as far as that is known?
fn stands(case: &Case, of_roles: &[u32], run: &Run, machine: Option<&Machine>, found: &mut Found) -> bool {
    const LAW: &str = "placement";
    let cpus: BTreeSet<u32> = of_roles.iter().copied().collect();
    let (place, roles) = (case.resolved_placement.as_str(), case.roles.len());
    let expected = match place {
        "free" if cpus.is_empty() => return true,
        "free" => "no CPU of its own for any role",
        "same-cpu" if cpus.len() == 1 => return true,
        "same-cpu" => "one CPU for all roles",
        "spread" => return true,
        _ if roles < 2 => return true,
        _ if cpus.len() < 2 => "two CPUs",
        _ => {
            let other = of_roles.iter().find(|cpu| Some(*cpu) != of_roles.first());
            let of = |cpu: &u32| machine?.cpus.iter().find(|of| of.cpu == *cpu);
            let Some((a, b)) = of_roles.first().and_then(of).zip(other.and_then(of)) else {
                found.not_run(LAW, "the topology of its CPUs");
                return true;
            };
            let same_core = (a.package, a.core) == (b.package, b.core);
            let (is_so, expected) = match place {
                "smt" => (same_core, "two threads of one core"),
                "same-llc" => (!same_core && a.llc == b.llc, "two cores with one last-level cache"),
                "cross-llc" => (a.llc != b.llc && a.node == b.node, "two last-level caches of one node"),
                "cross-node" => (a.node != b.node, "two nodes"),
                _ => return true,
            };
            if is_so {
                return true;
            }
            expected
        }
    };
    let said = format!("{place} on CPUs {of_roles:?}");
    found.broken(LAW, &run.case, said, expected, DEFECT);
    false
}

/// Pinned roles, those of the hub too, that may run elsewhere or do.
fn placed(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "placed";
    let of_hub = run.slices.as_ref().map_or(&[][..], |slices| &slices.hub_roles);
    let roles = own(case, run);
    if roles.iter().any(|role| role.whereabouts.is_empty()) {
        // A role that never came to count has none; then none of them was told.
        if roles.iter().all(|role| role.whereabouts.is_empty()) {
            found.not_run(LAW, "where its roles ran");
        }
    } else if run.slices.is_some() && of_hub.is_empty() {
        found.not_run(LAW, "where the roles of its hub ran");
    }
    for (role, whose) in
        roles.iter().zip(std::iter::repeat("")).chain(of_hub.iter().zip(std::iter::repeat("its hub's ")))
    {
        let Some(cpu) = role.cpu else {
            let [first, .., last] = &role.whereabouts[..] else { continue };
            if first.allowed != last.allowed {
                let said = format!(
                    "{whose}{} might run on CPUs {} at first and on {} at last",
                    role.role, first.allowed, last.allowed
                );
                return found.broken(LAW, &run.case, said, "the same CPUs to its end", CONDITIONS);
            }
            continue;
        };
        let strays = |at: &&crate::Whereabouts| at.allowed != cpu.to_string() || at.cpu != cpu;
        if let Some(at) = role.whereabouts.iter().find(strays) {
            let said = format!("{whose}{} ran on CPU {} and may run on {}", role.role, at.cpu, at.allowed);
            return found.broken(LAW, &run.case, said, format!("its case says CPU {cpu}"), CONDITIONS);
        }
    }
    let planned: Vec<u32> = roles.iter().filter_map(|role| role.cpu).collect();
    let mut places = case.places.iter().chain([&case.cpus]);
    if !planned.is_empty() && !places.any(|cpus| cpus[..cpus.len().min(planned.len())] == planned) {
        let said = format!("its roles are said to be on CPUs {planned:?}");
        found.broken(LAW, &run.case, said, format!("those of the case, {:?}", case.cpus), DEFECT);
    }
}

/// How a fact that is read back from the kernel answers to its axis.
#[derive(Clone, Copy)]
enum ReadBack {
    /// It is the same.
    Same,
    /// The kernel may give more than was asked for.
    OrMore,
    /// The axis has a value for each role.
    OfRole,
}

/// An axis, and the fact by which an endpoint or the harness reads it back.
const READ_BACK: [(&str, &str, ReadBack); 7] = [
    ("metadata", "metadata", ReadBack::Same),
    ("nodelay", "nodelay", ReadBack::Same),
    ("pipe-size", "pipe_bytes", ReadBack::OrMore),
    ("sndbuf", "sndbuf_bytes", ReadBack::OrMore),
    ("rcvbuf", "rcvbuf_bytes", ReadBack::OrMore),
    ("nice", "nice", ReadBack::OfRole),
    ("sched", "policy", ReadBack::OfRole),
];

/// The value of an axis that is set for all roles or for each: the last one given holds for the rest.
fn of_role(value: &str, role: usize) -> &str {
    value.split(':').nth(role).or_else(|| value.split(':').next_back()).unwrap_or(value)
}

/// Names of the facts that [`RoleCounters::settings`] keeps.
pub fn is_read_back(fact: &str) -> bool {
    READ_BACK.iter().any(|(_, known, _)| *known == fact)
}

/// Policy, nice value, sizes and options, read back from the kernel.
fn settings(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "settings";
    let roles = own(case, run);
    if !roles.is_empty() && roles.iter().all(|role| role.settings.is_empty()) {
        return found.not_run(LAW, "what its roles read back");
    }
    for (index, role) in roles.iter().enumerate() {
        for (axis, fact, how) in READ_BACK {
            let (Some(is), Some(wanted)) = (role.settings.get(fact), case.axes.get(axis)) else { continue };
            let number = |text: &str| text.parse::<u64>().ok();
            // The kernel's policy is written with a colon where an axis, which a colon would divide by roles, has a dash.
            let (is, wanted) = match how {
                ReadBack::OfRole => (is.replace(':', "-"), of_role(wanted, index)),
                _ => (is.clone(), wanted.as_str()),
            };
            let is_met = match number(&is).zip(number(wanted)) {
                Some((is, wanted)) if matches!(how, ReadBack::OrMore) => is >= wanted,
                _ => is == wanted || wanted == "default",
            };
            if !is_met {
                let way_out = if matches!(how, ReadBack::OfRole) { CONDITIONS } else { MECHANISM };
                let said = format!("{} has {fact} {is}", role.role);
                return found.broken(LAW, &run.case, said, format!("its case says {axis}={wanted}"), way_out);
            }
        }
    }
}

/// Threads where the case says processes, or the other way round.
fn processes(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "processes";
    let roles = own(case, run);
    let known: BTreeSet<u32> = roles.iter().filter_map(|role| role.process).collect();
    if known.is_empty() {
        return found.not_run(LAW, "the processes of its roles");
    }
    let (count, processes) = (roles.len(), known.len());
    let expected = match case.axes.get("peers").map(String::as_str) {
        Some("process") if processes < count => "its case says one process each",
        Some("thread") if processes > 1 => "its case says threads of one",
        _ => return,
    };
    found.broken(LAW, &run.case, format!("{count} roles ran in {processes} processes"), expected, DEFECT);
}

/// Samples with operations that no role has counted, or not every one that counts them one by one.
fn counted(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "counted";
    let (Some(total), Some(is_symmetric)) = (run.sampled_total, case.has("symmetric")) else {
        return found.not_run(LAW, "the operations of its samples");
    };
    let roles = own(case, run);
    let Some(most) = roles.iter().map(|role| role.ops).max().filter(|_| !is_symmetric) else { return };
    let sampled = total.ops;
    if sampled > most {
        let said = format!("the samples have {sampled} operations, of which only {most} were counted");
        return found.broken(LAW, &run.case, said, "none that was not counted", DEFECT);
    }
    for role in roles {
        let Some(own) = role.sampled.filter(|own| own.ops != sampled) else { continue };
        let said =
            format!("the samples have {sampled} operations, of which {} has counted {}", role.role, own.ops);
        return found.broken(LAW, &run.case, said, "as many in every role", DEFECT);
    }
}

/// Operations a second that the case asks for, where it has a rate.
pub(super) fn asked_per_s(case: &Case) -> Option<f64> {
    case.axes.get("rate")?.parse().ok()
}

/// More operations in the time of the samples than can have been due in it. Where roles do not count them one by one, in the intervals
/// of a reader, what was due before may arrive late in them.
fn due(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "due";
    let Some(asked) = asked_per_s(case) else { return };
    let Some(Paced { operations, wall_ns }) = run.paced else {
        return found.not_run(LAW, "how many operations were due in which time");
    };
    let counts_each = own(case, run).iter().any(|role| role.sampled.is_some());
    if counts_each && load::is_more_than_due(asked, operations, wall_ns) {
        let held = load::per_second(operations, wall_ns);
        let said =
            format!("{operations} operations were done in the time of its samples, {held:.0} a second");
        found.broken(LAW, &run.case, said, format!("no more than were due, {asked} a second"), DEFECT);
    }
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
    fn of(case: &Case, run: &Run) -> Option<Spent> {
        let total = run.sampled_total.filter(|total| total.ops > 0)?;
        // In an open loop a sample is the sum of what operations took, which overlap; there the time that passed is told apart.
        let elapsed_ns = match asked_per_s(case) {
            None => total.elapsed_ns,
            Some(_) => run.paced?.wall_ns,
        };
        let by_roles = || own(case, run).iter().filter_map(|role| role.sampled);
        by_roles().next()?;
        let gaps_ns = by_roles().fold(0u64, |sum, sampled| sum.saturating_add(sampled.gaps_ns));
        Some(Spent {
            ops: total.ops as f64,
            elapsed_ns: elapsed_ns as f64,
            beside_ns: gaps_ns as f64 + total.samples as f64 * READINGS_NS as f64,
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
fn cpu_ns_per_op(role: &RoleCounters) -> f64 {
    role.sampled.filter(|of| of.ops > 0).map_or(0.0, |of| of.cpu_ns as f64 / of.ops as f64)
}

/// The CPU law.
fn cpu(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "cpu-time";
    if run.sampled_total.is_none() {
        return found.not_run(LAW, "how long its samples took");
    }
    let Some(spent) = Spent::of(case, run) else { return };
    let roles = own(case, run);
    let over = |who: &str, cpu_ns: f64, why: &str| {
        let said = format!(
            "{who} used {cpu_ns:.0} ns of CPU time for an operation that is said to take {:.0} ns{why}",
            spent.ns_per_op()
        );
        (cpu_ns > spent.room_ns()).then_some(said)
    };
    let each = roles.iter().find_map(|role| over(&role.role, cpu_ns_per_op(role), ""));
    let said = each.or_else(|| {
        let all_ns = roles.iter().map(cpu_ns_per_op).sum();
        over("all roles together", all_ns, ", on one CPU").filter(|_| same_cpu(case))
    });
    if let Some(said) = said {
        found.broken(LAW, &run.case, said, "no more CPU time than time", DEFECT);
    }
}

/// Below so many voluntary switches an operation, no role has waited in the kernel.
const NEVER: f64 = 0.01;
/// From this share of the time on, a CPU is busy.
const BUSY: f64 = 0.9;
/// Fewer operations than this may by chance have found everything ready.
const ENOUGH_OPS: f64 = 100.0;
/// Of a stream alone, so many bytes: more than all buffers on the way hold, many times.
const MANY_BYTES: u64 = 64 << 20;
/// Slices of a stream after which its receiver has certainly once been there before its sender.
const MANY_SLICES: u64 = 5;

/// Of two that stream, those of whom one surely had to wait; none where that cannot be told.
///
/// On one CPU one of them fills or empties whatever lies between while the other does not run. So it does where each message is a call into
/// the kernel, whose buffers are small. On two CPUs a ring or a log holds what two sides that are equally fast differ by, and neither
/// waits. There it can be told only in turns: the receiver is there before its sender has been woken, in each slice anew. It must have
/// had its CPU, because one that another program keeps from it comes late.
fn one_must_sleep<'a>(
    case: &Case,
    roles: &'a [RoleCounters],
    spent: &Spent,
    is_in_turns: bool,
) -> &'a [RoleCounters] {
    let by_calls = case.facts.contains_key(super::bytes::MOVED_BY);
    match roles {
        _ if same_cpu(case) || by_calls => roles,
        // Positions are not told in records of receivers that came to their messages late.
        [_, receiver] if is_in_turns && !case.cpus.is_empty() && receiver.position.is_some() => {
            let is_busy = cpu_ns_per_op(receiver) > BUSY * spent.ns_per_op();
            if is_busy { &roles[1..] } else { &[] }
        }
        _ => &[],
    }
}

/// Roles that keep their CPUs although the case says that they wait in the kernel. One of two that answer each other has nothing to do
/// while the other one works; of two that stream, the faster one waits for the other.
fn awake(case: &Case, run: &Run, found: &mut Found) {
    const LAW: &str = "sleeps";
    let wait = case.axes.get("wait").map_or("", String::as_str);
    if !["block", "poll", "epoll", "uring"].contains(&wait) {
        return;
    }
    let [Some(is_harness), Some(is_lossy)] = ["harness", "lossy"].map(|name| case.has(name)) else {
        return found.not_run(LAW, "the traits of its target");
    };
    let roles = own(case, run);
    let Some(spent) = Spent::of(case, run).filter(|spent| spent.ops >= ENOUGH_OPS && !is_harness) else {
        return;
    };
    let expected = format!("roles that wait in the kernel, as its case says: wait={wait}");
    if ["roundtrip", "pingpong"].contains(&case.pattern.as_str()) {
        let switches: f64 = roles.iter().map(|role| role.per_op.voluntary_switches).sum();
        let cpu_ns: f64 = roles.iter().map(cpu_ns_per_op).sum();
        let cpus = if same_cpu(case) { 1.0 } else { roles.len() as f64 };
        if switches < NEVER && cpu_ns > BUSY * cpus * spent.ns_per_op() {
            let said = format!(
                "{switches:.3} voluntary context switches per operation and busy CPUs: the roles did not wait in the kernel"
            );
            found.broken(LAW, &run.case, said, expected, MECHANISM);
        }
    } else if case.pattern == "stream" && !is_lossy {
        let is_in_turns = roles.iter().any(|role| role.sampled.is_some_and(|sampled| sampled.gaps_ns > 0));
        let total = run.sampled_total.unwrap_or_default();
        let is_long = if is_in_turns { total.samples >= MANY_SLICES } else { total.bytes >= MANY_BYTES };
        let one_of = one_must_sleep(case, roles, &spent, is_in_turns);
        let switches: f64 = one_of.iter().map(|role| role.per_op.voluntary_switches * role.ops as f64).sum();
        if is_long && !one_of.is_empty() && switches < 0.5 {
            let names: Vec<&str> = one_of.iter().map(|role| role.role.as_str()).collect();
            let said = format!("not one voluntary context switch of {}", names.join(" and "));
            found.broken(LAW, &run.case, said, expected, MECHANISM);
        }
    }
}
