//! Cases of a record that was cut off before it said what their runs amount to.
//!
//! The figures come from `weighbridge-stats`, the same that would have written the summary; here they are only put
//! into the record's words. The report says that it did so.

use std::collections::BTreeMap;

use weighbridge_record::{
    Case, Distribution, Latencies, PerOp, Percentile, Regime, RegimeKind, Run, StoppedBy, Summary,
};
use weighbridge_stats::summary::{CaseRegime, summarise};
use weighbridge_stats::{CasePercentile, RegimeKind as Found, case_percentiles, median};

/// What the runs amount to, or nothing when none of them holds a sample.
pub fn summary(case: &Case, runs: &[Run]) -> Option<Summary> {
    let runs: Vec<&Run> = runs.iter().filter(|run| is_usable(run)).collect();
    if runs.is_empty() {
        return None;
    }
    let samples: Vec<&[f64]> = runs.iter().map(|run| run.samples.as_slice()).collect();
    let summed = summarise(&samples);
    Some(Summary {
        case: case.case.clone(),
        unit: case.unit.clone(),
        runs: runs.len() as u32,
        median: summed.median,
        ci95: summed.ci95.map(<[f64; 2]>::from),
        range: summed.range.into(),
        spread_between: summed.spread_between,
        spread_within: summed.spread_within,
        stopped_by: StoppedBy::Interrupted,
        per_op: per_op(&runs),
        series: series(&runs),
        distribution: distribution(&runs),
        shape: shape(&runs),
        regimes: summed.regimes.into_iter().map(regime).collect(),
    })
}

/// Percentiles, where the runs timed each operation.
fn distribution(runs: &[&Run]) -> Option<Distribution> {
    let timed: Vec<&Latencies> = runs.iter().filter_map(|run| run.latencies.as_ref()).collect();
    let max_ns = timed.iter().map(|latencies| latencies.max_ns).max()?;
    let counts: Vec<Vec<(f64, u64)>> = timed
        .iter()
        .filter(|latencies| latencies.counts.is_sorted() && is_countable(latencies))
        .map(|latencies| latencies.counts.iter().map(|&(ns, count)| (ns as f64, count)).collect())
        .collect();
    let percentile = |found: CasePercentile| Percentile {
        p: found.p,
        ns: found.value,
        ci95: found.interval.map(|interval| [interval.low, interval.high]),
        pooled: found.is_pooled,
    };
    Some(Distribution {
        percentiles: case_percentiles(&counts).into_iter().map(percentile).collect(),
        observations: counts.iter().flatten().map(|(_, count)| count).sum(),
        max_ns,
    })
}

/// No run has so many operations; a record may come from anywhere, and sums of its numbers must not overflow.
fn is_countable(latencies: &Latencies) -> bool {
    latencies.counts.iter().all(|(_, count)| *count < 1 << 40) && latencies.counts.len() < 1 << 20
}

/// The statistics take only finite values, and a record may come from anywhere.
fn is_usable(run: &Run) -> bool {
    !run.samples.is_empty() && run.samples.iter().all(|sample| sample.is_finite())
}

fn per_op(runs: &[&Run]) -> PerOp {
    let always = |get: fn(&PerOp) -> f64| middle(runs.iter().map(|run| get(&run.per_op))).unwrap_or(0.0);
    // A count that some runs lack is not the count of the case.
    let where_counted = |get: fn(&PerOp) -> Option<f64>| {
        let counts: Option<Vec<f64>> = runs.iter().map(|run| get(&run.per_op)).collect();
        middle(counts?.into_iter())
    };
    PerOp {
        voluntary_switches: always(|per_op| per_op.voluntary_switches),
        involuntary_switches: always(|per_op| per_op.involuntary_switches),
        minor_faults: always(|per_op| per_op.minor_faults),
        major_faults: always(|per_op| per_op.major_faults),
        cpu_ns: always(|per_op| per_op.cpu_ns),
        migrations: where_counted(|per_op| per_op.migrations),
        cycles: where_counted(|per_op| per_op.cycles),
        instructions: where_counted(|per_op| per_op.instructions),
    }
}

fn series(runs: &[&Run]) -> BTreeMap<String, f64> {
    let mut medians: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, values) in runs.iter().flat_map(|run| &run.series) {
        medians.entry(name.clone()).or_default().extend(middle(values.iter().copied()));
    }
    medians.into_iter().filter_map(|(name, values)| Some((name, middle(values.into_iter())?))).collect()
}

/// The remarks on the shape of each run, each once.
fn shape(runs: &[&Run]) -> Vec<String> {
    let mut shape: Vec<String> = Vec::new();
    for why in runs.iter().flat_map(|run| &run.flags).filter_map(|flag| flag.strip_prefix("shape: ")) {
        if !shape.iter().any(|known| known == why) {
            shape.push(why.into());
        }
    }
    shape
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    (!finite.is_empty()).then(|| median(&finite))
}

fn regime(found: CaseRegime) -> Regime {
    Regime {
        regime: match found.kind {
            Found::TwoModes => RegimeKind::TwoModes,
            Found::Step => RegimeKind::Step,
            Found::Slope => RegimeKind::Slope,
            Found::Correlated => RegimeKind::Correlated,
        },
        within: found.within.as_str().into(),
        runs: found.runs as u32,
        detail: found.detail,
        levels: found.levels,
    }
}
