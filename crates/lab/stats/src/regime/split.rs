//! Did the level change once?

use super::null::{centered, null, p_value, split_statistic};
use super::{FEWEST, Regime, RegimeKind, chance, distance, figure};
use crate::order::median;
use crate::order::midranks;

/// The best split of a series into two segments.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Number of values before the split.
    pub after: usize,
    /// Medians before and after.
    pub levels: [f64; 2],
    /// The probability of so good a split, at any point, in a series without order.
    pub p: f64,
}

/// The split with the largest t statistic between the two sides' ranks, over all points with at least three values
/// and a tenth of them on each side; the p value is from permutations of the ranks and so accounts for having looked
/// at all points (the maximally selected rank statistic; Pettitt 1979, Lausen and Schumacher 1992).
///
/// `None` for fewer than [`FEWEST`] values or when all are equal. With many equal values the p value is approximate.
pub fn split_test(values: &[f64]) -> Option<Split> {
    let scores = centered(&midranks(values));
    if values.len() < FEWEST || scores.iter().all(|score| *score == 0.0) {
        return None;
    }
    let (after, statistic) = split_statistic(&scores);
    let levels = [median(&values[..after]), median(&values[after..])];
    Some(Split { after, levels, p: p_value(&null(values.len()).split, statistic) })
}

impl Split {
    /// Relative distance of the two levels.
    pub fn change(&self) -> f64 {
        distance(self.levels)
    }

    pub(super) fn level_at(&self, i: usize) -> f64 {
        self.levels[usize::from(i >= self.after)]
    }

    pub(super) fn regime(self, n: usize) -> Regime {
        let [before, after] = self.levels.map(figure);
        let detail = format!(
            "the level changes from {before} to {after} after {} of {n} values ({})",
            self.after,
            chance(self.p)
        );
        Regime { kind: RegimeKind::Step, levels: Some(self.levels), p: self.p, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_does_not_hide_a_step() {
        let mut series: Vec<f64> =
            (0..30).map(|i| if i < 12 { 100.0 } else { 130.0 } + f64::from(i * 7 % 5)).collect();
        series[3] = 1e6;
        let split = split_test(&series).unwrap();
        assert_eq!(split.after, 12);
        assert!(split.p <= 0.01, "{split:?}");
        assert!(split.levels[0] < 110.0, "{split:?}");
    }

    #[test]
    fn one_stall_is_no_step() {
        for at in 0..20 {
            let mut series: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i * 7 % 20)).collect();
            series[at] = 1e6;
            assert!(split_test(&series).unwrap().p > 0.05, "stall at {at}");
        }
    }
}
