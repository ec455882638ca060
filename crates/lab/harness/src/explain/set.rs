//! One set of an explanation: one or two cases and the hub of their place, fresh processes all.

use weighbridge_record::PerOp;
use weighbridge_stats::duet::{Party, Slice, set_log_ratio};

use crate::conditions;
use crate::contract::Prepared;
use crate::coordinator::{self, Coordinator, Measured, SetOutcome, SliceTiming};
use crate::duet::{LEAST_BLOCKS, WARM_BLOCKS};
use crate::planner::Timing;
use crate::session::hubs;
use crate::summary;

/// How a set ended.
pub(super) enum Outcome {
    Interrupted,
    /// Of the party with this index, the hub after the cases.
    Failed {
        party: usize,
        step: String,
        why: String,
    },
    Measured(Set),
}

/// What a set gave.
pub(super) struct Set {
    /// Of each case, over the hub; without a hub over one nanosecond.
    pub(super) log_ratios: Vec<f64>,
    pub(super) per_op: Vec<PerOp>,
    pub(super) of_hub: Vec<Slice>,
}

/// What the slices of a set take together: more sets are worth more than longer ones.
const SET_NS: u64 = 40_000_000;
const TIMING: Timing = Timing { sample_ns: 1_000_000, samples: 12, least_samples: 5, run_ns: SET_NS };

pub(super) fn measure(
    cases: &[Prepared],
    hub: Option<&Prepared>,
    seed: u64,
    coordinator: &mut Coordinator<'_>,
) -> Outcome {
    match hub {
        Some(hub) => in_turn(cases, hub, seed, coordinator),
        None => alone(cases, coordinator),
    }
}

fn in_turn(cases: &[Prepared], hub: &Prepared, seed: u64, coordinator: &mut Coordinator<'_>) -> Outcome {
    let parties: Vec<&Prepared> = cases.iter().chain([hub]).collect();
    let slice_ns = parties.iter().map(|case| hubs::slice_ns(case)).max().expect("a hub at least");
    let most = (SET_NS / (parties.len() as u64 * slice_ns)) as usize;
    let slices = SliceTiming { blocks: WARM_BLOCKS + most.max(LEAST_BLOCKS), slice_ns, seed };
    let measured = match coordinator.run_set(&parties, TIMING, slices) {
        SetOutcome::Interrupted => return Outcome::Interrupted,
        SetOutcome::Failed { party, step, why } => return Outcome::Failed { party, step, why },
        SetOutcome::Measured(measured) => measured,
    };
    for (party, (case, measured)) in parties.iter().zip(&measured).enumerate() {
        if let Some((step, why)) = conditions::void(case, measured) {
            return Outcome::Failed { party, step: step.into(), why };
        }
    }
    let place = |party: usize| if party < cases.len() { Party::Case(party) } else { Party::Hub };
    let each = parties.iter().zip(&measured).enumerate();
    let mut all: Vec<Slice> = each
        .flat_map(|(party, (case, measured))| hubs::slices_of(case, &measured.samples, place(party)))
        .collect();
    all.sort_by_key(|slice| slice.start_ns);
    let mut log_ratios = Vec::new();
    for party in 0..cases.len() {
        match set_log_ratio(&all, Party::Case(party), Party::Hub) {
            Some(ratio) => log_ratios.push(ratio),
            None => {
                let why = format!("fewer than {LEAST_BLOCKS} of its slices stand beside slices of the hub");
                return Outcome::Failed { party, step: "batches".into(), why };
            }
        }
    }
    let of_hub = all.into_iter().filter(|slice| slice.party == Party::Hub).collect();
    let per_op = cases.iter().zip(measured).map(|(case, measured)| per_op(case, measured)).collect();
    Outcome::Measured(Set { log_ratios, per_op, of_hub })
}

/// Cases in virtual time, in which nothing takes turns.
fn alone(cases: &[Prepared], coordinator: &mut Coordinator<'_>) -> Outcome {
    let mut set = Set { log_ratios: Vec::new(), per_op: Vec::new(), of_hub: Vec::new() };
    for (party, case) in cases.iter().enumerate() {
        let failed = |step: String, why: String| Outcome::Failed { party, step, why };
        match coordinator.run(case, TIMING) {
            coordinator::Outcome::Interrupted => return Outcome::Interrupted,
            coordinator::Outcome::Failed { step, why } => return failed(step, why),
            coordinator::Outcome::Measured(measured) => {
                let run = summary::run_line(case, *measured, 0, 0);
                if run.value <= 0.0 {
                    return failed("batches".into(), "it takes no time".into());
                }
                set.log_ratios.push(run.value.ln());
                set.per_op.push(run.per_op);
            }
        }
    }
    Outcome::Measured(set)
}

fn per_op(case: &Prepared, measured: Measured) -> PerOp {
    summary::run_line(case, measured, 0, 0).per_op
}
