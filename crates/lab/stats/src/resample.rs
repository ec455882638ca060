//! The bootstrap (Efron 1979): what an estimate would have been with other units of the same kind.

use crate::normal::{two_sided_t, two_sided_z};
use crate::order::quantile;

/// Interval at 95 % around `estimate` from its values in samples drawn again: their 2.5 % and 97.5 % quantiles, moved apart for the number
/// of `units`. Samples of few units scatter less than the estimate does, by √((n − 1)/n), and a t distribution stands for the normal one.
/// `None` with fewer than [`FEWEST`] units or without values.
pub fn interval(estimate: f64, drawn: &[f64], units: usize) -> Option<[f64; 2]> {
    if units < FEWEST || drawn.is_empty() {
        return None;
    }
    let n = units as f64;
    let wider = (n / (n - 1.0)).sqrt() * two_sided_t(0.05, n - 1.0) / two_sided_z(0.05);
    let end = |p: f64| estimate + (quantile(drawn, p) - estimate) * wider;
    let (low, high) = (end(0.025), end(0.975));
    Some([low.min(estimate), high.max(estimate)])
}

/// Fewest units of an interval.
pub const FEWEST: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn ends_are_quantiles_moved_apart_for_the_number_of_units() {
        let drawn: Vec<f64> = (0..=100).map(f64::from).collect();
        // Student's t of eleven degrees of freedom over the normal quantile.
        let wider = (12.0_f64 / 11.0).sqrt() * 2.200_985_160_1 / 1.959_963_984_5;
        let [low, high] = interval(50.0, &drawn, 12).unwrap();
        assert!((low - (50.0 - 47.5 * wider)).abs() < 1e-6 && (high - (50.0 + 47.5 * wider)).abs() < 1e-6);
        // It holds the estimate, wherever that is.
        assert_eq!(interval(-10.0, &drawn, 12).unwrap()[0], -10.0);
        assert_eq!(interval(110.0, &drawn, 12).unwrap()[1], 110.0);
        assert!(interval(50.0, &drawn, FEWEST).is_some());
        assert_eq!((interval(50.0, &drawn, FEWEST - 1), interval(50.0, &[], 12)), (None, None));
    }

    /// Twelve units, as a session has sets: the interval of a mean covers it in about 95 of 100.
    #[test]
    fn the_interval_of_a_mean_covers_it() {
        let mut random = Random::new(7);
        let mean = |values: &[&f64]| values.iter().copied().sum::<f64>() / values.len() as f64;
        let covered = (0..400).filter(|_| {
            let units: Vec<f64> = (0..12).map(|_| random.normal()).collect();
            let estimate = mean(&units.iter().collect::<Vec<_>>());
            let drawn: Vec<f64> = (0..400).map(|_| mean(&random.drawn(&units))).collect();
            let [low, high] = interval(estimate, &drawn, units.len()).unwrap();
            low <= 0.0 && 0.0 <= high
        });
        let covered = covered.count();
        assert!((368..=394).contains(&covered), "{covered} of 400");
    }
}
