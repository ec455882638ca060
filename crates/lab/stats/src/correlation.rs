//! Runs that resemble their neighbors are worth fewer than they are: how much wider an interval must be for that.
//!
//! Intervals assume independent runs. Runs of a small session follow each other within a second, and the machine's state
//! outlives them: their correlation has been 0.3 and more. Two repairs: space the runs ([`spacing`]) by measuring other
//! cases between them, or widen the interval ([`widened`]) by the correlation known from something longer than the
//! case: the hub's series over the session, or all cases pooled ([`pooled_lag1`]). A dozen runs of one case do not
//! suffice to estimate their own correlation: the estimate has a deviation of 0.3.

use crate::interval::Interval;
use crate::order::{assert_finite, midranks};

/// Estimates are capped here: beyond, a session of any length is one observation.
pub const MOST: f64 = 0.9;

/// Of half a dozen values the standard error says nothing any more.
const MOST_ERROR: f64 = 0.5;

/// Fewest values of a series that takes part in [`pooled_lag1`].
pub const FEWEST: usize = 6;

/// The correlation of neighbors over several series, each in measured order with a level of its own: the lag-1
/// autocorrelation of the ranks, pooled, corrected for the bias −(1 + 4ρ)/n of series whose mean is taken from themselves
/// (Marriott and Pope 1954; Kendall 1954), and half of its standard error, because what is not known of it must not make
/// anything sure; from 0 to [`MOST`]. Over a whole session that half is nothing; two cases of a dozen sets each have 0.15 or
/// more. `None` where no series has [`FEWEST`] different values.
pub fn pooled_lag1<S: AsRef<[f64]>>(series: &[S]) -> Option<f64> {
    let (mut products, mut squares, mut count, mut series_used) = (0.0, 0.0, 0.0, 0.0);
    for values in series.iter().map(AsRef::as_ref) {
        assert_finite(values);
        let ranks = midranks(values);
        let n = values.len() as f64;
        let scores: Vec<f64> = ranks.iter().map(|rank| (rank - (n + 1.0) / 2.0) / n).collect();
        let own: f64 = scores.iter().map(|score| score * score).sum();
        if values.len() < FEWEST || own == 0.0 {
            continue;
        }
        products += scores.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
        squares += own;
        count += n;
        series_used += 1.0;
    }
    if series_used == 0.0 {
        return None;
    }
    // The pooled 1/n: series weigh by their length.
    let per_value: f64 = series_used / count;
    let unbiased = 1.0 - 4.0 * per_value;
    let error = (1.0 / (f64::sqrt(count) * unbiased)).min(MOST_ERROR);
    Some(((products / squares + per_value) / unbiased + error / 2.0).clamp(0.0, MOST))
}

/// How many times wider the interval of `n` values must be whose neighbors have this correlation, falling geometrically
/// with distance (an autoregression of the first order).
///
/// The variance of a mean grows by I = 1 + 2·Σ (1 − k/n)·ρᵏ, and the scatter of the values, from which the interval is
/// made, shrinks to 1 − (I − 1)/(n − 1) of their variance (Bayley and Hammersley 1946). For long series that is
/// √((1 + ρ)/(1 − ρ)): 1.36 at 0.3 and 2 at 0.6.
///
/// # Panics
/// If `correlation` is outside 0 … 1, 1 excluded.
pub fn widening(n: usize, correlation: f64) -> f64 {
    assert!((0.0..1.0).contains(&correlation), "a correlation of {correlation}");
    if n < 2 {
        return 1.0;
    }
    let (mut inflation, mut power) = (1.0, 1.0);
    for lag in 1..n {
        power *= correlation;
        inflation += 2.0 * (1.0 - lag as f64 / n as f64) * power;
    }
    (inflation / (1.0 - (inflation - 1.0) / (n - 1) as f64)).sqrt()
}

/// The interval with both arms `factor` times as long as from `middle`; on logarithms where all is positive, so that a
/// cost does not become negative. Its confidence is the one that it had before.
///
/// # Panics
/// If `factor` is below 1 or `middle` is outside the interval.
pub fn widened(interval: Interval, middle: f64, factor: f64) -> Interval {
    assert!(factor >= 1.0, "an interval widened by {factor}");
    assert!(interval.contains(middle), "a middle of {middle} outside {interval:?}");
    if factor == 1.0 {
        interval
    } else if interval.low > 0.0 {
        interval.map(|end| middle * (end / middle).powf(factor))
    } else {
        interval.map(|end| middle + factor * (end - middle))
    }
}

/// The interval as wide as any correlation that is told makes one of `n` values ([`widened`]): none reaches further.
pub fn widened_at_most(interval: Interval, middle: f64, n: usize) -> Interval {
    widened(interval, middle, widening(n, MOST).max(1.0))
}

/// How many runs of something else must lie between two runs of a case until their correlation is at most `wanted`, where
/// that of neighbors is `correlation`: ρ^(gap+1) ≤ wanted.
///
/// # Panics
/// If a correlation is outside 0 … 1, or `wanted` is 0.
pub fn spacing(correlation: f64, wanted: f64) -> usize {
    assert!((0.0..1.0).contains(&correlation), "a correlation of {correlation}");
    assert!(wanted > 0.0 && wanted < 1.0, "a correlation of {wanted}");
    if correlation <= wanted {
        return 0;
    }
    (wanted.ln() / correlation.ln() - 1e-9).ceil() as usize - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn independent_values_need_no_widening_and_long_series_have_the_known_factor() {
        for (n, correlation, factor, off) in [
            (12, 0.0, 1.0, 0.0),
            (2000, 0.6, 2.0, 0.005),
            (2000, 0.3, (1.3_f64 / 0.7).sqrt(), 0.002),
            // Two values of correlation ½: I = 1.5, the scatter half of it.
            (2, 0.5, 3.0_f64.sqrt(), 1e-12),
        ] {
            assert!((widening(n, correlation) - factor).abs() <= off, "{n} {correlation}");
        }
        assert_eq!((spacing(0.6, 0.1), spacing(0.05, 0.1), spacing(0.5, 0.25)), (4, 0, 1));
    }

    #[test]
    fn arms_grow_on_logarithms_or_plainly() {
        let at = |low, high| Interval { low, high, confidence: 0.95 };
        let wide = widened(at(50.0, 200.0), 100.0, 2.0);
        assert!((wide.low - 25.0).abs() < 1e-9 && (wide.high - 400.0).abs() < 1e-9);
        assert_eq!(widened(at(-1.0, 2.0), 0.0, 2.0), at(-2.0, 4.0));
    }

    /// By the formula of the documentation, computed apart from this program.
    #[test]
    fn the_correlation_of_ranks_is_corrected_for_its_bias_and_its_error() {
        let one = vec![5.0, 2.0, 9.0, 1.0, 7.0, 3.0, 8.0, 4.0, 6.0, 10.0, 12.0, 11.0];
        let other = vec![3.0, 1.0, 2.0, 6.0, 5.0, 4.0, 8.0, 7.0, 9.0, 12.0, 10.0, 11.0, 14.0, 13.0];
        let short = vec![1.0, 2.0, 3.0];
        let found = [pooled_lag1(std::slice::from_ref(&one)), pooled_lag1(&[other, one, short.clone()])]
            .map(Option::unwrap);
        assert!((found[0] - 0.464_758_099_197_857_8).abs() < 1e-12, "{found:?}");
        assert!((found[1] - 0.883_180_159_000_807_2).abs() < 1e-12, "{found:?}");
        assert_eq!(pooled_lag1(&[short]), None);
    }

    #[test]
    fn series_of_equal_values_say_nothing() {
        assert_eq!(pooled_lag1(&[[5.0; 10]]), None);
        assert_eq!(pooled_lag1::<Vec<f64>>(&[]), None);
        let wave: Vec<f64> = (0..200).map(|i| (f64::from(i) * 0.3).sin()).collect();
        assert_eq!(pooled_lag1(&[wave]), Some(MOST));
    }
}
