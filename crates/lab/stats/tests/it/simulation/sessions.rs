//! What earlier sessions of a machine foretell of the next one.

use fastrand::Rng;
use weighbridge_stats::sessions::{Figure, further};

use super::sets::{SHAPES, Shape};

/// 95 % are promised. Four thousand experiments scatter by ± 0.35 %, one deviation.
#[test]
fn the_next_session_lies_where_the_sessions_before_it_foretold() {
    for shape in SHAPES {
        let least = match shape {
            Shape::Normal { correlation } if correlation <= 0.3 => 0.93,
            Shape::Normal { .. } | Shape::Heavy => 0.915,
            // Of few sessions all may have been in the same mode.
            Shape::TwoModes { .. } => 0.905,
        };
        for made in [5, 8, 12, 20] {
            let mut random = Rng::with_seed(made as u64);
            let (mut inside, mut apart) = (0, 0);
            for _ in 0..4000 {
                let medians: Vec<f64> =
                    shape.sets(made + 1, 0.05, &mut random).into_iter().map(f64::exp).collect();
                let expected = |known: &[f64]| {
                    let interval = further(known, 0.95).unwrap();
                    Figure { value: known[known.len() - 1], low: interval.low, high: interval.high }
                };
                let (last, next) = (expected(&medians[..made]), expected(&medians));
                inside += u32::from(last.contains(next.value));
                apart += u32::from(last.differs_from(&next));
            }
            let [inside, apart] = [inside, apart].map(|count| f64::from(count) / 4000.0);
            println!(
                "{shape:?}, {made} sessions: {:.1} % inside, {:.1} % of pairs differ",
                100.0 * inside,
                100.0 * apart
            );
            assert!(inside >= least && apart <= 0.06, "{shape:?}, {made} sessions: {inside}, {apart}");
        }
    }
}
