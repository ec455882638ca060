//! The size at which two mechanisms are equally fast, searched for by measuring: after a session has shown between which
//! two of its sizes it lies, both are measured between them, again and again.
//!
//! A step is an ordinary session of a few cases, recorded like every other; which of the two is cheaper is told from the
//! medians of their runs, which were made in turn. What the search comes to is worked out from the record, where the
//! report says it.

use std::fmt;
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
            let mut kinds: Vec<CaseId> = Vec::new();
            let of = measured.iter().map(|summary| &summary.case).filter(|id| id.mechanism == mechanism);
            for kind in of.map(|id| with_size(id, 0)) {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            kinds
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
            let of_kind = measured.iter().filter(|summary| with_size(&summary.case, 0) == with_size(kind, 0));
            of_kind
                .filter(|summary| summary.case.payload_bytes > 0 && summary.median > 0.0)
                .map(|summary| (summary.case.payload_bytes as f64, summary.median))
                .collect()
        };
        let (of_first, of_second) = (points(first), points(second));
        if of_first.is_empty() || of_second.is_empty() {
            return None;
        }
        let crossing = *CostCurve::new(&of_first).crossovers(&CostCurve::new(&of_second)).last()?;
        let common = of_first
            .iter()
            .map(|point| point.0)
            .filter(|size| of_second.iter().any(|other| other.0 == *size));
        let common: Vec<f64> = common.collect();
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

impl fmt::Debug for Listener<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("next_round", &self.next_round).finish_non_exhaustive()
    }
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
///
/// # Errors
/// Those of `sink`.
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
        let steps: Vec<(usize, [CaseId; 2])> =
            searches.iter().enumerate().filter_map(|(index, search)| Some((index, search.next()?))).collect();
        let cases: Vec<Prepared> = steps
            .iter()
            .flat_map(|(_, pair)| pair)
            .filter_map(|id| catalogue::prepare(id, host).ok())
            .collect();
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
        let cost_of =
            |id: &CaseId| summaries.iter().find(|summary| summary.case == *id).map(|summary| summary.median);
        let mut is_stuck = true;
        for (index, [first, second]) in &steps {
            if let (Some(first), Some(second)) = (cost_of(first), cost_of(second)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(id: &CaseId, median: f64) -> Summary {
        Summary::new(id.clone(), "ns/roundtrip", 6, median)
    }

    /// A copy that costs 1,000 ns and a nanosecond a byte, and a file that costs 50,000 ns whatever its size.
    fn cost(id: &CaseId) -> f64 {
        if id.mechanism == "memfd-pass" { 50_000.0 } else { 1_000.0 + id.payload_bytes as f64 }
    }

    #[test]
    fn the_charts_are_searched_in_both_placements_and_the_steps_end_around_the_crossing() {
        let case = |mechanism, power, place| CaseId::new("roundtrip", mechanism, 1u64 << power, place);
        let sizes = (0..=22).flat_map(|power| ["same-cpu", "two-cpus"].map(|place| (power, place)));
        let both =
            |(power, place)| ["causeway-sw", "memfd-pass"].map(|mechanism| case(mechanism, power, place));
        let summaries: Vec<Summary> = sizes.flat_map(both).map(|id| summary(&id, cost(&id))).collect();
        let mut searches = Search::all("causeway-sw", "memfd-pass", &summaries);
        assert_eq!(searches.len(), 2);
        for search in &mut searches {
            assert_eq!(search.bracket(), (32_768, 65_536));
            let mut steps = 0;
            while let Some([first, second]) = search.next() {
                search.tell(cost(&first), cost(&second));
                steps += 1;
            }
            let (low, high) = search.bracket();
            assert!(low <= 49_000 && 49_000 <= high && high - low <= low / 33 + 1, "{low} {high}");
            assert!(steps <= 6, "{steps} steps");
        }
    }

    #[test]
    fn curves_that_do_not_cross_are_not_searched() {
        let cases = [
            ("causeway-sw", 1, 5.0),
            ("causeway-sw", 2, 6.0),
            ("memfd-pass", 1, 7.0),
            ("memfd-pass", 2, 7.0),
        ];
        let summaries: Vec<Summary> = cases
            .iter()
            .map(|(mechanism, bytes, cost)| {
                summary(&CaseId::new("roundtrip", mechanism, *bytes, "free"), *cost)
            })
            .collect();
        assert!(Search::all("causeway-sw", "memfd-pass", &summaries).is_empty());
        assert!(Search::all("causeway-sw", "memfd-pass", &[]).is_empty());
    }
}
