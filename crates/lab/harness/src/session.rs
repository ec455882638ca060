//! A session: all cases in rounds, interleaved, until each is precise enough or the time is up.
//!
//! Every round measures its cases in random order, so that what drifts with time hits all of them. Once every case has the
//! runs that an interval needs, the further runs go where a second brings most (`session/follow_up.rs`): to a case with its hub, or with the
//! baseline that it is compared with, and never to the harness.

mod cross_check;
mod figures;
mod follow_up;
pub(crate) mod hubs;
mod open;
mod pace;

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use weighbridge_record::earlier::is_beside_a_load;
use weighbridge_record::{self as record, CaseId, Earlier, Line, Skipped, StoppedBy};
use weighbridge_stats::correlation::pooled_lag1;
use weighbridge_stats::stopping::{CorrelatedRule, LOOKS};
use weighbridge_stats::{Decision, Stop, StoppingRule};

use crate::conditions;
use crate::contract::Prepared;
use crate::coordinator::{Coordinator, Counted, Measured, PeerStart};
use crate::duet::Random;
use crate::interrupt::Interrupt;
use crate::planner::Timing;
use crate::rounds::{self, Clock, Extent, InRounds};
use crate::set::{self, NoSet};
use crate::summary;
use cross_check::HubCrossCheck;
use follow_up::Candidate;
use hubs::{Hubs, InTurn};
use open::{CaseState, Open, Turns};
use pace::Pace;

/// What is asked of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Relative half-width of the interval to be reached: 0.02 for ± 2 %.
    pub precision: f64,
    /// What the runs may take together.
    pub budget: Duration,
    /// Length and number of samples.
    pub timing: Timing,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Most runs of a case.
    pub max_runs: usize,
    /// Index of the first round, where other sessions went before it into the same record.
    pub first_round: u32,
    /// Do cases take turns with a hub, where they can?
    pub duet: bool,
    /// Are system calls counted, in one more run of each case?
    pub count_calls: bool,
    /// Is the budget short? Then the first round takes the cases in their order, and not in a random one, and its runs get shorter where
    /// those before took longer than the budget has for each: so few are left out, and the last ones.
    pub is_short: bool,
    /// What earlier sessions of this machine say of its yardsticks.
    pub earlier: Earlier,
}

/// What a session tells while it goes on. Nothing is told during a run.
pub trait Sink {
    /// A line of the record. After an error the session ends.
    fn line(&mut self, line: Line) -> io::Result<()>;

    /// Between two runs.
    fn progress(&mut self, progress: &Progress<'_>);
}

/// How far a session is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The case that runs next.
    pub case: &'a CaseId,
    /// Runs made.
    pub runs: usize,
    /// Cases that need no further runs.
    pub closed: usize,
    /// All cases.
    pub cases: usize,
    /// The round, from 0.
    pub round: u32,
    /// Time used.
    pub elapsed: Duration,
    /// Time that is still needed at most: all runs that the open cases may make, or what the budget leaves. Cases that
    /// reach their precision make it shorter.
    pub remaining: Duration,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every case has its runs, or the budget is used up.
    Complete,
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

/// Runs that stay in one round once every case has its first look.
const FOLLOW_UP: usize = 12;
/// A case ends when so many runs in a row were void for a reason that may pass.
const MOST_VOID: u32 = 3;
/// What a run costs beyond its samples, before one has been made: start of the peers, calibration.
const OVERHEAD: Duration = Duration::from_millis(30);

/// What one run is expected to take, before any has been made.
pub fn expected_run(timing: Timing) -> Duration {
    let alone_ns = timing.sample_ns * (timing.samples as u64 + 1);
    OVERHEAD + Duration::from_nanos(alone_ns.max(set::set_ns(timing)))
}

/// Measures cases.
pub struct Session<'a> {
    settings: Settings,
    coordinator: Coordinator<'a>,
    interrupt: &'a Interrupt,
    cases: Vec<Open>,
    hubs: Hubs,
    cross_check: HubCrossCheck,
    rule: StoppingRule,
    random: Random,
    last: Option<usize>,
    runs: usize,
    pace: Pace,
}

impl<'a> Session<'a> {
    /// Nothing is started yet.
    pub fn new(
        settings: Settings,
        coordinator: Coordinator<'a>,
        interrupt: &'a Interrupt,
        cases: Vec<Prepared>,
    ) -> Session<'a> {
        let cost = expected_run(settings.timing);
        let (hubs, mut hub_of) = Hubs::of(&cases, coordinator.host(), settings.seed);
        if !settings.duet {
            hub_of.fill(Err("the session measures every case by itself".into()));
        }
        let cases: Vec<Open> =
            cases.into_iter().zip(hub_of).map(|(case, hub)| Open::new(case, hub, cost)).collect();
        Session {
            rule: StoppingRule { precision: settings.precision, max_runs: settings.max_runs },
            random: Random::new(settings.seed),
            cross_check: HubCrossCheck::of(&cases),
            cases,
            last: None,
            hubs,
            settings,
            coordinator,
            interrupt,
            runs: 0,
            pace: Pace::default(),
        }
    }

    /// Runs to the end, and tells everything to `sink`: case, run and skipped lines as they come, then summaries and comparisons, which are
    /// tried after an error of `sink` too.
    pub fn run(mut self, sink: &mut dyn Sink) -> io::Result<Ended> {
        let Settings { first_round, budget, .. } = self.settings;
        let interrupt = self.interrupt;
        let ended = rounds::run(&mut self, first_round, budget, interrupt, sink);
        match ended {
            Ok(Ended::Complete) => {}
            Ok(Ended::Interrupted) => self.stop_all(StoppedBy::Interrupted),
            Err(_) => self.stop_all(StoppedBy::Error),
        }
        self.summarize(sink).and(ended)
    }

    /// The open cases that gain most, and with those that are measured alone the baselines that they are compared with.
    fn follow_up(&self, open: &[usize]) -> Vec<usize> {
        let correlations = [false, true].map(|in_turn| self.correlation(in_turn));
        let candidate = |&index: &usize| {
            let of = &self.cases[index];
            let references = std::iter::once(index).chain(self.reference(index));
            let cost = references
                .map(|index| self.cases[index].spent / self.cases[index].runs.len().max(1) as u32)
                .sum();
            let correlation = correlations[usize::from(of.hub.is_ok())];
            let rule = self.rule(of, correlation);
            let cpus = if of.case.params.same_cpu() { 1 } else { of.case.role_names().len() };
            let aim = follow_up::first_aim(self.settings.precision, cpus);
            let to_aim = rule.expected_at(&of.evidence, aim);
            let is_far = to_aim.is_none_or(|runs| runs > of.evidence.len());
            let expected_at = if is_far { to_aim } else { rule.expected_stop(&of.evidence) };
            Candidate { index, made: of.runs.len(), is_far, expected_at, cost }
        };
        let mut chosen = follow_up::best(open.iter().map(candidate).collect(), FOLLOW_UP);
        for index in chosen.clone() {
            let reference = self.reference(index).filter(|reference| !chosen.contains(reference));
            chosen.extend(reference);
        }
        chosen
    }

    /// The case whose runs of the same rounds a case is compared with, where both are measured alone: a set has its reference, the
    /// hub, in itself.
    fn reference(&self, index: usize) -> Option<usize> {
        let of = &self.cases[index];
        let id = of.hub.is_err().then(|| open::baseline_of(&of.case.params.id))??;
        self.cases.iter().position(|other| {
            let has_failed = matches!(other.state, CaseState::Skipped | CaseState::Stopped(StoppedBy::Error));
            other.case.params.id == id && other.hub.is_err() && !other.runs.is_empty() && !has_failed
        })
    }

    /// When a case has enough runs, which have this correlation.
    fn rule(&self, of: &Open, correlation: f64) -> CorrelatedRule {
        // The harness is looked at once: its cost is known to far less than what it is compared with.
        let is_control = of.is_harness() && self.cases.iter().any(|open| !open.is_harness());
        let max_runs = if is_control { self.rule.max_runs.min(LOOKS[0]) } else { self.rule.max_runs };
        let rule = StoppingRule { max_runs, ..self.rule };
        CorrelatedRule { rule, correlation }
    }

    /// The correlation of neighboring runs of a case: of ratios to hubs, or of values of cases that are measured alone. Over the
    /// whole session, as the runs of one case do not tell it.
    fn correlation(&self, in_turn: bool) -> f64 {
        pooled_lag1(&self.series(in_turn).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// Does it rest on enough runs to widen intervals that have nothing else to rely on?
    fn knows_correlation(&self, in_turn: bool) -> bool {
        const MANY: usize = 60;
        self.series(in_turn).map(<[f64]>::len).sum::<usize>() >= MANY
    }

    fn series(&self, in_turn: bool) -> impl Iterator<Item = &[f64]> {
        let is_alike = move |open: &&Open| open.hub.is_ok() == in_turn && !open.is_harness();
        self.cases.iter().filter(is_alike).map(|open| &open.evidence[..])
    }

    /// Counts the system calls of a case. Where that is refused at once, it will be for all cases, and is said once. `false` when the user
    /// has had enough.
    fn count_calls(&mut self, index: usize, sink: &mut dyn Sink) -> io::Result<bool> {
        let open = &mut self.cases[index];
        match self.coordinator.count_calls(&open.case, &PeerStart::default()) {
            Counted::Interrupted => return Ok(false),
            Counted::Calls(calls) => open.system_calls = Some(calls),
            Counted::Threads => {}
            Counted::Failed { step, why } => {
                let case = open.case.params.id.clone();
                let why = format!("its system calls were not counted: {why}");
                self.settings.count_calls = self.cases.iter().any(|open| open.system_calls.is_some());
                sink.line(Line::Skipped(Skipped { case, step, why }))?;
            }
        }
        Ok(true)
    }

    fn decide(&mut self, index: usize) {
        let of = &self.cases[index];
        // A set may have too few blocks for a ratio: it is a run all the same.
        let has_all = of.runs.len() >= self.rule.max_runs;
        match self.rule(of, self.correlation(of.hub.is_ok())).decide(&of.evidence) {
            Decision::Stop(Stop::Precision) => self.cases[index].stop(StoppedBy::Precision),
            Decision::Stop(Stop::MaxRuns) => self.cases[index].stop(StoppedBy::MaxRuns),
            Decision::Continue { .. } if has_all => self.cases[index].stop(StoppedBy::MaxRuns),
            Decision::Continue { .. } => {}
        }
    }

    /// One run of a case, alone or in turn with its hub; then with the slices of both, as the record has them and as they are.
    fn measure(&mut self, index: usize) -> Result<(Measured, Option<(record::Slices, Turns)>), NoSet> {
        let Open { case, hub, sets, attempts, .. } = &self.cases[index];
        // Nodes in turn.
        let place = attempts.begun as usize;
        let case = &case.at_place(place);
        let timing = self.pace.shortened(self.settings.timing);
        let Ok(hub) = hub else {
            return Ok((set::alone(0, case, &PeerStart::default(), timing, &mut self.coordinator)?, None));
        };
        let InTurn { measured, slices, of_both } =
            self.hubs.run(*hub, (case, place), sets, index, &mut self.coordinator, timing)?;
        Ok((measured, Some((slices, of_both))))
    }

    fn stop_all(&mut self, by: StoppedBy) {
        self.cases.iter_mut().filter(|open| open.is_open()).for_each(|open| open.stop(by));
    }

    fn summarize(&self, sink: &mut dyn Sink) -> io::Result<()> {
        let measured = self.cases.iter().filter(|open| !open.runs.is_empty());
        let by_id: BTreeMap<&CaseId, &Open> =
            measured.clone().map(|open| (&open.case.params.id, open)).collect();
        let is_loaded = is_beside_a_load(self.cases.iter().flat_map(|open| &open.runs));
        let hubs: BTreeMap<usize, record::Hub> = self.hubs.lines(&self.settings.earlier, is_loaded).collect();
        for open in measured {
            let CaseState::Stopped(stopped_by) = open.state else {
                unreachable!("a measured case has stopped")
            };
            let correlation = self.correlation(open.hub.is_ok());
            let correlation = (correlation, self.knows_correlation(open.hub.is_ok()));
            let mut line = figures::summary(open, stopped_by, &self.hubs, correlation);
            let hub = open.hub.as_ref().ok().and_then(|index| hubs.get(index));
            if line.to_hub.is_none() {
                line.earlier = self.settings.earlier.of_case(&line, is_loaded);
            }
            figures::place_among_sessions(open, hub, &mut line);
            line.attempts = Some(open.attempts);
            line.system_calls.clone_from(&open.system_calls);
            if let record::Attempts { begun, failed: failed @ 1.. } = open.attempts {
                let why = "runs gave no number; see the lines skipped of the record";
                line.anomalies.push(format!("{failed} of {begun} {why}"));
            }
            line.anomalies.extend(figures::equivalent_disagrees(open, &by_id));
            sink.line(Line::Summary(line))?;
        }
        for (index, hub) in hubs {
            let cases = self.cases.iter().filter(|open| open.hub == Ok(index));
            let doubled_slices = figures::doubled_slices(cases);
            let meetings = self.cross_check.lines(index, &self.hubs);
            sink.line(Line::Hub(record::Hub { doubled_slices, meetings, ..hub }))?;
        }
        for open in by_id.values() {
            let baseline = open::baseline_of(&open.case.params.id).and_then(|id| by_id.get(&id));
            let correlation = self.correlation(open.hub.is_ok());
            let compared = baseline.and_then(|of| figures::compare(of, open, correlation, &self.cross_check));
            compared.map_or(Ok(()), |line| sink.line(Line::Comparison(line)))?;
        }
        Ok(())
    }
}

impl InRounds for Session<'_> {
    const RUN: &'static str = "run";

    /// Which cases run next, in random order and none twice in a row where there is another: all open ones until each has its
    /// first look, then those that gain most in a second.
    fn next_round(&mut self, _round: u32) -> Vec<usize> {
        let open: Vec<usize> = (0..self.cases.len()).filter(|index| self.cases[*index].is_open()).collect();
        if self.settings.is_short && self.runs == 0 {
            return open;
        }
        let fewest = open.iter().map(|index| self.cases[*index].runs.len()).min().unwrap_or(0);
        let mut chosen = if fewest >= LOOKS[0] { self.follow_up(&open) } else { open };
        self.random.shuffle(&mut chosen);
        if chosen.len() > 1 && chosen.first().copied() == self.last {
            let other = chosen.len() - 1;
            chosen.swap(0, other);
        }
        chosen
    }

    /// Sets of hubs that are due to meet.
    fn begin_round(&mut self, clock: &Clock, sink: &mut dyn Sink) -> io::Result<bool> {
        let cost = expected_run(self.settings.timing);
        for pair in self.cross_check.due(self.runs) {
            if !clock.holds(cost) {
                break;
            }
            if self.interrupt.take()? {
                return Ok(false);
            }
            let hubs = self.cross_check.hubs(pair);
            match self.hubs.cross_check(hubs, &mut self.coordinator, self.settings.timing) {
                Err(NoSet::Interrupted) => return Ok(false),
                Ok(log_ratio) => self.cross_check.keep(pair, log_ratio),
                Err(NoSet::Failed { step, why, .. }) => {
                    self.cross_check.give_up(pair);
                    let (case, with) = (self.hubs.id(hubs.0).clone(), self.hubs.id(hubs.1));
                    let why = format!("it could not take turns with the hub {with}: {why}");
                    sink.line(Line::Skipped(Skipped { case, step, why }))?;
                }
            }
        }
        Ok(true)
    }

    fn run_once(&mut self, index: usize, round: u32, sink: &mut dyn Sink) -> io::Result<bool> {
        let began = Instant::now();
        if self.settings.is_short {
            let unmeasured = self.cases.iter().filter(|open| open.is_open() && open.runs.is_empty()).count();
            self.pace.look(self.runs, unmeasured, self.settings.budget);
        }
        let outcome = self.measure(index);
        if matches!(outcome, Err(NoSet::Interrupted)) {
            return Ok(false);
        }
        self.runs += 1;
        self.last = Some(index);
        let open = &mut self.cases[index];
        open.note_cost(began.elapsed());
        open.attempts.begun += 1;
        let id = open.case.params.id.clone();
        let skip = |step: String, why: String| Line::Skipped(Skipped { case: id.clone(), step, why });
        match outcome {
            Err(NoSet::Interrupted) => unreachable!("it was looked at"),
            Err(NoSet::Failed { step, why, .. }) => {
                open.attempts.failed += 1;
                open.void_in_a_row += 1;
                // A case that has given numbers keeps them; one failure ends it, unless it came from outside and may pass.
                if !conditions::may_pass(&step) || open.void_in_a_row >= MOST_VOID {
                    open.stop(StoppedBy::Error);
                }
                sink.line(skip(step, why))?;
            }
            Ok((measured, _)) if measured.samples.is_empty() => {
                open.state = CaseState::Skipped;
                sink.line(skip("batches".into(), "no sample was taken".into()))?;
            }
            Ok((measured, slices)) => {
                open.void_in_a_row = 0;
                if open.runs.is_empty() {
                    let alone = open.hub.as_ref().err().cloned();
                    sink.line(Line::Case(summary::case_line(&open.case, &measured.facts, alone)))?;
                }
                let case = open.case.at_place(open.attempts.begun as usize - 1);
                let run = summary::run_line(&case, measured, open.runs.len() as u32, round);
                let (slices, turns) = slices.unzip();
                let run = record::Run { slices, ..run };
                sink.line(Line::Run(run.clone()))?;
                open.keep(run, turns);
                let is_first = open.runs.len() == 1;
                if open.is_open() {
                    self.decide(index);
                }
                if is_first && self.settings.count_calls {
                    return self.count_calls(index, sink);
                }
            }
        }
        Ok(true)
    }

    fn id(&self, index: usize) -> &CaseId {
        &self.cases[index].case.params.id
    }

    fn cost(&self, index: usize) -> Duration {
        self.cases[index].max_run_cost
    }

    fn close(&mut self, index: usize) -> bool {
        let of = &mut self.cases[index];
        if of.is_open() {
            of.stop(StoppedBy::Budget);
        }
        of.runs.is_empty()
    }

    fn extent(&self, _index: usize, _round: u32) -> Extent {
        let open = self.cases.iter().filter(|open| open.is_open());
        let runs_left = |open: &Open| self.settings.max_runs.saturating_sub(open.runs.len()) as u32;
        Extent {
            runs: self.runs,
            closed: self.cases.len() - open.clone().count(),
            cases: self.cases.len(),
            needed: open.map(|open| open.max_run_cost * runs_left(open)).sum(),
        }
    }
}
