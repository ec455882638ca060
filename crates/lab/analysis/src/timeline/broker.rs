//! A broker's time by its system calls: receiving, dispatch, sending.
//!
//! A broker is in a call that receives, in one that sends, in one that waits, in another one, or in none: then it dispatches, which is
//! to parse, to match and to marshal. What counts is the time for which it has a CPU; who preempts it takes nothing from its parts.

use std::collections::BTreeMap;

use crate::timeline::subject::{Operation, Subject, span};
use crate::timeline::trace::{Event, Happened, Trace};

/// What a broker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// It receives.
    Receiving,
    /// It is in no call.
    Dispatch,
    /// It sends.
    Sending,
    /// It waits for something to do.
    Waiting,
    /// It is in another call.
    Other,
}

impl Part {
    /// The part that a system call belongs to.
    pub fn of_call(name: &str) -> Part {
        match name {
            "recvmsg" | "recvmmsg" | "recvfrom" | "read" | "readv" => Part::Receiving,
            "sendmsg" | "sendmmsg" | "sendto" | "write" | "writev" => Part::Sending,
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" | "poll" | "ppoll" | "select" | "pselect6"
            | "futex" => Part::Waiting,
            _ => Part::Other,
        }
    }
}

/// Time between events that follow each other, and how many such times: in each is what one event costs, half of it at either end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// All of it.
    pub ns: u64,
    /// How many.
    pub count: u64,
}

impl Spans {
    fn add(&mut self, ns: u64) {
        self.ns += ns;
        self.count += u64::from(ns > 0);
    }

    /// Nanoseconds of one operation, less what the events cost.
    pub fn of_one_ns(self, operations: u64, event_ns: f64) -> f64 {
        (self.ns as f64 - self.count as f64 * event_ns) / operations.max(1) as f64
    }
}

/// What a broker did in some operations: CPU time, and numbers of calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// Operations.
    pub operations: u64,
    /// What it was at.
    pub parts: BTreeMap<Part, Spans>,
    /// Calls that began, by name.
    pub calls: BTreeMap<&'static str, u64>,
}

impl Split {
    /// All parts.
    pub fn all(&self) -> Spans {
        let add = |all: Spans, part: &Spans| Spans { ns: all.ns + part.ns, count: all.count + part.count };
        self.parts.values().fold(Spans::default(), add)
    }

    fn add(&mut self, part: Part, ns: u64) {
        self.parts.entry(part).or_default().add(ns);
    }
}

/// What the kernel counts for others of an operation: see [`uncounted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// Operations.
    pub operations: u64,
    /// It took the CPU from the role.
    pub lacks: Spans,
    /// The role took the CPU so.
    pub has_more: Spans,
}

impl Uncounted {
    /// Nanoseconds of one operation, less what the events cost.
    pub fn of_one_ns(&self, event_ns: f64) -> f64 {
        let [lacks, has_more] =
            [self.lacks, self.has_more].map(|spans| spans.of_one_ns(self.operations, event_ns));
        lacks - has_more
    }
}

/// The time of the roles of kind `kind` over these operations, which follow each other. Nothing where their calls or some switches were not
/// recorded.
pub fn split(subject: &Subject, kind: &str, operations: &[Operation]) -> Option<Split> {
    let trace = subject.trace.as_ref()?;
    let (from_ns, to_ns) = span(operations);
    let follow = operations.windows(2).all(|pair| pair[0].ends_ns == pair[1].begins_ns);
    let roles = subject.roles.iter().filter(|role| role.kind == kind);
    let threads: Vec<u32> = roles.flat_map(|role| role.threads.iter().copied()).collect();
    let is_meant = |thread| threads.contains(&thread);
    let is_whole = follow && trace.missing_switches(from_ns, to_ns, is_meant).is_empty();
    if operations.is_empty() || !is_whole {
        return None;
    }
    let mut split = Split { operations: operations.len() as u64, ..Split::default() };
    threads.iter().for_each(|thread| of_thread(trace, *thread, (from_ns, to_ns), &mut split));
    (!split.calls.is_empty()).then_some(split)
}

/// The time from a wake-up by a role of this kind to the switch with which another thread takes the CPU from it, and the same from a wake-up
/// of the role to the switch to it.
///
/// A wake-up that preempts has the kernel read its clock, and the switch that follows goes by that reading: what passes between them is
/// counted for who is woken (`wakeup_preempt` and `RQCF_REQ_SKIP` in `kernel/sched` of Linux).
pub fn uncounted(subject: &Subject, kind: &str, operations: &[Operation]) -> Option<Uncounted> {
    let trace = subject.trace.as_ref().filter(|_| !operations.is_empty())?;
    let roles = subject.roles.iter().filter(|role| role.kind == kind);
    let threads: Vec<u32> = roles.flat_map(|role| role.threads.iter().copied()).collect();
    let (from_ns, to_ns) = span(operations);
    let mut found = Uncounted { operations: operations.len() as u64, ..Uncounted::default() };
    // By CPU: the spans since the latest wake-up, the last of them not over yet, and where that began.
    let mut since: BTreeMap<u32, (Spans, u64)> = BTreeMap::new();
    for Happened { at_ns, cpu, event } in trace.between(from_ns, to_ns) {
        if let Event::Waking { .. } = event {
            since.insert(*cpu, (Spans::default(), *at_ns));
        } else if let Some((spans, last_ns)) = since.get_mut(cpu) {
            spans.add(at_ns - *last_ns);
            *last_ns = *at_ns;
        }
        if let Event::Switch { from, is_runnable, to } = event {
            let woken = since.remove(cpu).filter(|_| *is_runnable && *from != 0);
            let Some((spans, _)) = woken else { continue };
            for (thread, sum) in [(from, &mut found.lacks), (to, &mut found.has_more)] {
                if threads.contains(thread) {
                    *sum = Spans { ns: sum.ns + spans.ns, count: sum.count + spans.count };
                }
            }
        }
    }
    Some(found)
}

fn of_thread(trace: &Trace, thread: u32, (from_ns, to_ns): (u64, u64), split: &mut Split) {
    // When it got its CPU, and in which part it is; unknown until the first event of each kind.
    let (mut runs_since_ns, mut part) = (None, None);
    for happened in &trace.events {
        let at_ns = happened.at_ns;
        let (runs, now) = match happened.event {
            Event::Switch { to, .. } if to == thread => (true, part),
            Event::Switch { from, .. } if from == thread => (false, part),
            Event::CallBegins(of, name) if of == thread => {
                if (from_ns..to_ns).contains(&at_ns) {
                    *split.calls.entry(name).or_default() += 1;
                }
                (true, Some(Part::of_call(name)))
            }
            Event::CallEnds(of) if of == thread => (true, Some(Part::Dispatch)),
            _ => continue,
        };
        if let (Some(since_ns), Some(part)) = (runs_since_ns, part) {
            split.add(part, at_ns.min(to_ns).saturating_sub(from_ns.max(since_ns)));
        }
        (runs_since_ns, part) = (runs.then_some(at_ns), now);
        if at_ns > to_ns {
            break;
        }
    }
}
