//! How many of many findings may be chance.

/// Which of the findings hold when at most the part `q` of them may be false on average: Benjamini and Hochberg
/// (1995). The answer is in the order of the p values.
///
/// The k smallest hold, for the largest k whose k-th smallest p value is at most k/m·q. The promise holds for
/// independent tests and for tests that move together (Benjamini and Yekutieli 2001), as cases of one machine do.
///
/// # Panics
/// If a p value or `q` is outside 0 … 1.
pub fn benjamini_hochberg(p_values: &[f64], q: f64) -> Vec<bool> {
    assert!((0.0..=1.0).contains(&q), "a false-discovery rate of {q}");
    assert!(p_values.iter().all(|p| (0.0..=1.0).contains(p)), "p values outside 0 to 1: {p_values:?}");
    let mut ascending = p_values.to_vec();
    ascending.sort_unstable_by(f64::total_cmp);
    let limit = |rank: usize| (rank + 1) as f64 / p_values.len() as f64 * q;
    match (0..ascending.len()).rev().find(|&rank| ascending[rank] <= limit(rank)) {
        Some(rank) => p_values.iter().map(|p| *p <= ascending[rank]).collect(),
        None => vec![false; p_values.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_paper_keeps_four_of_fifteen() {
        // Benjamini and Hochberg (1995), section 3.2.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0000,
        ];
        let held = benjamini_hochberg(&p, 0.05);
        assert_eq!(held.iter().filter(|held| **held).count(), 4);
        assert!(held[..4].iter().all(|held| *held));
    }

    #[test]
    fn the_answer_is_in_the_order_of_the_question() {
        assert_eq!(benjamini_hochberg(&[0.9, 0.001, 0.5], 0.05), [false, true, false]);
        assert_eq!(benjamini_hochberg(&[], 0.05), [false; 0]);
        // Each alone would pass only at its own limit; together the larger carries the smaller.
        assert_eq!(benjamini_hochberg(&[0.04, 0.03], 0.05), [true, true]);
    }
}
