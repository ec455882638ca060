//! One set of a comparison: fresh peers of A and B, in turn where the case can, else one after the other in random order.

use weighbridge_record::{ComparedSet, SideOfSet};
use weighbridge_stats::duet::{Party, set_log_ratio};

use super::Pair;
use super::machine::MachineSettings;
use crate::axis::Idle;
use crate::contract::Prepared;
use crate::coordinator::{Coordinator, Measured, PeerStart};
use crate::duet::{LEAST_BLOCKS, Random};
use crate::hub;
use crate::planner::Timing;
use crate::set::{self, Member, NoSet};
use crate::summary;

/// One set of a case, and which of them.
pub(super) struct Planned<'a> {
    pub(super) pair: &'a Pair,
    pub(super) starts: [&'a PeerStart; 2],
    /// The digest of the build of each side, where they are different ones.
    pub(super) builds: [Option<&'a str>; 2],
    pub(super) number: usize,
    pub(super) has_control: bool,
    pub(super) timing: Timing,
    pub(super) seed: u64,
}

/// What starting and ending the peers of a set costs, before one has been measured.
const OVERHEAD_NS: u64 = 60_000_000;

pub(super) fn expected_ns(timing: Timing) -> u64 {
    OVERHEAD_NS + set::set_ns(timing)
}

/// The length of a slice of both sides, or why they cannot take turns.
pub(super) fn slice_ns(pair: &Pair) -> Result<u64, String> {
    hub::of(&pair.a)?;
    hub::of(&pair.b)?;
    if pair.a.params.choice::<Idle>() != pair.b.params.choice() {
        return Err("what the CPUs do while they are idle differs, and the sides share them".into());
    }
    Ok(set::slice_ns(&pair.a).max(set::slice_ns(&pair.b)))
}

/// Side 0 is A, 1 is B; a failure of the second A is one of A.
pub(super) fn side_of(party: usize) -> usize {
    usize::from(party == 1)
}

impl Planned<'_> {
    pub(super) fn measure(
        &self,
        coordinator: &mut Coordinator<'_>,
        machine: Option<&mut MachineSettings>,
    ) -> Result<ComparedSet, NoSet> {
        let Planned { pair, starts: [a, b], number, .. } = *self;
        // Nodes in turn, the same for all sides of a set.
        let [case_a, case_b] = [&pair.a, &pair.b].map(|case| case.at_place(number));
        let sides = [(&case_a, a), (&case_b, b), (&case_a, a)];
        let members: Vec<Member<'_>> = sides
            .into_iter()
            .take(if self.has_control { 3 } else { 2 })
            .enumerate()
            .map(|(party, (case, start))| Member { case, start, party: Party::Case(party) })
            .collect();
        match slice_ns(pair) {
            Ok(slice_ns) if machine.is_none() => self.in_turn(&members, slice_ns, coordinator),
            _ => self.one_after_the_other(&members, coordinator, machine),
        }
    }

    /// Who starts first is drawn, so that what it does to a side is scatter and no difference: of A and B, and of both against the
    /// second A.
    fn order_of_starts(&self, parties: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..parties).collect();
        Random::new(self.seed).shuffle(&mut order);
        order
    }

    fn in_turn(
        &self,
        members: &[Member<'_>],
        slice_ns: u64,
        coordinator: &mut Coordinator<'_>,
    ) -> Result<ComparedSet, NoSet> {
        // A side has as many slices with a control as without one.
        let run_ns = set::set_ns(self.timing) / 2 * members.len() as u64;
        let slices = set::slice_timing(run_ns, members.len(), slice_ns, self.seed);
        let timing = Timing { run_ns, ..self.timing };
        let order = self.order_of_starts(members.len());
        let started: Vec<Member<'_>> = order.iter().map(|party| members[*party]).collect();
        let measured =
            set::in_turn(&started, timing, slices, coordinator).and_then(|set| set.checked(&started));
        let mut set = measured.map_err(|why| match why {
            NoSet::Failed { party, step, why } => NoSet::Failed { party: order[party], step, why },
            NoSet::Interrupted => NoSet::Interrupted,
        })?;
        let ratio = |party| set_log_ratio(&set.slices, Party::Case(party), Party::Case(0));
        let too_few = || {
            NoSet::no_figure(1, format!("fewer than {LEAST_BLOCKS} slices of both sides stand side by side"))
        };
        let ratios = (ratio(1).ok_or_else(too_few)?, ratio(2));
        let mut measured: Vec<_> = order.into_iter().zip(std::mem::take(&mut set.measured)).collect();
        measured.sort_by_key(|(party, _)| *party);
        let measured = measured.into_iter().map(|(_, measured)| measured);
        let side = |(member, measured): (&Member<'_>, Measured)| SideOfSet {
            slices: Some(set.series(member.party)),
            ..self.side(member.party, member.case, measured)
        };
        let sides = members.iter().zip(measured).map(side).collect();
        Ok(self.finished(sides, ratios, Some(slice_ns as f64 / 1e6)))
    }

    fn one_after_the_other(
        &self,
        members: &[Member<'_>],
        coordinator: &mut Coordinator<'_>,
        mut machine: Option<&mut MachineSettings>,
    ) -> Result<ComparedSet, NoSet> {
        let mut order = self.order_of_starts(members.len());
        if machine.is_some() {
            order.sort_unstable();
        }
        if machine.is_some() && !self.number.is_multiple_of(2) {
            // A B, then B A: what drifts with time hits both sides alike, and fewer changes are needed.
            order.reverse();
        }
        let mut sides: Vec<Option<SideOfSet>> = vec![None; members.len()];
        for party in order {
            let Member { case, start, .. } = members[party];
            if let Some(machine) = machine.as_deref_mut() {
                machine.apply(side_of(party)).map_err(|why| NoSet::failed(party, "set", why))?;
            }
            let measured = set::alone(party, case, start, self.timing, coordinator)?;
            if measured.samples.is_empty() {
                return Err(NoSet::no_figure(party, "no sample was taken"));
            }
            sides[party] = Some(self.side(Party::Case(party), case, measured));
        }
        let sides: Vec<SideOfSet> = sides.into_iter().flatten().collect();
        let higher_is_better = self.pair.a.pattern.unit.higher_is_better();
        let cost = |party: usize| -> Option<f64> {
            let value = sides.get(party)?.value;
            (value > 0.0).then(|| if higher_is_better { -value.ln() } else { value.ln() })
        };
        let ratio = |party| Some(cost(party)? - cost(0)?);
        let ratios = (ratio(1).ok_or_else(|| NoSet::no_figure(1, "a figure is 0"))?, ratio(2));
        Ok(self.finished(sides, ratios, None))
    }

    fn side(&self, party: Party, case: &Prepared, measured: Measured) -> SideOfSet {
        let number = self.number as u32;
        let run = summary::run_line(case, measured, number, number);
        let build = match party {
            Party::Case(party) => self.builds[side_of(party)].map(String::from),
            Party::Hub => None,
        };
        SideOfSet {
            case: run.case,
            build,
            value: run.value,
            slices: None,
            per_op: run.per_op,
            flags: run.flags,
            frequencies: run.noise.frequencies,
        }
    }

    fn finished(
        &self,
        sides: Vec<SideOfSet>,
        (log_ratio, control_log_ratio): (f64, Option<f64>),
        slice_ms: Option<f64>,
    ) -> ComparedSet {
        let mut sides = sides.into_iter();
        let mut next = || sides.next().expect("a set of two sides at least");
        ComparedSet {
            case: self.pair.case.clone(),
            set: self.number as u32,
            slice_ms,
            a: next(),
            b: next(),
            control: sides.next(),
            log_ratio,
            control_log_ratio,
        }
    }
}
