//! Percentiles over few runs that differ.

use fastrand::Rng;
use weighbridge_stats::correlation::pooled_lag1;
use weighbridge_stats::tail::{FEWEST_RUNS, case_percentiles};

use super::peers::log_normal;
use super::sets::SHAPES;

/// A run: 400 observations that are log-normal around a level of the run.
fn run(between: f64, random: &mut Rng) -> Vec<(f64, u64)> {
    let level = log_normal(random, between);
    let mut values: Vec<f64> = (0..250).map(|_| level * log_normal(random, 0.5)).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.into_iter().map(|value| (value, 1)).collect()
}

/// Both scatters together are log-normal again, so the truth is known. Two hundred and fifty experiments scatter by ± 1.4 %. The last two
/// rows are where 95 % is not reached, as the documentation says.
#[test]
fn the_interval_of_a_pooled_percentile_covers_it_where_runs_are_alike() {
    for (between, runs, least) in [
        (0.0, FEWEST_RUNS, 0.915),
        (0.05, FEWEST_RUNS, 0.915),
        (0.1, FEWEST_RUNS, 0.91),
        (0.1, 40, 0.915),
        (0.2, FEWEST_RUNS, 0.85),
        (0.3, 40, 0.85),
    ] {
        let mut random = Rng::with_seed(30);
        let truth = (2.326_348 * f64::hypot(0.5, between)).exp();
        let covers = |random: &mut Rng| {
            let runs: Vec<_> = (0..runs).map(|_| run(between, random)).collect();
            let found = case_percentiles(&runs, Some(0.0)).into_iter().find(|found| found.p == 0.99).unwrap();
            assert!(found.is_pooled);
            found.interval.map(|interval| interval.contains(truth))
        };
        let with: Vec<bool> = (0..250).filter_map(|_| covers(&mut random)).collect();
        let covered = with.iter().filter(|covered| **covered).count() as f64 / with.len() as f64;
        assert!(covered >= least, "{runs} runs, {between} between: {covered} of {}", with.len());
    }
}

#[test]
fn few_runs_have_a_pooled_percentile_and_no_interval() {
    let mut random = Rng::with_seed(31);
    let runs: Vec<_> = (0..FEWEST_RUNS - 1).map(|_| run(0.1, &mut random)).collect();
    let found = case_percentiles(&runs, Some(0.0)).into_iter().find(|found| found.p == 0.99).unwrap();
    assert!(found.is_pooled && found.interval.is_none(), "{found:?}");
}

/// Nine runs, each of a thousand observations around a level of its own, as a session of twenty cases knows their correlation. Coverage
/// over a thousand experiments scatters by ± 0.7 %, one deviation.
#[test]
fn the_interval_of_p99_over_nine_runs_covers_it_or_there_is_none() {
    const RUNS: usize = 9;
    // A hundred values, each observed ten times: the 990th is the last but one.
    let mut random = Rng::with_seed(32);
    let mut shape: Vec<f64> = (0..100).map(|_| log_normal(&mut random, 0.5)).collect();
    shape.sort_unstable_by(f64::total_cmp);
    for set in SHAPES {
        let truth = shape[98] * set.median(0.1).exp();
        let mut random = Rng::with_seed(33);
        let mut covers = || {
            let levels = set.sets(RUNS, 0.1, &mut random);
            let others: Vec<Vec<f64>> = (0..20).map(|_| set.sets(RUNS, 0.1, &mut random)).collect();
            let correlation = pooled_lag1(&others);
            let run = |level: &f64| shape.iter().map(|value| (value * level.exp(), 10)).collect::<Vec<_>>();
            let runs: Vec<_> = levels.iter().map(run).collect();
            let found = case_percentiles(&runs, correlation).into_iter().find(|found| found.p == 0.99)?;
            found.interval.map(|interval| interval.contains(truth))
        };
        let with: Vec<bool> = (0..1000).filter_map(|_| covers()).collect();
        let covered = with.iter().filter(|covered| **covered).count() as f64 / with.len().max(1) as f64;
        println!("{set:?}: {:.1} % of {} with an interval", 100.0 * covered, with.len());
        assert!(with.len() < 50 || covered >= 0.925, "{set:?}: {covered} of {}", with.len());
    }
    let alike: Vec<_> = (0..RUNS).map(|_| shape.iter().map(|value| (*value, 10)).collect()).collect();
    assert!(case_percentiles(&alike, None).iter().all(|found| found.interval.is_none()));
}
