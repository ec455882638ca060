//! The phases of an operation: from the beginning of a message over the wake-up and the switch to its arrival, and back.
//!
//! The parts of a round trip follow each other without a gap, so their sum is the operation. A message to many is divided at its first and
//! its last arrival. Where a role spins, or the kernel's events are missing, a hop is one part. Messages one way overlap, and what roles
//! spend in calls is not all of an operation: such parts have no share of it.

use std::collections::BTreeMap;

use weighbridge_record::{Phase, Timeline};
use weighbridge_stats::order::quantile;

use crate::timeline::subject::{Message, Operation, Point, Subject, span};
use crate::timeline::trace::{Event, Happened};

/// Phases in fewer than this part of the operations are added up as one.
const RARE: f64 = 0.05;
const RARE_NAME: &str = "rare phases";

/// A role that had to get a CPU on the way of a message.
#[derive(Clone, Copy, Debug)]
struct Stage {
    role: usize,
    /// When and by which thread it was woken. Nothing where it had been preempted or had yielded, and had only to get the CPU again.
    woken: Option<(u64, u32)>,
    runs_ns: u64,
    cpu: u32,
    /// The thread that gave it the CPU, and whether that could have gone on: it was preempted, or it yielded.
    after: u32,
    is_after_runnable: bool,
}

/// A phase over all operations: its lengths, and the sum of its distances from the beginning of the operation.
#[derive(Default)]
struct Found {
    all_ns: Vec<f64>,
    since_ns: u64,
}

/// The figures of a time line, without its picture.
pub fn figures(subject: &Subject, operations: &[Operation]) -> Timeline {
    let quantiles = |values: &[f64]| [0.1, 0.5, 0.9].map(|p| quantile(values, p));
    let lengths: Vec<f64> = operations.iter().map(|of| (of.ends_ns - of.begins_ns) as f64).collect();
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    // Operations whose parts follow each other from its beginning to its end.
    let mut divided = 0;
    for operation in operations {
        let mut since_ns = 0;
        for (name, ns) in divide(subject, *operation) {
            let of = found.entry(name).or_default();
            of.all_ns.push(ns as f64);
            of.since_ns += since_ns;
            since_ns += ns;
        }
        divided += usize::from(since_ns == operation.ends_ns - operation.begins_ns);
    }
    let is_rare = |of: &Found| (of.all_ns.len() as f64) < RARE * operations.len() as f64;
    let (rare, usual): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, of)| is_rare(of));
    let mut usual: Vec<(String, Found)> = usual;
    usual.sort_by_key(|(_, of)| of.since_ns / of.all_ns.len() as u64);
    let rare: Vec<f64> = rare.into_iter().flat_map(|(_, of)| of.all_ns).collect();
    usual.extend((!rare.is_empty()).then(|| (RARE_NAME.to_owned(), Found { all_ns: rare, since_ns: 0 })));
    let total_ns: f64 = lengths.iter().sum();
    let (from_ns, to_ns) = span(operations);
    let has_shares = divided as f64 >= (1.0 - RARE) * operations.len() as f64;
    let phase = |(phase, Found { all_ns, .. }): (String, Found)| Phase {
        phase,
        count: all_ns.len() as u64,
        phase_ns: quantiles(&all_ns),
        share: has_shares.then(|| all_ns.iter().sum::<f64>() / total_ns.max(1.0)),
    };
    Timeline {
        operations: operations.len() as u64,
        operation_ns: if lengths.is_empty() { [0.0; 3] } else { quantiles(&lengths) },
        switches_per_operation: subject.switches_per_operation(operations),
        preempted_per_operation: subject.preempted_per_operation(operations),
        preempted_by: subject.preempted_by(operations),
        phases: usual.into_iter().map(phase).collect(),
        unrecorded_cpus: subject.unrecorded_cpus.clone(),
        missing_switches: subject.missing_switches(from_ns, to_ns),
        lost_events: subject.trace.as_ref().map_or(0, crate::timeline::Trace::lost),
        ..Timeline::default()
    }
}

/// The parts of one operation with their nanoseconds, in the order of time.
pub fn divide(subject: &Subject, operation: Operation) -> Vec<(String, u64)> {
    let Operation { begins_ns, ends_ns } = operation;
    let messages = subject.messages(begins_ns, ends_ns - 1);
    let Some(request) = messages.first().copied() else { return spans(subject, operation) };
    let lead = &subject.roles[request.from].kind;
    let reply = messages.iter().find(|of| of.from == request.to && of.to == request.from);
    if let Some(reply) = reply.filter(|reply| reply.begins_ns >= request.read_ns && reply.read_ns <= ends_ns)
    {
        let other = &subject.roles[request.to].kind;
        let mut parts = hop(subject, &request);
        parts.push((format!("{other}: from its read to its write"), reply.begins_ns - request.read_ns));
        parts.extend(hop(subject, reply));
        parts.push((format!("{lead}: from its read to its next write"), ends_ns - reply.read_ns));
        return parts;
    }
    let of_request = messages.iter().filter(|of| (of.from, of.number) == (request.from, request.number));
    let reads: Vec<u64> = of_request.map(|of| of.read_ns).collect();
    let last_ns = reads.iter().copied().max().unwrap_or(request.read_ns);
    if reads.len() > 1 && last_ns <= ends_ns {
        let mut parts = hop(subject, &request);
        let after = format!("{lead}: from the last read to its next write");
        parts.push((
            format!("from the first of {} reads to the last", reads.len()),
            last_ns - request.read_ns,
        ));
        parts.push((after, ends_ns - last_ns));
        return parts;
    }
    // One way: messages overlap, so this is the way of one of them.
    let written_ns = request.written_ns.unwrap_or(request.begins_ns).min(request.read_ns);
    let other = &subject.roles[request.to].kind;
    vec![
        (format!("{lead} writes"), written_ns - request.begins_ns),
        (format!("from written to read by {other}"), request.read_ns - written_ns),
    ]
}

/// Where messages have no numbers: what each role spends in writing and in waiting.
fn spans(subject: &Subject, operation: Operation) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    for role in &subject.roles {
        let first = role.marks.partition_point(|mark| mark.at_ns < operation.begins_ns);
        let end = role.marks.partition_point(|mark| mark.at_ns < operation.ends_ns);
        for pair in role.marks[first..end].windows(2) {
            let what = match (pair[0].point, pair[1].point) {
                (Point::WriteBegins, Point::Written) => "writes",
                (Point::WaitBegins, Point::Read) => "waits and reads",
                (Point::Read, Point::Read) => "reads",
                _ => continue,
            };
            parts.push((format!("{} {what}", role.kind), pair[1].at_ns - pair[0].at_ns));
        }
    }
    parts
}

/// The way of a message, over the roles that had to get a CPU for it.
fn hop(subject: &Subject, message: &Message) -> Vec<(String, u64)> {
    let named = |role: usize| subject.roles[role].kind.as_str();
    let way = way(subject, message);
    if way.is_empty() {
        let name = format!("{} writes, {} reads", named(message.from), named(message.to));
        return vec![(name, message.read_ns - message.begins_ns)];
    }
    let mut parts = Vec::new();
    let mut runner = message.from;
    let mut since_ns = message.begins_ns;
    for stage in &way {
        let does = if since_ns == message.begins_ns { "writes" } else { "runs" };
        let name = named(stage.role);
        match stage.woken {
            Some((woken_ns, _)) => {
                parts.push((format!("{} {does}, until {name} is woken", named(runner)), woken_ns - since_ns));
                parts.extend(until_it_runs(subject, stage, woken_ns));
            }
            None => {
                // It could have gone on when it lost the CPU, and waits only for the other one to leave.
                let blocks_ns = asks_next(subject, runner, since_ns, stage.runs_ns).unwrap_or(since_ns);
                let first =
                    (format!("{} {does}, {name} is ready already", named(runner)), blocks_ns - since_ns);
                parts.extend((blocks_ns > since_ns).then_some(first));
                let leaves = if stage.is_after_runnable { "is preempted or yields" } else { "blocks" };
                let switch = format!("{} {leaves}, switch to {name}", named(runner));
                parts.push((switch, stage.runs_ns - blocks_ns));
            }
        }
        (runner, since_ns) = (stage.role, stage.runs_ns);
    }
    parts.push((format!("{} runs, until the message is read", named(runner)), message.read_ns - since_ns));
    parts
}

/// When a role asks for its next message in this time.
fn asks_next(subject: &Subject, role: usize, from_ns: u64, to_ns: u64) -> Option<u64> {
    let marks = &subject.roles[role].marks;
    let first = marks.partition_point(|mark| mark.at_ns < from_ns);
    let waits = marks[first..].iter().find(|mark| mark.point == Point::WaitBegins)?;
    Some(waits.at_ns).filter(|at_ns| *at_ns <= to_ns)
}

/// From the wake-up of a role until it runs: what the waking role does until it gives up the CPU, or what an idle CPU takes.
fn until_it_runs(subject: &Subject, stage: &Stage, woken_ns: u64) -> Vec<(String, u64)> {
    let name = &subject.roles[stage.role].kind;
    let (begins_ns, ends_ns) = (woken_ns, stage.runs_ns);
    let split = |at_ns: u64, first: String, second: String| {
        vec![(first, at_ns - begins_ns), (second, ends_ns - at_ns)]
    };
    let whole = |words: String| vec![(words, ends_ns - begins_ns)];
    if let Some(waker) = subject.role_of(stage.after) {
        let of = &subject.roles[waker].kind;
        if stage.is_after_runnable {
            return whole(format!("{name} is woken, {of} is preempted or yields"));
        }
        let is_waker = stage.woken.is_some_and(|(_, by)| by == stage.after);
        if let Some(at_ns) = asks_next(subject, waker, begins_ns, ends_ns).filter(|_| is_waker) {
            return split(
                at_ns,
                format!("{of} returns from its write"),
                format!("{of} blocks, switch to {name}"),
            );
        }
    }
    let trace = subject.trace.as_ref().expect("a role is seen to be woken in a trace");
    let leaves_idle = |of: &&Happened| of.cpu == stage.cpu && of.event == Event::Idle(None);
    match trace.between(begins_ns, ends_ns).iter().rfind(leaves_idle) {
        Some(idle) => split(
            idle.at_ns,
            format!("{name} is woken, its CPU leaves idle"),
            format!("switch from idle to {name}"),
        ),
        None => whole(format!("{name} is woken, until it runs")),
    }
}

/// The roles that got a CPU on the way of a message, in the order of time: the reader was woken by another one, or had the CPU from it, and that
/// one by another …
fn way(subject: &Subject, message: &Message) -> Vec<Stage> {
    /// More than a message through a broker has.
    const LONGEST: usize = 6;
    let Some(trace) = &subject.trace else { return Vec::new() };
    let (mut role, mut end_ns) = (message.to, message.read_ns);
    let mut way = Vec::new();
    while way.len() < LONGEST {
        let Some(stage) = stage(subject, role, trace.between(message.begins_ns, end_ns)) else { break };
        way.push(stage);
        let (from, at_ns) = stage.woken.map_or((stage.after, stage.runs_ns), |(at_ns, by)| (by, at_ns));
        match subject.role_of(from) {
            Some(earlier) if earlier != message.from => (role, end_ns) = (earlier, at_ns),
            _ => break,
        }
    }
    way.reverse();
    way
}

/// How a role got the CPU that it has at the end of these events: by its last wake-up, or else by the last switch to it.
fn stage(subject: &Subject, role: usize, events: &[Happened]) -> Option<Stage> {
    let threads = &subject.roles[role].threads;
    let wakes = events.iter().enumerate().rev().find_map(|(index, of)| match of.event {
        Event::Waking { by, woken } if threads.contains(&woken) => Some((index, (of.at_ns, by))),
        _ => None,
    });
    let switch = |of: &Happened| match of.event {
        Event::Switch { from, is_runnable, to } if threads.contains(&to) => Some(Stage {
            role,
            woken: wakes.map(|(_, woken)| woken),
            runs_ns: of.at_ns,
            cpu: of.cpu,
            after: from,
            is_after_runnable: is_runnable,
        }),
        _ => None,
    };
    match wakes {
        Some((index, _)) => events[index..].iter().find_map(switch),
        None => events.iter().rev().find_map(switch),
    }
}
