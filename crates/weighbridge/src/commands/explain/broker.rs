//! A broker's time by its system calls, and what it costs to look at them.
//!
//! A round is two marked runs: in one the beginnings and ends of the broker's calls are recorded, and who runs. Which is first changes from
//! round to round. Marks are of the roles; the broker knows nothing of them.

use std::collections::BTreeSet;

use weighbridge_analysis::timeline::Subject;
use weighbridge_analysis::timeline::broker::{Part, Split, Uncounted, split, uncounted};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::{Coordinator, Measured, Outcome, PeerStart};
use weighbridge_record::{BrokerTime, looking_ratio};
use weighbridge_stats::order::median;

use super::timeline::{BROKER, subject};
use crate::commands::recording::{Recording, What};

/// Programs whose calls are recorded, by the names of their threads.
pub const BROKERS: &[&str] = &["dbus-daemon", "dbus-broker", "busd", "causewayd"];

/// The fewest with which a median has an interval, and one that may fail.
const ROUNDS: usize = 7;

/// What came of looking.
pub enum Looked {
    /// Its time.
    At(BrokerTime),
    /// Nothing, and why, where that is worth a word: a case without a broker has none.
    Nothing(Option<String>),
    /// By the user.
    Interrupted,
}

/// Looks at the broker of a case, if `seen` has one whose calls could be recorded.
pub fn look(case: &Prepared, seen: &Subject, coordinator: &mut Coordinator<'_>, cpus: &[u32]) -> Looked {
    let has_broker = seen.trace.is_some() && seen.roles.iter().any(|role| role.kind == BROKER);
    if !has_broker {
        return Looked::Nothing(None);
    }
    let names = names(seen);
    let mut rounds: Vec<(Split, f64, f64)> = Vec::new();
    let mut reason = None;
    for round in 0..ROUNDS {
        let (mut with, mut without) = (None, None);
        for is_looked_at in [round % 2 == 0, round % 2 == 1] {
            let run = if is_looked_at {
                looked_at(case, &names, coordinator, cpus).map(|run| with = Some(run))
            } else {
                alone(case, coordinator).map(|run| without = Some(run))
            };
            match run {
                Ok(()) => {}
                Err(None) => return Looked::Interrupted,
                Err(Some(why)) => reason = Some(why),
            }
        }
        if let (Some((split, with_ns)), Some(without_ns)) = (with, without) {
            rounds.push((split, with_ns, without_ns));
        }
    }
    match time(&rounds, uncounted(seen, BROKER, &seen.operations())) {
        Some(time) => Looked::At(time),
        None => Looked::Nothing(Some(format!(
            "what the broker does is not known: {}",
            reason.unwrap_or_else(|| "no run was recorded whole".into())
        ))),
    }
}

/// The names of the broker's threads. Each more that the kernel compares makes each call of every program dearer.
fn names(seen: &Subject) -> Vec<&str> {
    let of_broker = seen.roles.iter().filter(|role| role.kind == BROKER).flat_map(|role| &role.threads);
    let of_thread = |thread| seen.trace.as_ref()?.names.get(thread).map(String::as_str);
    let mut names: Vec<&str> =
        of_broker.filter_map(of_thread).filter(|name| BROKERS.contains(name)).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() { BROKERS.to_vec() } else { names }
}

/// A run with the calls recorded: what they say, and the CPU time of an operation. No reason is given where the user ended it.
fn looked_at(
    case: &Prepared,
    names: &[&str],
    coordinator: &mut Coordinator<'_>,
    cpus: &[u32],
) -> Result<(Split, f64), Option<String>> {
    let recording = Recording::begin(cpus, What { calls_of: names, is_brief: true }).map_err(Some)?;
    let measured = marked(case, coordinator)?;
    let trace = Some(recording.end().map_err(Some)?);
    let subject = Subject { trace, ..subject(case, &measured) };
    let split = split(&subject, BROKER, &subject.operations());
    let split =
        split.ok_or_else(|| Some("its system calls, or some of its switches, were not recorded".into()))?;
    Ok((split, cpu_ns(&measured)?))
}

/// A run without.
fn alone(case: &Prepared, coordinator: &mut Coordinator<'_>) -> Result<f64, Option<String>> {
    cpu_ns(&*marked(case, coordinator)?)
}

fn marked(case: &Prepared, coordinator: &mut Coordinator<'_>) -> Result<Box<Measured>, Option<String>> {
    match coordinator.run_marked(case, &PeerStart::default()) {
        Outcome::Measured(measured) => Ok(measured),
        Outcome::Failed { why, .. } => Err(Some(why)),
        Outcome::Interrupted => Err(None),
    }
}

/// The CPU time of the broker for an operation, as the kernel counts it.
fn cpu_ns(measured: &Measured) -> Result<f64, Option<String>> {
    measured.beside_ns().map(|(_, ns)| ns).ok_or_else(|| Some("its CPU time is not counted".to_owned()))
}

/// The middle of the rounds. What looking costs is taken off: it is the same at each event.
fn time(rounds: &[(Split, f64, f64)], uncounted: Option<Uncounted>) -> Option<BrokerTime> {
    if rounds.is_empty() {
        return None;
    }
    let middle = |of: &dyn Fn(&(Split, f64, f64)) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
    let names: BTreeSet<&'static str> =
        rounds.iter().flat_map(|(split, ..)| split.calls.keys().copied()).collect();
    let calls = names.into_iter().map(|name| {
        let count = |(split, ..): &(Split, f64, f64)| {
            split.calls.get(name).copied().unwrap_or(0) as f64 / split.operations as f64
        };
        (name.to_owned(), middle(&count))
    });
    let looking_ns = middle(&|(_, with_ns, without_ns)| with_ns - without_ns).max(0.0);
    let events = middle(&|(split, ..)| split.all().count as f64 / split.operations as f64);
    let event_ns = looking_ns / events.max(1.0);
    let part = |part: Part| {
        let of = |(split, ..): &(Split, f64, f64)| {
            let spans = split.parts.get(&part).copied().unwrap_or_default();
            spans.of_one_ns(split.operations, event_ns)
        };
        middle(&of).max(0.0)
    };
    let pairs: Vec<(f64, f64)> =
        rounds.iter().map(|(_, with_ns, without_ns)| (*without_ns, *with_ns)).collect();
    Some(BrokerTime {
        rounds: rounds.len() as u64,
        receiving_ns: part(Part::Receiving),
        dispatch_ns: part(Part::Dispatch),
        sending_ns: part(Part::Sending),
        waiting_ns: part(Part::Waiting),
        other_calls_ns: part(Part::Other),
        counted_ns: middle(&|(_, _, without_ns)| *without_ns),
        // No system call divides it.
        matching_ns: None,
        uncounted_ns: uncounted.map(|of| of.of_one_ns(event_ns)),
        looking_ratio: looking_ratio(&pairs)?,
        calls: calls.collect(),
    })
}

#[cfg(test)]
mod tests {
    use weighbridge_analysis::timeline::broker::Spans;

    use super::*;

    /// A call of 1,000 ns and 2,000 ns of dispatch, each with 50 ns of what an event costs at both of its ends.
    #[test]
    fn what_looking_costs_is_taken_off_where_it_was_spent() {
        let spans = |ns, count| Spans { ns, count };
        let split = Split {
            operations: 10,
            parts: [(Part::Receiving, spans(11_000, 10)), (Part::Dispatch, spans(21_000, 10))].into(),
            calls: [("recvmsg", 10)].into(),
        };
        let rounds: Vec<_> = (0..7).map(|_| (split.clone(), 3200.0, 3000.0)).collect();
        let uncounted = Uncounted { operations: 100, lacks: spans(30_000, 100), has_more: spans(0, 0) };
        let time = time(&rounds, Some(uncounted)).unwrap();
        assert_eq!((time.receiving_ns, time.dispatch_ns, time.sending_ns), (1000.0, 2000.0, 0.0));
        assert_eq!((time.sum_ns(), time.counted_ns), (3000.0, 3000.0));
        assert_eq!(time.calls["recvmsg"], 1.0);
        assert_eq!((time.uncounted_ns, time.expected_ns()), (Some(200.0), 3200.0));
    }
}
