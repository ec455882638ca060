//! How many of many findings may be chance: a whole report judged at once.
//!
//! A report of ninety ratios at 95 % claims four or five differences where there is none. [`claims`] takes all of its ratios and
//! says which differ when at most the part q of those named may be wrong, with intervals that bear having been chosen.

use crate::contest::Contest;
use crate::evidence::Evidence;
use crate::interval::Interval;

/// Which of the findings hold when at most the part `q` of them may be false on average: Benjamini and Hochberg
/// (1995). The answer is in the order of the p values.
///
/// The k smallest hold, for the largest k whose k-th smallest p value is at most k/m·q. The promise holds for
/// independent tests and for tests that move together (Benjamini and Yekutieli 2001), as cases of one machine do.
///
/// # Panics
/// If a p value or `q` is outside 0 … 1.
pub fn benjamini_hochberg(p_values: &[f64], q: f64) -> Vec<bool> {
    assert!((0.0..=1.0).contains(&q), "a false-discovery rate of {q}");
    assert!(p_values.iter().all(|p| (0.0..=1.0).contains(p)), "p values outside 0 to 1: {p_values:?}");
    let mut ascending = p_values.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    let limit = |rank: usize| (rank + 1) as f64 / p_values.len() as f64 * q;
    match (0..ascending.len()).rev().find(|&rank| ascending[rank] <= limit(rank)) {
        Some(rank) => p_values.iter().map(|p| *p <= ascending[rank]).collect(),
        None => vec![false; p_values.len()],
    }
}

/// A ratio of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Candidate over baseline.
    pub ratio: f64,
    /// Two-sided p value of a ratio of 1, of this comparison alone.
    pub p: f64,
    /// Does the difference hold within the report?
    pub holds: bool,
    /// Where it holds, the interval widened for having been chosen; else the one at 1 − q. `None` with too few units.
    pub interval: Option<Interval>,
}

/// All ratios of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    /// In the order in which they were given.
    pub claims: Vec<Claim>,
    /// The part of the claims that hold which may be false, on average.
    pub q: f64,
}

/// Judges all ratios of a report together: [`benjamini_hochberg`] on their p values, and for those that hold the intervals of
/// Benjamini and Yekutieli (2005): with R of m chosen, each at 1 − R·q/m, so that on average at most the part q of the
/// intervals shown misses its ratio. Each such interval excludes 1, because the p value that chose it is at most R·q/m.
///
/// # Panics
/// If there is evidence without a unit, a value is not finite, or `q` is not between 0 and 1.
pub fn claims(report: &[Evidence], q: f64) -> Claims {
    assert!(q > 0.0 && q < 1.0, "a false-discovery rate of {q}");
    let p_values: Vec<f64> = report.iter().map(Evidence::p).collect();
    let held = benjamini_hochberg(&p_values, q);
    let chosen = held.iter().filter(|held| **held).count();
    let judge = |((evidence, p), holds): ((&Evidence, f64), bool)| {
        let miss = if holds { q * chosen as f64 / report.len() as f64 } else { q };
        Claim {
            ratio: evidence.ratio().expect("evidence with at least one unit"),
            p,
            holds,
            interval: evidence.interval(1.0 - miss),
        }
    };
    Claims { claims: report.iter().zip(p_values).zip(held).map(judge).collect(), q }
}

impl Claims {
    /// How many differences hold.
    pub fn held(&self) -> usize {
        self.claims.iter().filter(|claim| claim.holds).count()
    }

    /// How many of those that hold are expected to be chance, at most: q·R.
    pub fn expected_by_chance(&self) -> f64 {
        self.q * self.held() as f64
    }
}

/// Contests of one report, judged together.
#[derive(Clone, Debug, PartialEq)]
pub struct ChosenContests {
    /// May anything be said of the contest? In the order in which the contests were given.
    pub chosen: Vec<bool>,
    /// The confidence at which all that is said of one chosen contest holds simultaneously.
    pub confidence: f64,
    /// The part of the chosen contests of which something wrong may be said, on average.
    pub q: f64,
}

/// Chooses the contests of a report in which some order may be claimed: [`benjamini_hochberg`] on their p values
/// ([`Contest::p`]). With R of m chosen, whatever is said of a chosen one has to hold simultaneously at 1 − R·q/m (Benjamini and
/// Bogomolov 2014); then on average at most the part q of the chosen contests has a wrong statement, and where no contestant
/// differs from another, a whole report claims something with a probability of at most q.
pub fn contests(report: &[Contest], q: f64) -> ChosenContests {
    assert!(q > 0.0 && q < 1.0, "a false-discovery rate of {q}");
    let p_values: Vec<f64> = report.iter().map(Contest::p).collect();
    let chosen = benjamini_hochberg(&p_values, q);
    let count = chosen.iter().filter(|chosen| **chosen).count().max(1);
    ChosenContests { confidence: 1.0 - q * count as f64 / report.len().max(1) as f64, chosen, q }
}

impl ChosenContests {
    /// How many contests are chosen.
    pub fn count(&self) -> usize {
        self.chosen.iter().filter(|chosen| **chosen).count()
    }

    /// Of how many chosen contests something wrong is expected to be said, at most: q·R.
    pub fn expected_by_chance(&self) -> f64 {
        self.q * self.count() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_paper_keeps_four_of_fifteen_in_the_order_of_the_question() {
        // Benjamini and Hochberg (1995), section 3.2.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0000,
        ];
        let held = benjamini_hochberg(&p, 0.05);
        assert_eq!(held, p.map(|p| p < 0.01));
        assert_eq!(benjamini_hochberg(&[0.9, 0.001, 0.5], 0.05), [false, true, false]);
        assert_eq!(benjamini_hochberg(&[], 0.05), [false; 0]);
        // Each alone would pass only at its own limit; together the larger carries the smaller.
        assert_eq!(benjamini_hochberg(&[0.04, 0.03], 0.05), [true, true]);
    }

    #[test]
    fn a_report_holds_what_is_sure_and_widens_its_interval() {
        let around = |middle: f64| -> Evidence {
            Evidence::paired((0..12).map(|i| middle + 0.01 * (f64::from(i * 5 % 12) - 5.5)).collect())
        };
        let mut report = vec![around(0.2)];
        report.extend((0..9).map(|i| around(0.001 * f64::from(i - 4))));
        let judged = claims(&report, 0.05);
        assert_eq!((judged.held(), judged.claims[0].holds), (1, true));
        let alone = report[0].interval(0.95).unwrap();
        let chosen = judged.claims[0].interval.unwrap();
        assert!(chosen.low < alone.low && chosen.high > alone.high && chosen.low > 1.0, "{chosen:?}");
        assert!(chosen.confidence >= 0.995);
        assert_eq!(judged.claims[4].interval, report[4].interval(0.95));
        assert!((judged.expected_by_chance() - 0.05).abs() < 1e-12);
        assert_eq!(claims(&[], 0.05).held(), 0);
    }

    #[test]
    fn contests_are_chosen_together_and_each_chosen_one_bears_it() {
        use crate::contest::tests::of_own_sets;
        let (clear, even) = (of_own_sets(&[1.0, 1.3, 1.31]), of_own_sets(&[1.0, 1.0, 1.0]));
        let found = contests(&[even.clone(), clear.clone(), even.clone(), even.clone()], 0.05);
        assert_eq!(found.chosen, [false, true, false, false]);
        assert!((found.confidence - (1.0 - 0.05 / 4.0)).abs() < 1e-12);
        assert!((found.expected_by_chance() - 0.05).abs() < 1e-12);
        let tiers = clear.tiers(found.confidence).tiers;
        assert_eq!(tiers, [vec![0], vec![1, 2]], "what was chosen is still sure");
        let none = contests(&[even.clone(), even], 0.05);
        assert_eq!((none.count(), none.expected_by_chance()), (0, 0.0));
        assert_eq!(contests(&[], 0.05).count(), 0);
    }
}
