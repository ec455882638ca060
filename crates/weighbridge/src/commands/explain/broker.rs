//! A broker's time by its system calls, and what it costs to look at them.
//!
//! A round is two marked runs: in one the beginnings and ends of the broker's calls are recorded, and who runs. Which is first changes from
//! round to round. Marks are of the roles; the broker knows nothing of them.

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_analysis::timeline::Subject;
use weighbridge_analysis::timeline::broker::{Part, Split, split};
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::{Coordinator, Measured, Outcome, PeerStart};
use weighbridge_record::BrokerTime;
use weighbridge_stats::compare::CONFIDENCE;
use weighbridge_stats::median_interval;
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
    let mut rounds: Vec<(Split, f64, f64)> = Vec::new();
    let mut reason = None;
    for round in 0..ROUNDS {
        let (mut with, mut without) = (None, None);
        for is_looked_at in [round % 2 == 0, round % 2 == 1] {
            let run = if is_looked_at {
                looked_at(case, coordinator, cpus).map(|run| with = Some(run))
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
    match time(&rounds) {
        Some(time) => Looked::At(time),
        None => Looked::Nothing(Some(format!(
            "what the broker does is not known: {}",
            reason.unwrap_or_else(|| "no run was recorded whole".into())
        ))),
    }
}

/// A run with the calls recorded: what they say, and the CPU time of an operation. No reason is given where the user ended it.
fn looked_at(
    case: &Prepared,
    coordinator: &mut Coordinator<'_>,
    cpus: &[u32],
) -> Result<(Split, f64), Option<String>> {
    let recording = Recording::begin(cpus, What { calls_of: BROKERS, is_brief: true }).map_err(Some)?;
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
    let of = measured.roles.iter().find_map(|role| Some((role.counted.beside.as_ref()?.1, role.counted.ops)));
    let (beside, ops) =
        of.filter(|(_, ops)| *ops > 0).ok_or_else(|| Some("its CPU time is not counted".to_owned()))?;
    Ok(beside.cpu_ns as f64 / ops as f64)
}

/// The middle of the rounds. What looking costs is taken off: it is the same at each event, of which a call has two, half of each inside of it.
fn time(rounds: &[(Split, f64, f64)]) -> Option<BrokerTime> {
    if rounds.is_empty() {
        return None;
    }
    let middle = |of: &dyn Fn(&(Split, f64, f64)) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
    let per_op = |count: u64, split: &Split| count as f64 / split.operations as f64;
    let names: BTreeSet<&'static str> =
        rounds.iter().flat_map(|(split, ..)| split.calls.keys().copied()).collect();
    let calls: BTreeMap<String, f64> = names
        .into_iter()
        .map(|name| {
            let count =
                |(split, ..): &(Split, f64, f64)| per_op(split.calls.get(name).copied().unwrap_or(0), split);
            (name.to_owned(), middle(&count))
        })
        .collect();
    let all_calls: f64 = calls.values().sum();
    // Half of it inside of a call, half outside.
    let looking_ns = middle(&|(_, with_ns, without_ns)| with_ns - without_ns).max(0.0);
    let of_call_ns = looking_ns / 2.0 / all_calls.max(1.0);
    let part = |part: Part, of: fn(&Split) -> u64| {
        let in_part = |(name, _): &(&String, &f64)| Part::of_call(name) == part;
        let count: f64 = match part {
            Part::Dispatch => all_calls,
            _ => calls.iter().filter(in_part).map(|(_, count)| count).sum(),
        };
        (middle(&|(split, ..)| per_op(of(split), split)) - count * of_call_ns).max(0.0)
    };
    let ratios: Vec<f64> = rounds.iter().map(|(_, with_ns, without_ns)| with_ns / without_ns).collect();
    let ratio = median(&ratios);
    let (low, high) = median_interval(&ratios, CONFIDENCE).map_or((ratio, ratio), |of| (of.low, of.high));
    Some(BrokerTime {
        rounds: rounds.len() as u64,
        receiving_ns: part(Part::Receiving, |split| split.receiving_ns),
        dispatch_ns: part(Part::Dispatch, |split| split.dispatch_ns),
        sending_ns: part(Part::Sending, |split| split.sending_ns),
        waiting_ns: part(Part::Waiting, |split| split.waiting_ns),
        other_calls_ns: part(Part::Other, |split| split.other_calls_ns),
        counted_ns: middle(&|(_, _, without_ns)| *without_ns),
        // No system call divides it.
        matching_ns: None,
        looking_ratio: [ratio, low, high],
        calls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of 1,000 ns and 2,000 ns of dispatch, each with 50 ns of what an event costs at both of its ends.
    #[test]
    fn what_looking_costs_is_taken_off_where_it_was_spent() {
        let split = Split {
            operations: 10,
            receiving_ns: 11_000,
            dispatch_ns: 21_000,
            calls: [("recvmsg", 10)].into(),
            ..Split::default()
        };
        let rounds: Vec<_> = (0..7).map(|_| (split.clone(), 3200.0, 3000.0)).collect();
        let time = time(&rounds).unwrap();
        assert_eq!((time.receiving_ns, time.dispatch_ns, time.sending_ns), (1000.0, 2000.0, 0.0));
        assert_eq!((time.sum_ns(), time.counted_ns), (3000.0, 3000.0));
        assert_eq!(time.calls["recvmsg"], 1.0);
    }
}
