//! Stopping by looking at runs that are not independent: correlated, drifting over the session, staying in a mode.

use fastrand::Rng;
use weighbridge_stats::correlation::{pooled_lag1, spacing};
use weighbridge_stats::stopping::{CorrelatedRule, printed_interval};
use weighbridge_stats::{Decision, Stop, StoppingRule};

use super::peers::{log_normal, normal};

const EXPERIMENTS: usize = 2000;

/// Run values that are log-normal around 1000, of which neighbors have this correlation.
fn correlated(count: usize, scatter: f64, correlation: f64, random: &mut Rng) -> Vec<f64> {
    let mut state = normal(random);
    let mut next = || {
        let value = 1000.0 * (scatter * state).exp();
        state = correlation * state + (1.0 - correlation * correlation).sqrt() * normal(random);
        value
    };
    (0..count).map(|_| next()).collect()
}

/// Runs that stay in the mode of the run before with such a probability that neighbors have this correlation; seven in ten
/// at 1000.
fn sticky(count: usize, correlation: f64, random: &mut Rng) -> Vec<f64> {
    let mut is_slow = random.f64() < 0.3;
    let mut next = || {
        if random.f64() >= correlation {
            is_slow = random.f64() < 0.3;
        }
        (if is_slow { 1900.0 } else { 1000.0 }) * log_normal(random, 0.01)
    };
    (0..count).map(|_| next()).collect()
}

/// Share of cases whose printed interval covers `truth(runs made)`, when the rule is told `told` of each series' correlation.
fn coverage(
    mut series: impl FnMut(&mut Rng) -> Vec<f64>,
    mut told: impl FnMut(&[f64]) -> f64,
    truth: impl Fn(usize) -> f64,
) -> f64 {
    let mut random = Rng::with_seed(40);
    let mut covered = 0;
    for _ in 0..EXPERIMENTS {
        let all = series(&mut random);
        let mut made = 0;
        let (values, correlation, why) = loop {
            let values = &all[..made];
            let correlation = told(values);
            match (CorrelatedRule { rule: StoppingRule::new(0.02), correlation }).decide(values) {
                Decision::Stop(why) => break (values, correlation, why),
                Decision::Continue { next_look } => made = next_look,
            }
        };
        let interval = printed_interval(values, why == Stop::Precision, correlation).expect("six runs");
        covered += usize::from(interval.contains(truth(made)));
    }
    covered as f64 / EXPERIMENTS as f64
}

const SCATTERS: [f64; 4] = [0.006, 0.015, 0.03, 0.1];

/// Two thousand experiments scatter by ± 0.5 %, so 92.5 % is one such deviation below 93 %.
#[test]
fn told_of_the_correlation_the_interval_covers_and_untold_it_does_not() {
    for correlation in [0.3, 0.6] {
        let mut worst_untold = 1.0_f64;
        for scatter in SCATTERS {
            let series = |random: &mut Rng| correlated(40, scatter, correlation, random);
            let told = coverage(series, |_| correlation, |_| 1000.0);
            assert!(told >= 0.925, "{correlation}, scatter {scatter}: {told}");
            worst_untold = worst_untold.min(coverage(series, |_| 0.0, |_| 1000.0));
        }
        assert!(worst_untold < 0.92, "{correlation}: {worst_untold}, so there is no need of the correction");
    }
}

/// The correlation as a session knows it: from the other cases, twenty of nine runs.
#[test]
fn the_correlation_pooled_over_a_session_serves_as_well() {
    for correlation in [0.0, 0.3, 0.6] {
        let mut random = Rng::with_seed(41);
        let mut pooled = || {
            let others: Vec<Vec<f64>> =
                (0..20).map(|_| correlated(9, 0.05, correlation, &mut random)).collect();
            pooled_lag1(&others).unwrap()
        };
        let estimates: Vec<f64> = (0..500).map(|_| pooled()).collect();
        let mean = estimates.iter().sum::<f64>() / 500.0;
        assert!((-0.03..0.15).contains(&(mean - correlation)), "{correlation}: {mean} on average");
        let mut turn = 0;
        let series = |random: &mut Rng| correlated(40, 0.03, correlation, random);
        let mut session = 0.0;
        let told = |values: &[f64]| {
            if values.is_empty() {
                turn += 1;
                session = estimates[turn % 500];
            }
            session
        };
        let covered = coverage(series, told, |_| 1000.0);
        assert!(covered >= 0.92, "{correlation}: {covered}");
    }
}

/// A session of a single case has no other series: its own estimate is rough, and errs to both sides.
#[test]
fn a_session_of_one_case_is_told_its_own_correlation() {
    for (correlation, least) in [(0.0, 0.95), (0.3, 0.925), (0.6, 0.82)] {
        for scatter in SCATTERS {
            let series = |random: &mut Rng| correlated(40, scatter, correlation, random);
            let covered = coverage(series, |values| pooled_lag1(&[values]).unwrap_or(0.0), |_| 1000.0);
            assert!(covered >= least, "{correlation}, scatter {scatter}: {covered}");
        }
    }
}

/// With other cases between them, neighbors are nearly independent and need no correction.
#[test]
fn spaced_runs_cover_without_correction() {
    for correlation in [0.3, 0.6] {
        let gap = spacing(correlation, 0.1);
        for scatter in SCATTERS {
            let series = |random: &mut Rng| {
                correlated(40 * (gap + 1), scatter, correlation, random)
                    .into_iter()
                    .step_by(gap + 1)
                    .collect()
            };
            let covered = coverage(series, |_| 0.0, |_| 1000.0);
            assert!(covered >= 0.92, "{correlation}, scatter {scatter}: {covered}");
        }
    }
}

/// The truth is the level in the middle of the runs made: what the case was while it was measured. Of the level over a longer session
/// an early stop knows nothing.
#[test]
fn a_drift_over_the_session_is_covered_around_its_middle() {
    for drift in [0.05, 0.2] {
        for scatter in SCATTERS {
            let level = |run: f64| 1000.0 * (1.0 + drift * run / 40.0);
            let series = |random: &mut Rng| -> Vec<f64> {
                (0..40).map(|run| level(f64::from(run)) * log_normal(random, scatter)).collect()
            };
            let covered = coverage(series, |_| 0.0, |made| level((made - 1) as f64 / 2.0));
            assert!(covered >= 0.93, "drift {drift}, scatter {scatter}: {covered}");
        }
    }
}

/// Modes that last: 95 % are not reached, as the documentation says, because six runs may all lie in the rarer mode.
#[test]
fn modes_that_last_are_covered_less() {
    for (correlation, least) in [(0.0, 0.93), (0.3, 0.90), (0.6, 0.80)] {
        // The median of both modes together is the 5/7 quantile of the lower one.
        let truth = 1000.0 * (0.01_f64 * 0.565_95).exp();
        let covered = coverage(|random| sticky(40, correlation, random), |_| correlation, |_| truth);
        assert!(covered >= least, "{correlation}: {covered}");
    }
}
