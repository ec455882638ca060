//! How often something wrong is called sure.

use fastrand::Rng;
use weighbridge_stats::contest::Contest;
use weighbridge_stats::correlation::pooled_lag1;
use weighbridge_stats::discovery::contests;
use weighbridge_stats::stopping::CorrelatedRule;
use weighbridge_stats::{Decision, Evidence, StoppingRule};

use super::sets::{SHAPES, Shape};

/// A session of `count` contests of equals, each of so many contestants: their sets, as many as the stopping rule asks for, and the
/// correlation that the session finds.
fn session(shape: Shape, count: usize, contestants: usize, random: &mut Rng) -> (Vec<Vec<Vec<f64>>>, f64) {
    let mut cases: Vec<Vec<f64>> = (0..count * contestants)
        .map(|_| shape.sets(40, [0.005, 0.02, 0.06][random.usize(..3)], random))
        .collect();
    let first: Vec<&[f64]> = cases.iter().map(|sets| &sets[..6]).collect();
    let correlation = pooled_lag1(&first).unwrap();
    for sets in &mut cases {
        // The budget ends some of them.
        let rule = StoppingRule { precision: 0.02, max_runs: [9, 13, 40][random.usize(..3)] };
        let costs: Vec<f64> = sets.iter().map(|log| log.exp()).collect();
        let mut made = 6;
        while let Decision::Continue { next_look } =
            (CorrelatedRule { rule, correlation }).decide(&costs[..made])
        {
            made = next_look;
        }
        sets.truncate(made);
    }
    let correlation = pooled_lag1(&cases).unwrap();
    (cases.chunks(contestants).map(<[Vec<f64>]>::to_vec).collect(), correlation)
}

/// Is anything said of a report of such contests? As `weighbridge-record` says it.
fn is_anything_sure(groups: &[Vec<Vec<f64>>], correlation: f64) -> bool {
    let contest = |group: &Vec<Vec<f64>>| {
        let pair = |i: usize, j: usize| Evidence::independent(&group[j], &group[i]).correlated(correlation);
        Contest::new(group.len(), pair)
    };
    let report: Vec<Contest> = groups.iter().map(contest).collect();
    let judged = contests(&report, 0.05);
    let mut chosen =
        report.iter().zip(&judged.chosen).filter(|(_, chosen)| **chosen).map(|(contest, _)| contest);
    chosen.any(|contest| {
        let each = 1.0 - (1.0 - judged.confidence) / 2.0;
        let is_excluded = || contest.against_best(each).iter().any(|one| !one.may_be_best());
        !contest.tiers(each).statements().is_empty() || is_excluded()
    })
}

/// At most 5 % are promised up to a correlation of 0.3. A thousand reports scatter by ± 0.7 %, one deviation, and 250 by ± 1.4 %.
#[test]
fn a_report_of_equals_says_something_sure_in_at_most_one_of_twenty() {
    for shape in SHAPES {
        for (count, contestants, reports) in [(1, 2, 1000), (1, 6, 600), (5, 6, 400), (20, 6, 250)] {
            let mut random = Rng::with_seed(82);
            let is_wrong = |_: &usize| {
                let (groups, correlation) = session(shape, count, contestants, &mut random);
                is_anything_sure(&groups, correlation)
            };
            let wrong = (0..reports).filter(is_wrong).count() as f64 / f64::from(reports as u32);
            println!(
                "{shape:?}, {count} contests of {contestants}: {:.1} % of {reports} reports",
                100.0 * wrong
            );
            let most = if shape.correlation() > 0.3 { 0.12 } else { 0.06 };
            assert!(wrong <= most, "{shape:?}, {count} contests of {contestants}: {wrong}");
        }
    }
}

/// The level of one of fifty pairs. Twenty thousand pairs scatter by ± 0.02 %, one deviation, around 0.1 %.
#[test]
fn six_scattered_sets_against_forty_others_differ_no_more_often_than_is_said() {
    const LEVEL: f64 = 0.001;
    for shape in SHAPES.into_iter().filter(|shape| shape.correlation() == 0.0) {
        for ((few, wide), (many, narrow)) in
            [((6, 0.1), (40, 0.02)), ((6, 0.02), (40, 0.1)), ((9, 0.1), (13, 0.02))]
        {
            let mut random = Rng::with_seed(80);
            let is_wrong = |_: &usize| {
                let (one, other) =
                    (shape.sets(few, wide, &mut random), shape.sets(many, narrow, &mut random));
                Evidence::independent(&one, &other).p() <= LEVEL
            };
            let wrong = (0..20_000).filter(is_wrong).count() as f64 / 20_000.0;
            println!("{shape:?}, {few} sets ± {wide} and {many} ± {narrow}: {:.2} %", 100.0 * wrong);
            assert!(wrong <= 2.0 * LEVEL, "{shape:?}, {few} and {many}: {wrong}");
        }
    }
}

/// What ranks of so few sets cannot show at the level of one of two hundred pairs.
#[test]
fn a_factor_of_180_is_sure_with_six_sets_each() {
    let mut random = Rng::with_seed(81);
    let mut sets = |level: f64| -> Vec<f64> {
        Shape::Heavy.sets(6, 0.1, &mut random).into_iter().map(|log| log + level).collect()
    };
    let p = Evidence::independent(&sets(180.0_f64.ln()), &sets(0.0)).p();
    assert!(p < 0.05 / 200.0, "{p}");
}
