//! By what factor do two things differ, and for kernels: can the difference be attributed at all?
//!
//! Everything is a ratio *candidate over baseline* of positive values, taken on logarithms, so that "twice" and "half"
//! are equally far from "the same". What a ratio of costs amounts to is decided in [`verdict`](mod@crate::verdict).

use crate::evidence::Evidence;
use crate::interval::{Interval, of_sorted};
use crate::order::{median, median_of_sorted, sorted};
use crate::verdict::{Verdict, verdict};

/// Confidence of the intervals on which verdicts rest.
pub const CONFIDENCE: f64 = 0.95;

/// The fewest boots a side of which anything is said.
pub const FEWEST_BOOTS: usize = 4;

/// A ratio from pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median of candidate over baseline; of an even number the geometric mean of the two in the middle.
    pub median: f64,
    /// Sign-test interval; `None` below six pairs (for 95 %).
    pub interval: Option<Interval>,
    /// Number of pairs.
    pub pairs: usize,
}

/// Two kernels or machines compared, with the verdict and the sentence that justifies it.
#[derive(Clone, Debug, PartialEq)]
pub struct BootComparison {
    /// Cost of the candidate over that of the baseline.
    pub ratio: f64,
    /// Interval of the ratio, where there are enough boots for one.
    pub interval: Option<Interval>,
    /// Two-sided p value of "no difference", where there are enough boots for a test.
    pub p: Option<f64>,
    /// What may be said.
    pub verdict: Verdict,
    /// Why, in one sentence with the figures.
    pub reason: String,
}

/// The ratio candidate over baseline from (baseline, candidate) pairs that were measured side by side: median of the
/// log ratios with the interval that inverts the sign test (Thompson 1936). The two log ratios of an ABBA block are
/// two pairs. [`Evidence::of_pairs`] has narrower intervals and any confidence.
///
/// # Panics
/// If there is no pair, a value is not positive and finite, or `confidence` is not between 0 and 1.
pub fn paired_ratio(pairs: &[(f64, f64)], confidence: f64) -> Ratio {
    let log_ratio = |&(baseline, candidate): &(f64, f64)| {
        assert!(baseline > 0.0 && candidate > 0.0, "the ratio of {candidate} to {baseline}");
        (candidate / baseline).ln()
    };
    let logs = sorted(&pairs.iter().map(log_ratio).collect::<Vec<_>>());
    let interval = of_sorted(&logs, confidence).map(|interval| interval.map(f64::exp));
    Ratio { median: median_of_sorted(&logs).exp(), interval, pairs: pairs.len() }
}

/// Compares the costs of two sides across boots: the boot is the unit, and its value is the median over its runs' values (costs or
/// ratios to the hub; of rates the inverse).
///
/// Below [`FEWEST_BOOTS`] a side the difference cannot be told from that between two boots of the same kernel, and
/// the verdict is inconclusive. From there the interval decides.
///
/// # Panics
/// If a side has no boot, a boot no run, a value is not positive and finite, or `margin` is negative.
pub fn compare_boots(baseline: &[Vec<f64>], candidate: &[Vec<f64>], margin: f64) -> BootComparison {
    let values = |boots: &[Vec<f64>]| boots.iter().map(|runs| median(runs)).collect::<Vec<_>>();
    let evidence = Evidence::of_groups(&values(baseline), &values(candidate));
    let fewest = evidence.units();
    let ratio = evidence.ratio().expect("at least one boot a side");
    let interval = evidence.interval(CONFIDENCE).filter(|_| fewest >= FEWEST_BOOTS);
    let p = interval.map(|_| evidence.p());
    let boots = format!("{} and {} boots", baseline.len(), candidate.len());
    let (verdict, reason) = match interval {
        Some(of) => (verdict(interval, margin, fewest), from_interval(ratio, of, &boots)),
        None => {
            let why = format!("cannot be attributed: {}", too_few(baseline.len(), candidate.len()));
            (Verdict::Inconclusive { settled_by: None }, why)
        }
    };
    BootComparison { ratio, interval, p, verdict, reason }
}

fn from_interval(ratio: f64, interval: Interval, basis: &str) -> String {
    let percent = 100.0 * interval.confidence;
    format!("ratio {ratio:.4}, {percent:.1} % interval {:.4} to {:.4}, {basis}", interval.low, interval.high)
}

fn too_few(a: usize, b: usize) -> String {
    let boots = if (a, b) == (1, 1) { "1 boot per side".into() } else { format!("{a} and {b} boots") };
    format!(
        "{boots}; boots of one kernel differ among themselves, and at least {FEWEST_BOOTS} a side are needed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Size;

    const OPEN: Verdict = Verdict::Inconclusive { settled_by: None };

    fn boots(values: &[f64]) -> Vec<Vec<f64>> {
        values.iter().map(|value| vec![value * 0.99, *value, value * 5.0]).collect()
    }

    #[test]
    fn one_boot_a_side_is_inconclusive_and_four_can_tell() {
        let one = compare_boots(&boots(&[100.0]), &boots(&[300.0]), 0.01);
        assert_eq!((one.p, one.interval), (None, None));
        assert!((one.ratio - 3.0).abs() < 1e-12);
        assert!(one.reason.starts_with("cannot be attributed: 1 boot per side"), "{}", one.reason);
        // Against forty boots p = 2/41 would be below 0.05; one boot is still one boot.
        let forty: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i)).collect();
        let a = [100.0, 101.0, 99.0, 100.5, 98.0, 102.0];
        let b = a.map(|value| value * 1.1);
        for (from, to, margin, verdict) in [
            (&[100.0][..], &[300.0][..], 0.01, OPEN),
            (&forty, &[300.0], 0.01, OPEN),
            (&a[..3], &b[..3], 0.01, OPEN),
            (&a[..4], &b[..4], 0.01, Verdict::Regressed(Size::BeyondMargin)),
            (&b[..4], &a[..4], 0.01, Verdict::Improved(Size::BeyondMargin)),
            (&a, &b, 0.01, Verdict::Regressed(Size::BeyondMargin)),
            (&a, &a, 0.05, Verdict::Equivalent),
        ] {
            let found = compare_boots(&boots(from), &boots(to), margin);
            assert_eq!(found.verdict, verdict, "{found:?}");
            assert_eq!(found.interval.is_some(), from.len().min(to.len()) >= 4, "{found:?}");
        }
        let four = compare_boots(&boots(&a[..4]), &boots(&b[..4]), 0.01);
        assert!(four.p.unwrap() < 0.01);
        assert!(compare_boots(&boots(&a), &boots(&b), 0.01).interval.unwrap().contains(1.1));
    }

    #[test]
    fn pairs_cancel_a_drift_that_both_sides_share() {
        let drift = (0..12).map(|i| 100.0 * 1.3_f64.powi(i));
        let pairs: Vec<(f64, f64)> = drift.map(|value| (value, value * 0.9)).collect();
        let found = paired_ratio(&pairs, CONFIDENCE);
        assert!((found.median - 0.9).abs() < 1e-12 && found.interval.unwrap().high < 0.91);
        assert_eq!(paired_ratio(&pairs[..5], CONFIDENCE).interval, None);
    }
}
