//! What holds for every input of comparisons: mirrored sides, other units, stricter levels.

use proptest::prelude::*;
use weighbridge_stats::contest::Contest;
use weighbridge_stats::correlation::{pooled_lag1, widened, widening};
use weighbridge_stats::discovery::claims;
use weighbridge_stats::duet::{Party, Slice, block_log_ratios};
use weighbridge_stats::history::{Point, change_points};
use weighbridge_stats::{
    Evidence, Interval, Verdict, interpolated_median_interval, median, median_interval, verdict,
};

fn logs(least: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1.0..1.0, least..20)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

/// A contest of contestants with these logarithms of costs, or of ratios to the hub, in each of their sets.
pub fn contest(logs: &[Vec<f64>], in_common_sets: bool) -> Contest {
    Contest::new(logs.len(), |i, j| {
        if in_common_sets {
            Evidence::paired(logs[i].iter().zip(&logs[j]).map(|(i, j)| j - i).collect())
        } else {
            Evidence::independent(&logs[j], &logs[i])
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_interpolated_interval_lies_inside_the_exact_one_and_holds_the_median(values in logs(6), confidence in 0.5..0.96) {
        let exact = median_interval(&values, confidence).unwrap();
        let found = interpolated_median_interval(&values, confidence).unwrap();
        prop_assert!(exact.low <= found.low && found.high <= exact.high);
        prop_assert!(found.contains(median(&values)));
    }

    #[test]
    fn intervals_hold_their_estimate_move_with_the_values_and_invert_the_test(values in logs(6), by in -5.0..5.0) {
        let evidence = Evidence::paired(values.clone());
        let interval = evidence.log_interval(0.95).unwrap();
        prop_assert!(interval.contains(evidence.log_ratio().unwrap()));
        let moved = Evidence::paired(values.iter().map(|value| value + by).collect()).log_interval(0.95).unwrap();
        prop_assert!(close(moved.low, interval.low + by) && close(moved.high, interval.high + by));
        prop_assert_eq!(evidence.p() <= 0.05, !interval.contains(0.0));
    }

    #[test]
    fn exchanged_sides_have_the_inverse_ratio(a in logs(7), b in logs(7)) {
        for evidence in [Evidence::paired(a.clone()), Evidence::independent(&a, &b)] {
            let back = evidence.reversed();
            prop_assert!(close(evidence.ratio().unwrap() * back.ratio().unwrap(), 1.0));
            let (forth, back_interval) = (evidence.interval(0.95).unwrap(), back.interval(0.95).unwrap());
            prop_assert!(close(forth.low * back_interval.high, 1.0));
            prop_assert!(close(evidence.p(), back.p()));
            prop_assert!(forth.contains(evidence.ratio().unwrap()));
        }
    }

    #[test]
    fn claims_that_hold_exclude_1_and_a_laxer_rate_holds_no_fewer(
        report in prop::collection::vec((logs(8), -1.0..1.0), 1..12), a in 0.01..0.5, b in 0.01..0.5,
    ) {
        let report: Vec<Evidence> =
            report.into_iter().map(|(values, by)| Evidence::paired(values.iter().map(|v| v + by).collect())).collect();
        let (strict, lax) = (claims(&report, f64::min(a, b)), claims(&report, f64::max(a, b)));
        prop_assert!(strict.held() <= lax.held());
        for claim in strict.claims.iter().filter(|claim| claim.holds) {
            prop_assert!(!claim.interval.expect("an interval of a claim that holds").contains(1.0));
        }
    }

    #[test]
    fn in_a_contest_somebody_may_be_best_and_the_order_has_no_circle(
        costs in prop::collection::vec(prop::collection::vec(-1.0..1.0, 9), 2..6), levels in prop::collection::vec(0.0..3.0, 6),
    ) {
        let costs: Vec<Vec<f64>> =
            costs.iter().zip(&levels).map(|(sets, level)| sets.iter().map(|log| log + level).collect()).collect();
        let contest = contest(&costs, true);
        let found = contest.against_best(0.95);
        prop_assert!(found.iter().any(|one| one.may_be_best()));
        prop_assert!(found.iter().filter(|one| one.high == Some(1.0)).count() <= 1);
        let tiers = contest.tiers(0.95);
        prop_assert_eq!(tiers.tiers.concat(), tiers.order.clone());
        let statements = tiers.statements();
        for (one, other) in statements.iter().flat_map(|one| statements.iter().map(move |other| (one, other))) {
            let is_behind = |who: &usize| one.behind.contains(who);
            prop_assert!(!(other.ahead.iter().any(is_behind) && one.ahead.iter().any(|who| other.behind.contains(who))));
        }
    }

    #[test]
    fn blocks_pair_neighbors_whatever_is_missing(
        parties in prop::collection::vec(0usize..3, 0..60), slow_from in 0usize..60,
    ) {
        // Each party has a cost of its own, and the machine is slower from some slice on.
        let slice = |(i, who): (usize, &usize)| Slice {
            start_ns: i as u64 * 1000,
            elapsed_ns: 100 * (*who as u64 + 1) * if i >= slow_from { 2 } else { 1 },
            ops: 1,
            party: if *who == 0 { Party::Hub } else { Party::Case(*who) },
        };
        let slices: Vec<Slice> = parties.iter().enumerate().map(slice).collect();
        let ratios = block_log_ratios(&slices, Party::Case(1), Party::Hub);
        prop_assert!(ratios.len() <= parties.iter().filter(|who| **who == 0).count());
        // All blocks but the one in which the state changed have the ratio 2.
        prop_assert!(ratios.iter().filter(|log| !close(**log, 2_f64.ln())).count() <= 1);
    }

    #[test]
    fn verdicts_of_exchanged_sides_are_mirrored(low in 0.5..1.5, width in 0.0..0.5, margin in 0.0..0.2) {
        let at = |low, high| Some(Interval { low, high, confidence: 0.95 });
        let (forth, back) = (verdict(at(low, low + width), margin, 9), verdict(at(1.0 / (low + width), 1.0 / low), margin, 9));
        match (forth, back) {
            (Verdict::Regressed(size), Verdict::Improved(other)) | (Verdict::Improved(size), Verdict::Regressed(other)) => {
                prop_assert_eq!(size, other);
            }
            (forth, back) => prop_assert_eq!(forth, back),
        }
    }

    #[test]
    fn correlation_only_ever_widens(values in logs(6), n in 2usize..60, correlation in 0.0..0.9) {
        prop_assert!(widening(n, correlation) >= 1.0 - 1e-12);
        let interval = interpolated_median_interval(&values, 0.9).unwrap();
        let wide = widened(interval, median(&values), widening(n, correlation).max(1.0));
        prop_assert!(wide.low <= interval.low + 1e-12 && interval.high <= wide.high + 1e-12);
        prop_assert!(pooled_lag1(&[values]).is_none_or(|found| (0.0..=0.9).contains(&found)));
    }

    #[test]
    fn a_history_in_another_unit_changes_at_the_same_points(
        values in prop::collection::vec(90.0..110.0, 0..25), from in 0usize..25, factor in 0.2..5.0,
    ) {
        let point = |value: f64| Point { value, interval: None };
        let history: Vec<Point> =
            values.iter().enumerate().map(|(i, value)| point(if i >= from { value * factor } else { *value })).collect();
        let scaled: Vec<Point> = history.iter().map(|one| point(one.value * 8.0)).collect();
        let at = |points: &[Point]| change_points(points).iter().map(|change| change.at).collect::<Vec<_>>();
        prop_assert_eq!(at(&history), at(&scaled));
    }
}
