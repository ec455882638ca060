//! Percentiles of a distribution of single operations, only where there are enough of them.

use crate::binomial::Binomial;
use crate::interval::Interval;
use crate::order::assert_finite;

/// Observations that must be expected beyond a percentile before it is worth printing.
pub const BEYOND: f64 = 10.0;

/// A percentile and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentile {
    /// The smallest observation that at least the part `p` of all observations does not exceed.
    pub value: f64,
    /// Binomial interval, at least 95 %. It holds for independent observations; those of one run are not quite, so
    /// it says how far the count alone limits the figure.
    pub interval: Interval,
    /// Number of observations in all.
    pub observations: usize,
}

/// The fewest observations for which [`percentile`] answers: 10 / (1 − p), or 10 / p in the lower half.
///
/// # Panics
/// If `p` is not between 0 and 1.
pub fn observations_needed(p: f64) -> usize {
    assert!(p > 0.0 && p < 1.0, "a percentile at {p}");
    // 1 − 0.999 is a little more than 0.001; that must not turn 10 000 into 10 001.
    (BEYOND / p.min(1.0 - p) * (1.0 - 1e-9)).ceil() as usize
}

/// The percentile `p` (0.99 for the 99th) of observations in ascending order, or `None` with fewer than
/// [`observations_needed`]: a tail made of less than ten observations is an anecdote.
///
/// The value is the order statistic of rank ⌈n·p⌉ (type 1 of Hyndman and Fan 1996), so it is always a value that was
/// observed. The ends of the interval are the order statistics between which the number of observations below the
/// true percentile falls with at least 95 %, each side at most 2.5 % (David and Nagaraja 2003, §7.1).
///
/// # Panics
/// If `p` is not between 0 and 1, a value is not finite, or the values are not in ascending order.
pub fn percentile(sorted: &[f64], p: f64) -> Option<Percentile> {
    let n = sorted.len();
    if n < observations_needed(p) {
        return None;
    }
    assert_finite(sorted);
    assert!(sorted.is_sorted(), "observations for a percentile must be in ascending order");
    let rank = ((n as f64 * p * (1.0 - 1e-12)).ceil() as usize).clamp(1, n);
    Some(Percentile { value: sorted[rank - 1], interval: interval(sorted, p, rank), observations: n })
}

/// Ranks `low` and `high` with P(X < low) ≤ 2.5 % and P(X ≥ high) ≤ 2.5 %, for X observations below the percentile.
fn interval(sorted: &[f64], p: f64, rank: usize) -> Interval {
    let n = sorted.len();
    let below = Binomial::new(n, p);
    // With ten expected beyond, the outermost ranks miss with about e^-10, so both searches end inside the list.
    let low = (1..=rank).rev().find(|&low| below.at_most(low - 1) <= 0.025).unwrap_or(1);
    let high = (rank..=n).find(|&high| below.at_least(high) <= 0.025).unwrap_or(n);
    let confidence = 1.0 - below.at_most(low - 1) - below.at_least(high);
    Interval { low: sorted[low - 1], high: sorted[high - 1], confidence }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(n: usize) -> Vec<f64> {
        (1..=n).map(|i| i as f64).collect()
    }

    #[test]
    fn a_percentile_needs_ten_observations_beyond_it() {
        assert_eq!(observations_needed(0.99), 1000);
        assert_eq!(observations_needed(0.999), 10_000);
        assert_eq!(observations_needed(0.99999), 1_000_000);
        assert_eq!(observations_needed(0.01), 1000);
        assert_eq!(percentile(&first(999), 0.99), None);
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&first(1000), 0.99).unwrap().value, 990.0);
    }

    #[test]
    fn the_interval_is_the_binomial_one() {
        // X ~ Bin(1000, 0.99): the number beyond is near Poisson(10), whose 2.5 % points are 4 and 17.
        let p99 = percentile(&first(1000), 0.99).unwrap();
        assert!((982.0..=985.0).contains(&p99.interval.low), "{p99:?}");
        assert!((995.0..=998.0).contains(&p99.interval.high), "{p99:?}");
        assert!((0.95..0.99).contains(&p99.interval.confidence), "{p99:?}");
    }

    #[test]
    fn a_million_observations_are_no_trouble() {
        let many = percentile(&first(1_000_000), 0.99999).unwrap();
        assert_eq!((many.value, many.observations), (999_990.0, 1_000_000));
        assert!(many.interval.contains(many.value));
    }

    #[test]
    #[should_panic(expected = "ascending")]
    fn observations_out_of_order_are_a_bug() {
        percentile(&[2.0; 10].iter().chain(&[1.0; 10]).copied().collect::<Vec<_>>(), 0.5);
    }
}
