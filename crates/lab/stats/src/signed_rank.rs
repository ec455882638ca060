//! Differences of pairs by their signed ranks: the middle of their distribution, an interval for it, a test of 0.
//!
//! Needs what the median's interval does not: differences whose distribution is symmetric. Log ratios of two sides that
//! are measured by turns, in random order, are symmetric when the sides are the same. In exchange the interval is a fifth
//! narrower for normal differences, and gets narrower with each pair from seven on.

use crate::interval::{Interval, largest_rank, largest_rank_by};
use crate::normal::two_sided_p;
use crate::order::{assert_finite, median_in_place, sorted};
use crate::ranks::midranks;

/// Up to this many pairs the distribution of the rank sum is counted, beyond it approximated.
pub const EXACT_UP_TO: usize = 100;

/// The means of all pairs of values, each value with itself included (Walsh 1949).
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mean_with_later =
        |(i, first): (usize, &f64)| values[i..].iter().map(|later| f64::midpoint(*first, *later)).collect();
    values.iter().enumerate().flat_map::<Vec<f64>, _>(mean_with_later).collect()
}

/// The median of all Walsh averages (Hodges and Lehmann 1963): the middle of a symmetric distribution, with 95 % of the
/// mean's efficiency for normal values and without its weakness for stalls (up to 29 % of the values may be anything).
pub fn hodges_lehmann(values: &[f64]) -> f64 {
    assert_finite(values);
    median_in_place(&mut walsh_averages(values))
}

/// The interval of the middle of a symmetric distribution that inverts the Wilcoxon signed-rank test: from the k-th lowest
/// to the k-th highest Walsh average, with the largest k for which 2·P(T < k) ≤ 1 − confidence (Tukey 1949; Hollander and
/// Wolfe 1999, §3.3). `None` where not even the extremes have the confidence: below six values for 95 %.
///
/// With six values k is 1 and the interval is lowest to highest. With seven it is as wide as the interpolated one of the
/// median, from eight on narrower; see
/// [`interpolated_median_interval`](crate::interpolated_median_interval).
pub fn walsh_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let (rank, confidence) = rank_from_each_end(values.len(), confidence)?;
    let averages = sorted(&walsh_averages(values));
    Some(Interval { low: averages[rank - 1], high: averages[averages.len() - rank], confidence })
}

fn rank_from_each_end(n: usize, confidence: f64) -> Option<(usize, f64)> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence of {confidence}");
    let averages = n * (n + 1) / 2;
    if n > EXACT_UP_TO {
        return largest_rank_by(averages / 2, confidence, |rank| approximate_miss(n, rank));
    }
    let ways = ways_by_sum(&(1..=n).collect::<Vec<_>>());
    let all = 2.0_f64.powi(n as i32);
    largest_rank(ways[..averages / 2].iter().map(|ways| ways / all), confidence)
}

/// 2·P(T < rank) by the normal approximation.
fn approximate_miss(n: usize, rank: usize) -> f64 {
    let n = n as f64;
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    two_sided_p(((n * (n + 1.0) / 4.0 - rank as f64 + 0.5) / deviation).max(0.0))
}

/// In how many of the 2ⁿ choices of signs the positive ranks have each sum.
fn ways_by_sum(ranks: &[usize]) -> Vec<f64> {
    let mut ways = vec![0.0; ranks.iter().sum::<usize>() + 1];
    ways[0] = 1.0;
    let mut reach = 0;
    for &rank in ranks {
        reach += rank;
        for sum in (rank..=reach).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    ways
}

/// Two-sided p value of Wilcoxon's signed-rank test (1945) of a middle of 0. Zeros are left out, ties share their ranks and
/// are counted exactly up to [`EXACT_UP_TO`] values. Six values can reach 0.031, eight 0.0078, twelve 0.0005.
pub fn signed_rank_test(differences: &[f64]) -> f64 {
    assert_finite(differences);
    let nonzero: Vec<f64> = differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    if nonzero.is_empty() {
        return 1.0;
    }
    let ranks = midranks(&nonzero.iter().map(|difference| difference.abs()).collect::<Vec<_>>());
    let positive: f64 =
        ranks.iter().zip(&nonzero).filter(|(_, value)| **value > 0.0).map(|(rank, _)| rank).sum();
    let total: f64 = ranks.iter().sum();
    let off = (positive - total / 2.0).abs();
    if nonzero.len() > EXACT_UP_TO {
        let deviation = (ranks.iter().map(|rank| rank * rank).sum::<f64>() / 4.0).sqrt();
        return two_sided_p((off - 0.5).max(0.0) / deviation);
    }
    // Midranks are halves, so doubled sums are whole numbers.
    let ways = ways_by_sum(&ranks.iter().map(|rank| (2.0 * rank).round() as usize).collect::<Vec<_>>());
    let far = |sum: usize| (sum as f64 - total).abs() >= 2.0 * off - 0.25;
    let as_far: f64 = ways.iter().enumerate().filter(|(sum, _)| far(*sum)).map(|(_, ways)| ways).sum();
    (as_far / 2.0_f64.powi(nonzero.len() as i32)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_confidences_agree_with_the_published_table() {
        // Hollander and Wolfe (1999), table A.4: P(T ≤ 2 of seven) = 0.023, P(T ≤ 8 of ten) = 0.024.
        let (rank, confidence) = rank_from_each_end(7, 0.95).unwrap();
        assert_eq!(rank, 3);
        assert!((confidence - (1.0 - 6.0 / 128.0)).abs() < 1e-12);
        assert_eq!(rank_from_each_end(10, 0.95).unwrap().0, 9);
        assert_eq!(rank_from_each_end(6, 0.95).unwrap().0, 1);
        assert_eq!(rank_from_each_end(5, 0.95), None);
        assert_eq!(rank_from_each_end(0, 0.95), None);
    }

    #[test]
    fn the_published_example_has_its_estimate_interval_and_p() {
        // Hamilton depression scale, Hollander and Wolfe (1999), example 3.1 and 3.3, times a hundred: estimate −46, 96 %
        // interval −78.6 to −1.0, P(T ≥ 40 of 45) = 0.0195 on one side.
        let before = [183.0, 50.0, 162.0, 248.0, 168.0, 188.0, 155.0, 306.0, 130.0];
        let after = [87.8, 64.7, 59.8, 205.0, 106.0, 129.0, 106.0, 314.0, 129.0];
        let change: Vec<f64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert!((hodges_lehmann(&change) + 46.0).abs() < 1e-9, "{}", hodges_lehmann(&change));
        let interval = walsh_interval(&change, 0.96).unwrap();
        assert!((interval.low + 78.6).abs() < 1e-9 && (interval.high + 1.0).abs() < 1e-9, "{interval:?}");
        assert!((signed_rank_test(&change) - 0.0390625).abs() < 1e-9, "{}", signed_rank_test(&change));
    }

    #[test]
    fn the_approximation_meets_the_exact_ranks() {
        let exact = rank_from_each_end(100, 0.95).unwrap();
        assert!((approximate_miss(100, exact.0) - (1.0 - exact.1)).abs() < 1e-3, "{exact:?}");
        assert!(rank_from_each_end(101, 0.95).unwrap().0 > exact.0);
    }

    #[test]
    fn zeros_and_ties_are_no_evidence() {
        assert_eq!(signed_rank_test(&[0.0; 9]), 1.0);
        assert!((signed_rank_test(&[1.0; 6]) - 2.0 / 64.0).abs() < 1e-12);
        assert!((signed_rank_test(&[1.0, -1.0, 1.0, -1.0]) - 1.0).abs() < 1e-12);
    }
}
