//! One set of a comparison: fresh peers of A and B, in turn where the case can, else one after the other in random order.

use weighbridge_record::{ComparedSet, SideOfSet};
use weighbridge_stats::duet::{Party, Slice, set_log_ratio};

use super::Pair;
use super::machine::MachineSettings;
use crate::axis::Idle;
use crate::conditions;
use crate::contract::Prepared;
use crate::coordinator::{self, Coordinator, Measured, PeerStart, SetOutcome, SliceTiming};
use crate::duet::{LEAST_BLOCKS, Random, WARM_BLOCKS};
use crate::hub;
use crate::planner::Timing;
use crate::session::hubs;
use crate::summary;

/// How a set ended.
pub(super) enum Outcome {
    Interrupted,
    /// Side 0 is A, 1 is B.
    Failed {
        side: usize,
        step: String,
        why: String,
    },
    Measured(Box<ComparedSet>),
}

/// Which set of a case.
#[derive(Clone, Copy)]
pub(super) struct Which {
    pub(super) number: usize,
    pub(super) has_control: bool,
}

/// What starting and ending the peers of a set costs, before one has been measured.
const OVERHEAD_NS: u64 = 60_000_000;

/// What a set of two sides is expected to take.
pub(super) fn expected_ns(timing: Timing) -> u64 {
    OVERHEAD_NS + hubs::set_ns(timing)
}

/// The length of a slice of both sides.
///
/// # Errors
/// Why they cannot take turns.
pub(super) fn slice_ns(pair: &Pair) -> Result<u64, String> {
    hub::of(&pair.a)?;
    hub::of(&pair.b)?;
    if pair.a.params.choice::<Idle>() != pair.b.params.choice() {
        return Err("what the CPUs do while they are idle differs, and the sides share them".into());
    }
    Ok(hubs::slice_ns(&pair.a).max(hubs::slice_ns(&pair.b)))
}

/// One set.
pub(super) fn measure(
    pair: &Pair,
    starts: [&PeerStart; 2],
    which: Which,
    timing: Timing,
    seed: u64,
    coordinator: &mut Coordinator<'_>,
    machine: Option<&mut MachineSettings>,
) -> Outcome {
    let mut parties = vec![(&pair.a, starts[0]), (&pair.b, starts[1])];
    if which.has_control {
        parties.push((&pair.a, starts[0]));
    }
    match slice_ns(pair) {
        Ok(slice_ns) if machine.is_none() => {
            in_turn(pair, &parties, which, timing, slice_ns, seed, coordinator)
        }
        _ => one_after_the_other(pair, &parties, which, timing, seed, coordinator, machine),
    }
}

/// The second A is a failure of A.
fn side_of(party: usize) -> usize {
    usize::from(party == 1)
}

fn in_turn(
    pair: &Pair,
    parties: &[(&Prepared, &PeerStart)],
    which: Which,
    timing: Timing,
    slice_ns: u64,
    seed: u64,
    coordinator: &mut Coordinator<'_>,
) -> Outcome {
    // A side has as many slices with a control as without one.
    let run_ns = hubs::set_ns(timing) / 2 * parties.len() as u64;
    let most = (run_ns / (parties.len() as u64 * slice_ns)) as usize;
    let blocks = WARM_BLOCKS + most.max(LEAST_BLOCKS);
    let slices = SliceTiming { blocks, slice_ns, seed };
    let measured = match coordinator.run_set_from(parties, Timing { run_ns, ..timing }, slices) {
        SetOutcome::Interrupted => return Outcome::Interrupted,
        SetOutcome::Failed { party, step, why } => {
            return Outcome::Failed { side: side_of(party), step, why };
        }
        SetOutcome::Measured(measured) => measured,
    };
    for (party, ((case, _), measured)) in parties.iter().zip(&measured).enumerate() {
        if let Some((step, why)) = conditions::void(case, measured) {
            return Outcome::Failed { side: side_of(party), step: step.into(), why };
        }
    }
    let mut all: Vec<Slice> = Vec::new();
    for (party, ((case, _), measured)) in parties.iter().zip(&measured).enumerate() {
        all.extend(hubs::slices_of(case, &measured.samples, Party::Case(party)));
    }
    all.sort_by_key(|slice| slice.start_ns);
    let ratio = |party| set_log_ratio(&all, Party::Case(party), Party::Case(0));
    let Some(log_ratio) = ratio(1) else {
        let why = format!("fewer than {LEAST_BLOCKS} slices of both sides stand side by side");
        return Outcome::Failed { side: 1, step: "batches".into(), why };
    };
    let began_ns = all.first().map_or(0, |slice| slice.start_ns);
    let sides = parties.iter().zip(measured).enumerate().map(|(party, ((case, _), measured))| {
        let own = all.iter().filter(|slice| slice.party == Party::Case(party));
        let slices = Some(hubs::series(own, began_ns));
        SideOfSet { slices, ..side(case, measured, which) }
    });
    finished(pair, which, sides.collect(), log_ratio, ratio(2), Some(slice_ns as f64 / 1e6))
}

fn one_after_the_other(
    pair: &Pair,
    parties: &[(&Prepared, &PeerStart)],
    which: Which,
    timing: Timing,
    seed: u64,
    coordinator: &mut Coordinator<'_>,
    mut machine: Option<&mut MachineSettings>,
) -> Outcome {
    let mut order: Vec<usize> = (0..parties.len()).collect();
    match (&machine, which.number.is_multiple_of(2)) {
        (None, _) => Random::new(seed).shuffle(&mut order),
        // A B, then B A: what drifts with time hits both sides alike, and fewer changes are needed.
        (Some(_), true) => {}
        (Some(_), false) => order.reverse(),
    }
    let mut sides: Vec<Option<SideOfSet>> = parties.iter().map(|_| None).collect();
    for party in order {
        let (case, start) = parties[party];
        let failed = |step: String, why: String| Outcome::Failed { side: side_of(party), step, why };
        if let Some(machine) = machine.as_deref_mut()
            && let Err(why) = machine.apply(side_of(party))
        {
            return failed("set".into(), why);
        }
        match coordinator.run_from(case, start, timing) {
            coordinator::Outcome::Interrupted => return Outcome::Interrupted,
            coordinator::Outcome::Failed { step, why } => return failed(step, why),
            coordinator::Outcome::Measured(measured) if measured.samples.is_empty() => {
                return failed("batches".into(), "no sample was taken".into());
            }
            coordinator::Outcome::Measured(measured) => match conditions::void(case, &measured) {
                Some((step, why)) => return failed(step.into(), why),
                None => sides[party] = Some(side(case, *measured, which)),
            },
        }
    }
    let sides: Vec<SideOfSet> = sides.into_iter().flatten().collect();
    let cost = |party: usize| -> Option<f64> {
        let value = sides.get(party)?.value;
        (value > 0.0).then(|| if pair.a.pattern.unit.higher_is_better() { -value.ln() } else { value.ln() })
    };
    let ratio = |party| Some(cost(party)? - cost(0)?);
    match ratio(1) {
        Some(log_ratio) => finished(pair, which, sides.clone(), log_ratio, ratio(2), None),
        None => Outcome::Failed { side: 1, step: "batches".into(), why: "a figure is 0".into() },
    }
}

fn side(case: &Prepared, measured: Measured, which: Which) -> SideOfSet {
    let run = summary::run_line(case, measured, which.number as u32, which.number as u32);
    SideOfSet { case: run.case, value: run.value, slices: None, per_op: run.per_op, flags: run.flags }
}

fn finished(
    pair: &Pair,
    which: Which,
    sides: Vec<SideOfSet>,
    log_ratio: f64,
    control_log_ratio: Option<f64>,
    slice_ms: Option<f64>,
) -> Outcome {
    let mut sides = sides.into_iter();
    let (Some(a), Some(b)) = (sides.next(), sides.next()) else {
        unreachable!("a set of two sides at least")
    };
    Outcome::Measured(Box::new(ComparedSet {
        case: pair.case.clone(),
        set: which.number as u32,
        slice_ms,
        a,
        b,
        control: sides.next(),
        log_ratio,
        control_log_ratio,
    }))
}
