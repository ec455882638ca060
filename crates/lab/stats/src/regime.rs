//! Is it one steady state at all? An average over two regimes is a value that never occurred.
//!
//! Four tests on a series in the order in which it was measured, for samples of a run or for runs of a case:
//! [`split_test`], [`slope_test`], [`lag1_test`], [`gap_test`]. [`detect`] runs all and reports what explains the
//! series best, so that one change of level is not also called a slope, two modes and a correlation.
//!
//! These tests take the values for exchangeable where nothing changes. Slices of milliseconds are not: the machine's state outlives
//! them, their lag-1 correlation is 0.85, and nearly every series is flagged. Where a hub was measured in the same slices, use
//! [`against_hub`] instead, which asks what the case did that the hub did not; for samples of a case that was measured alone,
//! [`of_correlated`].
//!
//! All but the gap test work on ranks. So a stall, however long, is no more than one misplaced rank, and the probability
//! of a false alarm is the same for every continuous distribution. A finding must also matter: below
//! [`WORTH_SAYING`] it is not reported, however sure it is. What the tests find and how often they are wrong is counted
//! in `tests/it/simulation`.

mod correlation;
mod gap;
mod hub;
mod null;
mod slope;
mod split;

pub use correlation::{Lag1, lag1_test};
pub use gap::{Gap, gap_test};
pub use hub::{FEWEST_SETS, against_hub, of_correlated};
pub use slope::{Slope, slope_test};
pub use split::{Split, split_test};

use slope::significant_slope;

use crate::order::{half_iqr_over_median, relative};

/// The probability with which each test flags a steady series.
pub const ALPHA: f64 = 0.01;

/// The fewest values that are tested; below that not even the clearest change of level is significant.
pub const FEWEST: usize = 10;

/// Relative change of level, drift over the series, or distance of modes below which nothing is reported: 1 %.
pub const WORTH_SAYING: f64 = 0.01;

/// Correlation of neighbors below which nothing is reported.
pub const CORRELATION_WORTH_SAYING: f64 = 0.3;

/// How a series departs from one steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegimeKind {
    /// The values fall into two groups.
    TwoModes,
    /// The level changed once.
    Step,
    /// The level drifts.
    Slope,
    /// Neighboring values resemble each other.
    Correlated,
}

/// A departure from one steady state.
#[derive(Clone, Debug, PartialEq)]
pub struct Regime {
    /// Which.
    pub kind: RegimeKind,
    /// Both levels, in the unit of the values: before and after a step, or lower and upper mode.
    pub levels: Option<[f64; 2]>,
    /// The probability of at least this in a steady series.
    pub p: f64,
    /// A clause with the figures, to stand after a comma: "the level changes from … to … after 6 of 15 …".
    pub detail: String,
}

/// Where a regime was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// Among the samples of runs.
    Samples,
    /// Among the values of the runs, in the order in which they were made.
    Runs,
}

impl Within {
    /// The word that the record uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Within::Samples => "samples",
            Within::Runs => "runs",
        }
    }
}

/// A regime of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseRegime {
    /// What was found.
    pub kind: RegimeKind,
    /// In samples or among runs.
    pub within: Within,
    /// In how many runs; 1 for a regime among runs.
    pub runs: usize,
    /// The two levels, for two modes and steps; for samples the median over those runs.
    pub levels: Option<[f64; 2]>,
    /// A sentence with the figures.
    pub detail: String,
}

/// Everything worth reporting about a series in measured order; empty for a steady one, and for fewer than
/// [`FEWEST`] values.
///
/// Of step and slope the one that leaves the smaller residuals is kept. Two modes are left out where a step separates
/// them, and correlation is reported only where nothing else explains it.
pub fn detect(values: &[f64]) -> Vec<Regime> {
    crate::order::assert_finite(values);
    if values.len() < FEWEST || !matters(values) {
        return vec![];
    }
    let step = split_test(values).filter(|split| split.p <= ALPHA && split.change() >= WORTH_SAYING);
    let slope = significant_slope(values, ALPHA).filter(|slope| slope.change() >= WORTH_SAYING);
    let (step, slope) = match (step, slope) {
        (Some(step), Some(slope)) if explains_better(values, &step, &slope) => (Some(step), None),
        (Some(_), Some(slope)) => (None, Some(slope)),
        other => other,
    };
    let gap = gap_test(values).filter(|gap| !step.as_ref().is_some_and(|step| separates(values, step, gap)));
    let mut found: Vec<Regime> = gap.map(|gap| gap.regime(values.len())).into_iter().collect();
    found.extend(step.map(|step| step.regime(values.len())));
    found.extend(slope.map(|slope| slope.regime(values.len())));
    if found.is_empty() {
        let correlated = |lag1: &Lag1| lag1.p <= ALPHA && lag1.correlation >= CORRELATION_WORTH_SAYING;
        let scatter = 2.0 * half_iqr_over_median(values);
        found.extend(
            lag1_test(values)
                .filter(correlated)
                .filter(|_| scatter >= WORTH_SAYING)
                .map(|lag1| lag1.regime()),
        );
    }
    found
}

/// Can anything in the series be worth saying? Also the way out for equal values.
fn matters(values: &[f64]) -> bool {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    highest > lowest && relative(highest - lowest, lowest.abs().max(highest.abs())) >= WORTH_SAYING / 2.0
}

/// Does the step leave less unexplained than the line? The step's point was chosen to fit, so it must leave at least
/// 6 % less; with that, simulated steps of three deviations and drifts of four are named rightly about equally often.
fn explains_better(values: &[f64], step: &Split, slope: &Slope) -> bool {
    residual(values, |i| step.level_at(i)) <= 0.94 * residual(values, |i| slope.at(i))
}

/// Sum of what a description leaves unexplained.
fn residual(values: &[f64], described: impl Fn(usize) -> f64) -> f64 {
    values.iter().enumerate().map(|(i, value)| (value - described(i)).abs()).sum()
}

/// Does the step put nearly all (nine in ten) of each mode on its own side?
fn separates(values: &[f64], step: &Split, gap: &Gap) -> bool {
    let upper_first = step.levels[0] > step.levels[1];
    let misplaced = |(i, value): (usize, &f64)| ((i < step.after) == upper_first) != (*value >= gap.above);
    let count = values.iter().enumerate().filter(|pair| misplaced(*pair)).count();
    count * 10 <= values.len()
}

/// Relative distance of two levels, against the smaller of them; infinite when that is 0.
fn distance(levels: [f64; 2]) -> f64 {
    relative((levels[1] - levels[0]).abs(), levels[0].abs().min(levels[1].abs()))
}

/// Four significant digits, without trailing zeros.
fn figure(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let rounded: f64 = format!("{value:.3e}").parse().expect("a number that was just written");
    if (1e-4..1e7).contains(&rounded.abs()) { format!("{rounded}") } else { format!("{rounded:e}") }
}

fn chance(p: f64) -> String {
    if p < 0.001 { "p < 0.001".into() } else { format!("p = {p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dumazet's epoll_bench, 2006, `-n 2000 -u`: events per second, as published with "Avg: 170188 evts/sec".
    const AF_UNIX: [f64; 15] = [
        264827., 259241., 262266., 262730., 253212., 255219., 166655., 111348., 104812., 95897., 97096.,
        113808., 102509., 100318., 102893.,
    ];

    #[test]
    fn the_published_change_of_level_at_second_seven_is_found() {
        let found = detect(&AF_UNIX);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].kind, RegimeKind::Step);
        let [before, after] = found[0].levels.unwrap();
        assert!(
            (255_000.0..265_000.0).contains(&before) && (95_000.0..112_000.0).contains(&after),
            "{found:?}"
        );
        assert!(found[0].p <= 0.001, "{found:?}");
        assert!(found[0].detail.starts_with("the level changes from "), "{}", found[0].detail);
        let after = split_test(&AF_UNIX).unwrap().after;
        assert!(after == 6 || after == 7, "{after}");
    }

    #[test]
    fn a_short_or_equal_series_is_not_judged() {
        assert_eq!(detect(&[]), []);
        assert_eq!(detect(&[1.0, 1.0, 1.0, 9.0, 9.0, 9.0]), []);
        assert_eq!(detect(&[46.0; 40]), []);
        assert_eq!(detect(&[0.0; 40]), []);
    }

    #[test]
    fn a_change_too_small_to_matter_is_not_reported_however_sure() {
        let tiny: Vec<f64> =
            (0..40).map(|i| if i < 20 { 100.0 } else { 100.7 } + f64::from(i % 5) * 0.01).collect();
        assert!(split_test(&tiny).unwrap().p <= ALPHA);
        assert_eq!(detect(&tiny), []);
    }

    #[test]
    fn figures_have_four_digits_and_no_tail_of_zeros() {
        for (value, text) in [
            (5.1, "5.1"),
            (260_345.0, "260300"),
            (0.012_345_6, "0.01235"),
            (8.2e9, "8.2e9"),
            (0.0, "0"),
            (-3.0, "-3"),
        ] {
            assert_eq!(figure(value), text);
        }
    }
}
