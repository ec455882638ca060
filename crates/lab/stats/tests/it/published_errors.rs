//! A published error, recomputed, and the same input through this crate.
//!
//! akbench (2025) sums the durations 1 … n−2 of n sorted or unsorted iterations and divides by n; so does its
//! variance. With its ten iterations every mean is 20 % too low, and the printed "± stddev" cannot fall below √0.05 of
//! the mean. Its published system-call latencies stand exactly at that floor.

use weighbridge_stats::order::{mean, standard_deviation};
use weighbridge_stats::{half_iqr_over_median, median};

/// Mean and deviation as published: two values left out of both sums and not out of the divisor.
fn as_published(durations: &[f64]) -> (f64, f64) {
    let n = durations.len() as f64;
    let kept = &durations[1..durations.len() - 1];
    let mean = kept.iter().sum::<f64>() / n;
    let variance = kept.iter().map(|duration| (duration - mean).powi(2)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

#[test]
fn a_constant_was_published_20_percent_low_and_with_a_deviation_of_22_percent() {
    let durations = [1260.6; 10];
    let (published, deviation) = as_published(&durations);
    assert!((published / 1260.6 - 0.8).abs() < 1e-12);
    assert!((deviation / published - 0.05_f64.sqrt()).abs() < 1e-12);

    assert_eq!(median(&durations), 1260.6);
    assert_eq!(mean(&durations), 1260.6);
    assert_eq!(standard_deviation(&durations), 0.0);
    assert_eq!(half_iqr_over_median(&durations), 0.0);
}

/// Benchmark, mean and standard deviation in nanoseconds, as published.
const PUBLISHED: [(&str, f64, f64); 3] =
    [("statfs", 1008.512, 225.512), ("fstatfs", 664.642, 148.63), ("getpid", 95.559, 21.436)];

/// The model of the error explains the published figures: none is below the floor, and what is left above it is the
/// scatter of the real durations, of one or two per cent.
#[test]
fn the_published_deviations_stand_at_the_floor_of_the_error() {
    for (name, published, deviation) in PUBLISHED {
        let relative = deviation / published;
        assert!((0.2236..0.2245).contains(&relative), "{name}: {relative}");
        // Find the real scatter that gives this figure through the error; eight values, alternating around the truth.
        let truth = published / 0.8;
        let through = |scatter: f64| {
            let durations: Vec<f64> =
                (0..10).map(|i| truth * (1.0 + if i % 2 == 0 { scatter } else { -scatter })).collect();
            as_published(&durations)
        };
        let scatter = (0..2000).map(|i| f64::from(i) * 1e-5).find(|s| {
            let (mean, deviation) = through(*s);
            deviation / mean >= relative
        });
        assert!(scatter.is_some_and(|scatter| scatter < 0.02), "{name}: {scatter:?}");
    }
}
