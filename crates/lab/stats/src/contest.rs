//! Several contestants compared directly: which may be the best, how far behind it is each of the others, and which
//! order is sure.
//!
//! Everything holds simultaneously: the probability that anything said of one contest is wrong is at most
//! 1 − confidence. The contestants' costs are compared pair by pair ([`Evidence`]), so those that met in the same sets are
//! compared there, and those that never met through their ratios to the hub.

use crate::evidence::Evidence;
use crate::interval::Interval;

/// Fewest sets of each of two contestants of which an order may be said.
pub const FEWEST_SETS: usize = 6;

/// What is known of each pair of contestants.
#[derive(Clone, Debug)]
pub struct Contest {
    count: usize,
    /// Of i < j, row by row: the cost of j over that of i.
    pairs: Vec<Evidence>,
}

/// Where a contestant stands against the best of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgainstBest {
    /// Its cost over that of the best of the others is at least this (never above 1), `None` where too few units say so: below
    /// 1 it may be the best, by so much at most.
    pub low: Option<f64>,
    /// … and at most this (never below 1): so far behind it can be. 1 means that it is surely the best. `None` as above.
    pub high: Option<f64>,
}

impl AgainstBest {
    /// Is no other contestant surely ahead?
    pub fn may_be_best(&self) -> bool {
        self.low.is_none_or(|low| low < 1.0)
    }
}

/// "All of `ahead` are surely ahead of all of `behind`."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Contestants with the lower cost, best first.
    pub ahead: Vec<usize>,
    /// Contestants with the higher cost, best first.
    pub behind: Vec<usize>,
}

/// The order of a contest as far as it is sure.
#[derive(Clone, Debug, PartialEq)]
pub struct Tiers {
    /// All contestants, best first by their estimates.
    pub order: Vec<usize>,
    /// `order`, cut wherever all before the cut are surely ahead of all behind it. One tier where nothing is sure.
    pub tiers: Vec<Vec<usize>>,
    ahead: Vec<Vec<bool>>,
}

impl Contest {
    /// A contest of `count` contestants. `pair(i, j)`, asked for i < j, is the evidence on the **cost of j over the cost of i**:
    /// lower is better. For rates pass logarithms with the sign changed, or [`Evidence::reversed`].
    ///
    /// # Panics
    /// If there are fewer than two contestants.
    pub fn new(count: usize, mut pair: impl FnMut(usize, usize) -> Evidence) -> Contest {
        assert!(count >= 2, "a contest of {count}");
        let mut pairs = Vec::with_capacity(count * (count - 1) / 2);
        for i in 0..count {
            pairs.extend((i + 1..count).map(|j| pair(i, j)));
        }
        Contest { count, pairs }
    }

    /// Evidence on the cost of `j` over that of `i`.
    fn pair(&self, i: usize, j: usize) -> Evidence {
        let index = |low: usize, high: usize| low * (2 * self.count - low - 1) / 2 + high - low - 1;
        if i < j { self.pairs[index(i, j)].clone() } else { self.pairs[index(j, i)].reversed() }
    }

    /// `bounds[i][j]`: the upper bound of the log cost of j over that of i, each alone at this one-sided confidence.
    fn upper_bounds(&self, miss: f64) -> Vec<Vec<Option<f64>>> {
        let mut bounds = vec![vec![None; self.count]; self.count];
        let all = (0..self.count).flat_map(|i| (i + 1..self.count).map(move |j| (i, j)));
        for ((i, j), evidence) in all.zip(&self.pairs) {
            if let Some(interval) = enough(evidence).and_then(|of| of.log_interval(1.0 - 2.0 * miss)) {
                bounds[i][j] = Some(interval.high);
                bounds[j][i] = Some(-interval.low);
            }
        }
        bounds
    }

    /// The p value of "no contestant differs from another": the smallest of all pairs times their number (Bonferroni), so that it
    /// is at most α where [`tiers`](Self::tiers) at 1 − α finds an order.
    pub fn p(&self) -> f64 {
        let smallest = self.pairs.iter().filter_map(enough).map(Evidence::p).fold(1.0, f64::min);
        (smallest * self.pairs.len() as f64).min(1.0)
    }

    /// Multiple comparisons with the best (Hsu 1984; Hsu 1996, §4.1): for each contestant the interval of its cost over that of
    /// the best of the others, all of them together at `confidence`.
    ///
    /// Hsu's proof needs k − 1 one-sided bounds only, those of the unknown best against each other contestant; they are the
    /// ends of intervals ([`Evidence`]) at one-sided error (1 − confidence)/(k − 1) (Bonferroni; with correlated
    /// differences Dunnett's constant would be 1 to 2 % smaller). Ends are capped at "no difference", the price of which is nothing: that
    /// is what makes these intervals shorter than those of all pairs.
    pub fn against_best(&self, confidence: f64) -> Vec<AgainstBest> {
        assert!(confidence > 0.0 && confidence < 1.0, "a confidence of {confidence}");
        // gain[i][j]: by how much i can be ahead of j at most, on logarithms.
        let gain = self.upper_bounds((1.0 - confidence) / (self.count - 1) as f64);
        let others = |i: usize| (0..self.count).filter(move |j| *j != i);
        let unknown = f64::INFINITY;
        let most_ahead: Vec<f64> = (0..self.count)
            .map(|i| others(i).map(|j| gain[i][j].unwrap_or(unknown)).fold(unknown, f64::min).max(0.0))
            .collect();
        let may_be_best = |i: &usize| most_ahead[*i] > 0.0;
        let most_behind = |i: usize| {
            let behind = |j: usize| gain[j][i].unwrap_or(unknown);
            others(i).filter(may_be_best).map(behind).fold(0.0, f64::max)
        };
        let finite = |log: f64| log.is_finite().then(|| log.exp());
        (0..self.count)
            .map(|i| AgainstBest { low: finite(-most_ahead[i]), high: finite(most_behind(i)) })
            .collect()
    }

    /// The interval of each ratio of two contestants, cost of `j` over cost of `i` for i < j, all together at `confidence`
    /// (Bonferroni; Dunn 1961).
    pub fn ratios(&self, confidence: f64) -> Vec<(usize, usize, Option<Interval>)> {
        assert!(confidence > 0.0 && confidence < 1.0, "a confidence of {confidence}");
        let each = 1.0 - (1.0 - confidence) / self.pairs.len() as f64;
        let all = (0..self.count).flat_map(|i| (i + 1..self.count).map(move |j| (i, j)));
        all.zip(&self.pairs)
            .map(|((i, j), evidence)| (i, j, enough(evidence).and_then(|of| of.interval(each))))
            .collect()
    }

    /// The order as far as it is sure: one contestant is surely ahead of another where the simultaneous interval of their ratio
    /// ([`ratios`](Self::ratios)) excludes 1.
    ///
    /// # Panics
    /// As [`against_best`](Self::against_best), and if a pair has no unit.
    pub fn tiers(&self, confidence: f64) -> Tiers {
        let mut ahead = vec![vec![false; self.count]; self.count];
        for (i, j, interval) in self.ratios(confidence) {
            ahead[i][j] = interval.is_some_and(|interval| interval.low > 1.0);
            ahead[j][i] = interval.is_some_and(|interval| interval.high < 1.0);
        }
        // Mean advantage over all others (a Borda count with sizes): pairs alone need not be transitive.
        let log_ratio = |i: usize, j: usize| self.pair(i, j).log_ratio().expect("a pair that was measured");
        let advantage: Vec<f64> = (0..self.count)
            .map(|i| (0..self.count).filter(|j| *j != i).map(|j| log_ratio(i, j)).sum())
            .collect();
        let mut order: Vec<usize> = (0..self.count).collect();
        order.sort_by(|&a, &b| advantage[b].total_cmp(&advantage[a]));
        let mut tiers: Vec<Vec<usize>> = vec![vec![]];
        for (place, &contestant) in order.iter().enumerate() {
            let (before, behind) = order.split_at(place);
            let is_cut = place > 0 && before.iter().all(|&i| behind.iter().all(|&j| ahead[i][j]));
            if is_cut {
                tiers.push(vec![]);
            }
            tiers.last_mut().expect("one tier at least").push(contestant);
        }
        Tiers { order, tiers, ahead }
    }
}

/// A pair of which something may be said.
fn enough(evidence: &Evidence) -> Option<&Evidence> {
    (evidence.units() >= FEWEST_SETS).then_some(evidence)
}

impl Tiers {
    /// All that is sure, in as few sentences as share their second half: contestants that are surely ahead of the same others
    /// stand together. Empty where nothing is sure.
    pub fn statements(&self) -> Vec<Statement> {
        let mut out: Vec<Statement> = vec![];
        for &i in &self.order {
            let behind: Vec<usize> = self.order.iter().copied().filter(|&j| self.ahead[i][j]).collect();
            match out.iter_mut().find(|statement| statement.behind == behind) {
                _ if behind.is_empty() => {}
                Some(statement) => statement.ahead.push(i),
                None => out.push(Statement { ahead: vec![i], behind }),
            }
        }
        out
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Twelve sets of costs with a scatter of ± 2.75 % that differs between contestants.
    fn costs(levels: &[f64]) -> Vec<Vec<f64>> {
        let scatter = |who: usize, set: usize| (((set * 5 + who * 7) % 12) as f64 - 5.5) * 0.005;
        let of = |(who, level): (usize, &f64)| (0..12).map(|set| level.ln() + scatter(who, set)).collect();
        levels.iter().enumerate().map(of).collect()
    }

    fn of_common_sets(costs: &[Vec<f64>]) -> Contest {
        let difference = |i: usize, j: usize| costs[j].iter().zip(&costs[i]).map(|(j, i)| j - i).collect();
        Contest::new(costs.len(), |i, j| Evidence::paired(difference(i, j)))
    }

    pub(crate) fn of_own_sets(levels: &[f64]) -> Contest {
        let costs = costs(levels);
        Contest::new(levels.len(), |i, j| Evidence::independent(&costs[j], &costs[i]))
    }

    #[test]
    fn a_clear_winner_is_surely_best_and_the_others_know_how_far_behind() {
        for contest in [of_common_sets(&costs(&[2.0, 1.0, 3.0])), of_own_sets(&[2.0, 1.0, 3.0])] {
            let found = contest.against_best(0.95);
            let may: Vec<bool> = found.iter().map(AgainstBest::may_be_best).collect();
            assert_eq!((may, found[1].high), (vec![false, true, false], Some(1.0)), "{found:?}");
            let [second, third] = [0, 2].map(|index| found[index].high.unwrap());
            assert!((1.9..2.2).contains(&second) && (2.9..3.3).contains(&third), "{found:?}");
            assert!((0.47..0.52).contains(&found[1].low.unwrap()), "{found:?}");
        }
    }

    #[test]
    fn two_in_front_of_four_are_a_tier() {
        let contest = of_common_sets(&costs(&[1.30, 1.0, 1.302, 1.298, 1.012, 1.304]));
        let tiers = contest.tiers(0.95);
        assert_eq!((tiers.tiers.len(), &tiers.tiers[0][..]), (2, &[1, 4][..]), "{tiers:?}");
        let statements = tiers.statements();
        assert_eq!((statements[0].ahead.len(), statements[0].behind.len()), (2, 4), "{statements:?}");
        let may: Vec<bool> = contest.against_best(0.95).iter().map(AgainstBest::may_be_best).collect();
        assert_eq!(may, [false, true, false, false, true, false]);
    }

    #[test]
    fn an_order_without_a_cut_still_has_its_statements_and_too_few_sets_have_none() {
        let tiers = of_common_sets(&costs(&[1.0, 1.012, 1.03])).tiers(0.95);
        assert_eq!((tiers.order.clone(), tiers.tiers.len()), (vec![0, 1, 2], 1), "{tiers:?}");
        assert_eq!(tiers.statements(), [Statement { ahead: vec![0], behind: vec![2] }]);
        let few: Vec<Vec<f64>> = costs(&[1.0, 2.0, 3.0]).iter().map(|sets| sets[..5].to_vec()).collect();
        let few = of_common_sets(&few);
        assert!(few.against_best(0.95).iter().all(|found| found.may_be_best() && found.high != Some(1.0)));
        assert_eq!(few.tiers(0.95).statements(), []);
    }
}
