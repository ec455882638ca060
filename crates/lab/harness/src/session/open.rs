//! A case of a session: what it has given so far, and whether it gets more runs.

use std::time::Duration;

use weighbridge_record::{self as record, CaseId, StoppedBy};
use weighbridge_stats::duet::{Party, Slice, set_log_ratio};

use crate::axis::{Choice, Idle};
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
    /// Of each of these: is it of a set with slices of double length?
    pub(super) doubled: Vec<bool>,
    pub(super) attempts: record::Attempts,
    pub(super) system_calls: Option<record::SystemCalls>,
    /// Void runs since the last valid one.
    pub(super) void_in_a_row: u32,
    /// What the longest run took, so that the budget holds.
    pub(super) max_run_cost: Duration,
    pub(super) spent: Duration,
    pub(super) state: CaseState,
}

/// The slices of a set in which a case and its hub took turns.
pub(super) struct Turns {
    pub(super) slices: Vec<Slice>,
    pub(super) is_doubled: bool,
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
            doubled: Vec::new(),
            attempts: record::Attempts::default(),
            system_calls: None,
            void_in_a_row: 0,
            max_run_cost: expected,
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
    pub(super) fn keep(&mut self, run: record::Run, set: Option<Turns>) {
        let (value, is_doubled) = match &set {
            Some(Turns { slices, is_doubled }) => {
                (set_log_ratio(slices, Party::Case(0), Party::Hub).map(f64::exp), *is_doubled)
            }
            None => (Some(run.value), false),
        };
        if let Some(value) = value {
            self.evidence.push(value);
            self.doubled.push(is_doubled);
        }
        self.sets.extend(set.map(|set| set.slices));
        self.runs.push(run);
    }

    /// The logarithms of the ratios to the hub, of sets with slices of double length or of the others.
    pub(super) fn log_ratios(&self, doubled: bool) -> Vec<f64> {
        let pairs = self.evidence.iter().zip(&self.doubled);
        pairs.filter(|(_, is_doubled)| **is_doubled == doubled).map(|(ratio, _)| ratio.ln()).collect()
    }

    pub(super) fn note_cost(&mut self, took: Duration) {
        self.max_run_cost = if self.spent.is_zero() { took } else { self.max_run_cost.max(took) };
        self.spent += took;
    }

    /// No further runs, whatever is still missing.
    pub(super) fn stop(&mut self, by: StoppedBy) {
        self.state = if self.runs.is_empty() { CaseState::Skipped } else { CaseState::Stopped(by) };
    }
}

/// The baseline of all comparisons of a session: the plain pipe.
const BASELINE: &str = "pipe";

/// The baseline of a case: the same case with a pipe that has no setting of its own, on CPUs that halt or do not halt as those of the
/// case; none for that case itself.
pub(super) fn baseline_of(id: &CaseId) -> Option<CaseId> {
    let baseline = CaseId::new(&id.pattern, BASELINE, id.payload_bytes, &id.placement);
    let baseline = match id.axes.get(Idle::AXIS.name) {
        Some(idle) => baseline.with(Idle::AXIS.name, idle),
        None => baseline,
    };
    (baseline != *id && id.mechanism != "noop" && id.mechanism != "mock").then_some(baseline)
}
