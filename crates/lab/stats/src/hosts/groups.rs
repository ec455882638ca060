//! Two groups of machines: Welch's test (1947), for as few as two a side, and of the same machines before and after by pairs.
//!
//! The value of a machine is the middle of its boots. Runs pooled over machines would cover the truth in half of the cases; so would
//! samples, and worse.

use crate::interval::Interval;
use crate::normal::{two_sided_student_p, two_sided_t};
use crate::order::mean;

/// Fewest machines of a side.
pub const FEWEST: usize = 2;

/// Candidate over baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Logarithm of the ratio.
    pub log_ratio: f64,
    /// Standard error of it.
    pub error: f64,
    /// Degrees of freedom.
    pub freedom: f64,
}

impl Difference {
    /// Interval of the ratio.
    pub fn interval(&self, confidence: f64) -> Interval {
        let arm =
            if self.error > 0.0 { two_sided_t(1.0 - confidence, self.freedom) * self.error } else { 0.0 };
        Interval { low: (self.log_ratio - arm).exp(), high: (self.log_ratio + arm).exp(), confidence }
    }

    /// Two-sided p value of a difference by at most `margin`, a logarithm.
    pub fn beyond(&self, margin: f64) -> f64 {
        let tail = |distance: f64| {
            let half = if self.error > 0.0 {
                two_sided_student_p(distance / self.error, self.freedom) / 2.0
            } else {
                0.0
            };
            if distance < 0.0 { 1.0 - half } else { half }
        };
        let size = self.log_ratio.abs();
        if size <= margin { 1.0 } else { (tail(size - margin) + tail(size + margin)).min(1.0) }
    }

    /// Two-sided p value of no difference.
    pub fn p(&self) -> f64 {
        if self.log_ratio == 0.0 {
            1.0
        } else {
            two_sided_student_p(self.log_ratio / self.error, self.freedom)
        }
    }
}

/// Logarithms of the costs of different machines; `None` with fewer than [`FEWEST`] a side.
pub fn welch(baseline: &[f64], candidate: &[f64]) -> Option<Difference> {
    let [one, other] = [Side::of(baseline)?, Side::of(candidate)?];
    let variance = one.variance + other.variance;
    let freedom =
        variance.powi(2) / (one.variance.powi(2) / one.freedom + other.variance.powi(2) / other.freedom);
    let freedom = if freedom.is_finite() { freedom } else { one.freedom + other.freedom };
    Some(Difference { log_ratio: other.middle - one.middle, error: variance.sqrt(), freedom })
}

/// Logarithms of candidate over baseline of the same machines; `None` with fewer than [`FEWEST`].
pub fn paired(logs: &[f64]) -> Option<Difference> {
    let all = Side::of(logs)?;
    Some(Difference { log_ratio: all.middle, error: all.variance.sqrt(), freedom: all.freedom })
}

struct Side {
    middle: f64,
    /// Of the middle.
    variance: f64,
    freedom: f64,
}

impl Side {
    fn of(logs: &[f64]) -> Option<Side> {
        if logs.len() < FEWEST {
            return None;
        }
        let (middle, n) = (mean(logs), logs.len() as f64);
        let squares: f64 = logs.iter().map(|log| (log - middle).powi(2)).sum();
        Some(Side { middle, variance: squares / (n * (n - 1.0)), freedom: n - 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Machines 2 %, boots 0.7 %, runs 1 %, of which each side has from two to twenty machines.
    #[test]
    fn intervals_of_few_machines_cover_the_truth() {
        for hosts in [2, 3, 5, 8, 12, 20] {
            let mut random = Random::new(hosts as u64);
            let mut side = |middle: f64| -> Vec<f64> {
                let deviation = (0.02_f64.powi(2) + 0.007_f64.powi(2) + 0.01_f64.powi(2) / 8.0).sqrt();
                (0..hosts).map(|_| middle + deviation * random.normal()).collect()
            };
            let covered = (0..2000)
                .filter(|_| welch(&side(0.0), &side(0.01)).unwrap().interval(0.95).contains(0.01_f64.exp()))
                .count();
            assert!(covered >= 1860, "{hosts} machines a side: {covered} of 2000");
        }
    }

    /// Computed apart from this program, with an integral of Student's density.
    #[test]
    fn the_difference_of_two_groups_is_that_of_welch() {
        let found = welch(&[1.0, 2.0, 4.0, 7.0], &[3.0, 5.0, 6.0, 9.0, 12.0]).unwrap();
        let close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-9;
        assert!(close(found.log_ratio, 3.5) && close(found.error, 2.061_552_812_808_830_3), "{found:?}");
        assert!(
            close(found.freedom, 6.991_935_483_870_969) && close(found.p(), 0.133_413_913_360_194_79),
            "{found:?}"
        );
        let interval = found.interval(0.95);
        assert!(close(interval.low, 0.252_602_591_016_684_03) && close(interval.high, 4_341.337_727_434_583));
        assert!(close(found.beyond(1.0), 0.165_020_850_599_228), "{}", found.beyond(1.0));
        assert_eq!(found.beyond(3.5), 1.0);
        let pairs = paired(&[1.0, 2.0, 4.0, 7.0]).unwrap();
        assert!(close(pairs.log_ratio, 3.5) && close(pairs.error, 1.75_f64.sqrt()) && pairs.freedom == 3.0);
        let equal = welch(&[1.0, 1.0], &[2.0, 2.0]).unwrap();
        assert_eq!((equal.beyond(0.5), equal.p(), equal.freedom), (0.0, 0.0, 2.0));
    }

    #[test]
    fn one_machine_a_side_says_nothing_and_equal_ones_are_equal() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), None);
        let same = welch(&[1.0, 1.0], &[1.0, 1.0]).unwrap();
        assert_eq!((same.p(), same.interval(0.95).low), (1.0, 1.0));
        let pairs = paired(&[0.05, 0.06, 0.04, 0.05]).unwrap();
        assert!(pairs.interval(0.95).low > 1.03 && pairs.p() < 0.01);
        assert!(pairs.beyond(0.01) < 0.01 && pairs.beyond(0.045) > 0.1 && pairs.beyond(0.06) == 1.0);
    }
}
