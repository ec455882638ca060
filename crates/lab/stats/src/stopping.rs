//! When a case has enough runs.
//!
//! Looking repeatedly and stopping when the interval happens to be narrow costs coverage. Three things pay for it:
//! there are only six looks, both the decision and what is printed of a case that reached its precision use the 98 % interval
//! ([`printed_interval`]), and the first look asks for more (see [`FIRST_LOOK_MARGIN`]). `tests/it/simulation` shows what is
//! left: at least 93 % of the 95 % promised, for independent runs of every shape, and for runs that drift, around the level in the
//! middle of those made. Of the level of a longer session an early stop knows nothing.
//!
//! Runs that resemble their neighbors need a wider interval, for which the rule must be told their correlation
//! ([`CorrelatedRule`], from [`correlation`](crate::correlation)). Without it, 95 % are 84 % at a correlation of 0.3. Even with it
//! they are not reached where a peer *stays* in one of two modes for several runs: six runs may all lie in the rarer
//! mode. There only [`spacing`](crate::correlation::spacing) helps.

use crate::correlation::{widened, widening};
use crate::interval::{Interval, interpolated_median_interval, median_interval};
use crate::order::median;

/// The numbers of runs at which the decision is made, and no others. Each is about 1.45 times the one before.
pub const LOOKS: [usize; 6] = [6, 9, 13, 19, 28, 40];

/// Confidence of the interval on which the decision rests.
pub const DECISION_CONFIDENCE: f64 = 0.98;

/// At six runs no 98 % interval exists: lowest to highest gives 96.9 %, and the chance that six runs lie close
/// together by luck is largest there. So at six runs, lowest to highest must fit in this part of the precision asked
/// for; a case that only just meets its precision goes on to nine.
///
/// The value is a choice. Of log-normal run values whose deviation equals the precision, the share that stop at six *and*
/// whose interval misses the truth is 2.6 % with a margin of 1, 1.6 % with 0.7, and 0.6 % with 0.5 (400 000 simulated
/// cases each). The price is up to three more runs for cases whose deviation is between about 0.3 and 1 precision.
pub const FIRST_LOOK_MARGIN: f64 = 0.5;

/// What a case must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoppingRule {
    /// Relative half-width of the interval to be reached; 0.02 for ± 2 %.
    pub precision: f64,
    /// The most runs to make. The last look, 40, is the most in any case.
    pub max_runs: usize,
}

/// A [`StoppingRule`] for runs whose neighbors have this correlation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CorrelatedRule {
    /// The rule for independent runs.
    pub rule: StoppingRule,
    /// Correlation of neighboring runs, 0 … 1.
    pub correlation: f64,
}

impl CorrelatedRule {
    /// Decides from the values of the runs made so far, on an interval widened by [`widening`]. Between looks the answer is always to
    /// continue, so it does no harm to ask after every run.
    ///
    /// # Panics
    /// If a value is not finite, the precision is not positive, or the correlation is outside 0 … 1, 1 excluded.
    pub fn decide(&self, values: &[f64]) -> Decision {
        let (made, most) = (values.len(), self.rule.most_runs());
        let is_look = LOOKS.contains(&made) || made >= most;
        if is_look && need(values, self.rule.precision, self.correlation) <= 1.0 {
            Decision::Stop(Stop::Precision)
        } else if made >= most {
            Decision::Stop(Stop::MaxRuns)
        } else {
            let next_look = LOOKS.into_iter().find(|look| *look > made).unwrap_or(most).min(most);
            Decision::Continue { next_look }
        }
    }

    /// At how many runs a case that has these values is expected to reach its precision: the first look beyond them at which the
    /// interval, which narrows with the root of their number, is narrow enough. `None` where that is none, and below six runs.
    pub fn expected_stop(&self, values: &[f64]) -> Option<usize> {
        // The 98 % quantile of the normal distribution over the 95 % one: six runs have no interval of 98 %.
        const TO_DECISION: f64 = 2.326 / 1.960;
        let made = values.len();
        let interval = run_interval(values, 0.95, self.correlation)?;
        let now = interval.relative_half_width(median(values)) * TO_DECISION;
        let most = self.rule.most_runs();
        let looks = LOOKS.into_iter().filter(|look| *look < most).chain([most]);
        looks
            .filter(|look| *look > made)
            .find(|look| now * (made as f64 / *look as f64).sqrt() <= self.rule.precision)
    }

    /// At how many runs the interval of 95 % of a case that has these values is expected to have at most this relative half-width, which may be
    /// those that are made: where it is not yet worth more to make it narrower still. `None` where the most runs do not suffice, and below
    /// six.
    pub fn expected_at(&self, values: &[f64], half_width: f64) -> Option<usize> {
        let interval = run_interval(values, 0.95, self.correlation)?;
        let now = interval.relative_half_width(median(values));
        let needed = (values.len() as f64 * (now / half_width).powi(2)).ceil().max(values.len() as f64);
        (needed <= self.rule.most_runs() as f64).then_some(needed as usize)
    }
}

/// The interval of a case's median to print as one of 95 %, over runs whose neighbors have this correlation (0 for
/// independent ones): interpolated at 95 %, or at [`DECISION_CONFIDENCE`] where the case stopped by its precision, and widened by
/// [`widening`]. `None` below six runs.
///
/// What chance narrowed is stopped more often, so after six looks the interval of 95 % covers 91 to 95 %, and the one that decided
/// covers 95 to 97 % (log-normal, uniform and Laplace run values at scatters around the precision).
pub fn printed_interval(values: &[f64], reached_precision: bool, correlation: f64) -> Option<Interval> {
    let confidence = if reached_precision { DECISION_CONFIDENCE } else { 0.95 };
    let interval = run_interval(values, confidence, correlation)
        .or_else(|| of_median(values, median_interval(values, 0.95), correlation))?;
    Some(Interval { confidence: 0.95, ..interval })
}

fn run_interval(values: &[f64], confidence: f64, correlation: f64) -> Option<Interval> {
    of_median(values, interpolated_median_interval(values, confidence), correlation)
}

fn of_median(values: &[f64], interval: Option<Interval>, correlation: f64) -> Option<Interval> {
    interval.map(|interval| widened(interval, median(values), widening(values.len(), correlation)))
}

/// Why no further run is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The interval is as narrow as was asked for.
    Precision,
    /// The largest number of runs is made.
    MaxRuns,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No further runs.
    Stop(Stop),
    /// More runs, and no decision before there are `next_look` of them.
    Continue {
        /// Number of runs at which to ask again.
        next_look: usize,
    },
}

impl StoppingRule {
    /// A rule for this precision with as many runs as the looks allow.
    pub fn new(precision: f64) -> StoppingRule {
        StoppingRule { precision, max_runs: LOOKS[LOOKS.len() - 1] }
    }

    fn most_runs(&self) -> usize {
        self.max_runs.min(LOOKS[LOOKS.len() - 1])
    }
}

/// How far a case is from its precision: relative half-width over the precision asked for; at most 1 means reached. Infinite below six runs.
fn need(values: &[f64], precision: f64, correlation: f64) -> f64 {
    assert!(precision > 0.0, "a precision of {precision}");
    if values.len() < LOOKS[0] {
        return f64::INFINITY;
    }
    let decisive =
        run_interval(values, DECISION_CONFIDENCE, correlation).map(|interval| (interval, precision));
    let (interval, target) = decisive.unwrap_or_else(|| {
        let lowest_to_highest = median_interval(values, 0.95);
        let interval = of_median(values, lowest_to_highest, correlation).expect("six values at least");
        (interval, precision * FIRST_LOOK_MARGIN)
    });
    interval.relative_half_width(median(values)) / target
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(precision: f64, max_runs: usize, correlation: f64) -> CorrelatedRule {
        CorrelatedRule { rule: StoppingRule { precision, max_runs }, correlation }
    }

    #[test]
    fn decisions_are_made_at_looks_and_at_the_largest_number_of_runs() {
        let six = [98.5, 100.0, 100.0, 100.0, 100.0, 101.5];
        let nine = [98.5, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 100.0, 101.5];
        let wide: Vec<f64> = (1..=40).map(f64::from).collect();
        let go_on = |next_look| Decision::Continue { next_look };
        for (precision, most, values, expected) in [
            (0.001, 40, &[7.0; 5][..], go_on(6)),
            (0.001, 40, &[7.0; 6], Decision::Stop(Stop::Precision)),
            // Six runs must fit in half the precision and nine in all of it.
            (0.02, 40, &six, go_on(9)),
            (0.02, 40, &nine, Decision::Stop(Stop::Precision)),
            (0.02, 40, &[99.1, 100.0, 100.0, 100.0, 100.0, 100.9], Decision::Stop(Stop::Precision)),
            // Between looks nothing is decided.
            (0.02, 40, &[7.0; 7], go_on(9)),
            (0.02, 40, &wide, Decision::Stop(Stop::MaxRuns)),
            (0.02, 10, &wide[..9], go_on(10)),
            (0.02, 10, &wide[..10], Decision::Stop(Stop::MaxRuns)),
            (0.02, 10, &[7.0; 10], Decision::Stop(Stop::Precision)),
            (0.02, 1, &[7.0], Decision::Stop(Stop::MaxRuns)),
        ] {
            assert_eq!(rule(precision, most, 0.0).decide(values), expected, "{most}: {values:?}");
        }
    }

    #[test]
    fn the_stop_is_expected_where_the_interval_will_be_narrow_enough() {
        let scattered = |n: usize, scatter: f64| -> Vec<f64> {
            (0..n).map(|i| 100.0 + scatter * ((i * 7 % n) as f64 / (n - 1) as f64 - 0.5)).collect()
        };
        let expected =
            |most, correlation, values: &[f64]| rule(0.02, most, correlation).expected_stop(values);
        let (few, more) = (scattered(9, 6.0), scattered(9, 10.0));
        assert_eq!(expected(40, 0.0, &scattered(5, 1.0)), None);
        assert_eq!(expected(40, 0.0, &scattered(6, 1.0)), Some(9));
        assert_eq!(expected(40, 0.0, &scattered(9, 50.0)), None);
        assert_eq!(expected(10, 0.0, &more), None, "beyond the most runs");
        assert_eq!(expected(10, 0.0, &scattered(9, 1.0)), Some(10));
        let (soon, late, correlated) =
            (expected(40, 0.0, &few), expected(40, 0.0, &more), expected(40, 0.5, &few));
        assert!(soon.is_some() && soon < late, "{soon:?} {late:?}");
        assert!(
            correlated.is_none_or(|at| Some(at) > soon),
            "correlated runs are worth fewer: {correlated:?}"
        );
    }
}
