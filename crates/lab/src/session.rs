//! A session: all cases in rounds, interleaved, until each is precise enough or the time is up.
//!
//! Every round measures its cases in random order, so that what drifts with time hits all of them. Once every case has the
//! runs that an interval needs, the further runs go to the cases that are furthest from their precision.

pub(crate) mod hubs;

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use weighbridge_record as record;
use weighbridge_record::{CaseId, Line, StoppedBy};
use weighbridge_stats::{self as stats, Decision, Stop, StoppingRule, duet};

use crate::conditions;
use crate::contract::Prepared;
use crate::coordinator::{Coordinator, Outcome};
use crate::duet::Random;
use crate::interrupt::Interrupt;
use crate::planner::Timing;
use crate::summary;
use hubs::{Hubs, Set};

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
}

/// What a session tells while it goes on. Nothing is told during a run.
pub trait Sink {
    /// A line of the record.
    ///
    /// # Errors
    /// It cannot be kept; the session then ends.
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
    OVERHEAD + Duration::from_nanos(alone_ns.max(hubs::set_ns(timing)))
}

struct Open {
    case: Prepared,
    /// Index of its hub, or why it has none.
    hub: Result<usize, String>,
    /// The slices of each set, of the case and of the hub.
    sets: Vec<Vec<duet::Slice>>,
    runs: Vec<record::Run>,
    rounds: Vec<u32>,
    attempts: record::Attempts,
    /// Void runs since the last valid one.
    void_in_a_row: u32,
    facts: crate::contract::Facts,
    cost: Duration,
    state: CaseState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseState {
    Open,
    Stopped(StoppedBy),
    /// It never gave a number.
    Skipped,
}

/// Measures cases.
pub struct Session<'a> {
    settings: Settings,
    coordinator: Coordinator<'a>,
    interrupt: &'a Interrupt,
    cases: Vec<Open>,
    hubs: Hubs,
    rule: StoppingRule,
    random: Random,
    began: Instant,
    runs: usize,
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
        let open = |(case, hub)| Open {
            case,
            hub,
            sets: Vec::new(),
            runs: Vec::new(),
            rounds: Vec::new(),
            attempts: record::Attempts::default(),
            void_in_a_row: 0,
            facts: Default::default(),
            cost,
            state: CaseState::Open,
        };
        Session {
            rule: StoppingRule { precision: settings.precision, max_runs: settings.max_runs },
            random: Random::new(settings.seed),
            cases: cases.into_iter().zip(hub_of).map(open).collect(),
            hubs,
            settings,
            coordinator,
            interrupt,
            began: Instant::now(),
            runs: 0,
        }
    }

    /// Runs to the end, and tells everything to `sink`: case, run and skipped lines as they come, then summaries and
    /// comparisons.
    ///
    /// # Errors
    /// Only those of `sink`. What was told before stays told; summaries are tried even then.
    pub fn run(mut self, sink: &mut dyn Sink) -> io::Result<Ended> {
        self.began = Instant::now();
        let mut ended = Ok(Ended::Complete);
        for round in self.settings.first_round.. {
            let order = self.next_round();
            if order.is_empty() {
                break;
            }
            match self.round(round, &order, sink) {
                Ok(true) => {}
                Ok(false) => {
                    ended = Ok(Ended::Interrupted);
                    self.stop_all(StoppedBy::Interrupted);
                }
                Err(error) => {
                    ended = Err(error);
                    self.stop_all(StoppedBy::Error);
                }
            }
        }
        self.summarise(sink).and(ended)
    }

    /// Which cases run next, in random order: all open ones until each has its first look, then the neediest.
    fn next_round(&mut self) -> Vec<usize> {
        let open: Vec<usize> =
            (0..self.cases.len()).filter(|index| self.cases[*index].state == CaseState::Open).collect();
        let fewest = open.iter().map(|index| self.cases[*index].runs.len()).min().unwrap_or(0);
        let mut chosen = open;
        if fewest >= stats::stopping::LOOKS[0] {
            let need = |open: &Open| stats::stopping::need(&evidence(open), self.settings.precision);
            chosen.sort_by(|a, b| need(&self.cases[*b]).total_cmp(&need(&self.cases[*a])));
            chosen.truncate(FOLLOW_UP);
        }
        self.random.shuffle(&mut chosen);
        chosen
    }

    /// One run of each case in `order`. `false` when the user has had enough.
    fn round(&mut self, round: u32, order: &[usize], sink: &mut dyn Sink) -> io::Result<bool> {
        for &index in order {
            if self.interrupt.take()? {
                return Ok(false);
            }
            if self.began.elapsed() + self.cases[index].cost > self.settings.budget {
                self.cases[index].state = match self.cases[index].runs.len() {
                    0 => CaseState::Skipped,
                    _ => CaseState::Stopped(StoppedBy::Budget),
                };
                if self.cases[index].runs.is_empty() {
                    let id = self.cases[index].case.params.id.clone();
                    let why = "the budget was used up before its first run; raise it with --budget".into();
                    sink.line(Line::Skipped(record::Skipped { case: id, step: "plan".into(), why }))?;
                }
                continue;
            }
            sink.progress(&self.progress(index, round));
            if !self.run_once(index, round, sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn run_once(&mut self, index: usize, round: u32, sink: &mut dyn Sink) -> io::Result<bool> {
        let began = Instant::now();
        let (outcome, slices) = self.measure(index);
        let is_set = matches!(outcome, Outcome::Measured(_)) && slices.is_some();
        let outcome = void_unless_as_said(&self.cases[index].case, outcome);
        if is_set && matches!(outcome, Outcome::Failed { .. }) {
            self.forget_set(index);
        }
        self.runs += 1;
        let open = &mut self.cases[index];
        // The dearest run so far, so that the budget holds.
        open.cost = if open.runs.is_empty() { began.elapsed() } else { open.cost.max(began.elapsed()) };
        open.attempts.begun += u32::from(!matches!(outcome, Outcome::Interrupted));
        let id = open.case.params.id.clone();
        let skip = |step: String, why: String| Line::Skipped(record::Skipped { case: id.clone(), step, why });
        match outcome {
            Outcome::Interrupted => return Ok(false),
            Outcome::Failed { step, why } => {
                open.attempts.failed += 1;
                open.void_in_a_row += 1;
                // A case that has given numbers keeps them; one failure ends it, unless it came from outside and may pass.
                let may_pass = step == conditions::THROTTLED && open.void_in_a_row < MOST_VOID;
                open.state = match open.runs.len() {
                    _ if may_pass => CaseState::Open,
                    0 => CaseState::Skipped,
                    _ => CaseState::Stopped(StoppedBy::Error),
                };
                sink.line(skip(step, why))?;
            }
            Outcome::Measured(measured) if measured.samples.is_empty() => {
                open.state = CaseState::Skipped;
                sink.line(skip("batches".into(), "no sample was taken".into()))?;
            }
            Outcome::Measured(measured) => {
                open.void_in_a_row = 0;
                if open.runs.is_empty() {
                    open.facts.clone_from(&measured.facts);
                    let alone = open.hub.as_ref().err().cloned();
                    sink.line(Line::Case(summary::case_line(&open.case, &measured.facts, alone)))?;
                }
                let run = summary::run_line(&open.case, *measured, open.runs.len() as u32, round);
                let run = record::Run { slices, ..run };
                sink.line(Line::Run(run.clone()))?;
                open.runs.push(run);
                open.rounds.push(round);
                if let Decision::Stop(stop) = self.rule.decide(&evidence(open)) {
                    open.state = CaseState::Stopped(match stop {
                        Stop::Precision => StoppedBy::Precision,
                        Stop::MaxRuns => StoppedBy::MaxRuns,
                    });
                }
            }
        }
        Ok(true)
    }

    /// One run of a case, alone or in turn with its hub; then with the slices of both.
    fn measure(&mut self, index: usize) -> (Outcome, Option<record::Slices>) {
        let open = &mut self.cases[index];
        let timing = self.settings.timing;
        let Ok(hub) = open.hub else { return (self.coordinator.run(&open.case, timing), None) };
        match self.hubs.run(hub, &open.case, open.sets.len(), &mut self.coordinator, timing) {
            Set::Interrupted => (Outcome::Interrupted, None),
            Set::Failed { step, why } => (Outcome::Failed { step, why }, None),
            Set::Measured { measured, slices, of_both } => {
                open.sets.push(of_both);
                (Outcome::Measured(measured), Some(*slices))
            }
        }
    }

    /// The last set of a case was void: neither its slices nor those of the hub count.
    fn forget_set(&mut self, index: usize) {
        let open = &mut self.cases[index];
        open.sets.pop();
        if let Ok(hub) = open.hub {
            self.hubs.forget_set(hub);
        }
    }

    fn stop_all(&mut self, by: StoppedBy) {
        for open in &mut self.cases {
            if open.state == CaseState::Open {
                open.state = if open.runs.is_empty() { CaseState::Skipped } else { CaseState::Stopped(by) };
            }
        }
    }

    fn progress(&self, index: usize, round: u32) -> Progress<'_> {
        let elapsed = self.began.elapsed();
        let open = self.cases.iter().filter(|open| open.state == CaseState::Open);
        let left = self.settings.budget.saturating_sub(elapsed);
        let runs_left = |open: &Open| self.settings.max_runs.saturating_sub(open.runs.len()) as u32;
        let needed: Duration = open.clone().map(|open| open.cost * runs_left(open)).sum();
        Progress {
            case: &self.cases[index].case.params.id,
            runs: self.runs,
            closed: self.cases.len() - open.count(),
            cases: self.cases.len(),
            round,
            elapsed,
            remaining: needed.min(left),
        }
    }

    fn summarise(&self, sink: &mut dyn Sink) -> io::Result<()> {
        let measured = self.cases.iter().filter(|open| !open.runs.is_empty());
        let by_id: BTreeMap<&CaseId, &Open> =
            measured.clone().map(|open| (&open.case.params.id, open)).collect();
        for open in measured {
            let CaseState::Stopped(stopped_by) = open.state else {
                unreachable!("a measured case has stopped")
            };
            let mut line = summary::summary_line(&open.case, &open.runs, stopped_by);
            line.attempts = Some(open.attempts);
            if let record::Attempts { begun, failed: failed @ 1.. } = open.attempts {
                line.anomalies.push(format!(
                    "{failed} of {begun} runs gave no number; see the lines skipped of the record"
                ));
            }
            self.scale_by_hub(open, &mut line);
            if let Some(anomaly) = equivalent_disagrees(open, &by_id) {
                line.anomalies.push(anomaly);
            }
            sink.line(Line::Summary(line))?;
        }
        for hub in self.hubs.lines() {
            sink.line(Line::Hub(hub))?;
        }
        for open in by_id.values() {
            let Some(baseline) = baseline_of(&open.case.params.id).and_then(|id| by_id.get(&id)) else {
                continue;
            };
            if let Some(line) = compare(baseline, open) {
                sink.line(Line::Comparison(line))?;
            }
        }
        Ok(())
    }

    /// The figures of a case that took turns: its ratio to the hub, and as its value that ratio times what the hub cost over
    /// the whole session, which is known better than by the sets of one case.
    fn scale_by_hub(&self, open: &Open, line: &mut record::Summary) {
        let Ok(hub) = open.hub else { return };
        let (Some(session), Some(ratio)) = (self.hubs.session(hub), duet::to_hub(&open.sets, 0)) else {
            return;
        };
        let value = |ratio: f64| hubs::value_of_cost(&open.case, session.absolute(ratio));
        line.median = value(ratio.ratio);
        line.ci95 = ratio.interval.map(|interval| {
            let ends = [value(interval.low), value(interval.high)];
            [ends[0].min(ends[1]), ends[0].max(ends[1])]
        });
        if let Some(states) = duet::states(&open.sets, duet::Party::Case(0)) {
            line.best = Some(hubs::value_of_cost(&open.case, states.best_ns));
            line.slow_share = Some(states.slow_share);
        }
        line.to_hub = Some(record::ToHub {
            hub: self.hubs.id(hub).clone(),
            median: ratio.ratio,
            ci95: ratio.interval.map(|interval| [interval.low, interval.high]),
            sets: ratio.log_ratios.len() as u32,
        });
    }
}

/// The baseline of all comparisons of a session: the plain pipe.
const BASELINE: &str = "pipe";

/// The baseline of a case: the same case with a pipe, unless it is that case itself.
fn baseline_of(id: &CaseId) -> Option<CaseId> {
    let baseline = CaseId::new(&id.pattern, BASELINE, id.payload_bytes, &id.placement);
    (baseline != *id && id.mechanism != "noop" && id.mechanism != "mock").then_some(baseline)
}

fn equivalent_disagrees(open: &Open, by_id: &BTreeMap<&CaseId, &Open>) -> Option<String> {
    let id = &open.case.params.id;
    let twin_id = crate::counter_check::equivalent_case(id)?;
    let pairs = pairs(by_id.get(&twin_id)?, open);
    if pairs.is_empty() { None } else { crate::counter_check::disagree(id, &twin_id, &pairs) }
}

/// How much faster a case is than its baseline: through their common hub where they have one, else by runs of the same
/// round.
fn compare(baseline: &Open, candidate: &Open) -> Option<record::Comparison> {
    let (a, b) = (&baseline.case.params.id, &candidate.case.params.id);
    if let (Ok(hub), Ok(other)) = (&baseline.hub, &candidate.hub)
        && hub == other
    {
        let (base, of_case) = (duet::to_hub(&baseline.sets, 0)?, duet::to_hub(&candidate.sets, 0)?);
        // A speed-up is the baseline's cost over the case's.
        let speedup = duet::apart(&base, &of_case);
        return Some(record::Comparison {
            case: b.clone(),
            baseline: a.clone(),
            speedup: speedup.ratio()?,
            ci95: speedup.interval(0.95).map(|interval| [interval.low, interval.high]),
            pairs: speedup.units() as u32,
        });
    }
    let pairs = pairs(baseline, candidate);
    let higher_is_better = candidate.case.pattern.unit.higher_is_better();
    (!pairs.is_empty()).then(|| summary::comparison_line(a, b, &pairs, higher_is_better))
}

/// A run whose roles did not run as the case says has no numbers.
fn void_unless_as_said(case: &Prepared, outcome: Outcome) -> Outcome {
    let Outcome::Measured(measured) = &outcome else { return outcome };
    match conditions::void(case, measured) {
        None => outcome,
        Some((step, why)) => Outcome::Failed { step: step.into(), why },
    }
}

/// What a decision to stop rests on: ratios to the hub where the case has one, else the values of the runs.
fn evidence(open: &Open) -> Vec<f64> {
    match open.hub {
        Ok(_) => {
            let ratio =
                |set: &Vec<duet::Slice>| duet::set_log_ratio(set, duet::Party::Case(0), duet::Party::Hub);
            open.sets.iter().filter_map(ratio).map(f64::exp).collect()
        }
        Err(_) => values(&open.runs),
    }
}

/// The values of two cases in the rounds in which both ran.
fn pairs(baseline: &Open, candidate: &Open) -> Vec<(f64, f64)> {
    let of_round: BTreeMap<u32, f64> = baseline.runs.iter().map(|run| (run.round, run.value)).collect();
    let pair = |run: &record::Run| of_round.get(&run.round).map(|value| (*value, run.value));
    candidate.runs.iter().filter_map(pair).filter(|(a, b)| *a > 0.0 && *b > 0.0).collect()
}

fn values(runs: &[record::Run]) -> Vec<f64> {
    runs.iter().map(|run| run.value).collect()
}
