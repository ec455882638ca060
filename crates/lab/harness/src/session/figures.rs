//! What a session says of its cases at the end: the figure and interval of each, and speeds relative to a baseline.

use std::collections::BTreeMap;

use weighbridge_record::earlier::{across_sessions, session_range};
use weighbridge_record::{self as record, CaseId, StoppedBy};
use weighbridge_stats::duet::{Party, Slice};
use weighbridge_stats::regime::{self, CaseRegime};
use weighbridge_stats::stopping::printed_interval;
use weighbridge_stats::{self as stats, Evidence, duet};

use super::cross_check::HubCrossCheck;
use super::hubs::{self, Hubs};
use super::open::Open;
use crate::summary::{self, ends};

/// With the correlation of neighboring runs, and whether it is known or rests on a few runs.
pub(super) fn summary(
    open: &Open,
    stopped_by: StoppedBy,
    hubs: &Hubs,
    (correlation, is_known): (f64, bool),
) -> record::Summary {
    let known = is_known.then_some(correlation);
    let mut line = summary::summary_line(&open.case, &open.runs, stopped_by, known);
    let interval = printed_interval(&open.evidence, stopped_by == StoppedBy::Precision, correlation);
    let ci95 = ends(interval);
    match open.hub {
        Err(_) => line.ci95 = ci95,
        Ok(hub) if !open.evidence.is_empty() => scale_by_hub(open, hub, ci95, hubs, &mut line),
        // No set had enough blocks for a ratio: the line says what the samples say.
        Ok(_) => {}
    }
    let half_width = line.ci95.map_or(0.0, |[low, high]| (high / low).ln().abs() / 2.0);
    line.regimes = regimes(open, hubs, half_width).into_iter().map(record::Regime::from).collect();
    line.anomalies.extend(moved_by_doubled_slices(open, half_width));
    line.not_checked = not_checked(open);
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
    if let Some(states) = duet::states(&open.sets, Party::Case(0)) {
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

/// What the machine did to the figure in this session, and what it is expected to do in another: an interval of the ratio alone says
/// neither.
pub(super) fn place_among_sessions(open: &Open, hub: Option<&record::Hub>, line: &mut record::Summary) {
    let higher_is_better = open.case.pattern.unit.higher_is_better();
    line.session_range = session_range(line, hub, higher_is_better);
    line.across_sessions = across_sessions(line, hub, higher_is_better);
}

/// Departures from one steady state that are larger than half of the printed interval: of a case that took turns what its hub did not
/// do, of another what correlation of its samples does not explain.
fn regimes(open: &Open, hubs: &Hubs, half_width: f64) -> Vec<CaseRegime> {
    match open.hub {
        Err(_) => {
            let is_positive = |run: &&record::Run| run.samples.iter().all(|sample| *sample > 0.0);
            let logs = |run: &record::Run| run.samples.iter().map(|sample| sample.ln()).collect();
            let runs: Vec<Vec<f64>> = open.runs.iter().filter(is_positive).map(logs).collect();
            regime::of_correlated(&runs, half_width)
        }
        Ok(hub) => {
            let Some(session) = hubs.session(hub) else { return Vec::new() };
            // In the unit of the case, in which the levels of modes are told.
            let log_value = |log: f64| hubs::value_of_cost(&open.case, session.absolute(log.exp())).ln();
            let logs = |set: &Vec<Slice>| {
                let ratios = duet::block_log_ratios(set, Party::Case(0), Party::Hub);
                ratios.into_iter().map(log_value).collect()
            };
            let sets: Vec<Vec<f64>> = open.sets.iter().map(logs).collect();
            regime::against_hub(&sets, half_width)
        }
    }
}

/// Checks that too few sets did not allow.
fn not_checked(open: &Open) -> Vec<String> {
    if open.is_harness() {
        return Vec::new();
    }
    let (runs, doubled) = (open.evidence.len(), open.log_ratios(true).len());
    let checks = [
        ("trend within runs", runs, regime::FEWEST_SETS, "runs"),
        ("two modes among runs", runs, regime::FEWEST, "runs"),
        ("doubled slices", doubled, stats::evidence::FEWEST, "runs with slices of twice the length"),
    ];
    let applies = |(name, ..): &(&str, usize, usize, &str)| open.hub.is_ok() || *name != "doubled slices";
    let too_few = checks.into_iter().filter(applies).filter(|(_, made, needed, _)| made < needed);
    too_few.map(|(name, _, needed, of)| format!("{name}: fewer than {needed} {of}")).collect()
}

/// Does the ratio to the hub move with the length of the slices, by more than the printed interval leaves open?
fn moved_by_doubled_slices(open: &Open, half_width: f64) -> Option<String> {
    let moved = duet::doubled_slices(&open.log_ratios(false), &open.log_ratios(true))?;
    let interval = moved.interval.filter(|_| moved.has_moved(half_width.exp_m1()) == Some(true))?;
    Some(format!(
        "the ratio to the hub depends on the length of the slices: where they are twice as long it is {:.3} times as large ({:.3} to {:.3}), \
         so the case and its hub leave each other's caches cold",
        moved.factor, interval.low, interval.high
    ))
}

/// What slices of twice the length did to the ratios of cases to their hub: one difference for each case that had both.
pub(super) fn doubled_slices<'a>(cases: impl Iterator<Item = &'a Open>) -> Option<record::DoubledSlices> {
    let difference = |open: &Open| {
        let (usual, doubled) = (open.log_ratios(false), open.log_ratios(true));
        (!usual.is_empty() && !doubled.is_empty()).then(|| stats::median(&doubled) - stats::median(&usual))
    };
    let evidence = Evidence::paired(cases.filter_map(difference).collect());
    Some(record::DoubledSlices {
        factor: evidence.ratio()?,
        ci95: ends(evidence.interval(0.95)),
        cases: evidence.units() as u32,
    })
}

pub(super) fn equivalent_disagrees(open: &Open, by_id: &BTreeMap<&CaseId, &Open>) -> Option<String> {
    let id = &open.case.params.id;
    let twin_id = crate::catalogue::same_code(id)?;
    let pairs = pairs(by_id.get(&twin_id)?, open);
    if pairs.is_empty() { None } else { crate::counter_check::disagree(id, &twin_id, &pairs) }
}

/// How much faster a case is than its baseline: through their hub, or their hubs where these met, else by runs of the same
/// round. `correlation` is that of neighboring sets.
pub(super) fn compare(
    baseline: &Open,
    candidate: &Open,
    correlation: f64,
    cross_check: &HubCrossCheck,
) -> Option<record::Comparison> {
    let (a, b) = (&baseline.case.params.id, &candidate.case.params.id);
    if let (Ok(from), Ok(to)) = (&candidate.hub, &baseline.hub)
        && let Some(evidence) = through_hubs(baseline, candidate, cross_check, (*from, *to))
        && let Some(speedup) = evidence.ratio()
    {
        let ci95 = ends(evidence.clone().correlated(correlation).interval(0.95));
        let (case, baseline) = (b.clone(), a.clone());
        return Some(record::Comparison { case, baseline, speedup, ci95, pairs: evidence.units() as u32 });
    }
    let pairs = pairs(baseline, candidate);
    let higher_is_better = candidate.case.pattern.unit.higher_is_better();
    (!pairs.is_empty()).then(|| record::derive::comparison(a, b, &pairs, higher_is_better))
}

/// The baseline's cost over the candidate's; nothing where their hubs did not meet.
fn through_hubs(
    baseline: &Open,
    candidate: &Open,
    cross_check: &HubCrossCheck,
    (from, to): (usize, usize),
) -> Option<Evidence> {
    let (base, of_case) = (duet::to_hub(&baseline.sets, 0)?, duet::to_hub(&candidate.sets, 0)?);
    let meetings = if from == to { Vec::new() } else { cross_check.path(from, to)? };
    Some(duet::through(&of_case, &meetings, &base).reversed())
}

fn pairs(baseline: &Open, candidate: &Open) -> Vec<(f64, f64)> {
    let of_round: BTreeMap<u32, f64> = baseline.runs.iter().map(|run| (run.round, run.value)).collect();
    let pair = |run: &record::Run| of_round.get(&run.round).map(|value| (*value, run.value));
    candidate.runs.iter().filter_map(pair).filter(|(a, b)| *a > 0.0 && *b > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::duet::Random;
    use crate::session::open::Turns;
    use crate::testing::case;

    fn run(number: u32) -> record::Run {
        record::Run { round: number, value: 2000.0, samples: vec![2000.0; 5], ..record::Run::default() }
    }

    /// Twenty-four sets of thirty blocks; costs in nanoseconds by set and block, every eighth set with slices of twice the length.
    fn summarized(hub: impl Fn(usize, usize) -> f64, own: impl Fn(usize, usize) -> f64) -> record::Summary {
        let mut random = Random::new(5);
        let set = |set: usize| -> Vec<Slice> {
            let slice = |index: usize| {
                let (block, is_hub) = (index / 2, index.is_multiple_of(2));
                let noise = 1.0 + 0.02 * ((random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5);
                let (party, cost) =
                    if is_hub { (Party::Hub, hub(set, block)) } else { (Party::Case(0), own(set, block)) };
                let elapsed_ns = (cost * noise * 1000.0) as u64;
                Slice { start_ns: index as u64 * 10_000_000, elapsed_ns, ops: 1000, party }
            };
            (0..60).map(slice).collect()
        };
        let sets: Vec<_> = (0..24).map(set).collect();
        let hubs = Hubs::of_sets(case("roundtrip/pipe/1/same-cpu", &[0, 0]), sets.clone());
        let mut open = Open::new(case("roundtrip/unix-stream/64/same-cpu", &[0, 0]), Ok(0), Duration::ZERO);
        for (number, slices) in sets.into_iter().enumerate() {
            open.keep(run(number as u32), Some(Turns { slices, is_doubled: number % 8 == 7 }));
        }
        summary(&open, StoppedBy::Precision, &hubs, (0.0, true))
    }

    #[test]
    fn what_the_hub_does_too_is_no_departure_of_the_case() {
        // The machine is slower by half at the end of each set, and in every third set.
        let machine =
            |set: usize, block: usize| if block > 15 || set.is_multiple_of(3) { 1500.0 } else { 1000.0 };
        let line = summarized(machine, |set, block| 2.0 * machine(set, block));
        assert_eq!(line.regimes, []);
        let ratio = line.to_hub.unwrap();
        assert!((ratio.median - 2.0).abs() < 0.01 && ratio.ci95.is_some(), "{ratio:?}");
        let [low, high] = line.ci95.unwrap();
        assert!(low < line.median && line.median < high, "{low} {} {high}", line.median);
        assert!(line.anomalies.iter().all(|why| !why.contains("slices")), "{:?}", line.anomalies);
    }

    #[test]
    fn checks_that_too_few_runs_did_not_allow_are_named() {
        let hubs = Hubs::of_sets(case("roundtrip/pipe/1/same-cpu", &[0, 0]), Vec::new());
        let named = |runs: u32| -> Vec<String> {
            let of = case("roundtrip/unix-stream/64/same-cpu", &[0, 0]);
            let mut open = Open::new(of, Err("alone".into()), Duration::ZERO);
            (0..runs).for_each(|number| open.keep(run(number), None));
            summary(&open, StoppedBy::Budget, &hubs, (0.0, true)).not_checked
        };
        let modes = "two modes among runs: fewer than 10 runs";
        assert_eq!(named(6), ["trend within runs: fewer than 8 runs", modes]);
        assert_eq!(named(9), [modes]);
        assert_eq!(named(10), [""; 0]);
        assert_eq!(summarized(|_, _| 1000.0, |_, _| 2000.0).not_checked, [""; 0]);
    }

    #[test]
    fn a_mode_of_the_case_alone_is_told_with_its_levels_in_the_unit_of_the_case() {
        let line = summarized(|_, _| 1000.0, |set, _| if set.is_multiple_of(2) { 2000.0 } else { 3000.0 });
        assert_eq!((line.regimes.len(), &*line.regimes[0].within), (1, "runs"), "{:?}", line.regimes);
        let [low, high] = line.regimes[0].levels.unwrap();
        assert!((low - 2000.0).abs() < 30.0 && (high - 3000.0).abs() < 45.0, "{low} {high}");
    }

    #[test]
    fn a_ratio_that_moves_with_the_length_of_slices_is_said() {
        let own = |set: usize, _| if set % 8 == 7 { 2200.0 } else { 2000.0 + set as f64 };
        let line = summarized(|_, _| 1000.0, own);
        let said = line.anomalies.iter().find(|why| why.contains("twice as long")).expect("a moved ratio");
        assert!(said.contains("1.09"), "{said}");
    }

    #[test]
    fn correlation_of_neighbors_widens_what_is_printed() {
        let case_alone = case("roundtrip/unix-stream/64/same-cpu", &[0, 0]);
        let mut open = Open::new(case_alone, Err("alone".into()), Duration::ZERO);
        for number in 0..9 {
            let value = 2000.0 + f64::from(number * 5 % 9);
            open.keep(record::Run { value, ..run(number) }, None);
        }
        let hubs = Hubs::of_sets(case("roundtrip/pipe/1/same-cpu", &[0, 0]), Vec::new());
        let [narrow, wide] = [0.0, 0.6].map(|correlation| {
            let [low, high] = summary(&open, StoppedBy::Budget, &hubs, (correlation, true)).ci95.unwrap();
            high - low
        });
        assert!(wide > 1.5 * narrow, "{wide} {narrow}");
    }
}
