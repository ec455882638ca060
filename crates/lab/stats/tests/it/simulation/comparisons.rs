//! How often a comparison claims what is not there, and finds what is.

use fastrand::Rng;
use weighbridge_stats::compare::CONFIDENCE;
use weighbridge_stats::{BootComparison, Evidence, Verdict, compare_boots, paired_ratio};

use super::peers::log_normal;

/// Boots that differ by 3 %, each with five runs that differ by 1 %.
fn boots(count: usize, level: f64, random: &mut Rng) -> Vec<Vec<f64>> {
    let boot = |random: &mut Rng| {
        let boot = level * log_normal(random, 0.03);
        (0..5).map(|_| boot * log_normal(random, 0.01)).collect()
    };
    (0..count).map(|_| boot(random)).collect()
}

fn pairs(count: usize, factor: f64, random: &mut Rng) -> Vec<(f64, f64)> {
    let pair = |random: &mut Rng| {
        // What a round has in common is far more than the difference.
        let round = log_normal(random, 0.3);
        (round * log_normal(random, 0.02), factor * round * log_normal(random, 0.02))
    };
    (0..count).map(|_| pair(random)).collect()
}

fn claims(comparison: &BootComparison) -> bool {
    matches!(comparison.verdict, Verdict::Improved(_) | Verdict::Regressed(_))
}

/// Equal sides: one comparison in twenty may claim a difference. Two thousand comparisons scatter by ± 0.5 %.
#[test]
fn boots_of_equal_kernels_seldom_differ_and_others_do() {
    let mut random = Rng::with_seed(10);
    for count in [4, 6, 10] {
        let mut compare = |level: f64| {
            compare_boots(&boots(count, 1.0, &mut random), &boots(count, level, &mut random), 0.01)
        };
        let wrong = (0..2000).filter(|_| claims(&compare(1.0))).count();
        assert!(wrong <= 118, "{count} boots: {wrong} of 2000");
        let found = (0..200).filter(|_| matches!(compare(1.15).verdict, Verdict::Regressed(_))).count();
        assert!(found >= 190, "{count} boots: {found} of 200");
    }
}

#[test]
fn intervals_of_a_ratio_cover_it() {
    let mut random = Rng::with_seed(12);
    let experiments = 4000;
    for count in [6, 13, 28] {
        let paired =
            |random: &mut Rng| paired_ratio(&pairs(count, 1.1, random), CONFIDENCE).interval.unwrap();
        let covered = (0..experiments).filter(|_| paired(&mut random).contains(1.1)).count();
        assert!(covered as f64 >= 0.943 * experiments as f64, "{count} pairs: {covered}");
        let evidence =
            |random: &mut Rng| Evidence::of_pairs(&pairs(count, 1.1, random)).interval(CONFIDENCE).unwrap();
        let covered = (0..experiments).filter(|_| evidence(&mut random).contains(1.1)).count();
        assert!(covered as f64 >= 0.940 * experiments as f64, "{count} pairs as evidence: {covered}");
        let unpaired = |random: &mut Rng| {
            let group = |level: f64, random: &mut Rng| -> Vec<f64> {
                (0..count).map(|_| level * log_normal(random, 0.05)).collect()
            };
            let (a, b) = (group(1.0, random), group(1.1, random));
            Evidence::of_groups(&a, &b).interval(CONFIDENCE).unwrap()
        };
        let covered = (0..experiments).filter(|_| unpaired(&mut random).contains(1.1)).count();
        assert!(covered as f64 >= 0.943 * experiments as f64, "{count} and {count}: {covered}");
        assert!(
            covered as f64 <= 0.985 * experiments as f64,
            "{count} and {count}: {covered}, needlessly wide"
        );
    }
}
