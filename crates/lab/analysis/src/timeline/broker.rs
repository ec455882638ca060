//! A broker's time by its system calls: receiving, dispatch, sending.
//!
//! A broker is in a call that receives, in one that sends, in one that waits, in another one, or in none: then it dispatches, which is
//! to parse, to match and to marshal. What counts is the time for which it has a CPU; who preempts it takes nothing from its parts.

use std::collections::BTreeMap;

use crate::timeline::subject::{Operation, Subject, span};
use crate::timeline::trace::{Event, Trace};

/// What a broker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What a broker did in some operations: nanoseconds of CPU time, and numbers of calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// Operations.
    pub operations: u64,
    /// In calls that receive.
    pub receiving_ns: u64,
    /// In no call.
    pub dispatch_ns: u64,
    /// In calls that send.
    pub sending_ns: u64,
    /// In calls that wait, while it has a CPU.
    pub waiting_ns: u64,
    /// In other calls.
    pub other_calls_ns: u64,
    /// Calls that began, by name.
    pub calls: BTreeMap<&'static str, u64>,
}

impl Split {
    fn add(&mut self, part: Part, ns: u64) {
        let of = match part {
            Part::Receiving => &mut self.receiving_ns,
            Part::Dispatch => &mut self.dispatch_ns,
            Part::Sending => &mut self.sending_ns,
            Part::Waiting => &mut self.waiting_ns,
            Part::Other => &mut self.other_calls_ns,
        };
        *of += ns;
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
