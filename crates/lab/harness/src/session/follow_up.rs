//! Which cases get further runs once each has its first look: those that reach their precision soonest.
//!
//! A second is worth what it brings nearer to an interval that is narrow enough. So the next runs go to the cases with the least time to
//! go, and those that cannot reach their precision with the runs allowed come last: of all orders this one has the
//! most cases finished whenever the budget ends (Smith 1956, shortest processing time first).

use std::time::Duration;

/// A case that may get another run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) index: usize,
    pub(super) made: usize,
    /// Runs at which it is expected to have its precision; `None` where that is not expected.
    pub(super) expected_stop: Option<usize>,
    /// What a run of it takes, on average, its reference included.
    pub(super) cost: Duration,
}

impl Candidate {
    /// Cases finished in a second that is spent on this one; of those that will not be finished, how much narrower their interval gets
    /// in a second, relatively.
    fn gain_per_s(&self) -> f64 {
        let runs = match self.expected_stop {
            Some(stop) => stop.saturating_sub(self.made).max(1),
            // The width falls with the root of the number of runs.
            None => 2 * self.made.max(1),
        };
        1.0 / (runs as f64 * self.cost.as_secs_f64().max(1e-9))
    }
}

/// The `count` candidates that gain most in a second, best first.
pub(super) fn best(mut candidates: Vec<Candidate>, count: usize) -> Vec<usize> {
    let rank = |of: &Candidate| (of.expected_stop.is_some(), of.gain_per_s());
    candidates.sort_by(|a, b| {
        let (a, b) = (rank(a), rank(b));
        b.0.cmp(&a.0).then(b.1.total_cmp(&a.1))
    });
    candidates.into_iter().take(count).map(|candidate| candidate.index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_that_is_done_soonest_comes_first_and_of_the_hopeless_the_one_that_narrows_fastest() {
        let best_of = |candidates: &[(usize, Option<usize>, u64)], count| {
            let candidate = |(index, &(made, expected_stop, cost_ms))| Candidate {
                index,
                made,
                expected_stop,
                cost: Duration::from_millis(cost_ms),
            };
            best(candidates.iter().enumerate().map(candidate).collect(), count)
        };
        // Runs made, runs expected, and what a run takes.
        let some =
            [(6, None, 10), (6, Some(40), 100), (6, Some(9), 100), (6, Some(9), 500), (19, Some(28), 100)];
        assert_eq!(best_of(&some, 9), [2, 4, 3, 1, 0]);
        assert_eq!(best_of(&some, 2), [2, 4]);
        assert_eq!(best_of(&[(19, None, 100), (6, None, 100), (6, None, 400)], 3), [1, 0, 2]);
    }
}
