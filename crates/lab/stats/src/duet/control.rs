//! Where the duet could mislead: partners that disturb each other, and modes that belong to a pair of processes.

use crate::evidence::Evidence;
use crate::interval::Interval;
use crate::regime::gap_test;

/// Confidence at which a moved ratio is believed: one case in a hundred is named by chance.
const CONFIDENCE: f64 = 0.99;

/// What slices of twice the length did to a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DoubledSlices {
    /// Ratio to the hub with doubled slices over that with slices of the usual length.
    pub factor: f64,
    /// Its interval at 99 %; `None` with too few sets (1 doubled set needs 199 others, 2 need 19, 3 need 10).
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
/// a case alone seldom has enough; over a session, take [`Evidence::Paired`] of the differences case by case. `None` where
/// one side has no set.
///
/// # Panics
/// If a value is not finite.
pub fn doubled_slices(usual: &[f64], doubled: &[f64]) -> Option<DoubledSlices> {
    let evidence = Evidence::Independent { candidate: doubled.to_vec(), baseline: usual.to_vec() };
    Some(DoubledSlices { factor: evidence.ratio()?, interval: evidence.interval(CONFIDENCE) })
}

/// Two modes of the ratio to the hub *between* sets: the machine's state is in both parties, so a mode that fresh processes
/// draw anew belongs to the pair of processes (where their memory lies, which cache lines collide). Both ratios, lower first,
/// where [`gap_test`] finds two groups of sets that are at least `threshold` apart on logarithms (half of the printed interval:
/// what is less does not change what is read); then the two are printed and no ratio. `None` also below ten sets.
///
/// # Panics
/// If a value is not finite or `threshold` is negative.
pub fn modes_between_sets(log_ratios: &[f64], threshold: f64) -> Option<[f64; 2]> {
    assert!(threshold >= 0.0, "a threshold of {threshold}");
    let ratios: Vec<f64> = log_ratios.iter().map(|log| log.exp()).collect();
    let [low, high] = gap_test(&ratios)?.levels;
    ((high / low).ln() >= threshold).then_some([low, high])
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

    #[test]
    fn modes_of_pairs_of_processes_are_printed_as_two() {
        let mode =
            |set: usize| if set.is_multiple_of(3) { 0.2 } else { 0.0 } + 0.001 * ((set * 7 % 12) as f64);
        let sets: Vec<f64> = (0..12).map(mode).collect();
        let [low, high] = modes_between_sets(&sets, 0.01).unwrap();
        assert!((low - 1.0).abs() < 0.02 && (high - 0.2_f64.exp()).abs() < 0.02, "{low}, {high}");
        assert_eq!(modes_between_sets(&sets, 0.3), None);
        assert_eq!(modes_between_sets(&sets[..9], 0.01), None);
    }
}
