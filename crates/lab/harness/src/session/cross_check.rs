//! Hubs of different kinds meet in sets of their own, so that cases of different hubs can be compared: a case to its hub, that hub to
//! the other one, and the other case to that.

use std::collections::VecDeque;

use weighbridge_record::{self as record, CaseId};
use weighbridge_stats::Evidence;

use super::hubs::Hubs;
use super::open::{Open, baseline_of};
use crate::axis::Idle;
use crate::summary::ends;

/// Sets of a pair of hubs at most: enough for an interval, and no case has much more at its first look.
const ENOUGH: usize = 8;
/// A pair that a comparison of the session needs meets before every round, any other one once in so many runs.
const RUNS_BETWEEN: usize = 8;

/// Two hubs, and the logarithms of the cost of the first over that of the second, one for each set.
struct Pair {
    hubs: (usize, usize),
    /// Does a comparison of the session need it?
    is_wanted: bool,
    log_ratios: Vec<f64>,
    has_failed: bool,
}

/// All pairs of hubs that meet in a session.
pub(super) struct HubCrossCheck {
    pairs: Vec<Pair>,
    runs_at_last: usize,
}

impl HubCrossCheck {
    /// The pairs that comparisons of these cases with their baselines need, and as many more as join all hubs whose CPUs halt, and all
    /// whose CPUs do not: the parties of a set share their CPUs.
    pub(super) fn of(cases: &[Open]) -> HubCrossCheck {
        let hub_of = |id: &CaseId| {
            cases.iter().find(|open| open.case.params.id == *id).and_then(|open| open.hub.clone().ok())
        };
        let wanted = cases.iter().filter_map(|open| {
            let own = open.hub.clone().ok()?;
            Some((own, hub_of(&baseline_of(&open.case.params.id)?)?))
        });
        let idle = |open: &Open| open.case.params.choice::<Idle>();
        let hubs = cases.iter().filter_map(|open| Some((open.hub.clone().ok()?, idle(open))));
        HubCrossCheck::among(&hubs.collect::<Vec<_>>(), &wanted.collect::<Vec<_>>())
    }

    /// As [`HubCrossCheck::of`]: hubs with what their CPUs do while they are idle, and pairs that are needed.
    fn among(hubs: &[(usize, Idle)], wanted: &[(usize, usize)]) -> HubCrossCheck {
        let mut checks = HubCrossCheck { pairs: Vec::new(), runs_at_last: 0 };
        for (one, other) in wanted.iter().copied().filter(|(one, other)| one != other) {
            let known = |pair: &Pair| pair.hubs == (one, other) || pair.hubs == (other, one);
            if !checks.pairs.iter().any(known) {
                checks.add((one, other), true);
            }
        }
        for &(hub, idle) in hubs {
            let first = hubs.iter().find(|(_, other)| *other == idle).map_or(hub, |(first, _)| *first);
            if checks.route(hub, first).is_none() {
                checks.add((hub, first), false);
            }
        }
        checks
    }

    fn add(&mut self, hubs: (usize, usize), is_wanted: bool) {
        self.pairs.push(Pair { hubs, is_wanted, log_ratios: Vec::new(), has_failed: false });
    }

    /// The pairs that meet now, after so many runs of cases: their indices.
    pub(super) fn due(&mut self, runs: usize) -> Vec<usize> {
        let needs = |pair: &Pair| !pair.has_failed && pair.log_ratios.len() < ENOUGH;
        let open = || (0..self.pairs.len()).filter(|index| needs(&self.pairs[*index]));
        let mut due: Vec<usize> = open().filter(|index| self.pairs[*index].is_wanted).collect();
        if runs >= self.runs_at_last + RUNS_BETWEEN {
            self.runs_at_last = runs;
            let others = open().filter(|index| !self.pairs[*index].is_wanted);
            due.extend(others.min_by_key(|index| self.pairs[*index].log_ratios.len()));
        }
        due
    }

    pub(super) fn hubs(&self, pair: usize) -> (usize, usize) {
        self.pairs[pair].hubs
    }

    pub(super) fn keep(&mut self, pair: usize, log_ratio: Option<f64>) {
        self.pairs[pair].log_ratios.extend(log_ratio);
    }

    pub(super) fn give_up(&mut self, pair: usize) {
        self.pairs[pair].has_failed = true;
    }

    /// From one hub to another over as few meetings as possible: for each of them the logarithms of the cost of the hub nearer to
    /// `from` over that of the other. `None` where none of the ways has been measured.
    pub(super) fn path(&self, from: usize, to: usize) -> Option<Vec<Vec<f64>>> {
        let route = self.route(from, to)?;
        let oriented = |(pair, is_reversed): (usize, bool)| {
            let sign = if is_reversed { -1.0 } else { 1.0 };
            self.pairs[pair].log_ratios.iter().map(|log| sign * log).collect::<Vec<_>>()
        };
        let path: Vec<Vec<f64>> = route.into_iter().map(oriented).collect();
        path.iter().all(|log_ratios| !log_ratios.is_empty()).then_some(path)
    }

    /// The pairs on the way, and whether each is passed from its second hub to its first.
    fn route(&self, from: usize, to: usize) -> Option<Vec<(usize, bool)>> {
        let mut seen = vec![from];
        let mut ways = VecDeque::from([(from, Vec::new())]);
        while let Some((hub, way)) = ways.pop_front() {
            if hub == to {
                return Some(way);
            }
            for (index, pair) in self.pairs.iter().enumerate() {
                let (next, is_reversed) = match pair.hubs {
                    (one, other) if one == hub => (other, false),
                    (one, other) if other == hub => (one, true),
                    _ => continue,
                };
                if !seen.contains(&next) {
                    seen.push(next);
                    ways.push_back((next, [way.clone(), vec![(index, is_reversed)]].concat()));
                }
            }
        }
        None
    }

    /// What a hub costs as a multiple of the hubs that it met as the first of a pair.
    pub(super) fn lines(&self, hub: usize, hubs: &Hubs) -> Vec<record::HubMeeting> {
        let line = |pair: &Pair| {
            let evidence = Evidence::paired(pair.log_ratios.clone());
            Some(record::HubMeeting {
                with: hubs.id(pair.hubs.1).clone(),
                ratio: evidence.ratio()?,
                ci95: ends(evidence.interval(0.95)),
                ratios: pair.log_ratios.iter().map(|log| log.exp()).collect(),
            })
        };
        self.pairs.iter().filter(|pair| pair.hubs.0 == hub).filter_map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs of hubs whose CPUs halt.
    fn halting(hubs: &[usize], wanted: &[(usize, usize)]) -> HubCrossCheck {
        HubCrossCheck::among(&hubs.iter().map(|hub| (*hub, Idle::Halt)).collect::<Vec<_>>(), wanted)
    }

    fn pairs(checks: &HubCrossCheck) -> Vec<((usize, usize), bool)> {
        checks.pairs.iter().map(|pair| (pair.hubs, pair.is_wanted)).collect()
    }

    #[test]
    fn wanted_pairs_come_first_and_all_hubs_are_joined_whose_cpus_do_the_same() {
        let hubs = [(0, Idle::Halt), (1, Idle::Busy), (2, Idle::Halt), (3, Idle::Busy)];
        assert_eq!(pairs(&HubCrossCheck::among(&hubs, &[])), [((2, 0), false), ((3, 1), false)]);
        let joined = halting(&[0, 0, 1, 2, 3, 3], &[(1, 2), (2, 1), (0, 0)]);
        assert_eq!(pairs(&joined), [((1, 2), true), ((1, 0), false), ((3, 0), false)]);
        assert!(pairs(&halting(&[4, 4], &[(4, 4)])).is_empty() && pairs(&halting(&[], &[])).is_empty());
    }

    #[test]
    fn a_wanted_pair_meets_before_every_round_and_the_others_once_in_a_while_until_there_are_enough() {
        let mut checks = halting(&[0, 1, 2, 3], &[(1, 2)]);
        let mut met = [0; 3];
        for round in 0..40 {
            for pair in checks.due(round * 5) {
                checks.keep(pair, Some(0.1));
                met[pair] += 1;
            }
        }
        assert_eq!(met, [ENOUGH; 3]);
        let mut checks = halting(&[0, 1, 2, 3], &[(1, 2)]);
        assert_eq!(checks.due(4), [0], "five runs are too few for the others");
        checks.give_up(0);
        assert_eq!((checks.due(7), checks.due(8)), (vec![], vec![1]));
    }

    #[test]
    fn ratios_are_turned_round_on_the_way_and_a_way_without_sets_is_none() {
        let mut checks = halting(&[0, 1, 2], &[(1, 2)]);
        checks.keep(0, Some(0.5));
        assert_eq!(checks.path(2, 0), None);
        checks.keep(1, Some(0.25));
        for (from, to, path) in [(1, 2, vec![0.5]), (2, 1, vec![-0.5]), (0, 2, vec![-0.25, 0.5])] {
            assert_eq!(checks.path(from, to).unwrap().concat(), path);
        }
    }
}
