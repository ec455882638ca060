//! Two kinds of machines in one class: a mixture of two normal distributions, found by expectation and maximization (Dempster, Laird
//! and Rubin 1977) and said only where both are large and well apart.

use crate::order::{mean, quantile, standard_deviation};

/// Fewest machines of which this is asked.
pub const FEWEST: usize = 20;
/// Least share of a band.
const LEAST_SHARE: f64 = 0.05;
/// Two bands are apart by so many of their deviations (Ashman, Bird and Zepf 1994).
const APART: f64 = 2.0;
const ROUNDS: usize = 200;
/// How much better two must fit than one, as a difference of the criterion of Schwarz (1978): "very strong" of Kass and Raftery (1995).
const BETTER: f64 = 10.0;

/// A kind of machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Part of the machines.
    pub share: f64,
    /// Middle of their effects.
    pub level: f64,
    /// Standard deviation inside.
    pub deviation: f64,
}

/// Two bands that are further apart than `margin`, the lower first; nothing where there is one.
pub fn two_bands(effects: &[f64], margin: f64) -> Option<[Band; 2]> {
    if effects.len() < FEWEST {
        return None;
    }
    // Far ones belong to no band.
    let (low, high) = (quantile(effects, 0.005), quantile(effects, 0.995));
    let inside: Vec<f64> = effects.iter().copied().filter(|effect| (low..=high).contains(effect)).collect();
    let whole = standard_deviation(&inside);
    if whole <= 0.0 {
        return None;
    }
    let starts = [(0.1, 0.6), (0.25, 0.75), (0.4, 0.9)];
    let fits = starts.map(|(one, other)| fitted(&inside, [quantile(&inside, one), quantile(&inside, other)], whole));
    let (bands, likelihood) = fits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let of_one: f64 = inside.iter().map(|effect| ln_normal(*effect, mean(&inside), whole)).sum();
    let gain = 2.0 * (likelihood - of_one) - 3.0 * (inside.len() as f64).ln();
    let [lower, upper] = bands;
    let typical = f64::midpoint(lower.deviation.powi(2), upper.deviation.powi(2)).sqrt();
    let distance = upper.level - lower.level;
    let is_clear = distance > margin && distance > APART * typical && gain > BETTER;
    (is_clear && bands.iter().all(|band| band.share >= LEAST_SHARE)).then_some(bands)
}

fn ln_normal(value: f64, level: f64, deviation: f64) -> f64 {
    -0.5 * ((value - level) / deviation).powi(2) - deviation.ln() - 0.5 * std::f64::consts::TAU.ln()
}

fn fitted(values: &[f64], levels: [f64; 2], whole: f64) -> ([Band; 2], f64) {
    let least = whole / 50.0;
    let mut bands = levels.map(|level| Band { share: 0.5, level, deviation: whole / 2.0 });
    let mut likelihood = f64::NEG_INFINITY;
    let mut of_upper = vec![0.0; values.len()];
    for _ in 0..ROUNDS {
        let mut total = 0.0;
        for (value, weight) in values.iter().zip(&mut of_upper) {
            let [lower, upper] =
                bands.map(|band| band.share.ln() + ln_normal(*value, band.level, band.deviation));
            let most = lower.max(upper);
            let sum = (lower - most).exp() + (upper - most).exp();
            *weight = (upper - most).exp() / sum;
            total += most + sum.ln();
        }
        let settled = (total - likelihood).abs() < 1e-7 * total.abs();
        likelihood = total;
        let band = |weight: &dyn Fn(f64) -> f64| {
            let count: f64 = of_upper.iter().map(|of| weight(*of)).sum::<f64>().max(1e-9);
            let sum = |of: &dyn Fn(f64) -> f64| {
                values.iter().zip(&of_upper).map(|(value, upper)| weight(*upper) * of(*value)).sum::<f64>()
            };
            let level = sum(&|value| value) / count;
            let deviation = (sum(&|value| (value - level).powi(2)) / count).sqrt().max(least);
            Band { share: count / values.len() as f64, level, deviation }
        };
        bands = [band(&|upper| 1.0 - upper), band(&|upper| upper)];
        if settled {
            break;
        }
    }
    bands.sort_by(|a, b| a.level.total_cmp(&b.level));
    (bands, likelihood)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn two_bands_are_found_and_heavy_tails_are_one() {
        let mut random = Random::new(9);
        let two: Vec<f64> =
            (0..2000).map(|i| if i % 10 < 3 { 0.04 } else { 0.0 } + 0.01 * random.normal()).collect();
        let [lower, upper] = two_bands(&two, 0.03).unwrap();
        assert!((upper.share - 0.3).abs() < 0.04 && (upper.level - lower.level - 0.04).abs() < 0.004, "{upper:?}");
        let chi = |random: &mut Random| (0..4).map(|_| random.normal().powi(2)).sum::<f64>() / 4.0;
        let heavy: Vec<f64> = (0..2000).map(|_| 0.01 * random.normal() / chi(&mut random).sqrt()).collect();
        assert_eq!(two_bands(&heavy, 0.03), None);
        assert_eq!(two_bands(&vec![0.0; 100], 0.03), None);
    }
}
