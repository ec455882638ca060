//! A comparison of two sides: whether B costs more than A, case by case, and how sure that is.
//!
//! A set is fresh peers of A and of B that take turns in slices; in some sets there is a second A, the control: what A against
//! itself shows is what this machine cannot tell apart. Each case is looked at when it has as many sets as
//! [`Looks`] says, and is closed when its verdict is clear.

mod builds;
mod judge;
pub mod machine;
mod records;
mod set;
mod triples;

use std::io;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use weighbridge_record::{self as record, CaseId, CaseVerdict, ComparedSet, Line, MadeOf, Price};
use weighbridge_stats::correlation::pooled_lag1;
use weighbridge_stats::sequential::Looks;
use weighbridge_stats::verdict::FEWEST_SETS;

use crate::contract::Prepared;
use crate::coordinator::{Coordinator, Counted, PeerStart};
use crate::duet::Random;
use crate::interrupt::Interrupt;
use crate::planner::Timing;
use crate::rounds::{self, Extent, InRounds};
use crate::session::{Ended, Sink};

use crate::set::NoSet;
pub use builds::Build;
use builds::{Turns, start_of, within_pairs};
use judge::{Judged, judge};
pub use judge::{Rules, failed_too_often};
use machine::MachineSettings;
pub use records::{SideRecords, compare as compare_records};
pub use triples::{Triples, judge_triples};

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct Side {
    /// What it is, for people.
    pub label: String,
    /// How its peers are started.
    pub start: PeerStart,
    /// Builds from which they are started, of one source and in turn; empty where both sides are one program.
    pub builds: Vec<Build>,
    /// Settings of the whole machine.
    pub sysctls: Vec<machine::Sysctl>,
}

/// A case with the settings of both sides.
#[derive(Clone, Debug)]
pub struct Pair {
    /// As it was selected.
    pub case: CaseId,
    /// With the settings of A.
    pub a: Prepared,
    /// With the settings of B.
    pub b: Prepared,
}

/// What is asked of a comparison.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What counts as a difference, and how many may be chance.
    pub rules: Rules,
    /// What the sets may take together.
    pub budget: Duration,
    /// Fewest and most sets of a case.
    pub sets: RangeInclusive<usize>,
    /// Length of a set.
    pub timing: Timing,
    /// Are system calls counted, in one more run of each case and side?
    pub count_calls: bool,
    /// Seed of every order that is drawn.
    pub seed: u64,
    /// What differs between the programs of both sides, a sentence each.
    pub differences: Vec<String>,
    /// What a switch or a system call costs, to name what a difference is made of; may be empty.
    pub prices: Vec<Price>,
}

/// The control is in each of the first sets, so that a verdict at the first look can be void, and then in one of so many.
const CONTROL_FIRST: usize = FEWEST_SETS;
const CONTROL_EVERY: usize = 3;

/// Has this set of a case, counted from 0, a second A?
fn has_control(set: usize) -> bool {
    set < CONTROL_FIRST || set.is_multiple_of(CONTROL_EVERY)
}

/// A case that has failed so often, and in half of its sets, gets no further ones.
const FAILURES_TO_CLOSE: usize = 3;

/// A case, as far as it is measured.
struct Open {
    pair: Pair,
    sets: Vec<ComparedSet>,
    turns: Turns,
    /// Failed sets of A and of B.
    failed: [usize; 2],
    last_failure: Option<String>,
    is_open: bool,
    /// Was it the budget that ended it?
    is_out_of_time: bool,
    cost: Option<Duration>,
    system_calls: [Option<record::SystemCalls>; 2],
    not_counted: Option<String>,
}

impl Open {
    fn new(pair: Pair) -> Open {
        Open {
            pair,
            sets: Vec::new(),
            turns: Turns::default(),
            failed: [0; 2],
            last_failure: None,
            is_open: true,
            is_out_of_time: false,
            cost: None,
            system_calls: [None, None],
            not_counted: None,
        }
    }

    fn attempts(&self) -> usize {
        self.sets.len() + self.failures()
    }

    fn failures(&self) -> usize {
        self.failed.iter().sum()
    }
}

/// Measures both sides.
pub struct Comparison<'a> {
    settings: Settings,
    sides: [Side; 2],
    coordinator: Coordinator<'a>,
    machine: Option<MachineSettings>,
    interrupt: &'a Interrupt,
    cases: Vec<Open>,
    random: Random,
    sets: usize,
    looks: Looks,
}

impl<'a> Comparison<'a> {
    /// Nothing is started yet.
    pub fn new(
        settings: Settings,
        sides: [Side; 2],
        coordinator: Coordinator<'a>,
        interrupt: &'a Interrupt,
        pairs: Vec<Pair>,
    ) -> Comparison<'a> {
        Comparison {
            random: Random::new(settings.seed),
            looks: Looks::up_to(*settings.sets.end()),
            cases: pairs.into_iter().map(Open::new).collect(),
            settings,
            sides,
            coordinator,
            machine: None,
            interrupt,
            sets: 0,
        }
    }

    /// Changes settings of the whole machine from side to side; the sides then run one after the other.
    pub fn with_machine_settings(self, machine: Option<MachineSettings>) -> Comparison<'a> {
        Comparison { machine, ..self }
    }

    /// Runs to the end, and tells everything to `sink`: each set as it comes, then the verdicts and what holds of all of them, which are tried
    /// after an error of `sink` too.
    pub fn run(mut self, sink: &mut dyn Sink) -> io::Result<Ended> {
        let (budget, interrupt) = (self.settings.budget, self.interrupt);
        let ended = rounds::run(&mut self, 0, budget, interrupt, sink);
        let put_back = self.machine.take().map_or(Ok(()), MachineSettings::put_back);
        self.conclude(sink).and(put_back.map_err(io::Error::other)).and(ended)
    }

    /// Counts the system calls of both sides of a case, where the sides can run at the same time. `false` when the user has had enough.
    fn count_calls(&mut self, index: usize) -> bool {
        let open = &mut self.cases[index];
        if !self.settings.count_calls || self.machine.is_some() || open.system_calls[0].is_some() {
            return true;
        }
        for (side, case) in [&open.pair.a, &open.pair.b].into_iter().enumerate() {
            let (start, _) = start_of(&self.sides[side].builds, &self.sides[side].start, 0);
            match self.coordinator.count_calls(case, &start) {
                Counted::Interrupted => return false,
                Counted::Calls(calls) => open.system_calls[side] = Some(calls),
                Counted::Threads => {}
                Counted::Failed { why, .. } => open.not_counted = Some(why),
            }
        }
        true
    }

    /// That of neighboring sets, over all cases.
    fn correlation(&self) -> f64 {
        let of_case = |open: &Open| within_pairs(&open.sets);
        pooled_lag1(&self.cases.iter().map(of_case).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    fn conclude(&self, sink: &mut dyn Sink) -> io::Result<()> {
        let attempted = self.cases.iter().filter(|open| open.attempts() > 0);
        let correlation = self.correlation();
        let judged: Vec<Judged> =
            attempted.map(|open| judged(open, &self.sides, &self.looks, correlation)).collect();
        let (verdicts, mut claims) = judge(&judged, self.settings.rules);
        for mut verdict in verdicts {
            match made_of(&verdict, &self.settings.prices) {
                Ok(parts) => verdict.made_of = parts,
                Err(why) => verdict.remarks.push(why),
            }
            sink.line(verdict.into())?;
        }
        claims.differences.clone_from(&self.settings.differences);
        sink.line(Line::Claims(claims))
    }
}

impl InRounds for Comparison<'_> {
    const RUN: &'static str = "set";

    fn next_round(&mut self, _round: u32) -> Vec<usize> {
        let mut order: Vec<usize> =
            (0..self.cases.len()).filter(|index| self.cases[*index].is_open).collect();
        self.random.shuffle(&mut order);
        order
    }

    fn run_once(&mut self, index: usize, _round: u32, sink: &mut dyn Sink) -> io::Result<bool> {
        let began = Instant::now();
        let count = self.cases.len();
        let open = &mut self.cases[index];
        let pairs = self.sides.iter().map(|side| side.builds.len()).max().unwrap_or(0);
        let pair = open.turns.next(pairs, &mut self.random);
        let [a, b] = &self.sides;
        let [(a, build_of_a), (b, build_of_b)] = [a, b].map(|side| start_of(&side.builds, &side.start, pair));
        let planned = set::Planned {
            pair: &open.pair,
            starts: [&a, &b],
            builds: [build_of_a, build_of_b],
            number: open.sets.len(),
            has_control: has_control(open.attempts()),
            timing: self.settings.timing,
            seed: self.random.next_u64(),
        };
        let outcome = planned.measure(&mut self.coordinator, self.machine.as_mut());
        self.sets += 1;
        match outcome {
            Err(NoSet::Interrupted) => return Ok(false),
            Err(NoSet::Failed { party, step, why }) => {
                let side = set::side_of(party);
                open.failed[side] += 1;
                let why = format!("side {} ({}): {why}", ["A", "B"][side], self.sides[side].label);
                open.last_failure = Some(why.clone());
                let case = open.pair.case.clone();
                sink.line(Line::Skipped(record::Skipped { case, step, why }))?;
                if open.failures() >= FAILURES_TO_CLOSE && open.failures() * 2 >= open.attempts() {
                    open.is_open = false;
                }
            }
            Ok(set) => {
                sink.line(Line::ComparedSet(Box::new(set.clone())))?;
                open.sets.push(set);
                let (sets, range) = (open.sets.len(), &self.settings.sets);
                let correlation = self.correlation();
                let judged = judged(&self.cases[index], &self.sides, &self.looks, correlation);
                let is_clear = sets >= *range.start()
                    && judge::is_clear(&judged, self.settings.rules, &self.looks, count);
                self.cases[index].is_open = sets < *range.end() && !is_clear;
            }
        }
        let open = &mut self.cases[index];
        open.cost = open.cost.max(Some(began.elapsed()));
        match open.sets.len() {
            1 if open.is_open => Ok(self.count_calls(index)),
            _ => Ok(true),
        }
    }

    fn id(&self, index: usize) -> &CaseId {
        &self.cases[index].pair.case
    }

    fn cost(&self, index: usize) -> Duration {
        self.cases[index].cost.unwrap_or_default()
    }

    fn close(&mut self, index: usize) -> bool {
        let of = &mut self.cases[index];
        of.is_open = false;
        of.is_out_of_time = true;
        of.attempts() == 0
    }

    fn extent(&self, _index: usize, _round: u32) -> Extent {
        let open = self.cases.iter().filter(|open| open.is_open);
        let most = *self.settings.sets.end();
        let expected = expected_set(self.settings.timing);
        let left = |open: &Open| open.cost.unwrap_or(expected) * most.saturating_sub(open.sets.len()) as u32;
        Extent {
            runs: self.sets,
            closed: self.cases.len() - open.clone().count(),
            cases: self.cases.len(),
            needed: open.map(left).sum(),
        }
    }
}

/// What a set is expected to take, start of the peers included.
pub fn expected_set(timing: Timing) -> Duration {
    Duration::from_nanos(set::expected_ns(timing))
}

/// The parts of a difference of times whose counts differ; a sentence, where the prices are of other places.
fn made_of(verdict: &CaseVerdict, prices: &[Price]) -> Result<Vec<MadeOf>, String> {
    let counts = verdict.a_per_op.as_ref().zip(verdict.b_per_op.as_ref());
    let Some((a, b)) = counts.filter(|_| !prices.is_empty() && verdict.unit.starts_with("ns/")) else {
        return Ok(Vec::new());
    };
    let side = |per_op, system_calls| weighbridge_analysis::explain::Side { per_op, system_calls };
    let (a, b) = (side(a, verdict.a_system_calls.as_ref()), side(b, verdict.b_system_calls.as_ref()));
    weighbridge_analysis::explain::difference(&verdict.case, a, b, prices)
}

fn judged(open: &Open, sides: &[Side; 2], looks: &Looks, correlation: f64) -> Judged {
    let in_turn = if sides.iter().all(|side| side.sysctls.is_empty()) {
        set::slice_ns(&open.pair)
    } else {
        Err("a setting of the whole machine holds for both".into())
    };
    let (failed, of) = (open.failures(), open.attempts());
    let apart = in_turn.err().map(|why| format!("the sides ran one after the other and not in turn: {why}"));
    let failures = open.last_failure.as_ref().map(|why| format!("{failed} of {of} sets failed; {why}"));
    let uncounted = open.not_counted.as_ref().map(|why| format!("system calls were not counted: {why}"));
    let remarks = [apart, failures, uncounted].into_iter().flatten().collect();
    let unit = open.pair.a.pattern.unit.name(open.pair.case.payload_bytes);
    let labels = sides.each_ref().map(|side| side.label.clone());
    let judged =
        Judged::of_sets(open.pair.case.clone(), labels, unit, &open.sets, failed, correlation, remarks);
    let sets = open.sets.len();
    let ended = (open.is_out_of_time && sets > 0).then(|| looks.ended_at(sets));
    let stage = ended.as_ref().unwrap_or(looks).stage(sets);
    let evidence = judged.evidence.looked_at(stage);
    Judged { evidence, system_calls: open.system_calls.clone(), ..judged }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_look_has_a_control_that_can_void() {
        let pairs = |(sets, _)| (0..sets).filter(|set| has_control(*set)).count();
        assert_eq!(Looks::default().iter().map(pairs).collect::<Vec<_>>(), [10, 11, 14, 20]);
    }
}
