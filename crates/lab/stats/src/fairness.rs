//! Did all get their share?

use crate::order::{assert_finite, sum};

/// Jain's index of fairness, (Σx)² / (n·Σx²), of the amounts that n parties got (Jain, Chiu and Hawe 1984): 1 when
/// all got the same, 1/n when one got everything, k/n when k share equally and the rest got nothing.
///
/// When nobody got anything all are equal, and the index is 1.
///
/// # Panics
/// If `shares` is empty, or a share is negative or not finite.
pub fn jain(shares: &[f64]) -> f64 {
    assert!(!shares.is_empty(), "fairness among nobody");
    assert_finite(shares);
    assert!(shares.iter().all(|share| *share >= 0.0), "a negative share: {shares:?}");
    let largest = shares.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return 1.0;
    }
    // Relative to the largest, so that no square overflows.
    let parts: Vec<f64> = shares.iter().map(|share| share / largest).collect();
    let squares: Vec<f64> = parts.iter().map(|part| part * part).collect();
    sum(&parts).powi(2) / (shares.len() as f64 * sum(&squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_are_one_and_a_monopoly_is_one_over_n() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[0.0, 0.0, 5.0, 0.0]), 0.25);
        assert_eq!(jain(&[5.0, 5.0, 0.0, 0.0]), 0.5);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
        assert_eq!(jain(&[1e300, 1e300]), 1.0);
    }
}
