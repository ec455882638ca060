//! Where the duet could mislead: partners that disturb each other.

use crate::evidence::Evidence;
use crate::interval::Interval;

/// Confidence at which a moved ratio is believed: one case in a hundred is named by chance.
const CONFIDENCE: f64 = 0.99;

/// What slices of twice the length did to a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DoubledSlices {
    /// Ratio to the hub with doubled slices over that with slices of the usual length.
    pub factor: f64,
    /// Its interval at 99 %; `None` below three sets of either length.
    pub interval: Option<Interval>,
}

impl DoubledSlices {
    /// Does the interval lie outside 1/(1 + tolerance) … 1 + tolerance altogether? Then the length of the slices matters: the
    /// partner leaves caches cold that the case alone would find warm. `None` where there is no interval.
    ///
    /// # Panics
    /// If `tolerance` is negative.
    pub fn has_moved(&self, tolerance: f64) -> Option<bool> {
        assert!(tolerance >= 0.0, "a tolerance of {tolerance}");
        let interval = self.interval?;
        Some(interval.low > 1.0 + tolerance || interval.high < 1.0 / (1.0 + tolerance))
    }
}

/// Compares the sets' log ratios to the hub with slices of the usual length and of twice that. One set in eight is doubled, so
/// a case alone seldom has enough; over a session, take [`Evidence::paired`] of the differences case by case. `None` where
/// one side has no set.
pub fn doubled_slices(usual: &[f64], doubled: &[f64]) -> Option<DoubledSlices> {
    let evidence = Evidence::independent(doubled, usual);
    Some(DoubledSlices { factor: evidence.ratio()?, interval: evidence.interval(CONFIDENCE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_that_moves_by_five_per_cent_is_seen_with_three_doubled_sets() {
        let usual: Vec<f64> = (0..21).map(|i| 0.3 + 0.001 * f64::from(i * 5 % 21)).collect();
        let moved = doubled_slices(&usual, &[0.355, 0.36, 0.365]).unwrap();
        assert!((moved.factor - 1.05).abs() < 0.005, "{moved:?}");
        assert_eq!((moved.has_moved(0.01), moved.has_moved(0.1)), (Some(true), Some(false)));
        assert_eq!(doubled_slices(&usual, &[0.30, 0.31, 0.32]).unwrap().has_moved(0.01), Some(false));
        assert_eq!(doubled_slices(&usual, &[0.30]).unwrap().has_moved(0.01), None);
        assert_eq!(doubled_slices(&usual, &[]), None);
    }
}
