//! The binomial distribution, exact up to rounding, for every rank in this crate.

/// Number of successes in `n` trials of probability `p`.
///
/// The weights are computed from the mode outwards by the ratio of neighbors and divided by their sum, so there is
/// no factorial to overflow and no logarithm to lose digits; about 20·√n of them matter.
pub(crate) struct Binomial {
    first: usize,
    weights: Vec<f64>,
}

/// Weights below this part of the largest cannot change a sum of doubles that anybody asks for.
const NEGLIGIBLE: f64 = 1e-30;

impl Binomial {
    pub(crate) fn new(n: usize, p: f64) -> Binomial {
        assert!(p > 0.0 && p < 1.0, "a probability of {p}");
        let odds = p / (1.0 - p);
        let mode = (((n + 1) as f64 * p) as usize).min(n);
        let mut weights = vec![];
        let (mut k, mut weight) = (mode, 1.0);
        while weight > NEGLIGIBLE {
            weights.push(weight);
            if k == 0 {
                break;
            }
            weight *= k as f64 / ((n - k + 1) as f64 * odds);
            k -= 1;
        }
        weights.reverse();
        let first = mode + 1 - weights.len();
        let (mut k, mut weight) = (mode, 1.0);
        while k < n {
            weight *= (n - k) as f64 * odds / (k + 1) as f64;
            k += 1;
            if weight <= NEGLIGIBLE {
                break;
            }
            weights.push(weight);
        }
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= total);
        Binomial { first, weights }
    }

    /// P(X ≤ k), added from the small end.
    pub(crate) fn at_most(&self, k: usize) -> f64 {
        let count = (k + 1).saturating_sub(self.first).min(self.weights.len());
        self.weights[..count].iter().sum()
    }

    /// P(X ≥ k), added from the small end.
    pub(crate) fn at_least(&self, k: usize) -> f64 {
        let skip = k.saturating_sub(self.first).min(self.weights.len());
        self.weights[skip..].iter().rev().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_agree_with_counting_and_a_million_trials_keep_the_normal_shape() {
        for (n, p, sum, expected, off) in [
            (6, 0.5, Binomial::at_most as fn(&Binomial, usize) -> f64, (0, 1.0 / 64.0), 1e-15),
            (6, 0.5, Binomial::at_least, (5, 7.0 / 64.0), 1e-15),
            (2, 0.1, Binomial::at_least, (1, 0.19), 1e-15),
            (2, 0.1, Binomial::at_least, (3, 0.0), 0.0),
            (1_000_000, 0.5, Binomial::at_most, (500_000 - 980, 0.025), 1e-4),
        ] {
            let found = sum(&Binomial::new(n, p), expected.0);
            assert!((found - expected.1).abs() <= off, "{n}: {found}");
        }
    }
}
