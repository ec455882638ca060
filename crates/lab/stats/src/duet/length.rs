//! How long a set should be: a longer one averages the noise of its slices, a further one also what fresh processes draw anew.

use crate::order::{median, quantile};

/// Fewest sets from which the two kinds of noise are told apart.
const FEWEST_SETS: usize = 4;

/// The number of blocks of a set at which a session of fixed length gives the narrowest interval of the ratio, from the log ratios
/// of the blocks of each set so far ([`block_log_ratios`](super::block_log_ratios)): √((c/b)·(w²/σ²)), with the fixed cost c of a set and
/// the cost b of a block in the same unit, the variance w² that a block adds to its set's median, and the variance σ² between sets
/// beyond that (Cochran, *Sampling Techniques*, 1977, §10.6: two-stage sampling with a linear cost).
///
/// `None` below four sets; infinite where the sets differ no more than their blocks explain.
///
/// # Panics
/// If a value is not finite or a cost is not positive.
pub fn best_blocks<S: AsRef<[f64]>>(sets: &[S], cost_of_set: f64, cost_of_block: f64) -> Option<f64> {
    assert!(cost_of_set > 0.0 && cost_of_block > 0.0, "costs of {cost_of_set} and {cost_of_block}");
    let sets: Vec<&[f64]> = sets.iter().map(AsRef::as_ref).filter(|set| !set.is_empty()).collect();
    if sets.len() < FEWEST_SETS {
        return None;
    }
    // The variance of a median is π/2 times that of a mean.
    let added = |set: &&[f64]| std::f64::consts::FRAC_PI_2 * deviation(set).powi(2);
    let of_block = median(&sets.iter().map(added).collect::<Vec<_>>());
    let blocks = median(&sets.iter().map(|set| set.len() as f64).collect::<Vec<_>>());
    let values: Vec<f64> = sets.iter().map(|set| median(set)).collect();
    let between = deviation(&values).powi(2) - of_block / blocks;
    if between <= 0.0 {
        return Some(f64::INFINITY);
    }
    Some((cost_of_set / cost_of_block * of_block / between).sqrt())
}

/// The standard deviation of normal values with this interquartile range: stalls do not count.
fn deviation(values: &[f64]) -> f64 {
    (quantile(values, 0.75) - quantile(values, 0.25)) / 1.349
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(between: f64, within: f64) -> Vec<Vec<f64>> {
        let draw = |i: usize, n: usize| (i * 7 % n) as f64 / (n - 1) as f64 - 0.5;
        (0..9)
            .map(|set| (0..25).map(|block| between * draw(set, 9) + within * draw(block + set, 25)).collect())
            .collect()
    }

    #[test]
    fn what_sets_draw_anew_asks_for_more_sets_and_what_slices_scatter_for_longer_ones() {
        let of = |between, within| best_blocks(&sets(between, within), 40.0, 4.0).unwrap();
        assert!(of(0.10, 0.02) < 3.0, "{}", of(0.10, 0.02));
        assert!(of(0.05, 0.10) > 2.0 * of(0.10, 0.02));
        assert_eq!(of(0.0, 0.10), f64::INFINITY);
        assert_eq!(best_blocks(&sets(0.1, 0.1)[..3], 40.0, 4.0), None);
        let dear = best_blocks(&sets(0.10, 0.10), 160.0, 4.0).unwrap();
        assert!((dear / of(0.10, 0.10) - 2.0).abs() < 1e-9, "four times the fixed cost, twice the length");
    }
}
