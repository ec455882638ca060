//! Percentiles of a distribution of single operations, only where there are enough of them.

use crate::correlation::{widened, widening};
use crate::interval::{Interval, interpolated_median_interval};
use crate::normal::{two_sided_t, upper_tail};
use crate::order::{assert_finite, median};
use crate::random::Random;

/// Observations that must be expected beyond a percentile before it is worth printing.
pub const BEYOND: f64 = 10.0;

/// The fewest observations of which there is a percentile: 10 / (1 − p), or 10 / p in the lower half.
fn observations_needed(p: f64) -> usize {
    assert!(p > 0.0 && p < 1.0, "a percentile at {p}");
    // 1 − 0.999 is a little more than 0.001; that must not turn 10 000 into 10 001.
    (BEYOND / p.min(1.0 - p) * (1.0 - 1e-9)).ceil() as usize
}

/// The percentile `p` (0.99 for the 99th) of values in ascending order with the number of times that each was observed, or `None` with
/// fewer than [`observations_needed`]: a tail made of less than ten observations is an anecdote.
///
/// The value is the order statistic of rank ⌈n·p⌉ (type 1 of Hyndman and Fan 1996), so it is always a value that was
/// observed. It has no interval: observations of one run are not independent, and an interval that takes them for that
/// covered p99.9 of real sessions in 41 to 85 % of cases instead of 95 %.
fn percentile(counts: &[(f64, u64)], p: f64) -> Option<f64> {
    let mut observations = 0;
    let upto: Vec<u64> = counts
        .iter()
        .map(|(_, count)| {
            observations += count;
            observations
        })
        .collect();
    let values: Vec<f64> = counts.iter().map(|(value, _)| *value).collect();
    assert_finite(&values);
    assert!(values.is_sorted(), "observations for a percentile must be in ascending order");
    let observations = usize::try_from(observations).expect("as many observations as memory could hold");
    (observations >= observations_needed(p)).then(|| {
        let rank = rank_of(observations, p) as u64;
        values[upto.partition_point(|upto| *upto < rank)]
    })
}

/// A percentile of a case: over its runs where each of them has enough observations, else over all observations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CasePercentile {
    /// 0.99 for the 99th.
    pub p: f64,
    /// The median over the runs, or the value among all observations.
    pub value: f64,
    /// At 95 %, over runs: of the median over at least six, or from the bootstrap over at least [`FEWEST_RUNS`].
    pub interval: Option<Interval>,
    /// Are all observations taken as one lot, because single runs have too few?
    pub is_pooled: bool,
}

/// The percentiles that are looked at.
pub const PERCENTILES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

/// Fewest runs whose pooled percentile gets an interval. Where runs differ by a fifth of the scatter of single observations, ten
/// cover 92 % and twenty 94 % where 95 % is said; where they differ by two fifths, twenty cover 88 % (`tests/it/simulation`):
/// then the few worst runs make the tail, and runs as bad have not been seen yet.
pub const FEWEST_RUNS: usize = 20;

/// Fewest runs that must carry the tail, by [`runs_that_carry`].
const LEAST_CARRYING: f64 = 8.0;

/// Fewest runs, counted as if they were independent, whose median has an interval: nine at a correlation of 0.3 are five, at 0.6 two.
const LEAST_INDEPENDENT: f64 = 4.0;

/// Confidence of the intervals.
const CONFIDENCE: f64 = 0.95;

/// Those of [`PERCENTILES`] for which there are enough observations. Each run is a list of values in ascending order with
/// the number of times that each was observed.
///
/// Where each run has enough observations, the value is the median of the runs' percentiles with its interpolated interval
/// (from six runs). Otherwise it is the percentile of all observations, and its interval is that of a bootstrap over whole
/// runs (cluster bootstrap; Davison and Hinkley 1997, §3.8), expanded for few runs by Student's t as in Hesterberg (2015):
/// its ends are at the normal probability of √(n/(n − 1))·t instead of 2.5 %, n being the number of runs that carry the tail:
/// (Σb)²/Σb² of the runs' observations beyond (Kish 1965, §11.7). Below eight such runs there is none. The seed is fixed.
///
/// Both are widened by the correlation of neighboring runs, and absent where so many correlated runs are worth less than four, or where
/// the correlation is not known: a few runs do not tell their own.
///
/// # Panics
/// If a value is not finite, or the values of a run are not in ascending order.
pub fn case_percentiles(runs: &[Vec<(f64, u64)>], correlation: Option<f64>) -> Vec<CasePercentile> {
    let mut pool: Vec<(f64, u64)> = runs.concat();
    pool.sort_by(|a, b| a.0.total_cmp(&b.0));
    let of_case = |p: f64| {
        let of_runs: Option<Vec<f64>> = runs.iter().map(|run| percentile(run, p)).collect();
        match of_runs.filter(|values| !values.is_empty()) {
            Some(values) => {
                let value = median(&values);
                let interval = interpolated_median_interval(&values, CONFIDENCE)
                    .and_then(|of| of_correlated(of, value, runs.len(), correlation?));
                Some(CasePercentile { p, value, interval, is_pooled: false })
            }
            None => percentile(&pool, p).map(|value| {
                let interval = bootstrap_over_runs(runs, p, value)
                    .and_then(|of| of_correlated(of, value, runs.len(), correlation?));
                CasePercentile { p, value, interval, is_pooled: true }
            }),
        }
    };
    PERCENTILES.into_iter().filter_map(of_case).collect()
}

/// The interval over so many runs as it is where their neighbors have this correlation.
fn of_correlated(interval: Interval, middle: f64, runs: usize, correlation: f64) -> Option<Interval> {
    let (low, high) = (interval.low.min(middle), interval.high.max(middle));
    let interval = Interval { low, high, ..interval };
    let independent = runs as f64 * (1.0 - correlation) / (1.0 + correlation);
    (independent >= LEAST_INDEPENDENT)
        .then(|| widened(interval, middle, widening(runs, correlation).max(1.0)))
}

/// Resamples of the runs.
const RESAMPLES: usize = 2000;

fn bootstrap_over_runs(runs: &[Vec<(f64, u64)>], p: f64, value: f64) -> Option<Interval> {
    let n = runs.len();
    if n < FEWEST_RUNS {
        return None;
    }
    let of_run = |(run, counts): (usize, &Vec<(f64, u64)>)| {
        counts.iter().map(move |(value, count)| (*value, *count, run)).collect::<Vec<_>>()
    };
    let mut descending: Vec<(f64, u64, usize)> = runs.iter().enumerate().flat_map(of_run).collect();
    descending.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    let sizes: Vec<u64> = runs.iter().map(|run| run.iter().map(|(_, count)| count).sum()).collect();
    let mut random = Random::new(n as u64);
    let mut times = vec![0_u64; n];
    let mut resample = || {
        times.fill(0);
        (0..n).for_each(|_| times[random.below(n)] += 1);
        let total: u64 = sizes.iter().zip(&times).map(|(size, times)| size * times).sum();
        let beyond = total - rank_of(total as usize, p) as u64;
        let mut passed = 0;
        let reached = descending.iter().find(|(_, count, run)| {
            passed += count * times[*run];
            passed > beyond
        });
        reached.expect("the rank of a percentile lies among the observations").0
    };
    let mut values: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    values.sort_unstable_by(f64::total_cmp);
    let carrying = runs_that_carry(runs, value);
    if carrying < LEAST_CARRYING {
        return None;
    }
    let expanded = (carrying / (carrying - 1.0)).sqrt() * two_sided_t(1.0 - CONFIDENCE, carrying - 1.0);
    let outside = (upper_tail(expanded) * RESAMPLES as f64) as usize;
    Some(Interval { low: values[outside], high: values[RESAMPLES - 1 - outside], confidence: CONFIDENCE })
}

/// How many runs carry the tail from `value` on: (Σb)²/Σb² of their numbers of observations there (Kish 1965, §11.7); all of
/// them where they have equally many, one where one has all.
fn runs_that_carry(runs: &[Vec<(f64, u64)>], value: f64) -> f64 {
    let beyond = |run: &Vec<(f64, u64)>| {
        run.iter().filter(|(at, _)| *at >= value).map(|(_, count)| *count as f64).sum::<f64>()
    };
    let counts: Vec<f64> = runs.iter().map(beyond).collect();
    counts.iter().sum::<f64>().powi(2) / counts.iter().map(|count| count * count).sum::<f64>()
}

/// The rank ⌈n·p⌉, from 1.
fn rank_of(n: usize, p: f64) -> usize {
    ((n as f64 * p * (1.0 - 1e-12)).ceil() as usize).clamp(1, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_observations_beyond_it() {
        for (p, needed) in [(0.99, 1000), (0.999, 10_000), (0.99999, 1_000_000), (0.01, 1000)] {
            assert_eq!(observations_needed(p), needed);
        }
        let first = |n: u32| (1..=n).map(|i| (f64::from(i), 1)).collect::<Vec<_>>();
        assert_eq!((percentile(&first(999), 0.99), percentile(&[], 0.5)), (None, None));
        assert_eq!(percentile(&first(1000), 0.99), Some(990.0));
        let sevenfold: Vec<(f64, u64)> = (0..715).map(|i| (f64::from(i), 7)).collect();
        assert_eq!(percentile(&sevenfold, 0.9), Some(643.0), "rank 4505 of 5005");
        assert_eq!(percentile(&[(999_990.0, 999_990), (1e9, 10)], 0.99999), Some(999_990.0));
    }

    #[test]
    fn a_percentile_of_a_case_is_the_middle_of_its_runs_where_each_has_enough() {
        let run = |scale: f64| (1..=1000).map(|i| (f64::from(i) * scale, 1)).collect::<Vec<_>>();
        let runs: Vec<_> = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 9.0].map(run).into();
        let found = case_percentiles(&runs, Some(0.0));
        let of = |p| found.iter().find(|found| found.p == p).copied();
        let p99 = of(0.99).unwrap();
        assert!((p99.value - 990.0 * 1.3).abs() < 1e-9 && !p99.is_pooled, "{p99:?}");
        // Seven runs: the interpolated interval begins a little above the lowest.
        let low = p99.interval.unwrap().low;
        assert!(990.0 < low && low < 990.0 * 1.1, "{p99:?}");
        // Seven thousand observations are enough for p99.8, not for p99.9; and no run has enough of that by itself.
        assert_eq!(of(0.999), None);
        let more: Vec<_> = (0..20).map(|_| run(1.0)).collect();
        let p999 = case_percentiles(&more, Some(0.0)).into_iter().find(|found| found.p == 0.999).unwrap();
        assert!(p999.is_pooled && p999.value == 999.0, "{p999:?}");
        // Equal runs resample to the same value, whichever are drawn.
        assert_eq!(p999.interval.map(|interval| [interval.low, interval.high]), Some([999.0, 999.0]));
        assert_eq!(case_percentiles(&[], None), []);
    }

    #[test]
    #[should_panic(expected = "ascending")]
    fn observations_out_of_order_are_a_bug() {
        percentile(&[(2.0, 10), (1.0, 10)], 0.5);
    }
}
