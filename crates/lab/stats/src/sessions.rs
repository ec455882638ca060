//! Sessions of one machine: where a further one is expected to lie, and whether two of them agree.
//!
//! An interval over the sets of one session knows nothing of what the machine does between sessions. For an absolute figure that
//! is most of what there is: two sessions of one case differed by 30 % within two seconds, each with ± 2 % of its own. Only other sessions
//! tell it.

use crate::interval::Interval;
use crate::normal::two_sided_t;

/// Fewest sessions, this one included, of which anything is said of a further one. With fewer, Student's quantile is so large that
/// the interval says nothing, and two modes of the machine may both not have been seen.
pub const FEWEST: usize = 5;

/// Where the median of a further session lies, from those of the sessions until now: Student's prediction interval on logarithms, and at
/// least from the lowest to the highest session. `None` below [`FEWEST`] sessions.
///
/// In simulations (`tests/it/simulation/sessions.rs`) the next session lies inside in 94 % at least where 95 % are promised,
/// neighboring sessions being correlated by up to 0.3; in 92 % at 0.6 and with heavy tails, and in 91 % where one session in ten is
/// half as slow again, of which a few sessions have seen none.
///
/// # Panics
/// If a median is not positive and finite, or the confidence is none.
pub fn further(medians: &[f64], confidence: f64) -> Option<Interval> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence of {confidence}");
    assert!(medians.iter().all(|median| *median > 0.0 && median.is_finite()), "medians {medians:?}");
    if medians.len() < FEWEST {
        return None;
    }
    let logs: Vec<f64> = medians.iter().map(|median| median.ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let arm = two_sided_t(1.0 - confidence, n - 1.0) * (variance * (1.0 + 1.0 / n)).sqrt();
    let lowest = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = medians.iter().copied().fold(0.0, f64::max);
    Some(Interval { low: (mean - arm).exp().min(lowest), high: (mean + arm).exp().max(highest), confidence })
}

/// A positive figure and its interval, which contains it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// From where …
    pub low: f64,
    /// … to where its interval reaches.
    pub high: f64,
}

impl Figure {
    /// The product of two independent figures, such as a ratio and what it is a multiple of: on logarithms their arms add up as
    /// standard errors do.
    pub fn times(self, other: Figure) -> Figure {
        let arm = |one: f64, other: f64| one.ln().hypot(other.ln()).exp();
        let value = self.value * other.value;
        Figure {
            value,
            low: value / arm(self.value / self.low, other.value / other.low),
            high: value * arm(self.high / self.value, other.high / other.value),
        }
    }

    /// Does the figure of another session lie inside?
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Do two figures differ by more than their arms together? On logarithms, the arms that point at each other added up as standard errors
    /// are, so that of two honest intervals at 95 % one pair in twenty does.
    pub fn differs_from(&self, other: &Figure) -> bool {
        let (lower, upper) = if self.value <= other.value { (self, other) } else { (other, self) };
        let arms = (lower.high / lower.value).ln().hypot((upper.value / upper.low).ln());
        // Equal figures of counted instructions have no arms.
        (upper.value / lower.value).ln() > arms * (1.0 + 1e-9) + 1e-12
    }

    /// Have the two intervals nothing in common?
    pub fn is_apart_from(&self, other: &Figure) -> bool {
        self.high < other.low || other.high < self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, low: f64, high: f64) -> Figure {
        Figure { value, low, high }
    }

    #[test]
    fn a_further_session_is_expected_where_student_says_and_wherever_one_was() {
        assert_eq!(further(&[1.0, 1.1, 0.9, 1.0], 0.95), None);
        // Logarithms −2, −1, 0, 1, 2: variance 2.5, t of four degrees 2.776, times √(2.5 · 1.2).
        let logs: Vec<f64> = [-2.0_f64, -1.0, 0.0, 1.0, 2.0].map(f64::exp).into();
        let found = further(&logs, 0.95).unwrap();
        assert!((found.high.ln() - 2.7764 * 3.0_f64.sqrt()).abs() < 1e-3, "{found:?}");
        assert!((found.low * found.high - 1.0).abs() < 1e-9);
        // One session of forty was far out, and so may the next be.
        let mut steady = vec![1.0; 39];
        steady.push(2.0);
        assert_eq!(further(&steady, 0.95).unwrap().high, 2.0);
        assert_eq!(further(&[3.0; 5], 0.95).unwrap().low, 3.0);
    }

    #[test]
    fn two_sessions_differ_where_their_arms_together_do_not_reach() {
        let [one, near, far] =
            [figure(100.0, 97.0, 103.0), figure(104.0, 101.0, 107.0), figure(105.0, 102.0, 108.0)];
        // Arms of three per cent are 4.2 together; the intervals overlap all the same.
        assert!(!one.differs_from(&near) && one.differs_from(&far) && far.differs_from(&one));
        assert!(!one.is_apart_from(&far) && one.is_apart_from(&figure(110.0, 104.0, 120.0)));
        let exact = figure(7.0, 7.0, 7.0);
        assert!(
            !exact.differs_from(&exact) && exact.contains(7.0) && exact.differs_from(&figure(8.0, 8.0, 8.0))
        );
    }

    #[test]
    fn a_multiple_of_an_uncertain_yardstick_is_as_uncertain_as_both() {
        let product = figure(2.0, 2.0 / 1.03, 2.0 * 1.03).times(figure(10.0, 10.0 / 1.04, 10.0 * 1.04));
        assert!((product.value - 20.0).abs() < 1e-9);
        let arm = 1.03_f64.ln().hypot(1.04_f64.ln());
        assert!(
            ((product.high / 20.0).ln() - arm).abs() < 1e-9 && ((20.0 / product.low).ln() - arm).abs() < 1e-9
        );
    }
}
