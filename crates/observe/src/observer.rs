//! Observed runs of a case in turns with unobserved ones.
//!
//! A round has one run that nobody observes and one with each means, in random order, each with fresh peers. No event is open in the
//! unobserved run: one that is open and off costs something as well. So what a means costs is the ratio of two runs of one round.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use weighbridge_lab::conditions;
use weighbridge_lab::contract::Prepared;
use weighbridge_lab::coordinator::{self, Coordinator, Counted, Measured, PeerStart};
use weighbridge_lab::duet::Random;
use weighbridge_lab::interrupt::Interrupt;
use weighbridge_lab::planner::Timing;
use weighbridge_lab::session::expected_run;
use weighbridge_lab::summary;
use weighbridge_record::{EventCount, Look, Observation, Profile, Skipped, SystemCalls};
use weighbridge_stats::compare::CONFIDENCE;
use weighbridge_stats::{median, median_interval, paired_ratio};

use crate::counters::Counters;
use crate::means::{Means, Probes};
use crate::owners::Owners;
use crate::profile::Stacks;
use crate::sampling::Sampling;
use crate::symbols::Symbols;

/// Failures of a means in a case after which it is tried no more.
const MOST_FAILURES: usize = 2;

/// How much is looked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Rounds; six are the fewest that give an interval.
    pub rounds: u32,
    /// Length and number of samples of each run.
    pub timing: Timing,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Are system calls counted too, in one more run?
    pub count_calls: bool,
}

impl Settings {
    /// Eight rounds of runs of a sixth of a second.
    pub fn new(seed: u64) -> Settings {
        let timing = Timing { sample_ns: 5_000_000, samples: 32, least_samples: 4, run_ns: 160_000_000 };
        Settings { rounds: 8, timing, seed, count_calls: true }
    }
}

/// What the observation of a case is expected to take.
pub fn expected(settings: &Settings, probes: &Probes) -> Duration {
    let looks = Means::ALL.into_iter().filter(|means| is_a_look(*means) && probes.has(*means)).count();
    expected_run(settings.timing) * settings.rounds * (looks as u32 + 1)
}

/// Does it take part in the rounds?
fn is_a_look(means: Means) -> bool {
    means.counted().is_some() || means == Means::Sampling
}

/// What came of observing a case.
#[derive(Debug)]
pub enum Outcome {
    /// The case was observed, by what could be used.
    Observed(Box<Observed>),
    /// The case does not run here, observed or not.
    Failed(Skipped),
    /// By the user.
    Interrupted,
}

/// A case that was observed.
#[derive(Debug)]
pub struct Observed {
    /// Counts and costs.
    pub observation: Observation,
    /// Where its time went; `None` where no samples could be taken.
    pub profile: Option<Profile>,
    /// All stacks, folded.
    pub folded: Vec<(String, u64)>,
}

/// Observes cases.
pub struct Observer<'a> {
    settings: Settings,
    coordinator: Coordinator<'a>,
    interrupt: &'a Interrupt,
    probes: &'a Probes,
    random: Random,
    symbols: Symbols,
}

/// What is open during an observed run.
enum Open {
    Counters(Counters),
    Sampling(Sampling),
}

/// One run that went well.
struct Run {
    value: f64,
    counts: Vec<(&'static str, f64)>,
}

enum Ran {
    Well(Run),
    Failed { step: String, why: String },
    Interrupted,
}

/// What the rounds of a case have given.
#[derive(Default)]
struct Rounds {
    unobserved: BTreeMap<u32, f64>,
    observed: BTreeMap<&'static str, BTreeMap<u32, f64>>,
    counts: Vec<(&'static str, &'static str, Vec<f64>)>,
    failures: BTreeMap<&'static str, Vec<String>>,
    stacks: Stacks,
}

impl<'a> Observer<'a> {
    /// Nothing is started yet.
    pub fn new(
        settings: Settings,
        coordinator: Coordinator<'a>,
        interrupt: &'a Interrupt,
        probes: &'a Probes,
    ) -> Observer<'a> {
        let random = Random::new(settings.seed);
        Observer { settings, coordinator, interrupt, probes, random, symbols: Symbols::new() }
    }

    /// Observes a case by all means that can be used.
    ///
    /// # Errors
    /// The signals that end the program cannot be read.
    pub fn observe(&mut self, case: &Prepared) -> io::Result<Outcome> {
        let looks = || Means::ALL.into_iter().filter(|means| is_a_look(*means) && self.probes.has(*means));
        let order: Vec<Option<Means>> = std::iter::once(None).chain(looks().map(Some)).collect();
        let mut rounds = Rounds::default();
        for round in 0..self.settings.rounds {
            let mut order = order.clone();
            self.random.shuffle(&mut order);
            for look in order {
                if self.interrupt.take()? {
                    return Ok(Outcome::Interrupted);
                }
                let name = look.map_or("", Means::name);
                if rounds.failures.get(name).is_some_and(|failures| failures.len() >= MOST_FAILURES) {
                    continue;
                }
                match (self.run(case, look, &mut rounds.stacks), look) {
                    (Ran::Interrupted, _) => return Ok(Outcome::Interrupted),
                    (Ran::Well(run), None) => drop(rounds.unobserved.insert(round, run.value)),
                    (Ran::Well(run), Some(means)) => rounds.keep(means, round, run),
                    (Ran::Failed { step, why }, None) if rounds.unobserved.is_empty() => {
                        let case = case.params.id.clone();
                        return Ok(Outcome::Failed(Skipped { case, step, why }));
                    }
                    (Ran::Failed { step, why }, _) => {
                        rounds.failures.entry(name).or_default().push(format!("{step}: {why}"));
                    }
                }
            }
        }
        let system_calls = match self.count_calls(case, &mut rounds) {
            Ok(calls) => calls,
            Err(Interrupted) => return Ok(Outcome::Interrupted),
        };
        Ok(Outcome::Observed(Box::new(self.observed(case, &rounds, system_calls))))
    }

    fn count_calls(
        &mut self,
        case: &Prepared,
        rounds: &mut Rounds,
    ) -> Result<Option<SystemCalls>, Interrupted> {
        if !self.settings.count_calls || !self.probes.has(Means::SystemCalls) {
            return Ok(None);
        }
        match self.coordinator.count_calls(case, &PeerStart::default()) {
            Counted::Calls(calls) => Ok(Some(calls)),
            Counted::Threads => Ok(None),
            Counted::Failed { step, why } => {
                rounds.failures.entry(Means::SystemCalls.name()).or_default().push(format!("{step}: {why}"));
                Ok(None)
            }
            Counted::Interrupted => Err(Interrupted),
        }
    }

    /// One run, with what `look` opens for it.
    fn run(&mut self, case: &Prepared, look: Option<Means>, stacks: &mut Stacks) -> Ran {
        let failed = |error: io::Error| Ran::Failed { step: "observe".into(), why: error.to_string() };
        let opened = look.map(|means| self.open(means, &self.cpus(case))).transpose();
        let (open, events) = match opened {
            Ok(opened) => opened.unzip(),
            Err(error) => return failed(error),
        };
        let start = PeerStart { events, ..PeerStart::default() };
        let measured = match self.coordinator.run_from(case, &start, self.settings.timing) {
            coordinator::Outcome::Interrupted => return Ran::Interrupted,
            coordinator::Outcome::Failed { step, why } => return Ran::Failed { step, why },
            coordinator::Outcome::Measured(measured) => measured,
        };
        if let Some((step, why)) = conditions::void(case, &measured) {
            return Ran::Failed { step: step.into(), why };
        }
        if measured.samples.is_empty() {
            return Ran::Failed { step: "batches".into(), why: "no sample was taken".into() };
        }
        let ops = operations(case, &measured);
        let counts = match open {
            None => Vec::new(),
            Some(Open::Counters(counters)) => match counters.read() {
                Ok(counts) => counts.into_iter().map(|(name, count)| (name, count / ops as f64)).collect(),
                Err(error) => return failed(error),
            },
            Some(Open::Sampling(sampling)) => match sampling.take() {
                Ok(taken) => {
                    stacks.runs += 1;
                    stacks.ops += ops;
                    stacks.lost += taken.lost;
                    stacks.throttled += taken.throttled;
                    let owners = Owners::of(case, &measured);
                    taken
                        .samples
                        .iter()
                        .for_each(|sample| stacks.add(owners.stack(sample, &mut self.symbols)));
                    Vec::new()
                }
                Err(error) => return failed(error),
            },
        };
        Ran::Well(Run { value: summary::run_line(case, *measured, 0, 0).value, counts })
    }

    fn open(&self, means: Means, cpus: &[u32]) -> io::Result<(Open, causeway_os::counters::EventSwitch)> {
        match means.counted() {
            Some(events) => {
                let counters = Counters::open(events, cpus, self.probes.tracefs.as_ref())?;
                let switch = counters.switch()?;
                Ok((Open::Counters(counters), switch))
            }
            None => {
                let sampling = Sampling::open(cpus)?;
                let switch = sampling.switch()?;
                Ok((Open::Sampling(sampling), switch))
            }
        }
    }

    /// The CPUs that roles of the case run on.
    fn cpus(&self, case: &Prepared) -> Vec<u32> {
        let mut cpus = match &case.params.cpus[..] {
            [] => self.coordinator.host().measured_cpus.clone(),
            cpus => cpus.to_vec(),
        };
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    fn observed(&self, case: &Prepared, rounds: &Rounds, system_calls: Option<SystemCalls>) -> Observed {
        let id = &case.params.id;
        let unit = case.pattern.unit;
        let unobserved: Vec<f64> = rounds.unobserved.values().copied().collect();
        let interval = median_interval(&unobserved, CONFIDENCE);
        let tried = Means::ALL.into_iter().filter(|means| {
            rounds.observed.contains_key(means.name()) || rounds.failures.contains_key(means.name())
        });
        let count = |(means, event, values): &(&str, &str, Vec<f64>)| EventCount {
            event: (*event).into(),
            means: (*means).into(),
            per_op: median(values),
            range: [
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ],
        };
        let observation = Observation {
            case: id.clone(),
            cpus: self.cpus(case),
            unit: unit.name(id.payload_bytes),
            unobserved: median(&unobserved),
            unobserved_ci95: interval.map(|interval| [interval.low, interval.high]),
            rounds: self.settings.rounds,
            looks: tried.map(|means| rounds.look(means, unit.higher_is_better())).collect(),
            counts: rounds.counts.iter().map(count).collect(),
            system_calls,
            refused: self.probes.refused(),
        };
        let profile = (rounds.stacks.runs > 0).then(|| rounds.stacks.profile(id, self.symbols.hidden()));
        Observed { observation, profile, folded: rounds.stacks.folded() }
    }
}

/// By the user.
struct Interrupted;

impl Rounds {
    fn keep(&mut self, means: Means, round: u32, run: Run) {
        self.observed.entry(means.name()).or_default().insert(round, run.value);
        for (event, per_op) in run.counts {
            match self.counts.iter_mut().find(|(_, known, _)| *known == event) {
                Some((_, _, values)) => values.push(per_op),
                None => self.counts.push((means.name(), event, vec![per_op])),
            }
        }
    }

    /// What a means has cost.
    fn look(&self, means: Means, higher_is_better: bool) -> Look {
        let observed = self.observed.get(means.name());
        let pairs: Vec<(f64, f64)> = observed
            .into_iter()
            .flatten()
            .filter_map(|(round, observed)| Some((*self.unobserved.get(round)?, *observed)))
            .map(|(unobserved, observed)| match higher_is_better {
                true => (observed, unobserved),
                false => (unobserved, observed),
            })
            .filter(|(a, b)| *a > 0.0 && *b > 0.0)
            .collect();
        let ratio = (!pairs.is_empty()).then(|| paired_ratio(&pairs, CONFIDENCE));
        let interval = ratio.as_ref().and_then(|ratio| ratio.interval);
        Look {
            means: means.name().into(),
            slowdown: ratio.as_ref().map(|ratio| ratio.median),
            ci95: interval.map(|interval| [interval.low, interval.high]),
            pairs: pairs.len() as u32,
            failures: self.failures.get(means.name()).cloned().unwrap_or_default(),
        }
    }
}

/// Operations while events were on: those of the leading role, or of all roles where each has operations of its own.
fn operations(case: &Prepared, measured: &Measured) -> u64 {
    let of = |report: &weighbridge_lab::peer::RoleReport| report.counted.ops;
    let leads = |report: &&weighbridge_lab::peer::RoleReport| {
        report.observed.as_ref().is_some_and(|observed| observed.leads)
    };
    let ops = match case.pattern.is_symmetric {
        true => measured.roles.iter().map(of).sum(),
        false => measured.roles.iter().find(leads).map_or(0, of),
    };
    ops.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(unobserved: &[f64], observed: &[f64]) -> Rounds {
        let mut rounds = Rounds::default();
        for (round, value) in unobserved.iter().enumerate() {
            rounds.unobserved.insert(round as u32, *value);
        }
        for (round, value) in observed.iter().enumerate() {
            let counts = vec![("context-switches", 2.0 + round as f64)];
            rounds.keep(Means::Software, round as u32, Run { value: *value, counts });
        }
        rounds
    }

    #[test]
    fn the_cost_of_looking_is_the_ratio_of_runs_of_one_round() {
        let times =
            rounds(&[100.0, 200.0, 300.0, 100.0, 100.0, 100.0], &[110.0, 220.0, 330.0, 110.0, 110.0, 110.0]);
        let look = times.look(Means::Software, false);
        assert!((look.slowdown.unwrap() - 1.1).abs() < 1e-9, "{look:?}");
        assert_eq!(look.pairs, 6);
        assert!(look.ci95.is_some(), "six pairs have an interval");
        let rates = rounds(&[110.0], &[100.0]).look(Means::Software, true);
        assert!((rates.slowdown.unwrap() - 1.1).abs() < 1e-9, "a lower rate is a slowdown: {rates:?}");
        assert_eq!((rates.pairs, rates.ci95), (1, None));
    }

    #[test]
    fn an_observed_run_without_its_unobserved_one_makes_no_pair() {
        let mut some = rounds(&[100.0], &[110.0, 500.0]);
        assert_eq!(some.look(Means::Software, false).pairs, 1);
        some.failures.entry("halts").or_default().push("batches: the peer ended".into());
        let failed = some.look(Means::Halts, false);
        assert_eq!((failed.slowdown, failed.pairs, failed.failures.len()), (None, 0, 1));
    }
}
