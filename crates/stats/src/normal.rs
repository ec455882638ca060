//! The standard normal distribution's tail, which the standard library does not have.

/// P(|Z| ≥ |z|) of a standard normal Z: the two-sided p value of a z score.
pub(crate) fn two_sided_p(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// Complementary error function for x ≥ 0, by the power series below 2 and the continued fraction above
/// (Abramowitz and Stegun 1964, 7.1.6 and 7.1.14).
fn erfc(x: f64) -> f64 {
    let root_pi = std::f64::consts::PI.sqrt();
    let bell = (-x * x).exp();
    if x < 2.0 {
        let (mut term, mut total, mut k) = (x, x, 1.0);
        while term > total * 1e-17 {
            term *= 2.0 * x * x / (2.0 * k + 1.0);
            total += term;
            k += 1.0;
        }
        1.0 - 2.0 / root_pi * bell * total
    } else {
        let fraction = (1..=60).rev().fold(x, |below, k| x + f64::from(k) / 2.0 / below);
        bell / (root_pi * fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_agrees_with_the_tables() {
        for (z, p) in
            [(0.0, 1.0), (1.0, 0.317_310_508), (1.959_964, 0.05), (2.575_829_3, 0.01), (4.0, 6.334_248e-5)]
        {
            assert!((two_sided_p(z) / p - 1.0).abs() < 1e-6, "z {z}: {} against {p}", two_sided_p(z));
        }
        assert!((erfc(1.999_999) / erfc(2.000_001) - 1.0).abs() < 1e-4);
    }
}
