//! How long the runs of a session with a short budget are: those that follow get shorter where the runs before took longer than there is
//! time for.

use std::time::{Duration, Instant};

use crate::planner::Timing;

/// Runs get no shorter than this share of their length: a batch of fewer operations would measure the clock.
const SHORTEST: f64 = 0.05;

/// What share of their length the next runs have.
pub(super) struct Pace {
    share: f64,
    began: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { share: 1.0, began: None }
    }
}

impl Pace {
    /// Before a run: so many were made since the first look, so many cases have none, and that is the time of all.
    pub(super) fn look(&mut self, runs: usize, unmeasured: usize, budget: Duration) {
        let spent = self.began.get_or_insert_with(Instant::now).elapsed();
        self.share = next(self.share, spent, runs, unmeasured, budget);
    }

    pub(super) fn shortened(&self, timing: Timing) -> Timing {
        let shorter = |ns: u64| (ns as f64 * self.share) as u64;
        Timing { sample_ns: shorter(timing.sample_ns), run_ns: shorter(timing.run_ns), ..timing }
    }
}

fn next(share: f64, spent: Duration, runs: usize, unmeasured: usize, budget: Duration) -> f64 {
    if unmeasured == 0 {
        // Each has a run: further ones are as long as planned.
        return 1.0;
    }
    let needed = spent.as_secs_f64() / runs.max(1) as f64 * unmeasured as f64;
    let left = budget.saturating_sub(spent).as_secs_f64();
    if needed > left { (share * left / needed).max(SHORTEST) } else { share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_get_shorter_until_the_others_fit_the_budget_and_long_again_once_each_has_one() {
        let budget = Duration::from_secs(10);
        let spent = Duration::from_secs;
        // A second each, and nine to go in nine seconds.
        assert_eq!(next(1.0, spent(1), 1, 9, budget), 1.0);
        // Two seconds each, and four to go in the six that are left.
        assert_eq!(next(1.0, spent(4), 2, 4, budget), 0.75);
        assert_eq!(next(0.5, spent(4), 2, 4, budget), 0.375);
        assert_eq!(next(0.5, spent(11), 2, 4, budget), SHORTEST);
        assert_eq!(next(0.5, spent(4), 6, 0, budget), 1.0);
        let timing = Timing { sample_ns: 1000, samples: 7, least_samples: 2, run_ns: 9000 };
        let shortened = Pace { share: 0.5, began: None }.shortened(timing);
        assert_eq!(shortened, Timing { sample_ns: 500, run_ns: 4500, ..timing });
    }
}
