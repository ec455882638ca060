//! The standard normal and Student's distribution, which the standard library does not have.

/// P(|Z| ≥ |z|) of a standard normal Z: the two-sided p value of a z score.
pub(crate) fn two_sided_p(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// P(Z ≥ z) of a standard normal Z.
pub(crate) fn upper_tail(z: f64) -> f64 {
    let half = two_sided_p(z) / 2.0;
    if z < 0.0 { 1.0 - half } else { half }
}

/// The z with P(|Z| ≥ z) = `p`: 1.96 for 0.05.
pub(crate) fn two_sided_z(p: f64) -> f64 {
    falling_root(two_sided_p, p)
}

/// P(|T| ≥ |t|) of Student's T: the regularised incomplete beta function I_x(ν/2, ½) at x = ν/(ν + t²)
/// (Abramowitz and Stegun 1964, 26.7.1 and 26.5).
pub(crate) fn two_sided_student_p(t: f64, freedom: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The t with P(|T| ≥ t) = `p`: 2.365 for 0.05 and seven degrees of freedom.
pub(crate) fn two_sided_t(p: f64, freedom: f64) -> f64 {
    falling_root(|t| two_sided_student_p(t, freedom), p)
}

/// The x ≥ 0 at which a falling function with f(0) = 1 has this value: by secants of its logarithm, which is nearly straight, the
/// distance of an end that stays being halved (Dowell and Jarratt 1971).
fn falling_root(f: impl Fn(f64) -> f64, value: f64) -> f64 {
    assert!(value > 0.0 && value <= 1.0, "a quantile at {value}");
    if value == 1.0 {
        return 0.0;
    }
    let above = |x: f64| f(x).ln() - value.ln();
    let (mut low, mut of_low) = (0.0, -value.ln());
    let (mut high, mut of_high) = (1.0, above(1.0));
    while of_high > 0.0 {
        (low, of_low) = (high, of_high);
        high *= 2.0;
        of_high = above(high);
    }
    let mut was_above = None;
    while high - low > 1e-12 * high {
        let secant = high - of_high * (high - low) / (of_high - of_low);
        // Where f(high) is too small for a number, its logarithm says nothing.
        let x = if secant > low && secant < high { secant } else { f64::midpoint(low, high) };
        let of_x = above(x);
        if of_x.abs() < 1e-13 {
            return x;
        }
        let is_above = of_x > 0.0;
        if is_above {
            (low, of_low) = (x, of_x);
        } else {
            (high, of_high) = (x, of_x);
        }
        if was_above == Some(is_above) {
            *(if is_above { &mut of_high } else { &mut of_low }) /= 2.0;
        }
        was_above = Some(is_above);
        if x <= f64::MIN_POSITIVE {
            break;
        }
    }
    high
}

/// Regularised incomplete beta function by its continued fraction (Abramowitz and Stegun 1964, 26.5.8), evaluated from
/// the end where it converges fast (26.5.2).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let coefficient = |term: usize| {
        let m = (term / 2) as f64;
        if term.is_multiple_of(2) {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        }
    };
    front / (1..=200).rev().fold(1.0, |below, term| 1.0 + coefficient(term) / below)
}

/// ln Γ(x) for x > 0: Stirling's series (Abramowitz and Stegun 1964, 6.1.41) after shifting x above 10.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5))
        - 1.0 / (1680.0 * x.powi(7));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
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

    /// By the C library's functions of the same names.
    #[test]
    fn functions_agree_with_others_to_thirteen_digits() {
        for (x, value) in [
            (0.1, 0.887_537_083_981_715_2),
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_13),
            (1.5, 0.033_894_853_524_689_274),
            (2.0, 0.004_677_734_981_047_265),
            (2.5, 0.000_406_952_017_444_958_9),
            (4.0, 1.541_725_790_028_002e-8),
            (6.0, 2.151_973_671_249_891_6e-17),
            (20.0, 5.395_865_611_607_900_5e-176),
        ] {
            assert!((erfc(x) / value - 1.0).abs() < 1e-12, "erfc({x}) = {}", erfc(x));
        }
        for (x, value) in [
            (0.25, 1.288_022_524_698_077_2),
            (0.5, 0.572_364_942_924_700_4),
            (1.5, -0.120_782_237_635_245_43),
            (3.7, 1.428_072_326_665_388_3),
            (9.99, 12.779_315_214_350_197),
            (10.0, 12.801_827_480_081_467),
            (12.5, 18.734_347_511_936_45),
            (100.5, 361.435_540_467_777_6),
        ] {
            assert!((ln_gamma(x) - value).abs() < 1e-12 * value.abs().max(1.0), "{x}: {}", ln_gamma(x));
        }
    }

    /// Where the integral has a closed form: a power, a polynomial, an arc sine.
    #[test]
    fn the_beta_function_agrees_with_its_closed_forms() {
        for x in [1e-6_f64, 0.1, 0.3, 0.5, 0.7, 0.95] {
            for (a, b, value) in [
                (3.5, 1.0, x.powf(3.5)),
                (1.0, 4.5, 1.0 - (1.0 - x).powf(4.5)),
                (2.0, 3.0, x * x * (6.0 - x * (8.0 - 3.0 * x))),
                (5.0, 2.0, x.powi(5) * (6.0 - 5.0 * x)),
                (0.5, 0.5, 2.0 / std::f64::consts::PI * x.sqrt().asin()),
            ] {
                let found = incomplete_beta(x, a, b);
                assert!((found - value).abs() < 1e-12, "I({x}; {a}, {b}) = {found}, not {value}");
            }
        }
        assert_eq!([-1.0, 0.0, 1.0, 2.0].map(|x| incomplete_beta(x, 2.0, 3.0)), [0.0, 0.0, 1.0, 1.0]);
    }

    /// Of one to four degrees of freedom the distribution has closed forms.
    #[test]
    fn the_tail_of_student_agrees_with_its_closed_forms() {
        for t in [0.3_f64, 1.0, 2.5, 8.0] {
            let angle = (t / 3.0_f64.sqrt()).atan() + 3.0_f64.sqrt() * t / (3.0 + t * t);
            for (freedom, value) in [
                (1.0, 1.0 - std::f64::consts::FRAC_2_PI * t.atan()),
                (2.0, 1.0 - t / (t * t + 2.0).sqrt()),
                (3.0, 1.0 - std::f64::consts::FRAC_2_PI * angle),
                (4.0, 1.0 - t * (t * t + 6.0) / (t * t + 4.0).powf(1.5)),
            ] {
                for t in [t, -t] {
                    let found = two_sided_student_p(t, freedom);
                    assert!((found - value).abs() < 1e-12, "{t} of {freedom}: {found}, not {value}");
                }
                assert!((two_sided_t(value, freedom) / t - 1.0).abs() < 1e-9, "{t} of {freedom}");
            }
        }
        assert_eq!(two_sided_student_p(f64::INFINITY, 3.0), 0.0);
        assert_eq!([0.0, 1.0, -1.0].map(|z| upper_tail(z) + upper_tail(-z)), [1.0; 3]);
        assert!((upper_tail(1.0) - two_sided_p(1.0) / 2.0).abs() < 1e-15);
    }

    #[test]
    #[should_panic(expected = "a quantile at 0")]
    fn a_quantile_of_no_probability_is_a_bug() {
        two_sided_z(0.0);
    }

    #[test]
    #[should_panic(expected = "a quantile at 1.5")]
    fn a_quantile_of_more_than_all_is_a_bug() {
        two_sided_z(1.5);
    }

    #[test]
    fn quantiles_agree_with_the_tables() {
        assert!((two_sided_z(0.05) - 1.959_963_985).abs() < 1e-8);
        assert!((two_sided_z(1.0)).abs() < 1e-9);
        assert!((upper_tail(-1.0) - 0.841_344_746).abs() < 1e-8);
        // Abramowitz and Stegun (1964), table 26.10.
        for (p, freedom, t) in [
            (0.05, 1.0, 12.706),
            (0.05, 7.0, 2.365),
            (0.01, 5.0, 4.032),
            (0.1, 30.0, 1.697),
            (0.05, 120.0, 1.980),
        ] {
            assert!((two_sided_t(p, freedom) - t).abs() < 6e-4, "{freedom}: {}", two_sided_t(p, freedom));
        }
        assert!((two_sided_t(0.05, 1e5) - 1.960).abs() < 1e-3);
        // Cauchy's distribution has a closed form: P(|T| ≥ t) = 1 − 2/π·atan t.
        let far = two_sided_student_p(1e5, 1.0);
        assert!((far - 2.0 / std::f64::consts::PI * 1e-5).abs() < 1e-12, "{far}");
    }

    #[test]
    fn quantiles_are_found_to_the_last_digits_in_a_few_steps() {
        let mut most = 0;
        for p in [1e-300_f64, 1e-12, 1e-4, 0.05, 0.4, 0.9] {
            for freedom in [0.5, 1.0, 5.5, 39.0, 1e4, f64::INFINITY] {
                let steps = std::cell::Cell::new(0);
                let tail = |x: f64| {
                    // Beyond, the bracket is still being doubled.
                    steps.set(steps.get() + i32::from(x <= 64.0));
                    if freedom.is_finite() { two_sided_student_p(x, freedom) } else { two_sided_p(x) }
                };
                // The square of such a t is not a number any more.
                if p.powf(1.0 / freedom) < 1e-140 {
                    continue;
                }
                let found = tail(falling_root(tail, p));
                assert!((found / p - 1.0).abs() < 1e-8, "{p}, {freedom}: {found}");
                most = most.max(steps.get());
            }
        }
        assert!(most <= 24, "{most} steps");
    }
}
