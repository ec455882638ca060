//! What holds for every input.

use proptest::prelude::*;
use weighbridge_stats::curve::CostCurve;
use weighbridge_stats::discovery::benjamini_hochberg;
use weighbridge_stats::fairness::jain;
use weighbridge_stats::regime::detect;
use weighbridge_stats::stopping::{CorrelatedRule, printed_interval};
use weighbridge_stats::{
    Decision, StoppingRule, Verdict, half_iqr_over_median, median, median_interval, paired_ratio, quantile,
    summarize, verdict,
};

fn positive() -> impl Strategy<Value = f64> {
    prop_oneof![1.0..1000.0, (46u8..50).prop_map(f64::from), 1e-9..1e12]
}

fn values(least: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(positive(), least..45)
}

/// Values and the same values in another order.
fn shuffled() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    values(1).prop_flat_map(|values| (Just(values.clone()), Just(values).prop_shuffle()))
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

proptest! {
    #[test]
    fn the_order_of_the_values_does_not_matter((values, other) in shuffled()) {
        prop_assert_eq!(median(&values), median(&other));
        prop_assert_eq!(half_iqr_over_median(&values), half_iqr_over_median(&other));
        prop_assert_eq!(median_interval(&values, 0.95), median_interval(&other, 0.95));
        prop_assert_eq!(printed_interval(&values, true, 0.1), printed_interval(&other, true, 0.1));
        prop_assert!(close(jain(&values), jain(&other)));
    }

    #[test]
    fn another_unit_changes_the_figures_by_its_factor_and_no_verdict(values in values(7), scale in 1e-6..1e6) {
        let scaled: Vec<f64> = values.iter().map(|value| value * scale).collect();
        prop_assert!(close(median(&scaled), scale * median(&values)));
        prop_assert!(close(half_iqr_over_median(&scaled), half_iqr_over_median(&values)));
        let (a, b) = (median_interval(&values, 0.98).unwrap(), median_interval(&scaled, 0.98).unwrap());
        prop_assert!(close(b.low, scale * a.low) && close(b.high, scale * a.high));
        prop_assert!(close(jain(&scaled), jain(&values)));
    }

    #[test]
    fn the_interval_holds_the_median_and_at_least_the_confidence(values in values(1), confidence in 0.01..0.999) {
        if let Some(interval) = median_interval(&values, confidence) {
            prop_assert!(interval.contains(median(&values)));
            prop_assert!(interval.confidence >= confidence - 1e-9 && interval.confidence < 1.0);
        } else {
            // Lowest to highest would not do.
            prop_assert!(1.0 - 2.0 * 0.5_f64.powi(values.len() as i32) < confidence);
        }
    }

    #[test]
    fn more_confidence_is_never_a_narrower_interval(values in values(1), a in 0.01..0.999, b in 0.01..0.999) {
        let (less, more) = (f64::min(a, b), f64::max(a, b));
        if let Some(wide) = median_interval(&values, more) {
            let narrow = median_interval(&values, less).expect("less is possible where more is");
            prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
            prop_assert!(narrow.confidence <= wide.confidence);
        }
    }

    #[test]
    fn quantiles_rise_with_p_from_the_lowest_to_the_highest(values in values(1), a in 0.0..=1.0, b in 0.0..=1.0) {
        let (low, high) = (f64::min(a, b), f64::max(a, b));
        prop_assert!(quantile(&values, low) <= quantile(&values, high) * (1.0 + 1e-12));
        prop_assert!(close(quantile(&values, 0.5), median(&values)));
    }

    #[test]
    fn a_decision_never_asks_for_fewer_runs_than_there_are_or_more_than_allowed(
        values in values(0), precision in 1e-4..1.0, max_runs in 1usize..60,
    ) {
        match (CorrelatedRule { rule: StoppingRule { precision, max_runs }, correlation: 0.0 }).decide(&values) {
            Decision::Continue { next_look } => {
                prop_assert!(values.len() < next_look && next_look <= max_runs.min(40));
            }
            Decision::Stop(_) => prop_assert!(values.len() >= max_runs.min(6)),
        }
    }

    #[test]
    fn a_ratio_of_pairs_does_not_see_what_both_share(pairs in prop::collection::vec((1.0..100.0, 1.0..100.0), 6..30)) {
        let doubled: Vec<(f64, f64)> = pairs.iter().map(|(a, b): &(f64, f64)| (a * 3.7, b * 3.7)).collect();
        let (one, other) = (paired_ratio(&pairs, 0.95), paired_ratio(&doubled, 0.95));
        prop_assert!(close(one.median, other.median));
        prop_assert!(one.interval.unwrap().contains(one.median));
        let same: Vec<(f64, f64)> = pairs.iter().map(|(a, _)| (*a, *a)).collect();
        let same = paired_ratio(&same, 0.95);
        prop_assert_eq!(verdict(same.interval, 0.0, pairs.len()), Verdict::Equivalent);
    }

    #[test]
    fn no_finite_series_stops_the_regime_tests(
        values in prop::collection::vec(prop_oneof![-1e300..1e300, -1.0..1.0, Just(0.0), 1.0..1.001], 0..80),
    ) {
        for regime in detect(&values) {
            prop_assert!(regime.p > 0.0 && regime.p <= 0.01);
            prop_assert!(!regime.detail.contains("NaN"), "{}", regime.detail);
        }
    }

    #[test]
    fn a_summary_lies_within_its_runs(runs in prop::collection::vec(values(1), 1..12)) {
        let summary = summarize(&runs);
        prop_assert!(summary.range.0 <= summary.median && summary.median <= summary.range.1);
        prop_assert_eq!(summary.ci95.is_some(), runs.len() >= 6);
        if let Some((low, high)) = summary.ci95 {
            prop_assert!(summary.range.0 <= low && high <= summary.range.1);
        }
    }

    #[test]
    fn fairness_is_between_one_over_n_and_one(shares in prop::collection::vec(0.0..1e6, 1..50)) {
        let index = jain(&shares);
        prop_assert!(index <= 1.0 + 1e-12 && index >= 1.0 / shares.len() as f64 - 1e-12);
    }

    #[test]
    fn a_stricter_rate_never_holds_more_discoveries(p in prop::collection::vec(0.0..=1.0, 0..40), a in 0.0..=1.0, b in 0.0..=1.0) {
        let (strict, lax) = (benjamini_hochberg(&p, f64::min(a, b)), benjamini_hochberg(&p, f64::max(a, b)));
        prop_assert!(strict.iter().zip(&lax).all(|(strict, lax)| !strict || *lax));
    }

    #[test]
    fn both_curves_cost_the_same_where_they_cross(
        a in prop::collection::vec(0.1..1000.0, 2..9), b in prop::collection::vec(0.1..1000.0, 2..9),
    ) {
        let curve = |costs: &[f64]| {
            let points: Vec<(f64, f64)> = costs.iter().enumerate().map(|(i, cost)| (4f64.powi(i as i32), *cost)).collect();
            (CostCurve::new(&points), points)
        };
        let ((first, of_first), (second, of_second)) = (curve(&a), curve(&b));
        let log_cost = |points: &[(f64, f64)], size: f64| {
            let (i, part) = ((size.ln() / 4f64.ln()).floor() as usize, (size.ln() / 4f64.ln()).fract());
            let (low, high) = (points[i].1.ln(), points.get(i + 1).unwrap_or(&points[i]).1.ln());
            low + (high - low) * part
        };
        let there = first.crossovers(&second);
        for meet in &there {
            prop_assert!((log_cost(&of_first, meet.size) - log_cost(&of_second, meet.size)).abs() < 1e-6);
        }
        // Going up, the cheaper side alternates.
        prop_assert!(there.windows(2).all(|pair| pair[0].cheaper_below != pair[1].cheaper_below));
    }
}
