//! Width and coverage of the intervals for few values.

use fastrand::Rng;
use weighbridge_stats::{Evidence, Interval, interpolated_median_interval, median_interval};

use super::peers::{log_normal, normal};

const EXPERIMENTS: usize = 4000;

type Draw = fn(&mut Rng) -> f64;
type Method = fn(&[f64], f64) -> Option<Interval>;

/// Distributions with median 0; all but the log-normal one are symmetric.
const SHAPES: [(&str, Draw); 4] = [
    ("normal", normal),
    ("uniform", |random| random.f64() - 0.5),
    ("Laplace", |random| {
        let side = if random.bool() { 1.0 } else { -1.0 };
        -side * (1.0 - random.f64()).ln()
    }),
    ("log-normal", |random| log_normal(random, 0.5) - 1.0),
];

/// Mean half-width and coverage of 0 at 95 %.
fn measured(method: Method, draw: Draw, n: usize) -> (f64, f64) {
    let mut random = Rng::with_seed(20);
    let (mut width, mut covered) = (0.0, 0);
    for _ in 0..EXPERIMENTS {
        let values: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
        let interval = method(&values, 0.95).expect("six values at least");
        width += (interval.high - interval.low) / 2.0;
        covered += usize::from(interval.contains(0.0));
    }
    (width / EXPERIMENTS as f64, covered as f64 / EXPERIMENTS as f64)
}

/// Four thousand experiments scatter by ± 0.3 %, one deviation.
#[test]
fn the_interpolated_interval_has_the_confidence_asked_for_and_gets_narrower_with_each_value() {
    for (name, draw) in SHAPES {
        for n in [6, 7, 8, 9, 12, 13, 19, 28, 40] {
            let (_, covered) = measured(interpolated_median_interval, draw, n);
            assert!((0.937..0.963).contains(&covered), "{name}, {n}: {covered}");
        }
    }
    let width = |method: Method, n: usize| measured(method, normal, n).0;
    for (n, exact, interpolated) in [(6, 1.27, 1.04), (7, 1.35, 0.92), (8, 1.42, 0.90)] {
        let (is_exact, is) = (width(median_interval, n), width(interpolated_median_interval, n));
        assert!((is_exact - exact).abs() < 0.02 && (is - interpolated).abs() < 0.02, "{n}: {is_exact}, {is}");
    }
    let widths: Vec<f64> =
        [6, 7, 9, 12, 19, 40].into_iter().map(|n| width(interpolated_median_interval, n)).collect();
    assert!(widths.is_sorted_by(|a, b| a > b), "{widths:?}");
}

#[test]
fn the_interval_of_pairs_covers_symmetric_values_and_is_the_narrower_one() {
    let of_pairs =
        |values: &[f64], confidence: f64| Evidence::paired(values.to_vec()).log_interval(confidence);
    for (name, draw) in &SHAPES[..3] {
        for n in [6, 7, 8, 12, 19, 40] {
            let (_, covered) = measured(of_pairs, *draw, n);
            assert!((0.935..0.977).contains(&covered), "{name}, {n}: {covered}");
        }
    }
    for n in [9, 12, 19, 40] {
        let (pairs, median) =
            (measured(of_pairs, normal, n).0, measured(interpolated_median_interval, normal, n).0);
        assert!(pairs < median, "{n}: {pairs} against {median}");
    }
}
