//! What a session says of its cases at the end: the figure and interval of each, and speeds relative to a baseline.

use std::collections::BTreeMap;

use weighbridge_record::{self as record, CaseId, StoppedBy};
use weighbridge_stats::correlation::{widened, widening};
use weighbridge_stats::stopping::printed_interval;
use weighbridge_stats::{self as stats, duet};

use super::hubs::{self, Hubs};
use super::open::Open;
use crate::summary;

/// The line of a case's end. `correlation` is that of its neighbouring runs.
pub(super) fn summary(open: &Open, stopped_by: StoppedBy, hubs: &Hubs, correlation: f64) -> record::Summary {
    let mut line = summary::summary_line(&open.case, &open.runs, stopped_by);
    let interval = printed_interval(&open.evidence, stopped_by == StoppedBy::Precision, correlation);
    let ci95 = interval.map(|interval| [interval.low, interval.high]);
    match open.hub {
        Err(_) => line.ci95 = ci95,
        Ok(hub) if !open.evidence.is_empty() => scale_by_hub(open, hub, ci95, hubs, &mut line),
        // No set had enough blocks for a ratio: the line says what the samples say.
        Ok(_) => {}
    }
    line
}

/// The figures of a case that took turns: its ratio to the hub, and as its value that ratio times what the hub cost over
/// the whole session, which is known better than by the sets of one case.
fn scale_by_hub(open: &Open, hub: usize, ci95: Option<[f64; 2]>, hubs: &Hubs, line: &mut record::Summary) {
    let Some(session) = hubs.session(hub) else { return };
    let value = |ratio: f64| hubs::value_of_cost(&open.case, session.absolute(ratio));
    let ratio = stats::median(&open.evidence);
    line.median = value(ratio);
    line.ci95 = ci95.map(|ends| {
        let [one, other] = ends.map(value);
        [one.min(other), one.max(other)]
    });
    if let Some(states) = duet::states(&open.sets, duet::Party::Case(0)) {
        line.best = Some(hubs::value_of_cost(&open.case, states.best_ns));
        line.slow_share = Some(states.slow_share);
    }
    line.to_hub = Some(record::ToHub {
        hub: hubs.id(hub).clone(),
        median: ratio,
        ci95,
        sets: open.evidence.len() as u32,
    });
}

/// The baseline of all comparisons of a session: the plain pipe.
const BASELINE: &str = "pipe";

/// The baseline of a case: the same case with a pipe, unless it is that case itself.
pub(super) fn baseline_of(id: &CaseId) -> Option<CaseId> {
    let baseline = CaseId::new(&id.pattern, BASELINE, id.payload_bytes, &id.placement);
    (baseline != *id && id.mechanism != "noop" && id.mechanism != "mock").then_some(baseline)
}

pub(super) fn equivalent_disagrees(open: &Open, by_id: &BTreeMap<&CaseId, &Open>) -> Option<String> {
    let id = &open.case.params.id;
    let twin_id = crate::counter_check::equivalent_case(id)?;
    let pairs = pairs(by_id.get(&twin_id)?, open);
    if pairs.is_empty() { None } else { crate::counter_check::disagree(id, &twin_id, &pairs) }
}

/// How much faster a case is than its baseline: through their common hub where they have one, else by runs of the same
/// round. `correlation` is that of neighbouring sets.
pub(super) fn compare(baseline: &Open, candidate: &Open, correlation: f64) -> Option<record::Comparison> {
    let (a, b) = (&baseline.case.params.id, &candidate.case.params.id);
    if let (Ok(hub), Ok(other)) = (&baseline.hub, &candidate.hub)
        && hub == other
    {
        let (base, of_case) = (duet::to_hub(&baseline.sets, 0)?, duet::to_hub(&candidate.sets, 0)?);
        // A speed-up is the baseline's cost over the case's.
        let evidence = duet::apart(&base, &of_case);
        let speedup = evidence.ratio()?;
        let interval = evidence
            .interval(0.95)
            .map(|interval| widened(interval, speedup, widening(evidence.units(), correlation)));
        return Some(record::Comparison {
            case: b.clone(),
            baseline: a.clone(),
            speedup,
            ci95: interval.map(|interval| [interval.low, interval.high]),
            pairs: evidence.units() as u32,
        });
    }
    let pairs = pairs(baseline, candidate);
    let higher_is_better = candidate.case.pattern.unit.higher_is_better();
    (!pairs.is_empty()).then(|| summary::comparison_line(a, b, &pairs, higher_is_better))
}

/// The values of two cases in the rounds in which both ran.
fn pairs(baseline: &Open, candidate: &Open) -> Vec<(f64, f64)> {
    let of_round: BTreeMap<u32, f64> = baseline.runs.iter().map(|run| (run.round, run.value)).collect();
    let pair = |run: &record::Run| of_round.get(&run.round).map(|value| (*value, run.value));
    candidate.runs.iter().filter_map(pair).filter(|(a, b)| *a > 0.0 && *b > 0.0).collect()
}
