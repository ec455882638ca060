//! Builds whose layout of code moves their cost: what a comparison of several builds a side says, and what one build a side would.

use fastrand::Rng;
use weighbridge_stats::Evidence;

use super::peers::normal;

/// Log ratios of `sets` sets in which pairs of builds take turns in random order, and the pair of each set.
fn turns(pairs: &[f64], sets: usize, scatter: f64, random: &mut Rng) -> (Vec<f64>, Vec<usize>) {
    let mut order: Vec<usize> = Vec::new();
    let mut turn = |random: &mut Rng| {
        if order.is_empty() {
            order = (0..pairs.len()).collect();
            random.shuffle(&mut order);
        }
        order.pop().unwrap()
    };
    let groups: Vec<usize> = (0..sets).map(|_| turn(random)).collect();
    (groups.iter().map(|pair| pairs[*pair] + scatter * normal(random)).collect(), groups)
}

/// Both sides cost the same but for the layout of each build. Two thousand comparisons scatter by ± 0.5 %.
#[test]
fn layouts_that_differ_are_no_difference_of_the_sides_where_the_pair_of_builds_is_the_unit() {
    let mut random = Rng::with_seed(93);
    for builds in [4, 8, 16] {
        for (layout, scatter) in [(0.0, 0.01), (0.003, 0.01), (0.01, 0.01), (0.05, 0.01)] {
            for sets in [22, 40, 400] {
                let (mut by_sets, mut by_pairs, mut inside) = (0, 0, 0.0);
                for _ in 0..2000 {
                    let pairs: Vec<f64> =
                        (0..builds).map(|_| layout * (normal(&mut random) - normal(&mut random))).collect();
                    let (logs, groups) = turns(&pairs, sets, scatter, &mut random);
                    by_sets += u32::from(Evidence::paired(logs.clone()).p() <= 0.05);
                    let grouped = Evidence::grouped(&logs, &groups);
                    by_pairs += u32::from(grouped.p() <= 0.05);
                    inside += f64::from(u8::from(grouped.interval(0.95).unwrap().contains(1.0)));
                }
                let [by_sets, by_pairs] = [by_sets, by_pairs].map(|count| f64::from(count) / 2000.0);
                println!(
                    "{builds} builds a side, layout ± {layout}, sets ± {scatter}, {sets} sets: {:.1} % differ by pairs of builds, {:.1} % by sets",
                    100.0 * by_pairs,
                    100.0 * by_sets
                );
                assert!(by_pairs <= 0.06, "{builds}, {layout}, {sets}: {by_pairs}");
                assert!((inside / 2000.0 - (1.0 - by_pairs)).abs() < 1e-9, "the interval and p agree");
                // That this test can fail: sets of few builds are no independent units.
                assert!(layout < 0.05 || by_sets > 0.2 || sets < 2 * builds, "{builds}, {sets}: {by_sets}");
            }
        }
    }
}
