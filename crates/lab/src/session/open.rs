//! A case of a session: what it has given so far, and whether it gets more runs.

use std::time::Duration;

use weighbridge_record::{self as record, StoppedBy};
use weighbridge_stats::duet::{Party, Slice, set_log_ratio};

use crate::contract::{Caps, Prepared};

pub(super) struct Open {
    pub(super) case: Prepared,
    /// Index of its hub, or why it has none.
    pub(super) hub: Result<usize, String>,
    /// The slices of each set, of the case and of the hub.
    pub(super) sets: Vec<Vec<Slice>>,
    pub(super) runs: Vec<record::Run>,
    /// What the decision to stop and the interval rest on, a value for each run: the ratio to the hub where the case has
    /// one, else the value of the run.
    pub(super) evidence: Vec<f64>,
    /// What the dearest run took, so that the budget holds.
    pub(super) dearest: Duration,
    /// What all runs took.
    pub(super) spent: Duration,
    pub(super) state: CaseState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseState {
    Open,
    Stopped(StoppedBy),
    /// It never gave a number.
    Skipped,
}

impl Open {
    pub(super) fn new(case: Prepared, hub: Result<usize, String>, expected: Duration) -> Open {
        Open {
            case,
            hub,
            sets: Vec::new(),
            runs: Vec::new(),
            evidence: Vec::new(),
            dearest: expected,
            spent: Duration::ZERO,
            state: CaseState::Open,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == CaseState::Open
    }

    /// Does the case measure the harness itself?
    pub(super) fn is_harness(&self) -> bool {
        self.case.target.caps.has(Caps::HARNESS)
    }

    /// Keeps a run, with the slices of its set if it was one.
    pub(super) fn keep(&mut self, run: record::Run, slices: Option<Vec<Slice>>) {
        match slices {
            Some(set) => {
                let ratio = set_log_ratio(&set, Party::Case(0), Party::Hub);
                self.evidence.extend(ratio.map(f64::exp));
                self.sets.push(set);
            }
            None => self.evidence.push(run.value),
        }
        self.runs.push(run);
    }

    /// Notes what a run took.
    pub(super) fn note_cost(&mut self, took: Duration) {
        self.dearest = if self.spent.is_zero() { took } else { self.dearest.max(took) };
        self.spent += took;
    }

    /// No further runs, whatever is still missing.
    pub(super) fn stop(&mut self, by: StoppedBy) {
        self.state = if self.runs.is_empty() { CaseState::Skipped } else { CaseState::Stopped(by) };
    }
}
