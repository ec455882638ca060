//! Warm-up by time, of runs that have their CPUs to themselves: until the costs of batches show no trend, or the longest time is over.
//!
//! Roles on two CPUs become faster or slower for some sixty milliseconds after they have begun. What lies before the samples is
//! discarded, and the record says how much that was. Roles on one CPU have no such transient, and parties of a set have slices
//! that are not timed instead.

use std::io;

use serde::{Deserialize, Serialize};
use weighbridge_stats::warm_up::{WarmUp, WarmUpState};

use super::{Ctx, Time};
use crate::axis::choice;
use crate::planner::Timing;

const MOST_NS: u64 = 250_000_000;
/// The shortest, however steady the first batches are.
const LEAST_NS: u64 = 100_000_000;
/// A warm-up lasts no longer than so many times what the samples take.
const MOST_RUNS: u64 = 4;

choice! {
    /// The state in which roles are measured.
    pub enum Warm {
        /// They have worked for a while.
        Steady = "steady",
        /// They have slept.
        Cold = "cold",
    }
    axis "warm", default Steady: "steady: the roles have worked until their cost no longer changes; cold: each sample is a burst \
        of at most a millisecond after all roles have slept for 20 ms"
}

/// What a run has discarded before its first sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discarded {
    /// Time of the batches.
    pub ns: u64,
    /// Number of batches.
    pub batches: u64,
    /// Did they end without a trend?
    pub is_steady: bool,
}

impl Discarded {
    pub(super) fn of(warm_up: &WarmUp, state: WarmUpState) -> Discarded {
        Discarded {
            ns: warm_up.passed_ns(),
            batches: warm_up.batches() as u64,
            is_steady: state == WarmUpState::Steady,
        }
    }
}

/// The warm-up of a run whose samples are timed so.
pub(super) fn warm_up(timing: Timing) -> WarmUp {
    let most_ns = MOST_NS.min(timing.run_ns.saturating_mul(MOST_RUNS));
    WarmUp::new(LEAST_NS.min(most_ns), most_ns)
}

impl Ctx<'_> {
    pub(super) fn warms_up(&self) -> bool {
        self.roles > 1
            && self.turnstile.is_none()
            && self.time == Time::Raw
            && !self.is_cold()
            && !self.params.same_cpu()
    }

    pub(super) fn is_cold(&self) -> bool {
        self.params.choice_if_declared() == Some(Warm::Cold)
    }

    /// Does `batch`, which says how long it took and how many operations it did, until the warm-up is over; not at all
    /// where there is none. Keeps what was discarded.
    pub(super) fn warm_up(
        &mut self,
        mut batch: impl FnMut(&mut Self) -> io::Result<(u64, u64)>,
    ) -> io::Result<()> {
        if !self.warms_up() {
            return Ok(());
        }
        let mut warm_up = warm_up(self.timing);
        loop {
            let (elapsed_ns, ops) = batch(self)?;
            // Nothing may have come in an interval of roles that share a CPU with others.
            let state = warm_up.push(elapsed_ns, ops.max(1));
            if state != WarmUpState::Warming {
                self.counted.warm_up = Some(Discarded::of(&warm_up, state));
                return Ok(());
            }
        }
    }
}
