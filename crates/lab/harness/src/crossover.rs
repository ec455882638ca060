//! The size at which two mechanisms are equally fast, searched for by measuring: after a session has shown between which
//! two of its sizes it lies, both are measured between them, again and again.
//!
//! A step is an ordinary session of a few cases, recorded like every other; which of the two is cheaper is told from the
//! medians of their runs, which were made in turn. What the search comes to is worked out from the record, where the
//! report says it.

use std::collections::BTreeSet;
use std::io;
use std::time::Instant;

use weighbridge_record::{CaseId, Line, Summary};
use weighbridge_stats::curve::{Bisection, CostCurve};

use crate::catalogue;
use crate::contract::Prepared;
use crate::coordinator::Coordinator;
use crate::host::Host;
use crate::interrupt::Interrupt;
use crate::session::{Ended, Progress, Session, Settings, Sink, expected_run};

/// The search ends when the two sizes are so near each other, as a share of the lower one.
const NARROW: f64 = 0.03;
/// Most runs of each case of a step: the interval of nine leaves out a disturbed run on each side, that of six does not.
const RUNS: usize = 9;

/// A search in one placement.
#[derive(Clone, Debug)]
pub struct Search {
    first: CaseId,
    second: CaseId,
    first_is_cheaper_below: bool,
    bisection: Bisection,
}

impl Search {
    /// A search for each pattern and placement in which both mechanisms were measured and their curves cross.
    pub fn all(first: &str, second: &str, measured: &[Summary]) -> Vec<Search> {
        let kinds = |mechanism: &str| -> Vec<CaseId> {
            let of = measured.iter().map(|summary| &summary.case).filter(|id| id.mechanism == mechanism);
            let mut seen = BTreeSet::new();
            of.map(|id| with_size(id, 0)).filter(|kind| seen.insert(kind.clone())).collect()
        };
        let seconds = kinds(second);
        let partner = |id: &CaseId| {
            seconds.iter().find(|other| (&other.pattern, &other.placement) == (&id.pattern, &id.placement))
        };
        kinds(first).iter().filter_map(|id| Search::between(id, partner(id)?, measured)).collect()
    }

    /// A search between two kinds of cases, which are all that differ from these in nothing but size. It begins where their
    /// curves cross for the last time among the sizes at which both were measured; `None` where they do not.
    pub fn between(first: &CaseId, second: &CaseId, measured: &[Summary]) -> Option<Search> {
        let points = |kind: &CaseId| -> Vec<(f64, f64)> {
            let is_point = |summary: &&Summary| {
                with_size(&summary.case, 0) == *kind && summary.case.payload_bytes > 0 && summary.median > 0.0
            };
            let point = |summary: &Summary| (summary.case.payload_bytes as f64, summary.median);
            measured.iter().filter(is_point).map(point).collect()
        };
        let (of_first, of_second) = (points(&with_size(first, 0)), points(&with_size(second, 0)));
        if of_first.is_empty() || of_second.is_empty() {
            return None;
        }
        let crossing = *CostCurve::new(&of_first).crossovers(&CostCurve::new(&of_second)).last()?;
        let is_common = |size: &f64| of_second.iter().any(|other| other.0 == *size);
        let common: Vec<f64> = of_first.iter().map(|point| point.0).filter(is_common).collect();
        let low = common.iter().copied().filter(|size| *size <= crossing.size).reduce(f64::max)?;
        let high = common.iter().copied().filter(|size| *size > low).reduce(f64::min)?;
        Some(Search {
            first: first.clone(),
            second: second.clone(),
            first_is_cheaper_below: crossing.cheaper_below,
            bisection: Bisection::new(low as u64, high as u64),
        })
    }

    /// The two cases to be measured next; `None` when the sizes between which it lies are near enough.
    pub fn next(&self) -> Option<[CaseId; 2]> {
        let (low, high) = self.bisection.bracket();
        if (high - low) as f64 <= low as f64 * NARROW {
            return None;
        }
        let bytes = self.bisection.probe()?;
        Some([with_size(&self.first, bytes), with_size(&self.second, bytes)])
    }

    /// Takes what the two cost.
    pub fn tell(&mut self, first: f64, second: f64) {
        self.bisection.tell((first <= second) == self.first_is_cheaper_below);
    }

    /// The sizes between which it lies, as far as is known.
    pub fn bracket(&self) -> (u64, u64) {
        self.bisection.bracket()
    }
}

/// Passes on what a session tells, and keeps what a search needs of it.
pub struct Listener<'a> {
    to: &'a mut dyn Sink,
    summaries: Vec<Summary>,
    next_round: u32,
}

impl<'a> Listener<'a> {
    /// Passes on to `to`. Rounds are counted from `first_round`.
    pub fn new(to: &'a mut dyn Sink, first_round: u32) -> Listener<'a> {
        Listener { to, summaries: Vec::new(), next_round: first_round }
    }

    /// The summaries that were told, and the index of the first round that was not.
    pub fn heard(self) -> (Vec<Summary>, u32) {
        (self.summaries, self.next_round)
    }
}

impl Sink for Listener<'_> {
    fn line(&mut self, line: Line) -> io::Result<()> {
        match &line {
            Line::Run(run) => self.next_round = self.next_round.max(run.round + 1),
            Line::Summary(summary) => self.summaries.push(summary.clone()),
            _ => {}
        }
        self.to.line(line)
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.to.progress(progress);
    }
}

/// Goes on with all searches, a step of each at a time, until each has ended, none can go on, or the budget is used up. The
/// first step begins with round `settings.first_round`.
pub fn run<'c>(
    mut searches: Vec<Search>,
    host: &Host,
    settings: &Settings,
    interrupt: &'c Interrupt,
    coordinator: impl Fn() -> Coordinator<'c>,
    sink: &mut dyn Sink,
) -> io::Result<Ended> {
    let began = Instant::now();
    let mut first_round = settings.first_round;
    loop {
        let searching = searches.iter().enumerate();
        let steps: Vec<(usize, [CaseId; 2])> =
            searching.filter_map(|(index, search)| Some((index, search.next()?))).collect();
        let ids = steps.iter().flat_map(|(_, pair)| pair);
        let cases: Vec<Prepared> = ids.filter_map(|id| catalogue::prepare(id, host).ok()).collect();
        let max_runs = RUNS.min(settings.max_runs);
        let budget = settings.budget.saturating_sub(began.elapsed());
        if cases.is_empty() || budget < expected_run(settings.timing) * (cases.len() * max_runs) as u32 {
            return Ok(Ended::Complete);
        }
        let settings = Settings { budget, max_runs, first_round, ..settings.clone() };
        let mut listener = Listener::new(sink, first_round);
        let ended = Session::new(settings, coordinator(), interrupt, cases).run(&mut listener)?;
        let (summaries, next_round) = listener.heard();
        first_round = next_round;
        let cost_of = |id: &CaseId| Some(summaries.iter().find(|summary| summary.case == *id)?.median);
        let mut is_stuck = true;
        for (index, pair) in &steps {
            if let [Some(first), Some(second)] = pair.each_ref().map(cost_of) {
                searches[*index].tell(first, second);
                is_stuck = false;
            }
        }
        if ended == Ended::Interrupted || is_stuck {
            return Ok(ended);
        }
    }
}

fn with_size(id: &CaseId, payload_bytes: u64) -> CaseId {
    CaseId { payload_bytes, ..id.clone() }
}
