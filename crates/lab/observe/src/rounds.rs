//! What the rounds of a case have given: figures of unobserved and observed runs, counts, stacks, failures.

use std::collections::BTreeMap;

use weighbridge_record::{CountedBeside, EventCount, Look, looking_ratio};
use weighbridge_stats::compare::CONFIDENCE;
use weighbridge_stats::{median, paired_ratio};

use crate::probe::Probe;
use crate::profile::Stacks;

/// Failures of unobserved runs, or of runs with one probe, after which a case has no more of these.
const MOST_FAILURES: usize = 2;

pub(crate) struct Run {
    pub value: f64,
    pub counts: Vec<(&'static str, f64)>,
    pub beside: Option<Beside>,
}

/// The CPU time per operation of an auxiliary process, as the kernel counts it.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    pub name: String,
    pub ns: f64,
    pub ops: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub step: String,
    pub why: String,
}

#[derive(Default)]
pub(crate) struct Rounds {
    unobserved: BTreeMap<u32, f64>,
    unobserved_failures: Vec<Failure>,
    observed: BTreeMap<&'static str, BTreeMap<u32, f64>>,
    counts: Vec<(&'static str, &'static str, Vec<f64>)>,
    failures: BTreeMap<&'static str, Vec<Failure>>,
    /// Of unobserved and of sampled runs.
    beside: [BTreeMap<u32, Beside>; 2],
    pub stacks: Stacks,
}

impl Rounds {
    /// Takes what a run with this probe gave, or one without any.
    pub fn keep(&mut self, look: Option<Probe>, round: u32, run: Run) {
        if look.is_none_or(|probe| probe == Probe::Sampling) {
            self.beside[usize::from(look.is_some())].extend(run.beside.map(|beside| (round, beside)));
        }
        let Some(probe) = look else {
            self.unobserved.insert(round, run.value);
            return;
        };
        self.observed.entry(probe.name()).or_default().insert(round, run.value);
        for (event, per_op) in run.counts {
            match self.counts.iter_mut().find(|(_, known, _)| *known == event) {
                Some((_, _, values)) => values.push(per_op),
                None => self.counts.push((probe.name(), event, vec![per_op])),
            }
        }
    }

    /// Takes why a run failed.
    pub fn fail(&mut self, look: Option<Probe>, failure: Failure) {
        match look {
            None => self.unobserved_failures.push(failure),
            Some(probe) => self.failures.entry(probe.name()).or_default().push(failure),
        }
    }

    /// Have runs of this kind failed so often that no more are tried?
    pub fn is_given_up(&self, look: Option<Probe>) -> bool {
        let failures = match look {
            None => Some(&self.unobserved_failures),
            Some(probe) => self.failures.get(probe.name()),
        };
        failures.is_some_and(|failures| failures.len() >= MOST_FAILURES)
    }

    /// The figures of the unobserved runs, or why the last one failed where there is none.
    pub fn unobserved(&self) -> Result<Vec<f64>, Option<Failure>> {
        if self.unobserved.is_empty() {
            Err(self.unobserved_failures.last().cloned())
        } else {
            Ok(self.unobserved.values().copied().collect())
        }
    }

    /// Why unobserved runs failed, one sentence each.
    pub fn unobserved_failures(&self) -> Vec<String> {
        self.unobserved_failures.iter().map(Failure::sentence).collect()
    }

    /// What each probe has cost that was tried.
    pub fn looks(&self, higher_is_better: bool) -> Vec<Look> {
        let is_tried = |probe: &Probe| {
            self.observed.contains_key(probe.name()) || self.failures.contains_key(probe.name())
        };
        Probe::ALL.into_iter().filter(is_tried).map(|probe| self.look(probe, higher_is_better)).collect()
    }

    /// What the kernel counts of the auxiliary process, where there is one and samples were taken.
    pub fn beside(&self) -> Option<CountedBeside> {
        let [unobserved, sampled] = &self.beside;
        let pair = |(round, sampled): (&u32, &Beside)| Some((unobserved.get(round)?.ns, sampled.ns));
        let pairs: Vec<(f64, f64)> = sampled.iter().filter_map(pair).filter(|(ns, _)| *ns > 0.0).collect();
        let role = sampled.values().next()?.name.clone();
        let ops: u64 = sampled.values().map(|of| of.ops).sum();
        let all_ns: f64 = sampled.values().map(|of| of.ns * of.ops as f64).sum();
        if pairs.is_empty() || ops == 0 {
            return None;
        }
        Some(CountedBeside {
            role,
            sampled_ns: all_ns / ops as f64,
            unobserved_ns: median(&pairs.iter().map(|(unobserved, _)| *unobserved).collect::<Vec<_>>()),
            looking_ratio: looking_ratio(&pairs)?,
        })
    }

    /// What was counted.
    pub fn counts(&self) -> Vec<EventCount> {
        let count = |(means, event, values): &(&str, &str, Vec<f64>)| EventCount {
            event: (*event).into(),
            means: (*means).into(),
            per_op: median(values),
            range: [
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ],
        };
        self.counts.iter().map(count).collect()
    }

    fn look(&self, probe: Probe, higher_is_better: bool) -> Look {
        let pair = |(round, observed): (&u32, &f64)| {
            let unobserved = self.unobserved.get(round)?;
            Some(if higher_is_better { (*observed, *unobserved) } else { (*unobserved, *observed) })
        };
        let observed = self.observed.get(probe.name()).into_iter().flatten();
        let pairs: Vec<(f64, f64)> =
            observed.filter_map(pair).filter(|(a, b)| *a > 0.0 && *b > 0.0).collect();
        let ratio = (!pairs.is_empty()).then(|| paired_ratio(&pairs, CONFIDENCE));
        let interval = ratio.as_ref().and_then(|ratio| ratio.interval);
        Look {
            means: probe.name().into(),
            slowdown: ratio.as_ref().map(|ratio| ratio.median),
            ci95: interval.map(|interval| [interval.low, interval.high]),
            pairs: pairs.len() as u32,
            failures: self.failures.get(probe.name()).into_iter().flatten().map(Failure::sentence).collect(),
        }
    }
}

impl Failure {
    fn sentence(&self) -> String {
        format!("{}: {}", self.step, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Failure {
        Failure { step: "batches".into(), why: "the peer ended".into() }
    }

    fn rounds(unobserved: &[f64], observed: &[f64]) -> Rounds {
        let mut rounds = Rounds::default();
        for (round, value) in unobserved.iter().enumerate() {
            rounds.keep(None, round as u32, Run { value: *value, counts: Vec::new(), beside: None });
        }
        for (round, value) in observed.iter().enumerate() {
            let counts = vec![("context-switches", 2.0 + round as f64)];
            rounds.keep(Some(Probe::Software), round as u32, Run { value: *value, counts, beside: None });
        }
        rounds
    }

    #[test]
    fn the_cost_of_looking_is_the_ratio_of_runs_of_one_round() {
        let unobserved = [100.0, 200.0, 300.0, 100.0, 100.0, 100.0];
        let observed = unobserved.map(|value| value * 1.1);
        for (rounds, higher_is_better, pairs) in [
            (rounds(&unobserved, &observed), false, 6),
            // A lower rate is a slowdown.
            (rounds(&[110.0], &[100.0]), true, 1),
            // An observed run without its unobserved one makes no pair.
            (rounds(&[100.0], &[110.0, 500.0]), false, 1),
        ] {
            let look = rounds.look(Probe::Software, higher_is_better);
            assert!((look.slowdown.unwrap() - 1.1).abs() < 1e-9, "{look:?}");
            assert_eq!((look.pairs, look.ci95.is_some()), (pairs, pairs >= 6), "six pairs have an interval");
        }
    }

    /// Two sampled runs of 100 and 300 operations, with 110 and 220 ns of a broker for each where 100 and 200 are without samples.
    #[test]
    fn a_process_beside_the_roles_is_counted_with_and_without_samples() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.beside(), None);
        let run = |ns, ops| {
            let beside = Some(Beside { name: "broker".into(), ns, ops });
            Run { value: 1.0, counts: Vec::new(), beside }
        };
        for (round, (ns, ops)) in [(100.0, 100), (200.0, 300)].into_iter().enumerate() {
            rounds.keep(None, round as u32, run(ns, ops));
            rounds.keep(Some(Probe::Sampling), round as u32, run(ns * 1.1, ops));
            rounds.keep(Some(Probe::Halts), round as u32, run(9999.0, ops));
        }
        let beside = rounds.beside().unwrap();
        assert_eq!((beside.role.as_str(), beside.unobserved_ns), ("broker", 150.0));
        assert!((beside.sampled_ns - 192.5).abs() < 1e-9, "by operations: {beside:?}");
        assert!((beside.looking_ratio[0] - 1.1).abs() < 1e-9, "{beside:?}");
    }

    #[test]
    fn a_run_has_two_tries_and_its_failures_are_kept() {
        for look in [None, Some(Probe::Halts)] {
            let mut rounds = Rounds::default();
            assert!(rounds.unobserved().is_err_and(|why| why.is_none()));
            rounds.fail(look, failure());
            assert!(!rounds.is_given_up(look) && !rounds.is_given_up(Some(Probe::Software)));
            rounds.keep(None, 1, Run { value: 5.0, counts: Vec::new(), beside: None });
            rounds.fail(look, failure());
            assert!(rounds.is_given_up(look), "it was tried twice");
            assert_eq!(rounds.unobserved().unwrap(), [5.0]);
            let failures = match look {
                None => rounds.unobserved_failures(),
                Some(probe) => {
                    let look = rounds.look(probe, false);
                    assert_eq!((look.slowdown, look.pairs), (None, 0));
                    look.failures
                }
            };
            assert_eq!(failures, ["batches: the peer ended"; 2]);
        }
    }
}
