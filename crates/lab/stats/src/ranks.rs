//! Two independent groups compared by their ranks: is one higher, and by how much?
//!
//! Used where pairs are impossible, above all for boots of two kernels.

use crate::interval::{Interval, largest_rank, largest_rank_by};
use crate::normal::two_sided_p;
use crate::order::{assert_finite, median_of_sorted, sorted};

/// Up to this many values in both groups together the distribution is counted, beyond it approximated.
pub const EXACT_UP_TO: usize = 50;

/// Result of a Mann–Whitney U test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannWhitney {
    /// Number of pairs (a, b) with a > b, ties counting one half.
    pub u: f64,
    /// Two-sided p value.
    pub p: f64,
    /// Was the permutation distribution counted, or the normal one taken in its place?
    pub exact: bool,
}

/// The ranks 1 … n, equal values sharing the mean of theirs.
pub(crate) fn midranks(values: &[f64]) -> Vec<f64> {
    assert_finite(values);
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for tied in order.chunk_by(|&i, &j| values[i] == values[j]) {
        // Ranks start+1 … start+len have this mean.
        let rank = start as f64 + (tied.len() + 1) as f64 / 2.0;
        tied.iter().for_each(|&i| ranks[i] = rank);
        start += tied.len();
    }
    ranks
}

/// Mann and Whitney (1947): does one group tend to be higher than the other? `None` when a group is empty.
///
/// Up to [`EXACT_UP_TO`] values the p value is exact, ties included: of all ways to choose which values belong to
/// `a`, the part whose rank sum is at least as far from its mean (counted, not drawn). Beyond, the normal
/// approximation with the variance corrected for ties and the continuity correction (Lehmann 1975, §1.2–1.4).
///
/// Four against four can reach p = 2/70 = 0.029 at best; three against three only 2/20 = 0.10.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let ranks = midranks(&[a, b].concat());
    let rank_sum: f64 = ranks[..a.len()].iter().sum();
    let (n_a, n) = (a.len() as f64, ranks.len() as f64);
    let off = (rank_sum - n_a * (n + 1.0) / 2.0).abs();
    let exact = ranks.len() <= EXACT_UP_TO;
    let p = if exact { exact_p(&ranks, a.len(), off) } else { approximate_p(&ranks, a.len(), off) };
    Some(MannWhitney { u: rank_sum - n_a * (n_a + 1.0) / 2.0, p, exact })
}

/// Part of all choices of `chosen` ranks whose sum is at least `off` from the mean.
fn exact_p(ranks: &[f64], chosen: usize, off: f64) -> f64 {
    let ways = ways_by_doubled_sum(ranks, chosen);
    let middle = (chosen * (ranks.len() + 1)) as f64;
    // Doubled sums are whole numbers; a quarter off is rounding.
    let far = |(sum, _): &(usize, &f64)| (*sum as f64 - middle).abs() >= 2.0 * off - 0.25;
    let as_far: f64 = ways.iter().enumerate().filter(far).map(|(_, ways)| ways).sum();
    as_far / ways.iter().sum::<f64>()
}

/// In how many ways `chosen` of the ranks have each sum; the index is twice the sum, because ties make halves.
fn ways_by_doubled_sum(ranks: &[f64], chosen: usize) -> Vec<f64> {
    let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank).round() as usize).collect();
    let total: usize = doubled.iter().sum();
    let mut ways = vec![vec![0.0; total + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for rank in doubled {
        for size in (1..=chosen).rev() {
            let (fewer, these) = ways.split_at_mut(size);
            for sum in rank..=total {
                these[0][sum] += fewer[size - 1][sum - rank];
            }
        }
    }
    ways.swap_remove(chosen)
}

fn approximate_p(ranks: &[f64], chosen: usize, off: f64) -> f64 {
    let (n_a, n) = (chosen as f64, ranks.len() as f64);
    let mean = (n + 1.0) / 2.0;
    // Variance of a sum drawn without replacement; the ranks' own variance holds the correction for ties.
    let squares: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    let variance = n_a * (n - n_a) / (n * (n - 1.0)) * squares;
    if variance == 0.0 { 1.0 } else { two_sided_p((off - 0.5).max(0.0) / variance.sqrt()) }
}

/// How far `b` lies above `a`: the median of all differences (Hodges and Lehmann 1963), with the interval that inverts the U test (Moses
/// 1965; Hollander and Wolfe 1999, §4.3), `None` where the groups are too small for the confidence. Assumes that the groups differ in
/// their level and not in their shape.
pub(crate) fn shift(a: &[f64], b: &[f64], confidence: Option<f64>) -> (f64, Option<Interval>) {
    let differences = sorted(&a.iter().flat_map(|a| b.iter().map(move |b| b - a)).collect::<Vec<_>>());
    let interval = confidence.and_then(|confidence| {
        assert!(confidence > 0.0 && confidence < 1.0, "a confidence of {confidence}");
        let (rank, confidence) = rank_from_each_end(a.len(), b.len(), confidence)?;
        let (low, high) = (differences[rank - 1], differences[differences.len() - rank]);
        Some(Interval { low, high, confidence })
    });
    (median_of_sorted(&differences), interval)
}

/// The largest k with 2·P(U < k) ≤ 1 − confidence, and the confidence it gives.
fn rank_from_each_end(n_a: usize, n_b: usize, confidence: f64) -> Option<(usize, f64)> {
    let n = n_a + n_b;
    if n > EXACT_UP_TO {
        return largest_rank_by(n_a * n_b / 2, confidence, |rank| rank_misses(n_a, n_b, rank));
    }
    let ranks: Vec<f64> = (1..=n).map(|rank| rank as f64).collect();
    let ways = ways_by_doubled_sum(&ranks, n_a);
    let all: f64 = ways.iter().sum();
    let lowest = n_a * (n_a + 1);
    largest_rank((0..n_a * n_b / 2).map(|u| ways[lowest + 2 * u] / all), confidence)
}

/// 2·P(U < rank) by the normal approximation, without ties.
fn rank_misses(n_a: usize, n_b: usize, rank: usize) -> f64 {
    let (n_a, n_b) = (n_a as f64, n_b as f64);
    let deviation = (n_a * n_b * (n_a + n_b + 1.0) / 12.0).sqrt();
    two_sided_p(((n_a * n_b / 2.0 - rank as f64 + 0.5) / deviation).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_p_agrees_with_counting_and_published_tables() {
        let p = |a: &[f64], b: &[f64]| mann_whitney(a, b).unwrap().p;
        for (found, expected, off) in [
            (p(&[1., 2., 3., 4.], &[5., 6., 7., 8.]), 2.0 / 70.0, 1e-12),
            (p(&[1., 2., 3.], &[4., 5., 6.]), 0.10, 1e-12),
            // Equal groups show nothing.
            (p(&[5.0; 4], &[5.0; 4]), 1.0, 0.0),
            (p(&[5.0; 40], &[5.0; 40]), 1.0, 0.0),
            // Ties: of the 6 ways to choose 2 of {1, 1, 2, 2}, two have the sum of an end.
            (p(&[1.0, 1.0], &[2.0, 2.0]), 2.0 / 6.0, 1e-12),
        ] {
            assert!((found - expected).abs() <= off, "{found} against {expected}");
        }
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        // Hollander and Wolfe (1999), example 4.1: permeability of membranes, rank sum 30 of the five, P(W ≥ 90) one
        // side 0.1272 for the ten.
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let early = [1.15, 0.88, 0.90, 0.74, 1.21];
        let test = mann_whitney(&term, &early).unwrap();
        assert_eq!((test.u, test.exact), (35.0, true));
        assert!((test.p - 0.2544).abs() < 1e-3, "{test:?}");
    }

    #[test]
    fn the_approximation_meets_the_exact_values_where_one_takes_over() {
        let ranks: Vec<f64> = midranks(&(0..50).map(|i| f64::from(i / 2)).collect::<Vec<_>>());
        for off in [20.0, 80.0, 130.0] {
            let (exact, approximate) = (exact_p(&ranks, 22, off), approximate_p(&ranks, 22, off));
            assert!((exact - approximate).abs() < 0.1 * exact, "{off}: {exact} against {approximate}");
        }
        let counted = rank_from_each_end(25, 25, 0.95).unwrap();
        assert!(rank_misses(25, 25, counted.0) < 0.0505 && rank_misses(25, 25, counted.0 + 2) > 0.05);
    }

    #[test]
    fn the_shift_is_found_and_the_interval_holds_it() {
        let a: Vec<f64> = (0..8).map(|i| 0.01 * f64::from(i)).collect();
        let b: Vec<f64> = a.iter().map(|value| value + 0.4).collect();
        let (found, interval) = shift(&a, &b, Some(0.95));
        let interval = interval.unwrap();
        assert!((found - 0.4).abs() < 1e-12 && interval.confidence >= 0.95);
        assert!(interval.contains(0.4) && interval.low > 0.35 && interval.high < 0.45, "{interval:?}");
        assert_eq!(shift(&a[..3], &b[..3], Some(0.95)).1, None);
        let four = shift(&a[..4], &b[..4], Some(0.95)).1.unwrap();
        assert!((four.confidence - (1.0 - 2.0 / 70.0)).abs() < 1e-12);
        let many: Vec<f64> = (0..60).map(|i| f64::from(i * 7 % 60) * 0.1).collect();
        assert!(shift(&many, &many, Some(0.95)).1.unwrap().contains(0.0));
    }
}
