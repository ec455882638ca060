//! Looking at a comparison several times and stopping when it is clear, without claiming too often.
//!
//! A 95 % interval looked at five times misses 1 in the same comparison in up to 14 % of cases. Here the 5 % are spent over
//! the looks, little at first: each look has its own, larger confidence, and the interval there is valid whenever one stops
//! (repeated confidence intervals; Jennison and Turnbull 1989).

use std::sync::OnceLock;

use crate::evidence::Evidence;
use crate::interval::Interval;
use crate::normal::{two_sided_p, two_sided_t, two_sided_z};
use crate::order::{mean, standard_deviation};

/// The numbers of sets at which a comparison is looked at. Each is about one and a half times the one before.
pub const LOOKS: [usize; 5] = [8, 12, 18, 27, 40];

/// Two-sided error over all looks together.
pub const ALPHA: f64 = 0.05;

/// Part of `alpha` that is spent when the part `fraction` of all sets is there: on each side 2 − 2·Φ(z_(α/4)/√t), which gives
/// nearly the boundaries of O'Brien and Fleming (1979) for any times of looking (Lan and DeMets 1983).
///
/// # Panics
/// If `fraction` is not above 0 and at most 1, or `alpha` is not between 0 and 1.
pub fn spent(fraction: f64, alpha: f64) -> f64 {
    assert!(fraction > 0.0 && fraction <= 1.0, "a fraction of {fraction}");
    2.0 * two_sided_p(two_sided_z(alpha / 2.0) / fraction.sqrt())
}

/// The boundaries |z| at these fractions of the whole (ascending, the last 1), such that a process of independent increments
/// crosses up to each look with the probability [`spent`] there: by numerical integration over the values at which it has not
/// yet crossed (Armitage, McPherson and Rowe 1969).
///
/// # Panics
/// If the fractions do not ascend, are not above 0 and at most 1, or `alpha` is not between 0 and 1.
pub fn boundaries(fractions: &[f64], alpha: f64) -> Vec<f64> {
    assert!(fractions.is_sorted_by(|a, b| a < b), "fractions that do not ascend: {fractions:?}");
    const CELLS: usize = 400;
    // The score S(t) = z·√t has variance t. `density` holds it on cells between −limit and limit.
    let (mut density, mut limit, mut before, mut spent_before) = (vec![1.0], 0.0_f64, 0.0, 0.0);
    let mut out = vec![];
    for &fraction in fractions {
        let spend = spent(fraction, alpha) - spent_before;
        let step = (fraction - before).sqrt();
        let width = 2.0 * limit / density.len() as f64;
        let from: Vec<(f64, f64)> =
            density.iter().enumerate().map(|(i, mass)| (-limit + width * (i as f64 + 0.5), *mass)).collect();
        // By symmetry both sides cross alike.
        let crosses = |bound: f64| -> f64 {
            from.iter().map(|(at, mass)| 2.0 * mass * crate::normal::upper_tail((bound - at) / step)).sum()
        };
        let (mut low, mut high) = (0.0, 12.0);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            *(if crosses(middle) > spend { &mut low } else { &mut high }) = middle;
        }
        out.push(high / fraction.sqrt());
        let cell = 2.0 * high / CELLS as f64;
        let mass_at = |i: usize| {
            let at = -high + cell * (i as f64 + 0.5);
            let bell = |from: f64| (-((at - from) / step).powi(2) / 2.0).exp();
            let scale = cell / (step * std::f64::consts::TAU.sqrt());
            scale * from.iter().map(|(from, mass)| mass * bell(*from)).sum::<f64>()
        };
        density = (0..CELLS).map(mass_at).collect();
        (limit, before, spent_before) = (high, fraction, spent(fraction, alpha));
    }
    out
}

/// The confidence of the interval at each of [`LOOKS`].
pub fn confidences() -> [f64; LOOKS.len()] {
    static ONCE: OnceLock<[f64; LOOKS.len()]> = OnceLock::new();
    *ONCE.get_or_init(|| {
        let last = LOOKS[LOOKS.len() - 1] as f64;
        let bounds = boundaries(&LOOKS.map(|look| look as f64 / last), ALPHA);
        std::array::from_fn(|look| 1.0 - two_sided_p(bounds[look]))
    })
}

/// What a number of sets is to the plan of looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    /// Not a look: go on to this many sets.
    GoOn {
        /// Sets at the next look.
        next: usize,
    },
    /// A look, with the confidence of its interval.
    At {
        /// Confidence at this look.
        confidence: f64,
        /// Sets at the next look, `None` at the last.
        next: Option<usize>,
    },
}

/// The look that this many sets are; beyond the last one the last one's.
pub fn look(sets: usize) -> Look {
    let next = LOOKS.into_iter().find(|look| *look > sets);
    let index = LOOKS.into_iter().position(|look| look == sets).or(next.is_none().then_some(LOOKS.len() - 1));
    match (index, next) {
        (Some(index), next) => Look::At { confidence: confidences()[index], next },
        (None, Some(next)) => Look::GoOn { next },
        (None, None) => unreachable!("beyond the last look it is the last one"),
    }
}

/// The interval of the ratio at this confidence, also where ranks cannot give it: the first two looks ask for so much that
/// eight or twelve pairs have no signed-rank interval, and without one a change by half could not stop before eighteen sets.
/// There it is Student's (1908) on the log ratios, mean ± t·s/√n, which is wide enough for values with heavier tails than
/// normal ones (Benjamini 1983). `None` with fewer than two pairs; groups have rank intervals only.
///
/// # Panics
/// If a value is not finite or `confidence` is not between 0 and 1.
pub fn interval_at(evidence: &Evidence, confidence: f64) -> Option<Interval> {
    evidence.interval(confidence).or_else(|| match evidence {
        Evidence::Paired(logs) if logs.len() >= 2 => {
            let n = logs.len();
            let arm = two_sided_t(1.0 - confidence, n - 1) * standard_deviation(logs) / (n as f64).sqrt();
            let middle = mean(logs);
            Some(Interval { low: (middle - arm).exp(), high: (middle + arm).exp(), confidence })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_equal_looks_have_the_published_boundaries() {
        // Lan and DeMets (1983) with O'Brien–Fleming spending, two-sided 5 %, five looks (Jennison and Turnbull 2000, §7.2;
        // Reboussin et al. 2000).
        let found = boundaries(&[0.2, 0.4, 0.6, 0.8, 1.0], 0.05);
        for (found, published) in found.iter().zip([4.8769, 3.3569, 2.6803, 2.2898, 2.0310]) {
            assert!((found - published).abs() < 2e-3, "{found} against {published}");
        }
    }

    #[test]
    fn one_look_spends_all() {
        assert!((boundaries(&[1.0], 0.05)[0] - 1.96).abs() < 1e-3);
        assert!((spent(1.0, 0.05) - 0.05).abs() < 1e-9);
        assert!(spent(0.2, 0.05) < 2e-5);
    }

    #[test]
    fn looks_get_laxer_and_nothing_is_decided_between_them() {
        assert!(confidences().is_sorted_by(|a, b| a > b), "{:?}", confidences());
        assert!((0.95..0.96).contains(&confidences()[4]), "{:?}", confidences());
        assert_eq!(look(3), Look::GoOn { next: 8 });
        assert_eq!(look(13), Look::GoOn { next: 18 });
        assert!(matches!(look(12), Look::At { next: Some(18), .. }));
        assert!(matches!(look(40), Look::At { next: None, .. }) && look(40) == look(55));
    }

    #[test]
    fn where_ranks_have_no_interval_students_serves() {
        let logs: Vec<f64> = (0..8).map(|i| 0.5 + 0.01 * f64::from(i)).collect();
        let first = interval_at(&Evidence::Paired(logs.clone()), confidences()[0]).unwrap();
        assert!(first.low > 1.0 && first.contains(0.535_f64.exp()), "{first:?}");
        let evidence = Evidence::Paired(logs);
        assert_eq!(interval_at(&evidence, 0.95), evidence.interval(0.95));
        assert_eq!(interval_at(&Evidence::Paired(vec![0.1]), 0.95), None);
    }
}
