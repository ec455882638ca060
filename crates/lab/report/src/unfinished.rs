//! Cases of a record that was cut off before it said what their runs amount to.
//!
//! The figures come from `weighbridge-stats`, the same that would have written the summary; here they are only put
//! into the record's words. The report says that it did so.

use weighbridge_record::{Case, Distribution, Latencies, PerOp, Regime, Run, StoppedBy, Summary, derive};
use weighbridge_stats::median;
use weighbridge_stats::summary::summarize;

/// What the runs amount to, or nothing when none of them holds a sample.
pub fn summary(case: &Case, runs: &[Run]) -> Option<Summary> {
    let runs: Vec<&Run> = runs.iter().filter(|run| is_usable(run)).collect();
    if runs.is_empty() {
        return None;
    }
    let samples: Vec<&[f64]> = runs.iter().map(|run| run.samples.as_slice()).collect();
    let summed = summarize(&samples);
    Some(Summary {
        ci95: summed.ci95.map(<[f64; 2]>::from),
        range: summed.range.into(),
        spread_between: summed.spread_between,
        spread_within: summed.spread_within,
        stopped_by: StoppedBy::Interrupted,
        per_op: per_op(&runs),
        series: derive::series_medians(runs.iter().copied()),
        distribution: distribution(&runs),
        series_ci95: derive::series_intervals(runs.iter().copied()),
        anomalies: anomalies(&runs),
        regimes: summed.regimes.into_iter().map(Regime::from).collect(),
        ..Summary::new(case.case.clone(), case.unit.clone(), runs.len() as u32, summed.median)
    })
}

/// Percentiles, where the runs timed each operation.
fn distribution(runs: &[&Run]) -> Option<Distribution> {
    let timed = runs.iter().filter_map(|run| run.latencies.as_ref());
    let sound = timed.filter(|latencies| latencies.counts.is_sorted() && is_countable(latencies));
    Distribution::of(&sound.collect::<Vec<_>>(), None)
}

/// More operations than any run has; a record may come from anywhere, and sums of its numbers must not overflow.
fn is_countable(latencies: &Latencies) -> bool {
    latencies.counts.iter().all(|(_, count)| *count < 1 << 40) && latencies.counts.len() < 1 << 20
}

/// The statistics take only finite values, and a record may come from anywhere.
fn is_usable(run: &Run) -> bool {
    !run.samples.is_empty() && run.samples.iter().all(|sample| sample.is_finite())
}

fn per_op(runs: &[&Run]) -> PerOp {
    let counts: Vec<&PerOp> = runs.iter().map(|run| &run.per_op).collect();
    PerOp::fold(&counts, |values| middle(values.iter().copied()).unwrap_or(0.0))
}

/// Failed counter checks and losses of the runs, each once. Noise is seen in the spread.
fn anomalies(runs: &[&Run]) -> Vec<String> {
    let mut anomalies: Vec<String> = Vec::new();
    for flag in runs.iter().flat_map(|run| &run.flags).filter(|flag| !flag.starts_with("noisy: ")) {
        let why = flag.strip_prefix("anomaly: ").unwrap_or(flag);
        if !anomalies.iter().any(|known| known == why) {
            anomalies.push(why.into());
        }
    }
    anomalies
}

fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    (!finite.is_empty()).then(|| median(&finite))
}
