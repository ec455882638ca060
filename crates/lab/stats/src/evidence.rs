//! What is known of the ratio of two costs: its value, its interval at any confidence, its p value.
//!
//! One type for both ways to compare, so that contests, reports and verdicts need not know which it was.

use crate::interval::{Interval, interpolated_median_interval};
use crate::ranks::{mann_whitney, shift};
use crate::signed_rank::{hodges_lehmann, signed_rank_test, walsh_interval};

/// Fewest pairs whose interval is that of the Walsh averages; with fewer it is that of the median.
pub const FEWEST_FOR_WALSH: usize = 7;

/// Natural logarithms of costs or of ratios of costs, one for each independent unit: a set, a round, a boot.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// Both sides were measured in the same unit: the logarithms of candidate over baseline.
    Paired(Vec<f64>),
    /// Each side was measured in units of its own: the logarithms of both, each against the same yardstick or none.
    Independent {
        /// Of the candidate.
        candidate: Vec<f64>,
        /// Of the baseline.
        baseline: Vec<f64>,
    },
}

impl Evidence {
    /// Pairs (baseline, candidate) of positive values.
    ///
    /// # Panics
    /// If a value is not positive.
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Evidence {
        Evidence::Paired(pairs.iter().map(|&(baseline, candidate)| log(candidate) - log(baseline)).collect())
    }

    /// Positive values of each side.
    ///
    /// # Panics
    /// If a value is not positive.
    pub fn of_groups(baseline: &[f64], candidate: &[f64]) -> Evidence {
        let logs = |values: &[f64]| values.iter().map(|value| log(*value)).collect();
        Evidence::Independent { candidate: logs(candidate), baseline: logs(baseline) }
    }

    /// The same with the sides exchanged.
    #[must_use]
    pub fn reversed(&self) -> Evidence {
        match self {
            Evidence::Paired(logs) => Evidence::Paired(logs.iter().map(|log| -log).collect()),
            Evidence::Independent { candidate, baseline } => {
                Evidence::Independent { candidate: baseline.clone(), baseline: candidate.clone() }
            }
        }
    }

    /// Units on the side that has fewer.
    pub fn units(&self) -> usize {
        match self {
            Evidence::Paired(logs) => logs.len(),
            Evidence::Independent { candidate, baseline } => candidate.len().min(baseline.len()),
        }
    }

    /// The logarithm of the ratio candidate over baseline: the Hodges–Lehmann estimate (1963), of one sample or of two.
    /// `None` without values.
    pub fn log_ratio(&self) -> Option<f64> {
        match self {
            _ if self.units() == 0 => None,
            Evidence::Paired(logs) => Some(hodges_lehmann(logs)),
            Evidence::Independent { candidate, baseline } => Some(shift(baseline, candidate, None).0),
        }
    }

    /// The ratio candidate over baseline.
    pub fn ratio(&self) -> Option<f64> {
        self.log_ratio().map(f64::exp)
    }

    /// Interval of [`log_ratio`](Self::log_ratio): of pairs the one of the Walsh averages from [`FEWEST_FOR_WALSH`] on and
    /// below that the interpolated one of the median; of groups the one that inverts the U test. `None` with too few units
    /// for this confidence.
    pub fn log_interval(&self, confidence: f64) -> Option<Interval> {
        match self {
            Evidence::Paired(logs) if logs.len() < FEWEST_FOR_WALSH => {
                interpolated_median_interval(logs, confidence)
            }
            Evidence::Paired(logs) => walsh_interval(logs, confidence),
            Evidence::Independent { .. } if self.units() == 0 => None,
            Evidence::Independent { candidate, baseline } => shift(baseline, candidate, Some(confidence)).1,
        }
    }

    /// Interval of [`ratio`](Self::ratio).
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        self.log_interval(confidence).map(|interval| interval.map(f64::exp))
    }

    /// Two-sided p value of a ratio of 1: signed-rank test or U test; 1 without values.
    pub fn p(&self) -> f64 {
        match self {
            Evidence::Paired(logs) => signed_rank_test(logs),
            Evidence::Independent { candidate, baseline } => {
                mann_whitney(baseline, candidate).map_or(1.0, |test| test.p.min(1.0))
            }
        }
    }
}

fn log(value: f64) -> f64 {
    assert!(value > 0.0, "the logarithm of {value}");
    value.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_candidate_over_baseline_in_both_kinds() {
        let baseline: Vec<f64> = (0..9).map(|i| 100.0 + f64::from(i * 5 % 9) * 0.1).collect();
        let candidate: Vec<f64> = baseline.iter().map(|value| value * 1.25).collect();
        let pairs: Vec<(f64, f64)> = baseline.iter().copied().zip(candidate.iter().copied()).collect();
        for evidence in [Evidence::of_pairs(&pairs), Evidence::of_groups(&baseline, &candidate)] {
            assert!((evidence.ratio().unwrap() - 1.25).abs() < 1e-3);
            assert!((evidence.reversed().ratio().unwrap() - 0.8).abs() < 1e-3);
            let interval = evidence.interval(0.95).unwrap();
            assert!(interval.contains(1.25) && interval.low > 1.2, "{interval:?}");
            assert!(evidence.p() < 0.01);
        }
    }

    #[test]
    fn nothing_is_no_evidence() {
        for nothing in [Evidence::Paired(vec![]), Evidence::of_groups(&[], &[1.0])] {
            assert_eq!((nothing.ratio(), nothing.interval(0.95), nothing.p()), (None, None, 1.0));
        }
        assert_eq!(Evidence::Paired(vec![0.1; 5]).interval(0.95), None);
        assert!(Evidence::Paired(vec![0.1; 6]).interval(0.95).is_some());
    }
}
