//! The hubs of a session: which case takes turns with which, one set of the two, and what the hubs come to over all sets.

use weighbridge_record::{self as record, CaseId, Earlier};
use weighbridge_stats::duet::{self as estimate, Party, Slice};

use crate::catalogue;
use crate::contract::{Prepared, Unit};
use crate::coordinator::{Coordinator, Measured, PeerStart, SliceTiming};
use crate::duet::{LEAST_BLOCKS, Random, WARM_BLOCKS};
use crate::host::Host;
use crate::hub;
use crate::planner::Timing;
use crate::set::{self, Member, NoSet};
use crate::summary;

use super::open::Turns;

/// What a set costs beside its slices, about: start of the peers, calibration, end.
const SET_NS: u64 = 40_000_000;
/// Fewest blocks of a set that may have more: what the case does within a set must stay visible.
const FEW_BLOCKS: usize = 12;
/// In one set of this many, slices are twice as long: a ratio that moves with their length is not the case's own.
const DOUBLED_EVERY: usize = 8;

struct Hub {
    case: Prepared,
    sets: Vec<Vec<Slice>>,
}

pub(super) struct Hubs {
    hubs: Vec<Hub>,
    random: Random,
}

pub(super) struct InTurn {
    pub(super) measured: Measured,
    pub(super) slices: record::Slices,
    pub(super) of_both: Turns,
}

impl Hubs {
    /// The hubs of these cases: for each case the index of its hub, or why it has none.
    pub(super) fn of(cases: &[Prepared], host: &Host, seed: u64) -> (Hubs, Vec<Result<usize, String>>) {
        let mut hubs = Hubs { hubs: Vec::new(), random: Random::new(seed) };
        let indices = cases.iter().map(|case| hubs.index_of(case, host)).collect();
        (hubs, indices)
    }

    fn index_of(&mut self, case: &Prepared, host: &Host) -> Result<usize, String> {
        let id = hub::of(case)?;
        if let Some(index) = self.hubs.iter().position(|hub| hub.case.params.id == id) {
            return Ok(index);
        }
        let hub =
            catalogue::prepare(&id, host).map_err(|why| format!("its hub {id} cannot run here: {why}"))?;
        self.hubs.push(Hub { case: hub, sets: Vec::new() });
        Ok(self.hubs.len() - 1)
    }

    pub(super) fn id(&self, hub: usize) -> &CaseId {
        &self.hubs[hub].case.params.id
    }

    /// One set: the case at the place with a number, and its hub there, fresh processes both. `before` are the sets of the case until now, `index` is its own.
    pub(super) fn run(
        &mut self,
        hub: usize,
        (case, place): (&Prepared, usize),
        before: &[Vec<Slice>],
        index: usize,
        coordinator: &mut Coordinator<'_>,
        timing: Timing,
    ) -> Result<InTurn, NoSet> {
        let is_doubled = is_doubled(before.len(), index);
        let seed = self.random.next_u64();
        let hub = &mut self.hubs[hub];
        let hub_case = hub.case.at_place(place);
        let slice_ns = set::slice_ns(case).max(set::slice_ns(&hub.case)) * if is_doubled { 2 } else { 1 };
        let timing = Timing { run_ns: set::set_ns(timing), ..timing };
        let blocks = WARM_BLOCKS + blocks(before, timing.run_ns, 2 * slice_ns);
        let slices = SliceTiming { blocks, slice_ns, seed };
        let mut set = two(case, &hub_case, timing, slices, coordinator).map_err(|error| match error {
            NoSet::Failed { party: 1, .. } => error.of_hub(&hub.case.params.id),
            error => error,
        })?;
        // The yardstick is measured too: where it was not what it says, the ratio is none.
        let of_hub = set.measured.pop().expect("a set of two");
        let measured = set.measured.pop().expect("a set of two");
        set::check(0, case, &measured)?;
        set::check(0, &hub_case, &of_hub).map_err(|error| error.of_hub(&hub.case.params.id))?;
        let slices = record::Slices {
            hub_roles: summary::role_counters(&hub_case, &of_hub.roles),
            hub: hub.case.params.id.clone(),
            slice_ms: slice_ns as f64 / 1e6,
            of_case: set.series(Party::Case(0)),
            of_hub: set.series(Party::Hub),
        };
        hub.sets.push(set.slices.iter().filter(|slice| slice.party == Party::Hub).copied().collect());
        Ok(InTurn { measured, slices, of_both: Turns { slices: set.slices, is_doubled } })
    }

    /// One set of two hubs: the logarithm of the cost of the first over that of the second, if it has enough blocks.
    pub(super) fn cross_check(
        &mut self,
        (one, other): (usize, usize),
        coordinator: &mut Coordinator<'_>,
        timing: Timing,
    ) -> Result<Option<f64>, NoSet> {
        let (one, other) = (&self.hubs[one].case, &self.hubs[other].case);
        let slice_ns = set::slice_ns(one).max(set::slice_ns(other));
        let timing = Timing { run_ns: set::set_ns(timing), ..timing };
        let slices = set::slice_timing(timing.run_ns, 2, slice_ns, self.random.next_u64());
        let set = two(one, other, timing, slices, coordinator)?;
        for (party, (case, measured)) in [one, other].into_iter().zip(&set.measured).enumerate() {
            set::check(party, case, measured)?;
        }
        Ok(estimate::set_log_ratio(&set.slices, Party::Case(0), Party::Hub))
    }

    pub(super) fn session(&self, hub: usize) -> Option<estimate::HubSession> {
        estimate::hub_session(&self.hubs[hub].sets)
    }

    /// What each hub came to, with its index and what `earlier` sessions say of it, beside a load or not.
    pub(super) fn lines<'a>(
        &'a self,
        earlier: &'a Earlier,
        is_loaded: bool,
    ) -> impl Iterator<Item = (usize, record::Hub)> + 'a {
        self.hubs.iter().enumerate().filter_map(move |(index, hub)| {
            let session = estimate::hub_session(&hub.sets)?;
            let line = record::Hub {
                case: hub.case.params.id.clone(),
                unit: cost_unit(&hub.case),
                median: session.median_ns,
                range: session.range_ns,
                sets: hub.sets.len() as u32,
                doubled_slices: None,
                meetings: Vec::new(),
                earlier: earlier.of_hub(&hub.case.params.id, session.median_ns, is_loaded),
            };
            Some((index, line))
        })
    }
}

fn two(
    case: &Prepared,
    hub: &Prepared,
    timing: Timing,
    slices: SliceTiming,
    coordinator: &mut Coordinator<'_>,
) -> Result<set::Set, NoSet> {
    let start = &PeerStart::default();
    let member = |case, party| Member { case, start, party };
    let members = [member(case, Party::Case(0)), member(hub, Party::Hub)];
    set::in_turn(&members, timing, slices, coordinator)
}

/// Does the set with this number of the case with this index have slices of double length? One in [`DOUBLED_EVERY`], and in a
/// session of many cases not the same of each, so that a session of few sets has some.
fn is_doubled(number: usize, index: usize) -> bool {
    (number + index) % DOUBLED_EVERY == DOUBLED_EVERY - 1
}

/// Blocks of the next set: as many as its time holds, or fewer where the sets before show that further sets tell more than longer
/// ones.
fn blocks(before: &[Vec<Slice>], run_ns: u64, block_ns: u64) -> usize {
    let most = ((run_ns / block_ns) as usize).max(LEAST_BLOCKS);
    let logs: Vec<Vec<f64>> =
        before.iter().map(|set| estimate::block_log_ratios(set, Party::Case(0), Party::Hub)).collect();
    let best = estimate::best_blocks(&logs, SET_NS as f64, block_ns as f64).unwrap_or(f64::INFINITY);
    (best.min(most as f64) as usize).max(FEW_BLOCKS.min(most))
}

fn cost_unit(case: &Prepared) -> String {
    match case.pattern.unit {
        Unit::NanosPer(op) => format!("ns/{op}"),
        _ if set::counts_bytes(case) => "ns/byte".into(),
        Unit::BytesPerSecond => "ns/message".into(),
        Unit::PerSecond(_) => "ns/op".into(),
    }
}

/// The value of a cost in the unit of a case: nanoseconds as they are, or a rate.
pub(super) fn value_of_cost(case: &Prepared, cost_ns: f64) -> f64 {
    match case.pattern.unit {
        Unit::NanosPer(_) => cost_ns,
        Unit::BytesPerSecond | Unit::PerSecond(_) => 1e9 / cost_ns,
    }
}

#[cfg(test)]
impl Hubs {
    /// A single hub with these sets.
    pub(super) fn of_sets(case: Prepared, sets: Vec<Vec<Slice>>) -> Hubs {
        Hubs { hubs: vec![Hub { case, sets }], random: Random::new(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_set_in_eight_of_a_case_is_doubled_and_one_case_in_eight_has_it_in_its_first_set() {
        let doubled = |index: usize| (0..40).filter(|number| is_doubled(*number, index)).count();
        assert!((0..16).all(|index| doubled(index) == 5));
        assert_eq!((0..80).filter(|index| is_doubled(0, *index)).count(), 10);
    }

    /// Sets of 24 blocks whose costs are drawn around `own(set)` and scatter by `scatter` from block to block.
    fn sets(own: impl Fn(usize) -> f64, scatter: f64) -> Vec<Vec<Slice>> {
        let set = |set: usize| {
            let slice = |index: usize| {
                let party = if index.is_multiple_of(2) { Party::Hub } else { Party::Case(0) };
                let noise = 1.0 + scatter * ((index * 7 % 48) as f64 / 48.0);
                let cost = if party == Party::Hub { 1.0 } else { own(set) * noise };
                let elapsed_ns = (cost * 1e6) as u64;
                Slice { start_ns: index as u64 * 10_000_000, elapsed_ns, ops: 100, party }
            };
            (0..48).map(slice).collect()
        };
        (0..8).map(set).collect()
    }

    #[test]
    fn sets_get_shorter_where_fresh_processes_differ_and_keep_their_length_where_slices_do() {
        let differing = sets(|set| 1.0 + 0.1 * (set * 3 % 8) as f64, 0.02);
        for (before, run_ns, expected) in [
            (vec![], 112_000_000, 28),
            (differing, 112_000_000, FEW_BLOCKS),
            (sets(|_| 1.0, 0.02), 112_000_000, 28),
            // Slow operations.
            (vec![], 1, LEAST_BLOCKS),
        ] {
            assert_eq!(blocks(&before, run_ns, 4_000_000), expected, "{} sets in {run_ns} ns", before.len());
        }
    }
}
