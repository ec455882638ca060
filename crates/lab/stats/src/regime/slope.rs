//! Does the level drift?

use super::{FEWEST, Regime, RegimeKind, chance, figure};
use crate::normal::two_sided_p;
use crate::order::{median, median_in_place, relative, sorted};

/// A straight line through a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Slope {
    /// Change from one value to the next: the median over all pairs.
    pub per_step: f64,
    /// The line at the first and at the last value.
    pub ends: [f64; 2],
    /// The probability of so consistent a direction in a series without order.
    pub p: f64,
}

/// The median slope over all pairs (Theil 1950, Sen 1968) with the p value of Kendall's rank correlation with time
/// (Mann 1945), by its normal approximation with corrections for ties and continuity (Kendall 1975).
///
/// Takes time in proportion to the square of the number of values. `None` for fewer than [`FEWEST`] values or when
/// all are equal.
pub fn slope_test(values: &[f64]) -> Option<Slope> {
    direction_p(values).map(|p| line(values, p))
}

/// [`slope_test`] where it is significant, and without the work of fitting a line where it is not.
pub(super) fn significant_slope(values: &[f64], alpha: f64) -> Option<Slope> {
    direction_p(values).filter(|p| *p <= alpha).map(|p| line(values, p))
}

/// The p value of Kendall's test.
fn direction_p(values: &[f64]) -> Option<f64> {
    let n = values.len();
    let ascending = sorted(values);
    if n < FEWEST || ascending[0] == ascending[n - 1] {
        return None;
    }
    let mut balance = 0_i64;
    for (i, first) in values.iter().enumerate() {
        balance += values[i + 1..]
            .iter()
            .map(|later| i64::from(later > first) - i64::from(later < first))
            .sum::<i64>();
    }
    let z = (balance.abs() - 1).max(0) as f64 / variance(&ascending).sqrt();
    Some(two_sided_p(z))
}

fn line(values: &[f64], p: f64) -> Slope {
    let per_step = median_slope(values);
    let rest: Vec<f64> = values.iter().enumerate().map(|(i, value)| value - per_step * i as f64).collect();
    let start = median(&rest);
    Slope { per_step, ends: [start, start + per_step * (values.len() - 1) as f64], p }
}

/// Variance of Kendall's S for values with these ties.
fn variance(ascending: &[f64]) -> f64 {
    let term = |count: usize| (count * (count - 1) * (2 * count + 5)) as f64;
    let ties: f64 = ascending.chunk_by(|a, b| a == b).map(|tied| term(tied.len())).sum();
    (term(ascending.len()) - ties) / 18.0
}

fn median_slope(values: &[f64]) -> f64 {
    let mut slopes = Vec::with_capacity(values.len() * (values.len() - 1) / 2);
    for (i, first) in values.iter().enumerate() {
        slopes
            .extend(values[i + 1..].iter().zip(1..).map(|(later, steps)| (later - first) / f64::from(steps)));
    }
    median_in_place(&mut slopes)
}

impl Slope {
    /// Drift over the whole series, relative to its middle.
    pub fn change(&self) -> f64 {
        relative((self.ends[1] - self.ends[0]).abs(), f64::midpoint(self.ends[0], self.ends[1]))
    }

    pub(super) fn at(&self, i: usize) -> f64 {
        self.ends[0] + self.per_step * i as f64
    }

    pub(super) fn regime(self, n: usize) -> Regime {
        let [from, to] = self.ends.map(figure);
        let detail = format!("the level drifts from {from} to {to} over {n} values ({})", chance(self.p));
        Regime { kind: RegimeKind::Slope, levels: None, p: self.p, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regime::detect;

    #[test]
    fn a_drift_is_measured_and_a_stall_does_not_bend_it() {
        let mut series: Vec<f64> =
            (0..20).map(|i| 100.0 + f64::from(i) + f64::from(i * 7 % 5) * 0.5).collect();
        series[4] = 1e6;
        let slope = slope_test(&series).unwrap();
        assert!((slope.per_step - 1.0).abs() < 0.15, "{slope:?}");
        assert!(slope.p < 0.001, "{slope:?}");
        let found = detect(&series);
        assert_eq!(
            found.iter().map(|regime| regime.kind).collect::<Vec<_>>(),
            [RegimeKind::Slope],
            "{found:?}"
        );
    }

    #[test]
    fn kendalls_variance_knows_ties() {
        let distinct: Vec<f64> = (0..10).map(f64::from).collect();
        assert_eq!(variance(&distinct), 125.0);
        // Ten values in five pairs: (10·9·25 − 5·2·1·9)/18.
        let pairs: Vec<f64> = (0..10).map(|i| f64::from(i / 2)).collect();
        assert_eq!(variance(&pairs), 120.0);
    }
}
