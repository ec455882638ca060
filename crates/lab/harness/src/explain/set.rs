//! One set of an explanation: one or two cases and the hub of their place, fresh processes all.

use weighbridge_record::PerOp;
use weighbridge_stats::duet::{Party, Slice, set_log_ratio};

use crate::contract::Prepared;
use crate::coordinator::{Coordinator, PeerStart};
use crate::duet::LEAST_BLOCKS;
use crate::planner::Timing;
use crate::set::{self, Member, NoSet};
use crate::summary;

#[derive(Default)]
pub(super) struct Set {
    /// Of each case, over the hub; without a hub over one nanosecond.
    pub(super) log_ratios: Vec<f64>,
    pub(super) per_op: Vec<PerOp>,
    pub(super) of_hub: Vec<Slice>,
}

/// What the slices of a set take together: more sets are worth more than longer ones.
const SET_NS: u64 = 40_000_000;
const TIMING: Timing = Timing { sample_ns: 1_000_000, samples: 12, least_samples: 5, run_ns: SET_NS };

/// One set; a failure is of the party with its index, the hub after the cases.
pub(super) fn measure(
    cases: &[Prepared],
    hub: Option<&Prepared>,
    seed: u64,
    coordinator: &mut Coordinator<'_>,
) -> Result<Set, NoSet> {
    match hub {
        Some(hub) => in_turn(cases, hub, seed, coordinator),
        None => alone(cases, coordinator),
    }
}

fn in_turn(
    cases: &[Prepared],
    hub: &Prepared,
    seed: u64,
    coordinator: &mut Coordinator<'_>,
) -> Result<Set, NoSet> {
    let start = &PeerStart::default();
    let parties = (0..cases.len()).map(Party::Case).chain([Party::Hub]);
    let members: Vec<Member<'_>> =
        cases.iter().chain([hub]).zip(parties).map(|(case, party)| Member { case, start, party }).collect();
    let slice_ns = members.iter().map(|member| set::slice_ns(member.case)).max().expect("a hub at least");
    let slices = set::slice_timing(SET_NS, members.len(), slice_ns, seed);
    let set::Set { measured, slices } =
        set::in_turn(&members, TIMING, slices, coordinator)?.checked(&members)?;
    let log_ratio = |party| {
        let why = format!("fewer than {LEAST_BLOCKS} of its slices stand beside slices of the hub");
        set_log_ratio(&slices, Party::Case(party), Party::Hub).ok_or_else(|| NoSet::no_figure(party, why))
    };
    let per_op = |(case, measured)| summary::run_line(case, measured, 0, 0).per_op;
    Ok(Set {
        log_ratios: (0..cases.len()).map(log_ratio).collect::<Result<_, _>>()?,
        per_op: cases.iter().zip(measured).map(per_op).collect(),
        of_hub: slices.into_iter().filter(|slice| slice.party == Party::Hub).collect(),
    })
}

/// Cases in virtual time, in which nothing takes turns.
fn alone(cases: &[Prepared], coordinator: &mut Coordinator<'_>) -> Result<Set, NoSet> {
    let mut set = Set::default();
    for (party, case) in cases.iter().enumerate() {
        let measured = set::alone(party, case, &PeerStart::default(), TIMING, coordinator)?;
        let run = summary::run_line(case, measured, 0, 0);
        if run.value <= 0.0 {
            return Err(NoSet::no_figure(party, "it takes no time"));
        }
        set.log_ratios.push(run.value.ln());
        set.per_op.push(run.per_op);
    }
    Ok(set)
}
