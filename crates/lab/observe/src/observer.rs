//! Observed runs of a case in turns with unobserved ones.
//!
//! A round has one unobserved run and one with each probe, in random order, each with fresh peers. No event is open in the
//! unobserved run: one that is open and off costs something as well. So what a probe costs is the ratio of two runs of one round.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use weighbridge_harness::conditions;
use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::{self, Coordinator, Counted, Measured, PeerStart};
use weighbridge_harness::duet::Random;
use weighbridge_harness::interrupt::Interrupt;
use weighbridge_harness::peer::RoleReport;
use weighbridge_harness::planner::Timing;
use weighbridge_harness::session::expected_run;
use weighbridge_harness::summary;
use weighbridge_probe::counters::EventSwitch;
use weighbridge_record::{Observation, Profile, Skipped, SystemCalls};
use weighbridge_stats::compare::CONFIDENCE;
use weighbridge_stats::{median, median_interval};

use crate::counters::Counters;
use crate::owners::Owners;
use crate::probe::{Probe, Probes};
use crate::profile::Stacks;
use crate::rounds::{Beside, Failure, Rounds, Run};
use crate::sampling::Sampling;
use crate::symbols::Symbols;

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

/// A sampled run is so many times as long as others: seldom samples disturb little, and few say little.
const SAMPLED: usize = 3;

/// What the observation of a case is expected to take.
pub fn expected(settings: &Settings, probes: &Probes) -> Duration {
    let looks = Probe::ALL.into_iter().filter(|probe| is_a_look(*probe) && probes.has(*probe));
    let runs = looks.map(Some).chain([None]).map(|look| expected_run(timing(settings, look)));
    runs.sum::<Duration>() * settings.rounds
}

/// Length of a run with this probe.
fn timing(settings: &Settings, look: Option<Probe>) -> Timing {
    let Timing { samples, run_ns, .. } = settings.timing;
    match look {
        Some(Probe::Sampling) => {
            Timing { samples: SAMPLED * samples, run_ns: SAMPLED as u64 * run_ns, ..settings.timing }
        }
        _ => settings.timing,
    }
}

/// Does it take part in the rounds?
fn is_a_look(probe: Probe) -> bool {
    probe.counted().is_some() || probe == Probe::Sampling
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
    /// Where events are opened in the case that is being observed.
    cpus: BTreeSet<u32>,
}

/// What is open during an observed run.
enum Open {
    Counters(Counters),
    Sampling(Sampling),
}

/// Why a run gave nothing.
enum NotRun {
    Failed(Failure),
    /// A process beside the roles may run on CPUs where no event was open, and now will be.
    Elsewhere,
    Interrupted,
}

impl From<io::Error> for NotRun {
    fn from(error: io::Error) -> NotRun {
        NotRun::Failed(Failure { step: "observe".into(), why: error.to_string() })
    }
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
        let cpus = BTreeSet::new();
        Observer { settings, coordinator, interrupt, probes, random, symbols: Symbols::new(), cpus }
    }

    /// Observes a case by all probes that can be used.
    pub fn observe(&mut self, case: &Prepared) -> io::Result<Outcome> {
        let looks = || Probe::ALL.into_iter().filter(|probe| is_a_look(*probe) && self.probes.has(*probe));
        let order: Vec<Option<Probe>> = std::iter::once(None).chain(looks().map(Some)).collect();
        let mut rounds = Rounds::default();
        self.cpus = self.coordinator.host().cpus_of(&case.params).collect();
        for round in 0..self.settings.rounds {
            let mut order = order.clone();
            self.random.shuffle(&mut order);
            for look in order {
                if self.interrupt.take()? {
                    return Ok(Outcome::Interrupted);
                }
                if rounds.is_given_up(look) {
                    continue;
                }
                let mut ran = self.run(case, look, &mut rounds.stacks);
                // Each time there are more CPUs, so this comes to an end.
                while matches!(ran, Err(NotRun::Elsewhere)) {
                    ran = self.run(case, look, &mut rounds.stacks);
                }
                match ran {
                    Ok(run) => rounds.keep(look, round, run),
                    Err(NotRun::Failed(failure)) => rounds.fail(look, failure),
                    Err(NotRun::Interrupted) => return Ok(Outcome::Interrupted),
                    Err(NotRun::Elsewhere) => unreachable!("it was run again"),
                }
            }
            if rounds.is_given_up(None) && rounds.unobserved().is_err() {
                break;
            }
        }
        let unobserved = match rounds.unobserved() {
            Ok(unobserved) => unobserved,
            Err(why) => {
                let Failure { step, why } = why.expect("there is a round, and its unobserved run failed");
                return Ok(Outcome::Failed(Skipped { case: case.params.id.clone(), step, why }));
            }
        };
        let Some(system_calls) = self.count_calls(case, &mut rounds) else { return Ok(Outcome::Interrupted) };
        Ok(Outcome::Observed(Box::new(self.observed(case, &rounds, &unobserved, system_calls))))
    }

    /// The system calls, where they can be counted; nothing when the user has had enough.
    fn count_calls(&mut self, case: &Prepared, rounds: &mut Rounds) -> Option<Option<SystemCalls>> {
        if !self.settings.count_calls || !self.probes.has(Probe::SystemCalls) {
            return Some(None);
        }
        match self.coordinator.count_calls(case, &PeerStart::default()) {
            Counted::Calls(calls) => return Some(Some(calls)),
            Counted::Interrupted => return None,
            Counted::Threads => {}
            Counted::Failed { step, why } => rounds.fail(Some(Probe::SystemCalls), Failure { step, why }),
        }
        Some(None)
    }

    /// One run, with what `look` opens for it.
    fn run(&mut self, case: &Prepared, look: Option<Probe>, stacks: &mut Stacks) -> Result<Run, NotRun> {
        let failed = |step: &str, why| Err(NotRun::Failed(Failure { step: step.into(), why }));
        let (open, events) = look.map(|probe| self.open(probe)).transpose()?.unzip();
        let start = PeerStart { events, ..PeerStart::default() };
        let measured = match self.coordinator.run_from(case, &start, timing(&self.settings, look)) {
            coordinator::Outcome::Interrupted => return Err(NotRun::Interrupted),
            coordinator::Outcome::Failed { step, why } => return failed(&step, why),
            coordinator::Outcome::Measured(measured) => measured,
        };
        if let Some((step, why)) = conditions::void(case, &measured) {
            return failed(step, why);
        }
        if measured.samples.is_empty() {
            return failed("batches", "no sample was taken".into());
        }
        let known = self.cpus.len();
        self.cpus.extend(cpus_beside(&measured));
        if self.cpus.len() > known {
            return Err(NotRun::Elsewhere);
        }
        let ops = operations(case, &measured);
        let mut counts = Vec::new();
        match open {
            None => {}
            Some(Open::Counters(counters)) => {
                counts.extend(counters.read()?.into_iter().map(|(name, count)| (name, count / ops as f64)));
            }
            Some(Open::Sampling(sampling)) => {
                let taken = sampling.take()?;
                stacks.runs += 1;
                stacks.ops += ops;
                stacks.lost += taken.lost;
                stacks.throttled += taken.throttled;
                let owners = Owners::of(case, &measured);
                taken.samples.iter().for_each(|sample| stacks.add(owners.stack(sample, &mut self.symbols)));
            }
        }
        let beside = measured.beside_ns().map(|(name, ns)| Beside { name: name.to_owned(), ns, ops });
        Ok(Run { value: summary::run_line(case, *measured, 0, 0).value, counts, beside })
    }

    fn open(&self, probe: Probe) -> io::Result<(Open, EventSwitch)> {
        let cpus = &Vec::from_iter(self.cpus.iter().copied());
        match probe.counted() {
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

    fn observed(
        &self,
        case: &Prepared,
        rounds: &Rounds,
        unobserved: &[f64],
        system_calls: Option<SystemCalls>,
    ) -> Observed {
        let id = &case.params.id;
        let unit = case.pattern.unit;
        let interval = median_interval(unobserved, CONFIDENCE);
        let observation = Observation {
            case: id.clone(),
            cpus: self.cpus.iter().copied().collect(),
            unit: unit.name(id.payload_bytes),
            unobserved: median(unobserved),
            unobserved_ci95: interval.map(|interval| [interval.low, interval.high]),
            rounds: self.settings.rounds,
            unobserved_failures: rounds.unobserved_failures(),
            looks: rounds.looks(unit.higher_is_better()),
            counts: rounds.counts(),
            system_calls,
            refused: self.probes.refused(),
        };
        let profile = (rounds.stacks.runs > 0)
            .then(|| rounds.stacks.profile(id, self.symbols.hidden(), rounds.beside()));
        Observed { observation, profile, folded: rounds.stacks.folded() }
    }
}

/// Where processes beside the roles may run, as an observed run reports it.
fn cpus_beside(measured: &Measured) -> impl Iterator<Item = u32> {
    let observed = measured.roles.iter().filter_map(|report| report.observed.as_ref());
    observed.filter_map(|observed| observed.beside.as_ref()).flat_map(|beside| beside.cpus.iter().copied())
}

/// Operations while events were on: those of the leading role, or of all roles where each has operations of its own.
fn operations(case: &Prepared, measured: &Measured) -> u64 {
    let is_counted = |report: &&RoleReport| {
        case.pattern.is_symmetric || report.observed.as_ref().is_some_and(|observed| observed.leads)
    };
    let ops: u64 = measured.roles.iter().filter(is_counted).map(|report| report.counted.ops).sum();
    ops.max(1)
}
