//! Do the values fall into two groups?

use super::null::{gap_null, p_value};
use super::{ALPHA, FEWEST, Regime, RegimeKind, WORTH_SAYING, chance, distance, figure};
use crate::order::{median, median_of_sorted, sorted};

/// A gap must be this many times the scatter of the values about their own group's median.
const TIMES_SCATTER: f64 = 5.0;

/// And this many times the mean distance of the values of each group to their own median.
const TIMES_OWN: f64 = 7.0;

/// Two groups with nothing between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// Medians of the lower and of the upper group.
    pub levels: [f64; 2],
    /// Number of values in the lower group.
    pub lower: usize,
    /// The highest value of the lower group.
    pub below: f64,
    /// The lowest value of the upper group.
    pub above: f64,
    /// The probability of so wide a gap, relative to the scatter, among values of one (log-)normal distribution.
    pub p: f64,
}

/// The largest gap between neighbors of the sorted values, if it is wide enough to speak of two groups, each with
/// at least a tenth of the values and at least two of them.
///
/// Wide enough is more than five times the scatter, and in a short series as much more as a normal distribution needs
/// to show such a gap with a probability of [`ALPHA`] only (with ten values that is twelve times). What scatter means
/// decides everything:
/// * It is not the MAD of all values. Of two groups of equal size that is half their distance, and no gap is ever
///   five times that. It is the median of the distances to the own group's median, over both groups.
/// * When more than half of the values repeat, that is 0 and any gap would do; so the scatter is at least the
///   smallest distance between different values, which for a coarse clock is its tick. If there are only two
///   different values, nothing tells a tick from a mode, and they must differ by 10 %.
/// * Values that are all positive are taken on logarithms: times and rates are skewed, and on the plain scale the
///   long upper end of a log-normal distribution has gaps of its own.
///
/// The gap must also be seven times as wide as the values of each group lie from their own median on average. The few values of a long
/// tail are as far from each other as from the rest, those of a mode are not: without this, one in five series of nineteen log-normal
/// values with σ = 1, which no logarithm made symmetric, would have two modes.
///
/// `None` also below [`FEWEST`] values.
pub fn gap_test(values: &[f64]) -> Option<Gap> {
    let ascending = sorted(values);
    if ascending.len() < FEWEST {
        return None;
    }
    let scaled = scale(&ascending);
    let (split, ratio) = widest_gap(&scaled);
    let levels = [median_of_sorted(&ascending[..split]), median_of_sorted(&ascending[split..])];
    let (lower, upper) = scaled.split_at(split);
    let own = mean_distance(lower).max(mean_distance(upper));
    let is_wide = ratio > TIMES_SCATTER && upper[0] - lower[split - 1] >= TIMES_OWN * own;
    if !is_wide || distance(levels) < WORTH_SAYING {
        return None;
    }
    let p = p_value(gap_null(ascending.len()), ratio);
    let (below, above) = (ascending[split - 1], ascending[split]);
    (p <= ALPHA).then_some(Gap { levels, lower: split, below, above, p })
}

fn mean_distance(ascending: &[f64]) -> f64 {
    let middle = median_of_sorted(ascending);
    ascending.iter().map(|value| (value - middle).abs()).sum::<f64>() / ascending.len() as f64
}

/// Logarithms where possible, otherwise parts of the largest magnitude.
fn scale(ascending: &[f64]) -> Vec<f64> {
    if ascending[0] > 0.0 {
        return ascending.iter().map(|value| value.ln()).collect();
    }
    let largest = ascending[0].abs().max(ascending[ascending.len() - 1].abs());
    ascending.iter().map(|value| if largest == 0.0 { 0.0 } else { value / largest }).collect()
}

/// Size of the lower group at the widest gap that leaves each group its least size, and that gap over the scatter.
pub(super) fn widest_gap(ascending: &[f64]) -> (usize, f64) {
    let n = ascending.len();
    let side = n.div_ceil(10).max(2);
    let width = |split: usize| ascending[split] - ascending[split - 1];
    let wider = |&a: &usize, &b: &usize| width(a).total_cmp(&width(b));
    let split = (side..=n - side).max_by(wider).expect("a series of at least four values");
    (split, width(split) / scatter(ascending, split))
}

fn scatter(ascending: &[f64], split: usize) -> f64 {
    let about_own_median = |group: &[f64]| {
        let middle = median_of_sorted(group);
        group.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>()
    };
    let (lower, upper) = ascending.split_at(split);
    let within = median(&[about_own_median(lower), about_own_median(upper)].concat());
    let steps = [lower, upper].into_iter().flat_map(|group| group.windows(2)).map(|pair| pair[1] - pair[0]);
    let tick = steps.filter(|step| *step > 0.0).min_by(f64::total_cmp);
    within.max(tick.unwrap_or(0.1 / TIMES_SCATTER))
}

impl Gap {
    pub(super) fn regime(self, n: usize) -> Regime {
        let [low, high] = self.levels.map(figure);
        let detail = format!(
            "{} of {n} lie near {low} and {} near {high}, none between {} and {} ({})",
            self.lower,
            n - self.lower,
            figure(self.below),
            figure(self.above),
            chance(self.p)
        );
        Regime { kind: RegimeKind::TwoModes, levels: Some(self.levels), p: self.p, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes(low: usize, high: usize) -> Vec<f64> {
        let scatter = |i: usize| (i * 7 % 11) as f64 * 0.02;
        (0..low).map(|i| 5.0 + scatter(i)).chain((0..high).map(|i| 9.7 + scatter(i))).collect()
    }

    #[test]
    fn two_modes_are_found_at_every_share_of_a_tenth_or_more() {
        for high in 2..=18 {
            let gap =
                gap_test(&modes(20 - high, high)).unwrap_or_else(|| panic!("{high} of 20 in the upper mode"));
            assert_eq!(gap.lower, 20 - high);
        }
        assert_eq!(gap_test(&modes(19, 1)), None, "one stall is no mode");
    }

    #[test]
    fn repeated_values_and_ticks_of_a_clock_are_no_modes() {
        let ticks = |values: &[f64]| gap_test(&values.repeat(5));
        assert_eq!(ticks(&[46.0, 46.0, 46.0, 47.0]), None);
        assert_eq!(ticks(&[46.0, 46.0, 47.0, 48.0]), None);
        assert_eq!(ticks(&[100.0, 100.0, 100.0, 100.0]), None);
        assert_eq!(ticks(&[0.0, 0.0, 0.0, 0.0]), None);
        assert_eq!(ticks(&[100.0, 100.0, 200.0, 200.0]).unwrap().levels, [100.0, 200.0]);
        assert_eq!(ticks(&[46.0, 46.0, 47.0, 98.0]).unwrap().levels, [46.0, 98.0]);
    }

    #[test]
    fn values_around_zero_have_modes_too() {
        let gap = gap_test(&[-1.0, -1.1, -0.9, -1.05, 0.0, 0.02, 0.1, -0.05, 0.04, 0.01]).unwrap();
        assert_eq!(gap.lower, 4);
    }
}
