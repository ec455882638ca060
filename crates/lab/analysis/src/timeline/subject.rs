//! What was observed: roles with their threads and marks, and what the kernel recorded meanwhile.

use std::collections::BTreeMap;

use weighbridge_record::MissingSwitches;

use crate::timeline::trace::{Event, Happened, Trace};

/// What happens at a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A message begins.
    WriteBegins,
    /// It is written.
    Written,
    /// A message is asked for.
    WaitBegins,
    /// It is read.
    Read,
}

/// What a role notes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Time of `CLOCK_MONOTONIC`.
    pub at_ns: u64,
    /// What happens.
    pub point: Point,
    /// Which message of its sender; nothing where that is not known.
    pub number: Option<u64>,
}

/// A process that takes part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Its name, unique among the roles.
    pub name: String,
    /// What it has in common with roles that do the same: phases are named by it.
    pub kind: String,
    /// Ids of its threads.
    pub threads: Vec<u32>,
    /// What it noted, in the order of time. Empty for a process that notes nothing, such as a broker.
    pub marks: Vec<Mark>,
}

/// From the beginning of one message of the leading role to that of its next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When it begins.
    pub begins_ns: u64,
    /// When the next begins.
    pub ends_ns: u64,
}

/// A message, from the role that wrote it to one that read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which of its sender.
    pub number: u64,
    /// Index of the sender.
    pub from: usize,
    /// Index of the reader.
    pub to: usize,
    /// When it began.
    pub begins_ns: u64,
    /// When the call that sent it returned.
    pub written_ns: Option<u64>,
    /// When it was read.
    pub read_ns: u64,
}

/// What was observed.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The processes that take part.
    pub roles: Vec<Role>,
    /// What the kernel recorded, where it was allowed.
    pub trace: Option<Trace>,
    /// CPUs that the roles may run on and that were not recorded: what happens there is missing from the trace.
    pub unrecorded_cpus: Vec<u32>,
    /// Names of messages, where they have other names than their numbers.
    pub message_names: BTreeMap<u64, String>,
}

/// Most operations that are looked at.
const MOST_OPERATIONS: usize = 500;

impl Subject {
    /// The latest operations of which everything is known: none before the trace begins, none that events are missing of. The first role
    /// that writes leads.
    pub fn operations(&self) -> Vec<Operation> {
        let writes = |role: &Role| -> Vec<u64> {
            role.marks.iter().filter(|mark| mark.point == Point::WriteBegins).map(|mark| mark.at_ns).collect()
        };
        let begins = self.roles.iter().map(writes).find(|writes| !writes.is_empty()).unwrap_or_default();
        // What the rings still have of every role, and the trace of every CPU.
        let firsts = self.roles.iter().filter_map(|role| role.marks.first()).map(|mark| mark.at_ns);
        let lasts = self.roles.iter().filter_map(|role| role.marks.last()).map(|mark| mark.at_ns);
        let traced = self.trace.iter().flat_map(|trace| trace.known_from_ns.values().copied());
        let (from_ns, to_ns) = (firsts.chain(traced).max().unwrap_or(0), lasts.min().unwrap_or(0));
        let is_known = |of: &Operation| {
            let gaps = self.trace.iter().flat_map(|trace| &trace.gaps);
            of.begins_ns >= from_ns
                && of.ends_ns <= to_ns
                && gaps.into_iter().all(|gap| gap.to_ns < of.begins_ns || gap.from_ns > of.ends_ns)
        };
        let mut known: Vec<Operation> = begins
            .windows(2)
            .map(|pair| Operation { begins_ns: pair[0], ends_ns: pair[1] })
            .filter(is_known)
            .collect();
        known.drain(..known.len().saturating_sub(MOST_OPERATIONS));
        known
    }

    /// The messages that began in this time, by the time of their beginning, then of their arrival.
    pub fn messages(&self, from_ns: u64, to_ns: u64) -> Vec<Message> {
        let mut sent: BTreeMap<u64, Vec<(usize, u64, Option<u64>)>> = BTreeMap::new();
        for (from, role) in self.roles.iter().enumerate() {
            let first = role.marks.partition_point(|mark| mark.at_ns < from_ns);
            for (index, mark) in role.marks.iter().enumerate().skip(first) {
                if mark.at_ns > to_ns {
                    break;
                }
                let (Point::WriteBegins, Some(number)) = (mark.point, mark.number) else { continue };
                let written = role.marks[index..]
                    .iter()
                    .find(|of| of.point == Point::Written && of.number == mark.number);
                sent.entry(number).or_default().push((from, mark.at_ns, written.map(|mark| mark.at_ns)));
            }
        }
        let mut messages = Vec::new();
        for (to, role) in self.roles.iter().enumerate() {
            let first = role.marks.partition_point(|mark| mark.at_ns < from_ns);
            for mark in &role.marks[first..] {
                let (Point::Read, Some(number)) = (mark.point, mark.number) else { continue };
                let senders = sent.get(&number).into_iter().flatten();
                let sender = senders.filter(|(from, begins_ns, _)| *from != to && *begins_ns <= mark.at_ns);
                messages.extend(sender.map(|(from, begins_ns, written_ns)| Message {
                    number,
                    from: *from,
                    to,
                    begins_ns: *begins_ns,
                    written_ns: *written_ns,
                    read_ns: mark.at_ns,
                }));
            }
        }
        messages.sort_by_key(|message| (message.begins_ns, message.read_ns));
        messages
    }

    /// What a message is called.
    pub fn message_name(&self, number: u64) -> String {
        self.message_names.get(&number).cloned().unwrap_or_else(|| format!("message {number}"))
    }

    /// The role that a thread belongs to.
    pub fn role_of(&self, thread: u32) -> Option<usize> {
        self.roles.iter().position(|role| role.threads.contains(&thread))
    }

    /// What a thread is called: its role, or its own name.
    pub fn thread_name(&self, thread: u32) -> String {
        let own = || self.trace.as_ref().and_then(|trace| trace.names.get(&thread)).cloned();
        match self.role_of(thread) {
            Some(role) => self.roles[role].name.clone(),
            None if thread == 0 => "idle".into(),
            None => own().unwrap_or_else(|| format!("thread {thread}")),
        }
    }

    /// Is this a switch from or to one of the roles?
    pub fn is_own_switch(&self, happened: &Happened) -> bool {
        match &happened.event {
            Event::Switch { from, to, .. } => {
                [from, to].iter().any(|thread| self.role_of(**thread).is_some())
            }
            _ => false,
        }
    }

    /// The CPUs on which the kernel did not record all switches to and from the roles in this time.
    pub fn missing_switches(&self, from_ns: u64, to_ns: u64) -> Vec<MissingSwitches> {
        let is_role = |thread| self.role_of(thread).is_some();
        self.trace.as_ref().map_or(Vec::new(), |trace| trace.missing_switches(from_ns, to_ns, is_role))
    }

    fn has_all_switches(&self, operations: &[Operation]) -> bool {
        let (from_ns, to_ns) = span(operations);
        self.unrecorded_cpus.is_empty() && self.missing_switches(from_ns, to_ns).is_empty()
    }

    /// Context switches from or to the roles for each of the operations, where the kernel recorded all of them on all CPUs of the roles.
    pub fn switches_per_operation(&self, operations: &[Operation]) -> Option<f64> {
        self.trace.as_ref().filter(|_| !operations.is_empty() && self.has_all_switches(operations))?;
        Some(self.own_switches(operations).count() as f64 / operations.len() as f64)
    }

    /// How often a role of each kind lost the CPU in an operation although it could have gone on, where all of it was recorded.
    pub fn preempted_per_operation(&self, operations: &[Operation]) -> BTreeMap<String, f64> {
        let mut preempted = BTreeMap::new();
        if !self.has_all_switches(operations) {
            return preempted;
        }
        for happened in self.own_switches(operations) {
            if let Event::Switch { from, is_runnable: true, .. } = happened.event
                && let Some(role) = self.role_of(from)
            {
                *preempted.entry(self.roles[role].kind.clone()).or_default() += 1.0 / operations.len() as f64;
            }
        }
        preempted
    }

    /// The switches of [`preempted_per_operation`](Subject::preempted_per_operation) of all roles, by what took the CPU: `wake-up`, `tick` or `other`.
    pub fn preempted_by(&self, operations: &[Operation]) -> BTreeMap<String, f64> {
        let mut by = BTreeMap::new();
        let Some(trace) = self.trace.as_ref().filter(|_| self.has_all_switches(operations)) else {
            return by;
        };
        for happened in self.own_switches(operations) {
            if let Event::Switch { from, is_runnable: true, .. } = happened.event
                && self.role_of(from).is_some()
            {
                *by.entry(trace.cause(happened).into()).or_default() += 1.0 / operations.len() as f64;
            }
        }
        by
    }

    fn own_switches<'s>(&'s self, operations: &'s [Operation]) -> impl Iterator<Item = &'s Happened> {
        let in_operation = |at_ns: u64| {
            let next = operations.partition_point(|of| of.begins_ns <= at_ns);
            next > 0 && at_ns < operations[next - 1].ends_ns
        };
        let (from_ns, to_ns) = span(operations);
        let events = self.trace.iter().flat_map(move |trace| trace.between(from_ns, to_ns));
        events.filter(move |of| self.is_own_switch(of) && in_operation(of.at_ns))
    }
}

/// From the beginning of the first operation to the end of the last; no time at all where there are none.
pub(crate) fn span(operations: &[Operation]) -> (u64, u64) {
    operations.first().zip(operations.last()).map_or((1, 0), |(a, b)| (a.begins_ns, b.ends_ns))
}
