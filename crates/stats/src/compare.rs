//! Is one thing faster than another, how sure is that, and if nothing can be said, why not?
//!
//! Everything is a ratio *candidate over baseline* of positive values, taken on logarithms, so that "twice" and "half"
//! are equally far from "the same". Whether a higher value is better ([`Better`]) comes in only with the verdict.

use crate::binomial::Binomial;
use crate::discovery::benjamini_hochberg;
use crate::interval::{Interval, of_sorted};
use crate::order::{median, median_of_sorted, sorted};
use crate::ranks::{factor, mann_whitney};

/// Confidence of the intervals on which verdicts rest.
pub const CONFIDENCE: f64 = 0.95;

/// Differences smaller than this do not matter, unless the user says otherwise: 1 %.
pub const DEFAULT_DELTA: f64 = 0.01;

/// The fewest boots a side with which p < 0.05 is possible by the U test whatever the sides' sizes.
pub const FEWEST_BOOTS: usize = 4;

/// The fewest boots a side for which an interval is given. The U test could be inverted from four, but then the
/// interval is only the extremes, and one odd boot is the result.
pub const FEWEST_BOOTS_FOR_INTERVAL: usize = 6;

/// Which direction is good: `Lower` for times, `Higher` for rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// A time, a cost, a count of faults.
    Lower,
    /// A rate: bytes or events per second.
    Higher,
}

/// What may be said of the candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better than the baseline; the interval excludes "the same".
    Faster,
    /// Worse than the baseline.
    Slower,
    /// The same, within the difference that does not matter.
    Equivalent,
    /// The data do not say.
    Inconclusive,
}

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

/// A comparison with its verdict, and the sentence that justifies it.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Candidate over baseline.
    pub ratio: f64,
    /// Interval of the ratio, where there are enough pairs or boots for one.
    pub interval: Option<Interval>,
    /// Two-sided p value of "no difference", where there are enough pairs or boots for a test.
    pub p: Option<f64>,
    /// What may be said.
    pub verdict: Verdict,
    /// Why, in one sentence with the figures.
    pub reason: String,
}

/// The ratio candidate over baseline from (baseline, candidate) pairs that were measured side by side: median of the
/// log ratios with the interval that inverts the sign test (Thompson 1936). The two log ratios of an ABBA block are
/// two pairs.
///
/// # Panics
/// If there is no pair, a value is not positive and finite, or `confidence` is not between 0 and 1.
pub fn paired_ratio(pairs: &[(f64, f64)], confidence: f64) -> Ratio {
    let logs = sorted(&log_ratios(pairs));
    let interval = of_sorted(&logs, confidence).map(|interval| interval.map(f64::exp));
    Ratio { median: median_of_sorted(&logs).exp(), interval, pairs: pairs.len() }
}

fn log_ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    let log_ratio = |&(baseline, candidate): &(f64, f64)| {
        assert!(baseline > 0.0 && candidate > 0.0, "the ratio of {candidate} to {baseline}");
        (candidate / baseline).ln()
    };
    pairs.iter().map(log_ratio).collect()
}

/// Two-sided p value of the sign test (Arbuthnott 1710; Dixon and Mood 1946). Pairs without a difference are left out.
///
/// # Panics
/// If a value is not positive.
pub fn sign_test(pairs: &[(f64, f64)]) -> f64 {
    let logs = log_ratios(pairs);
    let above = logs.iter().filter(|log| **log > 0.0).count();
    let below = logs.iter().filter(|log| **log < 0.0).count();
    if above + below == 0 {
        return 1.0;
    }
    (2.0 * Binomial::new(above + below, 0.5).at_most(above.min(below))).min(1.0)
}

/// The verdict on a ratio from its interval. Inside 1/(1+δ) … 1+δ is equivalent, even if 1 is not inside: a
/// difference that does not matter is none (two one-sided tests, Schuirmann 1987). Otherwise an interval that
/// excludes 1 is faster or slower, and any other, or none, is inconclusive.
///
/// # Panics
/// If `delta` is negative.
pub fn verdict(interval: Option<Interval>, delta: f64, better: Better) -> Verdict {
    assert!(delta >= 0.0, "a difference of {delta}");
    let Some(interval) = interval else { return Verdict::Inconclusive };
    if interval.low >= 1.0 / (1.0 + delta) && interval.high <= 1.0 + delta {
        Verdict::Equivalent
    } else if interval.contains(1.0) {
        Verdict::Inconclusive
    } else {
        direction(interval.low, better)
    }
}

fn direction(ratio: f64, better: Better) -> Verdict {
    if (ratio > 1.0) == (better == Better::Higher) { Verdict::Faster } else { Verdict::Slower }
}

/// Compares within one boot, from (baseline, candidate) pairs of the same round.
///
/// # Panics
/// As [`paired_ratio`] and [`verdict`].
pub fn compare_paired(pairs: &[(f64, f64)], delta: f64, better: Better) -> Comparison {
    let ratio = paired_ratio(pairs, CONFIDENCE);
    let verdict = verdict(ratio.interval, delta, better);
    let reason = match ratio.interval {
        Some(interval) => from_interval(ratio.median, interval, &format!("{} pairs", pairs.len())),
        None => format!("only {} pairs; a 95 % interval needs at least 6", pairs.len()),
    };
    Comparison { ratio: ratio.median, interval: ratio.interval, p: Some(sign_test(pairs)), verdict, reason }
}

fn from_interval(ratio: f64, interval: Interval, basis: &str) -> String {
    let percent = 100.0 * interval.confidence;
    format!("ratio {ratio:.4}, {percent:.1} % interval {:.4} to {:.4}, {basis}", interval.low, interval.high)
}

/// Compares across boots: the boot is the unit, and its value is the median over its runs' values.
///
/// Below [`FEWEST_BOOTS`] a side the difference cannot be told from that between two boots of the same kernel, and
/// the verdict is inconclusive. From there the U test decides; from [`FEWEST_BOOTS_FOR_INTERVAL`] its interval does,
/// and only then can two sides be equivalent.
///
/// # Panics
/// If a side has no boot, a boot no run, or a value is not positive and finite.
pub fn compare_boots(
    baseline: &[Vec<f64>],
    candidate: &[Vec<f64>],
    delta: f64,
    better: Better,
) -> Comparison {
    let values = |boots: &[Vec<f64>]| boots.iter().map(|runs| median(runs)).collect::<Vec<_>>();
    let (a, b) = (values(baseline), values(candidate));
    let fewest = a.len().min(b.len());
    let found = factor(&a, &b, CONFIDENCE);
    let ratio = found.ratio;
    let interval = found.interval.filter(|_| fewest >= FEWEST_BOOTS_FOR_INTERVAL);
    let p = mann_whitney(&a, &b).map(|test| test.p).filter(|_| fewest >= FEWEST_BOOTS);
    let boots = format!("{} and {} boots", a.len(), b.len());
    let (verdict, reason) = match (interval, p) {
        (Some(interval), _) => {
            (verdict(Some(interval), delta, better), from_interval(ratio, interval, &boots))
        }
        (None, Some(p)) if p <= 1.0 - CONFIDENCE => (
            direction(ratio, better),
            format!("ratio {ratio:.4}, p = {p:.3}, {boots}; an interval needs 6 a side"),
        ),
        (None, Some(p)) => (
            Verdict::Inconclusive,
            format!(
                "ratio {ratio:.4}, p = {p:.3}, {boots}; without an interval, which needs 6 a side, that is all"
            ),
        ),
        (None, None) => {
            (Verdict::Inconclusive, format!("cannot be attributed: {}", too_few(a.len(), b.len())))
        }
    };
    Comparison { ratio, interval, p, verdict, reason }
}

fn too_few(a: usize, b: usize) -> String {
    let boots = if (a, b) == (1, 1) { "1 boot per side".into() } else { format!("{a} and {b} boots") };
    format!(
        "{boots}; boots of one kernel differ among themselves, and at least {FEWEST_BOOTS} a side are needed"
    )
}

/// Over a whole matrix of comparisons, takes back those verdicts `Faster` and `Slower` that do not hold when at most
/// the part `q` of them may be false on average; they become inconclusive and say why.
///
/// # Panics
/// If `q` is outside 0 … 1.
pub fn control_false_discoveries(comparisons: &mut [Comparison], q: f64) {
    let p_values: Vec<f64> = comparisons.iter().filter_map(|comparison| comparison.p).collect();
    let held = benjamini_hochberg(&p_values, q);
    let tested = comparisons.iter_mut().filter(|comparison| comparison.p.is_some());
    for (comparison, held) in tested.zip(held) {
        if !held && matches!(comparison.verdict, Verdict::Faster | Verdict::Slower) {
            comparison.verdict = Verdict::Inconclusive;
            comparison.reason += &format!("; among {} comparisons that may be chance", p_values.len());
        }
    }
}

/// The smallest relative difference that `boots` a side find with 80 % probability at p < 0.05, given the relative
/// standard deviation between boots: 2.8·s·√(2/n), from the normal quantiles 1.96 + 0.84 (Lehr 1992).
///
/// # Panics
/// If `boots` is 0.
pub fn minimum_detectable_effect(relative_deviation: f64, boots: usize) -> f64 {
    assert!(boots > 0, "an effect to be found with no boots");
    2.8 * relative_deviation * (2.0 / boots as f64).sqrt()
}

/// The difference of cost behind two rates, in nanoseconds per event: 10⁹·(1/candidate − 1/baseline); below 0 when
/// the candidate is faster. Two per cent of a rate say little; 8 ns per packet can be held against a patch.
///
/// # Panics
/// If a rate is not positive.
pub fn cost_difference_ns(baseline_per_s: f64, candidate_per_s: f64) -> f64 {
    assert!(baseline_per_s > 0.0 && candidate_per_s > 0.0, "the cost behind a rate that is not positive");
    1e9 / candidate_per_s - 1e9 / baseline_per_s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boots(values: &[f64]) -> Vec<Vec<f64>> {
        values.iter().map(|value| vec![value * 0.99, *value, value * 5.0]).collect()
    }

    #[test]
    fn one_boot_a_side_is_inconclusive_however_large_the_difference() {
        let found = compare_boots(&boots(&[100.0]), &boots(&[300.0]), 0.01, Better::Lower);
        assert_eq!((found.verdict, found.p, found.interval), (Verdict::Inconclusive, None, None));
        assert!((found.ratio - 3.0).abs() < 1e-12);
        assert!(found.reason.starts_with("cannot be attributed: 1 boot per side"), "{}", found.reason);
        // Against forty boots p = 2/41 would be below 0.05; one boot is still one boot.
        let forty: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i)).collect();
        let found = compare_boots(&boots(&forty), &boots(&[300.0]), 0.01, Better::Lower);
        assert_eq!(found.verdict, Verdict::Inconclusive);
    }

    #[test]
    fn four_boots_a_side_can_tell_and_six_give_an_interval() {
        let a = [100.0, 101.0, 99.0, 100.5, 98.0, 102.0];
        let b = a.map(|value| value * 1.1);
        let three = compare_boots(&boots(&a[..3]), &boots(&b[..3]), 0.01, Better::Lower);
        assert_eq!((three.verdict, three.p), (Verdict::Inconclusive, None));
        let four = compare_boots(&boots(&a[..4]), &boots(&b[..4]), 0.01, Better::Lower);
        assert_eq!((four.verdict, four.interval), (Verdict::Slower, None));
        assert!((four.p.unwrap() - 0.0286).abs() < 1e-4);
        let six = compare_boots(&boots(&a), &boots(&b), 0.01, Better::Higher);
        assert_eq!(six.verdict, Verdict::Faster);
        assert!(six.interval.unwrap().contains(1.1), "{six:?}");
        let same = compare_boots(&boots(&a), &boots(&a), 0.05, Better::Lower);
        assert_eq!(same.verdict, Verdict::Equivalent);
    }

    #[test]
    fn the_verdict_follows_the_interval_and_the_direction() {
        let at = |low, high| Some(Interval { low, high, confidence: 0.95 });
        for (interval, lower, higher) in [
            (at(1.05, 1.20), Verdict::Slower, Verdict::Faster),
            (at(0.80, 0.97), Verdict::Faster, Verdict::Slower),
            (at(0.995, 1.005), Verdict::Equivalent, Verdict::Equivalent),
            (at(1.001, 1.009), Verdict::Equivalent, Verdict::Equivalent),
            (at(1.001, 1.02), Verdict::Slower, Verdict::Faster),
            (at(0.95, 1.02), Verdict::Inconclusive, Verdict::Inconclusive),
            (None, Verdict::Inconclusive, Verdict::Inconclusive),
        ] {
            assert_eq!(verdict(interval, 0.01, Better::Lower), lower, "{interval:?}");
            assert_eq!(verdict(interval, 0.01, Better::Higher), higher, "{interval:?}");
        }
    }

    #[test]
    fn pairs_cancel_a_drift_that_both_sides_share() {
        let drift = (0..12).map(|i| 100.0 * 1.3_f64.powi(i));
        let pairs: Vec<(f64, f64)> = drift.map(|value| (value, value * 0.9)).collect();
        let found = compare_paired(&pairs, 0.01, Better::Lower);
        assert_eq!(found.verdict, Verdict::Faster);
        assert!((found.ratio - 0.9).abs() < 1e-12);
        assert!((found.p.unwrap() - 2.0 / 4096.0).abs() < 1e-12);
        let few = compare_paired(&pairs[..5], 0.01, Better::Lower);
        assert_eq!((few.verdict, few.interval), (Verdict::Inconclusive, None));
        assert!(few.reason.contains("at least 6"), "{}", few.reason);
    }

    #[test]
    fn the_sign_test_leaves_out_pairs_without_a_difference() {
        assert_eq!(sign_test(&[(1.0, 1.0); 9]), 1.0);
        let six = [(1.0, 2.0); 6];
        assert!((sign_test(&six) - 2.0 / 64.0).abs() < 1e-15);
        assert!((sign_test(&[&six[..], &[(3.0, 3.0)]].concat()) - 2.0 / 64.0).abs() < 1e-15);
        assert_eq!(sign_test(&[(1.0, 2.0), (2.0, 1.0)]), 1.0);
    }

    #[test]
    fn a_finding_that_chance_explains_is_taken_back_with_the_reason() {
        let weak = [(100.0, 102.0); 6];
        let noise: Vec<(f64, f64)> =
            (0..12).map(|i| if i % 2 == 0 { (100.0, 104.0) } else { (104.0, 100.0) }).collect();
        let mut all = vec![compare_paired(&weak, 0.01, Better::Lower)];
        assert_eq!(all[0].verdict, Verdict::Slower);
        all.extend((0..20).map(|_| compare_paired(&noise, 0.01, Better::Lower)));
        control_false_discoveries(&mut all, 0.05);
        assert_eq!(all[0].verdict, Verdict::Inconclusive);
        assert!(all[0].reason.ends_with("among 21 comparisons that may be chance"), "{}", all[0].reason);
    }

    #[test]
    fn rates_become_nanoseconds_per_event() {
        // 10 and 12.5 million packets per second: 100 ns and 80 ns.
        assert!((cost_difference_ns(10e6, 12.5e6) + 20.0).abs() < 1e-9);
        assert!((minimum_detectable_effect(0.01, 8) - 0.014).abs() < 1e-12);
    }
}
