//! How often a comparison claims what is not there, and finds what is.

use fastrand::Rng;
use weighbridge_stats::compare::{CONFIDENCE, control_false_discoveries};
use weighbridge_stats::ranks::{factor, mann_whitney};
use weighbridge_stats::{Better, Comparison, Verdict, compare_boots, compare_paired, paired_ratio};

use crate::peers::log_normal;

const CASES: usize = 40;
const MATRICES: usize = 500;

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

fn claims(comparison: &Comparison) -> bool {
    matches!(comparison.verdict, Verdict::Faster | Verdict::Slower)
}

/// Shares of matrices with any claim, before and after false discoveries are controlled.
fn share_with_a_claim(mut compare: impl FnMut() -> Comparison) -> (f64, f64) {
    let (mut before, mut after) = (0, 0);
    for _ in 0..MATRICES {
        let mut matrix: Vec<Comparison> = (0..CASES).map(|_| compare()).collect();
        before += usize::from(matrix.iter().any(claims));
        control_false_discoveries(&mut matrix, 0.05);
        after += usize::from(matrix.iter().any(claims));
    }
    (before as f64 / MATRICES as f64, after as f64 / MATRICES as f64)
}

/// Nothing differs, so every claim is false and the false-discovery rate is the share of matrices with a claim.
#[test]
fn equal_sides_lead_to_claims_in_at_most_one_matrix_of_twenty() {
    let mut random = Rng::with_seed(10);
    for count in [4, 6, 10] {
        let compare = || {
            compare_boots(
                &boots(count, 1.0, &mut random),
                &boots(count, 1.0, &mut random),
                0.01,
                Better::Lower,
            )
        };
        let (before, after) = share_with_a_claim(compare);
        assert!(after <= 0.05, "{count} boots: {after}");
        assert!(before >= 0.3, "{count} boots: {before}; without control nothing would be gained by it");
    }
    let (before, after) =
        share_with_a_claim(|| compare_paired(&pairs(13, 1.0, &mut random), 0.0, Better::Lower));
    assert!(after <= 0.05 && before >= 0.3, "pairs: {before}, {after}");
}

#[test]
fn a_real_difference_in_a_quarter_of_the_cases_is_found_there() {
    let mut random = Rng::with_seed(11);
    let (mut found, mut wrong, mut claimed) = (0, 0, 0);
    for _ in 0..50 {
        let level = |case: usize| if case < CASES / 4 { 1.15 } else { 1.0 };
        let compare = |case| {
            compare_boots(
                &boots(8, 1.0, &mut random),
                &boots(8, level(case), &mut random),
                0.01,
                Better::Lower,
            )
        };
        let mut matrix: Vec<Comparison> = (0..CASES).map(compare).collect();
        control_false_discoveries(&mut matrix, 0.05);
        found +=
            matrix[..CASES / 4].iter().filter(|comparison| comparison.verdict == Verdict::Slower).count();
        wrong += matrix[CASES / 4..].iter().filter(|comparison| claims(comparison)).count();
        claimed += matrix.iter().filter(|comparison| claims(comparison)).count();
    }
    assert!(found as f64 >= 0.95 * 50.0 * CASES as f64 / 4.0, "{found}");
    assert!(wrong as f64 <= 0.05 * claimed as f64, "{wrong} of {claimed}");
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
        let unpaired = |random: &mut Rng| {
            let group = |level: f64, random: &mut Rng| -> Vec<f64> {
                (0..count).map(|_| level * log_normal(random, 0.05)).collect()
            };
            let (a, b) = (group(1.0, random), group(1.1, random));
            factor(&a, &b, CONFIDENCE).interval.unwrap()
        };
        let covered = (0..experiments).filter(|_| unpaired(&mut random).contains(1.1)).count();
        assert!(covered as f64 >= 0.943 * experiments as f64, "{count} and {count}: {covered}");
        assert!(
            covered as f64 <= 0.985 * experiments as f64,
            "{count} and {count}: {covered}, needlessly wide"
        );
    }
}

#[test]
fn p_values_of_the_u_test_are_not_too_small_counted_or_approximated() {
    let mut random = Rng::with_seed(13);
    for (n_a, n_b) in [(4, 4), (6, 9), (40, 30)] {
        for coarse in [false, true] {
            let value = |random: &mut Rng| {
                let value = 100.0 * log_normal(random, 0.02);
                if coarse { value.round() } else { value }
            };
            let significant = |random: &mut Rng| {
                let a: Vec<f64> = (0..n_a).map(|_| value(random)).collect();
                let b: Vec<f64> = (0..n_b).map(|_| value(random)).collect();
                mann_whitney(&a, &b).unwrap().p <= 0.05
            };
            let count = (0..10_000).filter(|_| significant(&mut random)).count();
            assert!(count <= 550, "{n_a} and {n_b}, coarse {coarse}: {count} of 10000");
        }
    }
}
