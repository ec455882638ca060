//! Order statistics of one list, and the few plain sums that others need.
//!
//! Nothing here says how sure a value is; for that see [`interval`](crate::interval).

/// The values in ascending order (`total_cmp`, so the order is total and does not depend on the input's).
///
/// # Panics
/// If a value is not finite: it was computed wrongly before it came here, and sorting would only hide that.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    assert_finite(values);
    let mut out = values.to_vec();
    out.sort_unstable_by(f64::total_cmp);
    out
}

pub(crate) fn assert_finite(values: &[f64]) {
    assert!(
        values.iter().all(|value| value.is_finite()),
        "a value to be summarized is not finite: {values:?}"
    );
}

/// The middle value; of an even number of values the midpoint of the two in the middle.
///
/// For an even count every point between the two is a median. The midpoint is the usual choice, and it keeps
/// `median(c·x) = c·median(x)`.
pub fn median(values: &[f64]) -> f64 {
    assert_finite(values);
    median_in_place(&mut values.to_vec())
}

/// The median of finite values, which are left in another order. Selecting is several times faster than sorting.
pub(crate) fn median_in_place(values: &mut [f64]) -> f64 {
    assert!(!values.is_empty(), "the median of nothing");
    let even = values.len().is_multiple_of(2);
    let half = values.len() / 2;
    let (below, &mut upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    if !even {
        return upper;
    }
    let lower = below.iter().copied().max_by(f64::total_cmp).expect("an even count has a lower half");
    f64::midpoint(lower, upper)
}

pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    assert!(!sorted.is_empty(), "the median of nothing");
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// The `p` quantile by linear interpolation between order statistics: type 7 of Hyndman and Fan (1996), the default
/// of R and NumPy. `p = 0` is the minimum, `0.5` the [`median`], `1` the maximum.
///
/// For tails use [`case_percentiles`](crate::tail::case_percentiles), which refuses what the data cannot support.
///
/// # Panics
/// If `values` is empty or holds a value that is not finite, or `p` is outside 0 … 1.
pub fn quantile(values: &[f64], p: f64) -> f64 {
    quantile_of_sorted(&sorted(values), p)
}

pub(crate) fn quantile_of_sorted(sorted: &[f64], p: f64) -> f64 {
    assert!(!sorted.is_empty(), "a quantile of nothing");
    assert!((0.0..=1.0).contains(&p), "a quantile is asked for at {p}, outside 0 to 1");
    let position = p * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// The *spread* of the record: half the interquartile range over the median; 0.02 reads "half of the values lie in a
/// band of about ± 2 %".
///
/// Equal values give 0. If the values differ and their median is 0 the spread is infinite.
pub fn half_iqr_over_median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let iqr = quantile_of_sorted(&sorted, 0.75) - quantile_of_sorted(&sorted, 0.25);
    relative(iqr / 2.0, median_of_sorted(&sorted))
}

/// `part / |whole|`, with 0 of anything being 0.
pub(crate) fn relative(part: f64, whole: f64) -> f64 {
    if part == 0.0 { 0.0 } else { part / whole.abs() }
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

/// The sum, compensated (Neumaier 1974), so that a million small values beside a large one are not lost.
pub fn sum(values: &[f64]) -> f64 {
    let (mut total, mut lost) = (0.0_f64, 0.0_f64);
    for &value in values {
        let next = total + value;
        lost += if total.abs() >= value.abs() { (total - next) + value } else { (value - next) + total };
        total = next;
    }
    total + lost
}

/// The arithmetic mean, to hold our values against tools that print one. Equal values give exactly that value.
pub fn mean(values: &[f64]) -> f64 {
    assert_finite(values);
    let origin = *values.first().expect("the mean of nothing");
    // Relative to the first value, so that equal values have no rounding at all.
    let offsets: Vec<f64> = values.iter().map(|value| value - origin).collect();
    origin + sum(&offsets) / values.len() as f64
}

/// The sample standard deviation (divisor n − 1), a measure of spread to hold against tools that print one. It is
/// not the uncertainty of anything. Equal values, and a single value, give exactly 0.
pub fn standard_deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let squares: Vec<f64> = values.iter().map(|value| (value - middle).powi(2)).collect();
    if values.len() == 1 { 0.0 } else { (sum(&squares) / (values.len() - 1) as f64).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_count_has_the_midpoint_as_its_median() {
        assert_eq!(median(&[4.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[f64::MAX, f64::MAX]), f64::MAX);
    }

    #[test]
    fn quantiles_interpolate_as_type_seven_does() {
        let values = [10.0, 20.0, 30.0, 40.0, 50.0];
        assert_eq!(quantile(&values, 0.25), 20.0);
        assert_eq!(quantile(&values, 0.1), 14.0);
        assert_eq!(quantile(&values, 1.0), 50.0);
        assert_eq!(
            (quantile(&values, 0.0), quantile(&[1.0, 2.0], 0.75), quantile(&[7.0], 0.3)),
            (10.0, 1.75, 7.0)
        );
    }

    #[test]
    fn the_spread_ignores_one_stall_and_knows_no_unit() {
        let calm = [98.0, 99.0, 100.0, 101.0, 102.0];
        assert_eq!(half_iqr_over_median(&calm), 0.01);
        assert_eq!(half_iqr_over_median(&[98.0, 99.0, 100.0, 101.0, 1e9]), 0.01);
        assert_eq!(half_iqr_over_median(&[0.0, 0.0]), 0.0);
    }

    #[test]
    fn a_sum_keeps_what_plain_addition_loses() {
        assert_eq!(sum(&[1e16, 1.0, 1.0, -1e16]), 2.0);
        assert_eq!((sum(&[1.0, 1e16, -1e16]), sum(&[1.0, -1e16, 1e16]), sum(&[])), (1.0, 1.0, 0.0));
        assert_eq!((sum(&[3.0, -3.0]), sum(&[0.5, 0.25])), (0.0, 0.75));
    }

    #[test]
    fn mean_and_deviation_are_those_of_every_textbook() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!((mean(&values), standard_deviation(&values)), (5.0, (32.0_f64 / 7.0).sqrt()));
        assert_eq!((mean(&[3.0]), standard_deviation(&[3.0])), (3.0, 0.0));
    }

    #[test]
    fn equal_values_share_the_mean_of_their_ranks() {
        assert_eq!(midranks(&[30.0, 10.0, 30.0, 20.0, 30.0]), [4.0, 1.0, 4.0, 2.0, 4.0]);
        assert_eq!((midranks(&[7.0, 7.0]), midranks(&[])), (vec![1.5, 1.5], vec![]));
    }

    #[test]
    fn the_median_of_sorted_values_is_that_of_any_order() {
        for values in [&[1.0][..], &[1.0, 3.0], &[1.0, 3.0, 4.0], &[1.0, 3.0, 4.0, 8.0]] {
            assert_eq!(median_of_sorted(values), median(values));
        }
        assert_eq!((relative(1.0, -2.0), relative(-1.0, 2.0), relative(0.0, 0.0)), (0.5, -0.5, 0.0));
        assert_eq!(relative(1.0, 0.0), f64::INFINITY);
    }

    #[test]
    fn equal_values_have_their_value_as_mean_and_no_deviation() {
        for value in [0.1, 1260.6, 1e-300, 1e300] {
            let values = [value; 10];
            assert_eq!((mean(&values), standard_deviation(&values)), (value, 0.0));
        }
    }

    #[test]
    #[should_panic(expected = "not finite")]
    fn a_value_that_is_no_number_is_a_bug() {
        median(&[1.0, f64::NAN]);
    }

    #[test]
    #[should_panic(expected = "median of nothing")]
    fn the_median_of_nothing_is_a_bug() {
        median(&[]);
    }
}
