//! Lines that follow from other lines: ratios between cases, the order of cases that differ in the mechanism, the size at which
//! two costs are equal, figures beside published ones.
//!
//! A session writes the comparisons that it planned; a report derives by these functions what is asked for afterwards. Both
//! put lines into the record's form, so that a number in a report is a line of a record. All statistics are
//! `weighbridge-stats`'.

mod contests;

use std::collections::BTreeMap;

pub use contests::{Entry, FALSE_DISCOVERY_RATE, contests, is_of_the_mechanism, log_ratio_to_hub};
use weighbridge_stats::compare::CONFIDENCE;
use weighbridge_stats::correlation::pooled_lag1;
use weighbridge_stats::curve::{Both, Meeting, meeting};
use weighbridge_stats::{Evidence, load, median, median_interval, paired_ratio, run_value};

use crate::{CaseId, Comparison, Crossover, Paced, PerOp, Published, Ratio, Run, Summary};

/// The speed of `case` relative to `baseline` from pairs of (baseline, case) values of the same rounds. This is the only
/// place that turns the direction of a unit into faster and slower: a rate that is twice as high and a time that is half
/// as long are both a speed-up of 2.
///
/// # Panics
/// If there is no pair, or a value is not positive and finite.
pub fn comparison(
    baseline: &CaseId,
    case: &CaseId,
    pairs: &[(f64, f64)],
    higher_is_better: bool,
) -> Comparison {
    let gain = |&(there, here): &(f64, f64)| if higher_is_better { (there, here) } else { (here, there) };
    let ratio = paired_ratio(&pairs.iter().map(gain).collect::<Vec<_>>(), CONFIDENCE);
    Comparison {
        case: case.clone(),
        baseline: baseline.clone(),
        speedup: ratio.median,
        ci95: ratio.interval.map(|interval| [interval.low, interval.high]),
        pairs: ratio.pairs as u32,
    }
}

/// The median over the runs of the median of each further series, as far as its values are numbers.
pub fn series_medians<'a>(runs: impl IntoIterator<Item = &'a Run>) -> BTreeMap<String, f64> {
    let mut of_runs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, values) in runs.into_iter().flat_map(|run| &run.series) {
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        if !finite.is_empty() {
            of_runs.entry(name).or_default().push(run_value(&finite));
        }
    }
    of_runs.into_iter().map(|(name, values)| (name.to_owned(), median(&values))).collect()
}

/// How often a second the operations of a run were done that were due at a rate; see [`Paced`].
pub const HELD: &str = "held_per_s";
/// What they cost: CPU time of all roles and auxiliary processes, as per cent of one CPU.
pub const CPU_SHARE: &str = "cpu_share_at_rate_percent";

/// The further series of a run in which operations were due at a rate; none of another run.
pub fn series_at_rate(run: &Run) -> BTreeMap<String, Vec<f64>> {
    let Some((Paced { operations, wall_ns }, sampled)) = run.paced.zip(run.sampled_total) else {
        return BTreeMap::new();
    };
    let share = load::cpu_percent(run.per_op.cpu_ns, sampled.ops, wall_ns);
    let held = load::per_second(operations, wall_ns);
    [(HELD, held), (CPU_SHARE, share)].map(|(name, value)| (name.to_owned(), vec![value])).into()
}

/// Intervals of the medians of further series, over the runs; none for a series with too few runs.
pub fn series_intervals<'a>(runs: impl IntoIterator<Item = &'a Run>) -> BTreeMap<String, [f64; 2]> {
    let mut of_runs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, values) in runs.into_iter().flat_map(|run| &run.series) {
        if !values.is_empty() && values.iter().all(|value| value.is_finite()) {
            of_runs.entry(name).or_default().push(run_value(values));
        }
    }
    let interval = |values: &[f64]| median_interval(values, CONFIDENCE).map(|found| [found.low, found.high]);
    of_runs.into_iter().filter_map(|(name, values)| Some((name.to_owned(), interval(&values)?))).collect()
}

/// A case with what a ratio is made from.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The summary of its runs.
    pub summary: &'a Summary,
    /// Its runs.
    pub runs: &'a [Run],
    /// The name of its record, where the other side is of another one.
    pub record: Option<&'a str>,
}

/// What a reader of streams counted, which is the same work whatever its calls returned.
const RECEIVED: &str = "bytes_per_s";
/// Fewer in an operation are chance, and a ratio of chances says nothing.
const LEAST_COUNT: f64 = 0.01;

/// Of a fan-out, the sender's time of one case over the time of the other until the last receiver has a message: how soon the sender can go on,
/// compared with a bus whose sender hands the message to another process.
const SENDER_TO_VALUE: &str = "sender_ns_to_value";
/// The series that it is made of.
const SENDER: &str = "sender_ns";

/// The cost as a multiple of the hub's.
const TO_HUB: &str = "to_hub";

/// Were both cases measured in turns with the same hub, so that what slowed a whole session is not in the ratio?
fn have_one_hub(one: &Summary, other: &Summary) -> bool {
    let hub = |summary: &Summary| summary.to_hub.as_ref().map(|to_hub| to_hub.hub.clone());
    hub(one).is_some() && hub(one) == hub(other)
}

/// Every figure that both sides have for each run, as a ratio; `value` is the first, or, of two records whose case took turns with
/// the same hub, the cost as a multiple of the hub's. Nothing where no run of one side has a
/// counterpart.
pub fn ratios(baseline: Side<'_>, case: Side<'_>) -> Vec<Ratio> {
    let to_hub =
        (baseline.record.is_some() && have_one_hub(baseline.summary, case.summary)).then(|| TO_HUB.into());
    to_hub
        .into_iter()
        .chain(figures(baseline.summary))
        .filter_map(|figure| ratio(baseline, case, &figure))
        .collect()
}

/// How many times the baseline's figure the case has. From pairs of runs of one round where both are of one record (of the
/// medians, without an interval, where there is no pair); otherwise from all runs of both. `pairs` is 0 where the comparison is
/// not interleaved.
pub fn ratio(baseline: Side<'_>, case: Side<'_>, figure: &str) -> Option<Ratio> {
    let (of_baseline, of_case) = if figure == SENDER_TO_VALUE { ("value", SENDER) } else { (figure, figure) };
    let (there, here) = (of_summary(baseline.summary, of_baseline)?, of_summary(case.summary, of_case)?);
    let is_count = figure.ends_with("voluntary_switches_per_op");
    if is_count && here.min(there) < LEAST_COUNT {
        return None;
    }
    let values = |side: Side<'_>, figure: &str| -> Vec<(u32, f64)> {
        let id = &side.summary.case;
        let usable = |value: &f64| value.is_finite() && *value > 0.0;
        side.runs
            .iter()
            .filter_map(|run| Some((run.round, of_run(id, run, figure).filter(usable)?)))
            .collect()
    };
    let (base, own) = (values(baseline, of_baseline), values(case, of_case));
    let (ratio, interval, pairs) = if baseline.record.is_none() {
        let by_round: BTreeMap<u32, f64> = base.into_iter().collect();
        let pairs: Vec<(f64, f64)> =
            own.into_iter().filter_map(|(round, value)| Some((*by_round.get(&round)?, value))).collect();
        if pairs.is_empty() {
            (here / there, None, 0)
        } else {
            let found = paired_ratio(&pairs, CONFIDENCE);
            (found.median, found.interval, found.pairs)
        }
    } else {
        let of = |side: Vec<(u32, f64)>| side.into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        let (base, own) = (of(base), of(own));
        let correlation = pooled_lag1(&[&base, &own]).unwrap_or(0.0);
        let found = Evidence::of_groups(&base, &own).correlated(correlation);
        (found.ratio()?, found.interval(CONFIDENCE), 0)
    };
    if !ratio.is_finite() || ratio <= 0.0 {
        return None;
    }
    Some(Ratio {
        case: case.summary.case.clone(),
        baseline: baseline.summary.case.clone(),
        baseline_record: baseline.record.map(str::to_owned),
        other_machine: None,
        figure: figure.into(),
        here,
        there,
        ratio,
        ci95: interval.map(|interval| [interval.low, interval.high]),
        pairs: pairs as u32,
    })
}

/// The figures that a case has. Switches of a series, and series of single roles, are in the counts per operation.
fn figures(summary: &Summary) -> Vec<String> {
    let mut all = vec!["value".to_owned()];
    // Where events are counted, one may hold several messages.
    let counts_events = summary.unit == "events/s" && summary.case.payload_bytes > 0;
    if counts_events && summary.series.contains_key(RECEIVED) {
        all.extend(["messages_per_s", "cpu_ns_per_message"].map(String::from));
    }
    let counts = ["cpu_ns_per_op", "voluntary_switches_per_op", "involuntary_switches_per_op"];
    all.extend(counts.map(String::from));
    let is_elsewhere = |name: &String| {
        name.contains("voluntary_switches") || name.contains('.') || (counts_events && name == RECEIVED)
    };
    all.extend(summary.series.keys().filter(|name| !is_elsewhere(name)).cloned());
    all.extend(summary.series.contains_key(SENDER).then(|| SENDER_TO_VALUE.to_owned()));
    all
}

fn of_run(id: &CaseId, run: &Run, figure: &str) -> Option<f64> {
    let middle = |name: &str| {
        let values = run.series.get(name)?.iter().copied();
        let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        (!finite.is_empty()).then(|| median(&finite))
    };
    if figure == TO_HUB {
        return log_ratio_to_hub(run.slices.as_ref()?).map(f64::exp);
    }
    figure_of(figure, id, run.value, &run.per_op, middle)
}

fn of_summary(summary: &Summary, figure: &str) -> Option<f64> {
    if figure == TO_HUB {
        return Some(summary.to_hub.as_ref()?.median);
    }
    let series = |name: &str| summary.series.get(name).copied();
    figure_of(figure, &summary.case, summary.median, &summary.per_op, series)
}

/// A figure from a value, what was counted beside it, and the middles of series.
fn figure_of(
    figure: &str,
    id: &CaseId,
    value: f64,
    per_op: &PerOp,
    series: impl Fn(&str) -> Option<f64>,
) -> Option<f64> {
    let messages_per_s = || Some(series(RECEIVED)? / id.payload_bytes as f64);
    match figure {
        "value" => Some(value),
        "messages_per_s" => messages_per_s(),
        "cpu_ns_per_message" => Some(per_op.cpu_ns * value / messages_per_s()?),
        "cpu_ns_per_op" => Some(per_op.cpu_ns),
        "voluntary_switches_per_op" => Some(per_op.voluntary_switches),
        "involuntary_switches_per_op" => Some(per_op.involuntary_switches),
        name => series(name),
    }
}

/// The size at which two mechanisms cost the same, from pairs of summaries of one payload. Nothing where they share none.
pub fn crossover(pairs: &[(&Summary, &Summary)]) -> Option<Crossover> {
    let usable = |pair: &&(&Summary, &Summary)| {
        pair.0.case.payload_bytes > 0 && pair.0.median > 0.0 && pair.1.median > 0.0
    };
    let mut pairs: Vec<_> = pairs.iter().filter(usable).copied().collect();
    pairs.sort_by_key(|(first, _)| first.case.payload_bytes);
    pairs.dedup_by_key(|(first, _)| first.case.payload_bytes);
    let ((first, second), (last, _)) = (pairs.first()?, pairs.last()?);
    let measured = pairs.iter().map(|(first, second)| Both {
        size: first.case.payload_bytes as f64,
        first: (first.median, first.ci95),
        second: (second.median, second.ci95),
    });
    let (bytes, between_bytes, first_is_cheaper_below, crossings) =
        match meeting(&measured.collect::<Vec<_>>()) {
            None => (None, [None; 2], None, 0),
            Some(Meeting::Never { first_is_cheaper }) => (None, [None; 2], Some(first_is_cheaper), 0),
            Some(Meeting::At { size, between, first_is_cheaper_below, crossings }) => {
                (Some(size), between, Some(first_is_cheaper_below), crossings)
            }
        };
    Some(Crossover {
        first: first.case.clone(),
        second: second.case.clone(),
        range_bytes: [first.case.payload_bytes, last.case.payload_bytes],
        bytes,
        between_bytes,
        first_is_cheaper_below,
        crossings: crossings as u32,
    })
}

/// Our figure beside a published one, in the unit of that; nothing where a ratio has no meaning.
pub fn published(
    case: &CaseId,
    source: &str,
    name: &str,
    unit: &str,
    theirs: f64,
    ours: f64,
) -> Option<Published> {
    let ratio = ours / theirs;
    (theirs > 0.0 && ratio.is_finite()).then(|| Published {
        case: case.clone(),
        source: source.into(),
        name: name.into(),
        unit: unit.into(),
        theirs,
        ours,
        ratio,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_time_and_twice_the_rate_are_both_a_speed_up_of_two() {
        let id = |mechanism| CaseId::new("stream", mechanism, 64, "free");
        let (base, case) = (id("pipe"), id("ring"));
        let rates = comparison(&base, &case, &[(100.0, 200.0); 6], true);
        let times = comparison(&base, &case, &[(100.0, 50.0); 6], false);
        for found in [rates, times] {
            assert!((found.speedup - 2.0).abs() < 1e-12, "{found:?}");
            assert_eq!((found.case.mechanism.as_str(), found.pairs), ("ring", 6));
        }
    }
}
