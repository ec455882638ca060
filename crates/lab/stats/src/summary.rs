//! What the runs of a case amount to.

use crate::binomial::Binomial;
use crate::interval::median_interval;
use crate::order::{half_iqr_over_median, median};
use crate::regime::{self, Regime, RegimeKind, detect};

pub use crate::regime::{CaseRegime, Within};

/// The value of a run: the median of its samples, so that a stall in some of them does not move it.
pub fn run_value(samples: &[f64]) -> f64 {
    median(samples)
}

/// A case's value, how sure it is, and whether it is one value at all.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseSummary {
    /// Median over the runs' values.
    pub median: f64,
    /// Exact interval of the median at 95 % or a little more; `None` below six runs.
    pub ci95: Option<(f64, f64)>,
    /// Lowest and highest run.
    pub range: (f64, f64),
    /// [`half_iqr_over_median`] of the runs' values: large means that more runs help.
    pub spread_between: f64,
    /// Median over the runs of the same figure for their samples: large means that longer runs help.
    pub spread_within: f64,
    /// Departures from one steady state.
    pub regimes: Vec<CaseRegime>,
}

/// Summarizes the samples of each run of one case, runs in the order in which they were made.
///
/// # Panics
/// If there is no run, a run has no sample, or a sample is not finite.
pub fn summarize<S: AsRef<[f64]>>(runs: &[S]) -> CaseSummary {
    let values: Vec<f64> = runs.iter().map(|samples| run_value(samples.as_ref())).collect();
    let spreads: Vec<f64> = runs.iter().map(|samples| half_iqr_over_median(samples.as_ref())).collect();
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut regimes = among_runs(&values);
    regimes.extend(in_samples(runs));
    CaseSummary {
        median: median(&values),
        ci95: median_interval(&values, 0.95).map(|interval| (interval.low, interval.high)),
        range: (lowest, highest),
        spread_between: half_iqr_over_median(&values),
        // A run whose median is 0 has an infinite spread; the median over runs bears that.
        spread_within: finite_median(&spreads),
        regimes,
    }
}

fn finite_median(values: &[f64]) -> f64 {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    if finite.is_empty() { f64::INFINITY } else { median(&finite) }
}

fn among_runs(values: &[f64]) -> Vec<CaseRegime> {
    let wrap = |found: Regime| CaseRegime {
        kind: found.kind,
        within: Within::Runs,
        runs: 1,
        levels: found.levels,
        detail: format!("among the runs, {}", found.detail),
    };
    detect(values).into_iter().map(wrap).collect()
}

fn in_samples<S: AsRef<[f64]>>(runs: &[S]) -> Vec<CaseRegime> {
    let found: Vec<Regime> = runs.iter().flat_map(|samples| detect(samples.as_ref())).collect();
    let of_kind = |kind| found.iter().filter(move |regime| regime.kind == kind).collect::<Vec<_>>();
    [RegimeKind::TwoModes, RegimeKind::Step, RegimeKind::Slope, RegimeKind::Correlated]
        .into_iter()
        .map(of_kind)
        .filter(|same| more_than_chance(same, runs.len()))
        .map(|same| merge(&same, runs.len()))
        .collect()
}

/// Each run is a test, so of forty steady runs some are flagged by chance. Worth reporting is a number of flagged
/// runs that chance gives to one case in 200, or a single run so clear that chance gives it to one case in 200.
fn more_than_chance(found: &[&Regime], runs: usize) -> bool {
    const RARE: f64 = 0.005;
    let Some(clearest) = found.iter().map(|regime| regime.p).min_by(f64::total_cmp) else { return false };
    clearest * runs as f64 <= RARE || Binomial::new(runs, regime::ALPHA).at_least(found.len()) <= RARE
}

fn merge(found: &[&Regime], runs: usize) -> CaseRegime {
    let clearest = found.iter().min_by(|a, b| a.p.total_cmp(&b.p)).expect("at least one was found");
    let level = |i: usize| {
        let levels: Vec<f64> = found.iter().filter_map(|regime| Some(regime.levels?[i])).collect();
        (!levels.is_empty()).then(|| median(&levels))
    };
    let detail = match found.len() {
        1 => format!("in 1 of {runs} runs, {}", clearest.detail),
        some => format!("in {some} of {runs} runs; in the clearest, {}", clearest.detail),
    };
    CaseRegime {
        kind: clearest.kind,
        within: Within::Samples,
        runs: found.len(),
        levels: level(0).zip(level(1)).map(|(first, second)| [first, second]),
        detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(offset: usize) -> Vec<f64> {
        // A fixed scatter of ± 2 % without order.
        (0..20).map(|i| 100.0 + ((i + offset) * 7919 % 41) as f64 / 10.0 - 2.0).collect()
    }

    #[test]
    fn a_case_is_the_median_of_its_runs_medians() {
        let runs = [vec![1.0, 2.0, 900.0], vec![3.0], vec![4.0, 4.0]];
        let summary = summarize(&runs);
        assert_eq!((summary.median, summary.range, summary.ci95), (3.0, (2.0, 4.0), None));
        assert_eq!(summarize(&[[5.0]; 6]).ci95, Some((5.0, 5.0)));
    }

    #[test]
    fn the_two_spreads_say_whether_runs_or_samples_scatter() {
        let between: Vec<Vec<f64>> = (0..8).map(|run| vec![100.0 + 5.0 * f64::from(run); 20]).collect();
        let summary = summarize(&between);
        assert!(summary.spread_between > 0.05 && summary.spread_within == 0.0, "{summary:?}");
        let within: Vec<Vec<f64>> = (0..8).map(|_| steady(0)).collect();
        let summary = summarize(&within);
        assert!(summary.spread_between == 0.0 && summary.spread_within > 0.005, "{summary:?}");
    }

    #[test]
    fn a_step_in_every_run_is_one_remark_with_both_levels() {
        let stepped = |run: usize| -> Vec<f64> {
            steady(run)
                .iter()
                .enumerate()
                .map(|(i, value)| if i < 7 + run { *value } else { value * 2.5 })
                .collect()
        };
        let runs: Vec<Vec<f64>> = (0..6).map(stepped).collect();
        let regimes = summarize(&runs).regimes;
        let step = regimes.iter().find(|regime| regime.within == Within::Samples).unwrap();
        assert_eq!((step.kind, step.runs), (RegimeKind::Step, 6));
        let [first, second] = step.levels.unwrap();
        assert!((first - 100.0).abs() < 2.0 && (second - 250.0).abs() < 5.0, "{step:?}");
        assert!(
            step.detail.starts_with("in 6 of 6 runs; in the clearest, the level changes"),
            "{}",
            step.detail
        );
    }

    #[test]
    fn two_kinds_of_runs_are_two_modes_among_the_runs() {
        let runs: Vec<Vec<f64>> =
            (0..20).map(|run| vec![if run % 3 == 1 { 9.8 } else { 5.1 } + run as f64 * 0.001; 5]).collect();
        let regimes = summarize(&runs).regimes;
        assert_eq!((regimes[0].kind, regimes[0].within), (RegimeKind::TwoModes, Within::Runs), "{regimes:?}");
        assert!(
            regimes[0].detail.starts_with("among the runs, 13 of 20 lie near 5.1"),
            "{}",
            regimes[0].detail
        );
    }
}
