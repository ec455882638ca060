//! Do neighbors resemble each other?

use super::null::{centered, lag1_correlation, lag1_statistic, null, p_value};
use super::{FEWEST, Regime, RegimeKind, chance};
use crate::order::midranks;

/// Correlation of each value with the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Lag1 {
    /// Of the ranks, −1 … 1.
    pub correlation: f64,
    /// The probability of at least this in a series without order. One-sided: neighbors that resemble each other
    /// make a run worth fewer samples than it has; neighbors that avoid each other do not.
    pub p: f64,
}

/// Lag-1 autocorrelation of the ranks (Wald and Wolfowitz 1943; the rank version is that of Bartels 1982), with a p
/// value from permutations.
///
/// `None` for fewer than [`FEWEST`] values or when all are equal.
pub fn lag1_test(values: &[f64]) -> Option<Lag1> {
    let scores = centered(&midranks(values));
    if values.len() < FEWEST || scores.iter().all(|score| *score == 0.0) {
        return None;
    }
    let p = p_value(&null(values.len()).lag1, lag1_statistic(&scores));
    Some(Lag1 { correlation: lag1_correlation(&scores), p })
}

impl Lag1 {
    pub(super) fn regime(self) -> Regime {
        let detail = format!(
            "neighbors resemble each other with a correlation of {:.2} ({})",
            self.correlation,
            chance(self.p)
        );
        Regime { kind: RegimeKind::Correlated, levels: None, p: self.p, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regime::detect;

    #[test]
    fn a_slow_wave_is_correlated_and_an_alternation_is_not() {
        let wave: Vec<f64> = (0..40).map(|i| 100.0 + 5.0 * (f64::from(i) * 0.8).sin()).collect();
        let found = lag1_test(&wave).unwrap();
        assert!(found.correlation > 0.5 && found.p < 0.001, "{found:?}");
        assert_eq!(detect(&wave)[0].kind, RegimeKind::Correlated, "{:?}", detect(&wave));
        let alternation: Vec<f64> =
            (0..40).map(|i| 100.0 + f64::from(i % 2 * 10) + f64::from(i * 7 % 11)).collect();
        assert!(lag1_test(&alternation).unwrap().p > 0.5);
    }
}
