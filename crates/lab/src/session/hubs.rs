//! The hubs of a session: which case takes turns with which, one set of the two, and what the hubs come to over all sets.

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

/// A slice: long against a switch between parties, short against what disturbs a machine.
const SLICE_NS: u64 = 2_000_000;
/// The slice of a case whose messages do not stay in a second-level cache: the partner's turn empties it.
const LARGE_SLICE_NS: u64 = 20_000_000;
const LARGE_BYTES: u64 = 512 << 10;
/// The slice of a stream on one CPU, whose ends take turns of some milliseconds by themselves.
const TURNS_SLICE_NS: u64 = 24_000_000;
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
    Measured { measured: Box<Measured>, slices: Box<record::Slices>, of_both: Vec<Slice> },
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

    /// One set: the case and its hub, fresh processes both. `number` counts the sets of the case.
    pub(super) fn run(
        &mut self,
        hub: usize,
        case: &Prepared,
        number: usize,
        coordinator: &mut Coordinator<'_>,
        timing: Timing,
    ) -> Set {
        let hub = &mut self.hubs[hub];
        let factor = if number % DOUBLED_EVERY == DOUBLED_EVERY - 1 { 2 } else { 1 };
        let slice_ns = slice_ns(case).max(slice_ns(&hub.case)) * factor;
        let timing = Timing { run_ns: set_ns(timing), ..timing };
        let most = (timing.run_ns / (2 * slice_ns)) as usize;
        let blocks = WARM_BLOCKS + most.max(LEAST_BLOCKS);
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
        Set::Measured { measured: Box::new(measured), slices: Box::new(slices), of_both }
    }

    /// Forgets the last set of a hub, which was void.
    pub(super) fn forget_set(&mut self, hub: usize) {
        self.hubs[hub].sets.pop();
    }

    /// What a hub comes to over all sets of the session; `None` before its first set.
    pub(super) fn session(&self, hub: usize) -> Option<estimate::HubSession> {
        estimate::hub_session(&self.hubs[hub].sets)
    }

    /// A line of each hub that was measured.
    pub(super) fn lines(&self) -> impl Iterator<Item = record::Hub> + '_ {
        self.hubs.iter().filter_map(|hub| {
            let session = estimate::hub_session(&hub.sets)?;
            Some(record::Hub {
                case: hub.case.params.id.clone(),
                unit: cost_unit(&hub.case),
                median: session.median_ns,
                range: session.range_ns,
                sets: hub.sets.len() as u32,
            })
        })
    }
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
    if id.pattern == "stream" && case.params.same_cpu() {
        TURNS_SLICE_NS
    } else if id.payload_bytes.max(working_set) >= LARGE_BYTES {
        LARGE_SLICE_NS
    } else {
        SLICE_NS
    }
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
