//! One set: fresh peers of several cases that take turns in slices; and one run of a case by itself.

use std::num::NonZero;

use weighbridge_record::{CaseId, SliceSeries};
use weighbridge_stats::duet::{Party, Slice};

use crate::conditions;
use crate::contract::{Prepared, Unit};
use crate::coordinator::{Coordinator, Measured, Outcome, PeerStart, SetOutcome, SliceTiming};
use crate::duet::{LEAST_BLOCKS, WARM_BLOCKS};
use crate::planner::Timing;
use crate::shared::Sample;

/// A slice: long against a switch between parties, short against what disturbs a machine.
const SLICE_NS: u64 = 1_000_000;
/// The slice of a case whose messages do not stay in a second-level cache, or that has thousands of streams: the partner's turn empties
/// it.
const LARGE_SLICE_NS: u64 = 20_000_000;
const LARGE_BYTES: u64 = 512 << 10;
/// The slice of roles that share a CPU and do not wait for each other's messages: they take turns of some milliseconds by themselves.
const TURNS_SLICE_NS: u64 = 24_000_000;

/// Why there is no set, or no run.
pub(crate) enum NoSet {
    /// By the user.
    Interrupted,
    /// Because of the party with this index.
    Failed { party: usize, step: String, why: String },
}

impl NoSet {
    pub(crate) fn failed(party: usize, step: &str, why: impl Into<String>) -> NoSet {
        NoSet::Failed { party, step: step.into(), why: why.into() }
    }

    /// The same failure, as one of the case whose hub failed.
    pub(crate) fn of_hub(self, hub: &CaseId) -> NoSet {
        match self {
            NoSet::Interrupted => NoSet::Interrupted,
            NoSet::Failed { step, why, .. } => NoSet::failed(0, &step, format!("its hub {hub}: {why}")),
        }
    }

    /// Because a party took no sample that counts.
    pub(crate) fn no_figure(party: usize, why: impl Into<String>) -> NoSet {
        NoSet::failed(party, "batches", why)
    }
}

/// A case in a set, and how its peers start.
#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    pub(crate) case: &'a Prepared,
    pub(crate) start: &'a PeerStart,
    /// Whose its slices are.
    pub(crate) party: Party,
}

/// What a set gave.
pub(crate) struct Set {
    /// Of each member.
    pub(crate) measured: Vec<Measured>,
    /// Of all members, in the order of time.
    pub(crate) slices: Vec<Slice>,
}

/// One set of members that take turns. What the roles of each did is checked only by [`Set::checked`].
pub(crate) fn in_turn(
    members: &[Member<'_>],
    timing: Timing,
    slices: SliceTiming,
    coordinator: &mut Coordinator<'_>,
) -> Result<Set, NoSet> {
    let cases: Vec<_> = members.iter().map(|member| (member.case, member.start)).collect();
    let measured = match coordinator.run_set_from(&cases, timing, slices) {
        SetOutcome::Interrupted => return Err(NoSet::Interrupted),
        SetOutcome::Failed { party, step, why } => return Err(NoSet::Failed { party, step, why }),
        SetOutcome::Measured(measured) => measured,
    };
    let of_member = |(member, measured): (&Member<'_>, &Measured)| {
        slices_of(member.case, &measured.samples, member.party)
    };
    let mut slices: Vec<Slice> = members.iter().zip(&measured).flat_map(of_member).collect();
    slices.sort_by_key(|slice| slice.start_ns);
    Ok(Set { measured, slices })
}

impl Set {
    /// The set, if the roles of every member ran as its case says.
    pub(crate) fn checked(self, members: &[Member<'_>]) -> Result<Set, NoSet> {
        for (party, (member, measured)) in members.iter().zip(&self.measured).enumerate() {
            check(party, member.case, measured)?;
        }
        Ok(self)
    }

    /// The slices of a party in the record's form, counted from the first slice of the set.
    pub(crate) fn series(&self, party: Party) -> SliceSeries {
        let began_ns = self.slices.first().map_or(0, |slice| slice.start_ns);
        let mut series = SliceSeries::default();
        for slice in self.slices.iter().filter(|slice| slice.party == party) {
            series.start_ns.push(slice.start_ns - began_ns);
            series.elapsed_ns.push(slice.elapsed_ns);
            series.ops.push(slice.ops);
        }
        series
    }
}

/// One run of a case by itself, if its roles ran as it says. `party` is for the failure.
pub(crate) fn alone(
    party: usize,
    case: &Prepared,
    start: &PeerStart,
    timing: Timing,
    coordinator: &mut Coordinator<'_>,
) -> Result<Measured, NoSet> {
    match coordinator.run_from(case, start, timing) {
        Outcome::Interrupted => Err(NoSet::Interrupted),
        Outcome::Failed { step, why } => Err(NoSet::Failed { party, step, why }),
        Outcome::Measured(measured) => check(party, case, &measured).map(|()| *measured),
    }
}

/// Refuses a run whose roles did not run as the case says.
pub(crate) fn check(party: usize, case: &Prepared, measured: &Measured) -> Result<(), NoSet> {
    conditions::void(case, measured).map_or(Ok(()), |(step, why)| Err(NoSet::failed(party, step, why)))
}

/// Number and length of the slices of a set of so many parties that may take `run_ns`.
pub(crate) fn slice_timing(run_ns: u64, parties: usize, slice_ns: u64, seed: u64) -> SliceTiming {
    let most = (run_ns / (parties as u64 * slice_ns)) as usize;
    SliceTiming { blocks: WARM_BLOCKS + most.max(LEAST_BLOCKS), slice_ns, seed }
}

/// What the slices of a set of two take together: somewhat more than a run of one case alone. More sets are worth more than longer
/// ones: the set is the unit of every interval.
pub(crate) fn set_ns(timing: Timing) -> u64 {
    timing.run_ns * 5 / 4
}

/// How long a slice of a case is meant to be.
pub(crate) fn slice_ns(case: &Prepared) -> u64 {
    let id = &case.params.id;
    let working_set = case.params.axes.get("working-set").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let takes_turns = match id.pattern.as_str() {
        "stream" => case.params.same_cpu(),
        "fan-in" | "contend" | "parallel" => shares_cpus(case),
        _ => false,
    };
    if takes_turns {
        TURNS_SLICE_NS
    } else if id.pattern == "fan-in" || id.payload_bytes.max(working_set) >= LARGE_BYTES {
        LARGE_SLICE_NS
    } else {
        SLICE_NS
    }
}

/// Has a case more roles than CPUs for them?
fn shares_cpus(case: &Prepared) -> bool {
    let allowed = std::thread::available_parallelism().map_or(1, NonZero::get);
    case.params.cpu_count(allowed) < case.role_names().len()
}

/// Is a case measured by its bytes and not by its operations?
pub(crate) fn counts_bytes(case: &Prepared) -> bool {
    case.pattern.unit == Unit::BytesPerSecond && case.params.payload_bytes > 0
}

fn slices_of(case: &Prepared, samples: &[Sample], party: Party) -> Vec<Slice> {
    let slice = |sample: &Sample| {
        let Sample { start_ns, elapsed_ns, ops, bytes, .. } = *sample;
        Slice { start_ns, elapsed_ns, ops: if counts_bytes(case) { bytes } else { ops }, party }
    };
    samples.iter().map(slice).filter(|slice| slice.ops > 0).collect()
}
