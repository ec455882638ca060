//! How sure a median is: the exact interval that assumes no distribution.
//!
//! The values must be independent draws: runs of fresh processes, or boots. Samples of one process are not.

use crate::binomial::Binomial;
use crate::order::{relative, sorted};

/// An interval and the probability with which its method covers the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end, in the unit of the values.
    pub low: f64,
    /// Upper end, in the unit of the values.
    pub high: f64,
    /// Actual confidence, at least the one asked for; 0.96875 for six values where 0.95 was asked.
    pub confidence: f64,
}

impl Interval {
    /// Half the width over the absolute value of `middle`: 0.02 reads ± 2 %. A width of 0 gives 0 whatever the middle.
    pub fn relative_half_width(&self, middle: f64) -> f64 {
        relative((self.high - self.low) / 2.0, middle)
    }

    /// Does the interval contain `value`, ends included?
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    pub(crate) fn map(self, f: impl Fn(f64) -> f64) -> Interval {
        Interval { low: f(self.low), high: f(self.high), ..self }
    }
}

/// The narrowest symmetric pair of order statistics that covers the population's median with at least `confidence`;
/// `None` when not even lowest and highest do.
///
/// The k-th lowest and k-th highest of n values enclose the median unless fewer than k values fall on one side of it,
/// and the number on a side is binomial with probability ½, whatever the distribution: the confidence is
/// 1 − 2·P(Bin(n, ½) < k) (Thompson 1936; David and Nagaraja 2003, §7.1). For distributions with ties it is at least
/// that. 95 % needs n ≥ 6 (then 96.9 %), 98 % needs n ≥ 7, 99 % needs n ≥ 8.
///
/// # Panics
/// If a value is not finite, or `confidence` is not between 0 and 1.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    of_sorted(&sorted(values), confidence)
}

pub(crate) fn of_sorted(sorted: &[f64], confidence: f64) -> Option<Interval> {
    let (rank, confidence) = rank_from_each_end(sorted.len(), confidence)?;
    Some(Interval { low: sorted[rank - 1], high: sorted[sorted.len() - rank], confidence })
}

/// The largest k for which the k-th from each end still give the confidence, and the confidence they give.
fn rank_from_each_end(n: usize, confidence: f64) -> Option<(usize, f64)> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence of {confidence}");
    let below = Binomial::new(n, 0.5);
    (1..=n / 2)
        .map(|rank| (rank, 1.0 - 2.0 * below.at_most(rank - 1)))
        // Rounding must not refuse a confidence that is met exactly.
        .take_while(|(_, actual)| *actual >= confidence - 1e-12)
        .last()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(n: usize) -> Vec<f64> {
        (1..=n).map(|i| i as f64).collect()
    }

    #[test]
    fn ninety_five_percent_begins_at_six_values() {
        assert_eq!(median_interval(&first(5), 0.95), None);
        let six = median_interval(&first(6), 0.95).unwrap();
        assert_eq!((six.low, six.high), (1.0, 6.0));
        assert!((six.confidence - 0.96875).abs() < 1e-12);
        assert_eq!(median_interval(&[], 0.95), None);
    }

    #[test]
    fn ranks_and_confidences_agree_with_sums_of_binomial_coefficients() {
        // n, confidence asked, rank, confidence given; for 9: 1 − 2·(1 + 9)/512.
        for (n, asked, rank, given) in
            [(9, 0.95, 2, 0.9609), (10, 0.95, 2, 0.9785), (20, 0.95, 6, 0.9586), (40, 0.95, 14, 0.9615)]
        {
            let interval = median_interval(&first(n), asked).unwrap();
            assert_eq!((interval.low, interval.high), (rank as f64, (n + 1 - rank) as f64), "n = {n}");
            assert!((interval.confidence - given).abs() < 5e-5, "n = {n}: {}", interval.confidence);
        }
        assert_eq!(median_interval(&first(6), 0.98), None);
        assert_eq!(median_interval(&first(7), 0.98).unwrap().low, 1.0);
    }

    #[test]
    fn a_confidence_that_is_met_exactly_is_met() {
        assert!(median_interval(&first(6), 0.96875).is_some());
    }

    #[test]
    fn half_width_is_relative_to_the_size_of_the_middle() {
        let interval = Interval { low: -102.0, high: -98.0, confidence: 0.95 };
        assert_eq!(interval.relative_half_width(-100.0), 0.02);
        assert_eq!(Interval { low: 0.0, high: 0.0, confidence: 0.95 }.relative_half_width(0.0), 0.0);
    }
}
