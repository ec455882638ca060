//! The hubs of a session: which case takes turns with which, one set of the two, and what the hubs come to over all sets.

use std::num::NonZero;

use weighbridge_record::{self as record, CaseId, SliceSeries};
use weighbridge_stats::duet::{self as estimate, Party, Slice};

use crate::catalogue::{self, Refusal};
use crate::contract::{Prepared, Unit};
use crate::coordinator::{Coordinator, Measured, SetOutcome, SliceTiming};
use crate::duet::{LEAST_BLOCKS, Random, WARM_BLOCKS};
use crate::host::Host;
use crate::hub;
use crate::planner::Timing;
use crate::shared::Sample;

use super::open::Turns;

/// A slice: long against a switch between parties, short against what disturbs a machine.
const SLICE_NS: u64 = 1_000_000;
/// The slice of a case whose messages do not stay in a second-level cache, or that has thousands of streams: the partner's turn empties
/// it.
const LARGE_SLICE_NS: u64 = 20_000_000;
const LARGE_BYTES: u64 = 512 << 10;
/// The slice of roles that share a CPU and do not wait for each other's messages: they take turns of some milliseconds by themselves.
const TURNS_SLICE_NS: u64 = 24_000_000;
/// What a set costs beside its slices, about: start of the peers, calibration, end.
const SET_NS: u64 = 40_000_000;
/// Fewest blocks of a set that may have more: what the case does within a set must stay visible.
const FEW_BLOCKS: usize = 12;
/// In one set of this many, slices are twice as long: a ratio that moves with their length is not the case's own.
const DOUBLED_EVERY: usize = 8;

/// A case that others take turns with.
struct Hub {
    case: Prepared,
    /// The slices of each set.
    sets: Vec<Vec<Slice>>,
}

/// All hubs of a session.
pub(super) struct Hubs {
    hubs: Vec<Hub>,
    random: Random,
}

/// One set of a case and its hub.
pub(super) enum Set {
    Interrupted,
    Failed { step: String, why: String },
    Measured { measured: Box<Measured>, slices: Box<record::Slices>, of_both: Turns },
}

/// How a set of two hubs ended.
pub(super) enum CrossChecked {
    Interrupted,
    Failed { step: String, why: String },
    LogRatio(Option<f64>),
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
        let hub = catalogue::prepare(&id, host).map_err(|refusal| match refusal {
            Refusal::NotHere(why) | Refusal::NoSuchCase(why) => {
                format!("its hub {id} cannot run here: {why}")
            }
        })?;
        self.hubs.push(Hub { case: hub, sets: Vec::new() });
        Ok(self.hubs.len() - 1)
    }

    /// The name of a hub.
    pub(super) fn id(&self, hub: usize) -> &CaseId {
        &self.hubs[hub].case.params.id
    }

    /// One set: the case and its hub, fresh processes both. `before` are the sets of the case until now, `index` is its own.
    pub(super) fn run(
        &mut self,
        hub: usize,
        case: &Prepared,
        before: &[Vec<Slice>],
        index: usize,
        coordinator: &mut Coordinator<'_>,
        timing: Timing,
    ) -> Set {
        let hub = &mut self.hubs[hub];
        let is_doubled = is_doubled(before.len(), index);
        let slice_ns = slice_ns(case).max(slice_ns(&hub.case)) * if is_doubled { 2 } else { 1 };
        let timing = Timing { run_ns: set_ns(timing), ..timing };
        let blocks = WARM_BLOCKS + blocks(before, timing.run_ns, 2 * slice_ns);
        let slices = SliceTiming { blocks, slice_ns, seed: self.random.next_u64() };
        let measured = match coordinator.run_set(&[case, &hub.case], timing, slices) {
            SetOutcome::Interrupted => return Set::Interrupted,
            SetOutcome::Failed { party: 0, step, why } => return Set::Failed { step, why },
            SetOutcome::Failed { step, why, .. } => {
                return Set::Failed { step, why: format!("its hub {}: {why}", hub.case.params.id) };
            }
            SetOutcome::Measured(measured) => measured,
        };
        let [measured, of_hub] = <[Measured; 2]>::try_from(measured).expect("a set of two parties");
        let mut of_both = slices_of(case, &measured.samples, Party::Case(0));
        let of_the_hub = slices_of(&hub.case, &of_hub.samples, Party::Hub);
        of_both.extend(&of_the_hub);
        of_both.sort_by_key(|slice| slice.start_ns);
        let began_ns = of_both.first().map_or(0, |slice| slice.start_ns);
        let series = |party| series(of_both.iter().filter(|slice| slice.party == party), began_ns);
        let slices = record::Slices {
            hub: hub.case.params.id.clone(),
            slice_ms: slice_ns as f64 / 1e6,
            of_case: series(Party::Case(0)),
            of_hub: series(Party::Hub),
        };
        hub.sets.push(of_the_hub);
        let of_both = Turns { slices: of_both, is_doubled };
        Set::Measured { measured: Box::new(measured), slices: Box::new(slices), of_both }
    }

    /// Forgets the last set of a hub, which was void.
    pub(super) fn forget_set(&mut self, hub: usize) {
        self.hubs[hub].sets.pop();
    }

    /// One set of two hubs: the logarithm of the cost of the first over that of the second, if it has enough blocks.
    pub(super) fn cross_check(
        &mut self,
        (one, other): (usize, usize),
        coordinator: &mut Coordinator<'_>,
        timing: Timing,
    ) -> CrossChecked {
        let (one, other) = (&self.hubs[one].case, &self.hubs[other].case);
        let slice_ns = slice_ns(one).max(slice_ns(other));
        let timing = Timing { run_ns: set_ns(timing), ..timing };
        let blocks = WARM_BLOCKS + blocks(&[], timing.run_ns, 2 * slice_ns);
        let slices = SliceTiming { blocks, slice_ns, seed: self.random.next_u64() };
        let measured = match coordinator.run_set(&[one, other], timing, slices) {
            SetOutcome::Interrupted => return CrossChecked::Interrupted,
            SetOutcome::Failed { step, why, .. } => return CrossChecked::Failed { step, why },
            SetOutcome::Measured(measured) => measured,
        };
        let parties = [(one, Party::Case(0)), (other, Party::Hub)].into_iter().zip(&measured);
        let mut slices: Vec<Slice> =
            parties.flat_map(|((case, party), measured)| slices_of(case, &measured.samples, party)).collect();
        slices.sort_by_key(|slice| slice.start_ns);
        CrossChecked::LogRatio(estimate::set_log_ratio(&slices, Party::Case(0), Party::Hub))
    }

    /// What a hub comes to over all sets of the session; `None` before its first set.
    pub(super) fn session(&self, hub: usize) -> Option<estimate::HubSession> {
        estimate::hub_session(&self.hubs[hub].sets)
    }

    /// A line of each hub that was measured, with its index.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, record::Hub)> + '_ {
        self.hubs.iter().enumerate().filter_map(|(index, hub)| {
            let session = estimate::hub_session(&hub.sets)?;
            let line = record::Hub {
                case: hub.case.params.id.clone(),
                unit: cost_unit(&hub.case),
                median: session.median_ns,
                range: session.range_ns,
                sets: hub.sets.len() as u32,
                doubled_slices: None,
                meetings: Vec::new(),
            };
            Some((index, line))
        })
    }
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

/// What the slices of a set take together: somewhat more than a run of the case alone, which both parties share. More sets are
/// worth more than longer ones: the set is the unit of every interval.
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

/// Does a case count bytes, and not operations?
fn counts_bytes(case: &Prepared) -> bool {
    case.pattern.unit == Unit::BytesPerSecond && case.params.payload_bytes > 0
}

/// The slices of one party of a set, in order of time.
pub(crate) fn slices_of(case: &Prepared, samples: &[Sample], party: Party) -> Vec<Slice> {
    let ops = |sample: &Sample| if counts_bytes(case) { sample.bytes } else { sample.ops };
    let slice = |sample: &Sample| {
        let Sample { start_ns, elapsed_ns, .. } = *sample;
        Slice { start_ns, elapsed_ns, ops: ops(sample), party }
    };
    samples.iter().filter(|sample| ops(sample) > 0).map(slice).collect()
}

/// Slices in the record's form, their times counted from `began_ns`.
pub(crate) fn series<'a>(slices: impl Iterator<Item = &'a Slice>, began_ns: u64) -> SliceSeries {
    let mut series = SliceSeries::default();
    for slice in slices {
        series.start_ns.push(slice.start_ns - began_ns);
        series.elapsed_ns.push(slice.elapsed_ns);
        series.ops.push(slice.ops);
    }
    series
}

fn cost_unit(case: &Prepared) -> String {
    match case.pattern.unit {
        Unit::NanosPer(op) => format!("ns/{op}"),
        _ if counts_bytes(case) => "ns/byte".into(),
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
        let (run_ns, block_ns) = (112_000_000, 4_000_000);
        assert_eq!(blocks(&[], run_ns, block_ns), 28);
        assert_eq!(blocks(&sets(|set| 1.0 + 0.1 * (set * 3 % 8) as f64, 0.02), run_ns, block_ns), FEW_BLOCKS);
        assert_eq!(blocks(&sets(|_| 1.0, 0.02), run_ns, block_ns), 28);
        assert_eq!(blocks(&[], 1, block_ns), LEAST_BLOCKS, "slow operations");
    }
}
