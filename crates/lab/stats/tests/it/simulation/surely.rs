//! How often something wrong is called sure.

use fastrand::Rng;
use weighbridge_stats::Evidence;

use super::sets::{SHAPES, Shape};

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
