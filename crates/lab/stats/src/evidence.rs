//! What is known of the ratio of two costs: its value, its interval at any confidence, its p value.
//!
//! One type for all ways to compare, so that contests, reports and verdicts need not know which it was: pairs, two groups,
//! and cases of different hubs that are compared through sets in which the hubs met.

use std::collections::BTreeMap;

use crate::correlation::widening;
use crate::interval::Interval;
use crate::normal::{two_sided_p, two_sided_student_p, two_sided_t, two_sided_z};
use crate::order::sorted;
use crate::sequential::Stage;

/// Fewest units of each part with which there is an interval and a p value.
pub const FEWEST: usize = 3;

/// One in so many units is left out at each end of a part: of ten to nineteen one, of fewer none.
const TRIMMED_ONE_IN: usize = 10;

/// An arm that long, on logarithms, is none: few values that resemble each other very much leave no degree of freedom.
const SAYS_NOTHING: f64 = 100.0;

/// Groups with a larger p value by their means are not compared by ranks as well.
const WORTH_RANKING: f64 = 0.05;

/// Natural logarithms of costs or of ratios of costs, one for each independent unit (a set, a round, a boot), in parts that
/// were measured independently of each other. The logarithm of the ratio is the sum of the parts' middles.
///
/// The middle of a part is its mean without the tenth of the values at each end, and how sure it is follows from the
/// winsorized variance (Tukey and McLaughlin 1963). Parts are put together as Welch (1947) and Yuen (1974) do: variances add
/// up, and Student's distribution has the degrees of freedom that Satterthwaite (1946) gives. So nothing is assumed of the
/// scatter of one side relative to the other.
///
/// Where two groups overlap, the test of Mann and Whitney (1947) must agree, and intervals are at least those that invert it
/// (Moses 1965; Hollander and Wolfe 1999, §4.3): six sets that happened to miss a slow mode know nothing of their scatter, and
/// ranks do not need it. Alone they err by a factor of sixty where six scattered sets are compared with forty others, and six
/// sets each cannot differ at the level of one of two hundred pairs, whatever the factor. Where no value of one group lies
/// among those of the other, ranks have said all that they can.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    parts: Vec<Vec<f64>>,
    correlation: f64,
    stage: Stage,
}

impl Evidence {
    /// Both sides were measured in the same units: the logarithms of candidate over baseline.
    pub fn paired(logs: Vec<f64>) -> Evidence {
        Evidence { parts: vec![logs], correlation: 0.0, stage: Stage::ONLY }
    }

    /// The same where units of one group share something that has an effect of its own, such as the two builds from which they were
    /// started: the group is then the unit, and its value the middle of its units. `groups` names that of each log.
    ///
    /// # Panics
    /// If there are not as many groups as logs.
    pub fn grouped<G: Ord>(logs: &[f64], groups: &[G]) -> Evidence {
        assert_eq!(logs.len(), groups.len(), "a group for each value");
        let mut of_group: BTreeMap<&G, Vec<f64>> = BTreeMap::new();
        for (log, group) in logs.iter().zip(groups) {
            of_group.entry(group).or_default().push(*log);
        }
        Evidence::paired(of_group.values().map(|logs| Middle::of(logs).value).collect())
    }

    /// Each side was measured in units of its own: the logarithms of both, each against the same yardstick or none.
    pub fn independent(candidate: &[f64], baseline: &[f64]) -> Evidence {
        Evidence::chain(candidate, &[], baseline)
    }

    /// The candidate over a first yardstick, each of `links` a yardstick over the next one, and the baseline over the last.
    pub fn chain(candidate: &[f64], links: &[Vec<f64>], baseline: &[f64]) -> Evidence {
        let of_baseline = baseline.iter().map(|log| -log).collect();
        let parts = [candidate.to_vec(), of_baseline].into_iter().chain(links.iter().cloned()).collect();
        Evidence { parts, correlation: 0.0, stage: Stage::ONLY }
    }

    /// Pairs (baseline, candidate) of positive values.
    ///
    /// # Panics
    /// If a value is not positive.
    pub fn of_pairs(pairs: &[(f64, f64)]) -> Evidence {
        Evidence::paired(pairs.iter().map(|&(baseline, candidate)| log(candidate) - log(baseline)).collect())
    }

    /// Positive values of each side.
    ///
    /// # Panics
    /// If a value is not positive.
    pub fn of_groups(baseline: &[f64], candidate: &[f64]) -> Evidence {
        let logs = |values: &[f64]| values.iter().map(|value| log(*value)).collect::<Vec<_>>();
        Evidence::independent(&logs(candidate), &logs(baseline))
    }

    /// The same with the sides exchanged.
    #[must_use]
    pub fn reversed(&self) -> Evidence {
        let negative = |part: &Vec<f64>| part.iter().map(|log| -log).collect();
        Evidence { parts: self.parts.iter().map(negative).collect(), ..*self }
    }

    /// The same from units whose neighbors, in the order in which they were measured, have this correlation
    /// ([`pooled_lag1`](crate::correlation::pooled_lag1)): intervals are wider and p values larger by what [`widening`] says.
    ///
    /// # Panics
    /// If the correlation is outside 0 … 1, 1 excluded.
    #[must_use]
    pub fn correlated(self, correlation: f64) -> Evidence {
        assert!((0.0..1.0).contains(&correlation), "a correlation of {correlation}");
        Evidence { correlation, ..self }
    }

    /// The same as it is seen at one of several looks: intervals are wider and p values larger, so that they hold at whatever look one
    /// stops.
    #[must_use]
    pub fn looked_at(self, stage: Stage) -> Evidence {
        Evidence { stage, ..self }
    }

    /// Units of the part that has fewest.
    pub fn units(&self) -> usize {
        self.parts.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// The logarithm of the ratio candidate over baseline. `None` without values.
    pub fn log_ratio(&self) -> Option<f64> {
        (self.units() > 0).then(|| self.parts.iter().map(|part| self.part(part).value).sum())
    }

    /// The ratio candidate over baseline.
    pub fn ratio(&self) -> Option<f64> {
        self.log_ratio().map(f64::exp)
    }

    /// Interval of [`log_ratio`](Self::log_ratio); `None` with fewer than [`FEWEST`] units, and where it
    /// would reach from next to nothing to next to infinity.
    pub fn log_interval(&self, confidence: f64) -> Option<Interval> {
        assert!(confidence > 0.0 && confidence < 1.0, "a confidence of {confidence}");
        let Middle { value, variance, freedom, wider } = self.middle()?;
        let miss = self.stage.share(1.0 - confidence);
        let arm = if variance > 0.0 { two_sided_t(miss, freedom) * variance.sqrt() } else { 0.0 };
        if arm > SAYS_NOTHING {
            return None;
        }
        let (low, high) = (value - arm, value + arm);
        let by_ranks = self.groups().map_or([value; 2], |groups| groups.interval(miss));
        let [lowest, highest] = by_ranks.map(|end| value + wider * (end - value));
        Some(Interval { low: low.min(lowest), high: high.max(highest), confidence })
    }

    /// Interval of [`ratio`](Self::ratio).
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        self.log_interval(confidence).map(|interval| interval.map(f64::exp))
    }

    /// The least true ratio above 1 that would be found in eight of ten comparisons like this one, where at this confidence the interval
    /// must exclude 1; `None` with fewer than [`FEWEST`] units.
    pub fn detectable(&self, confidence: f64) -> Option<f64> {
        let interval = self.log_interval(confidence)?;
        let Middle { variance, freedom, .. } = self.middle()?;
        let power = if variance > 0.0 { two_sided_t(0.4, freedom) * variance.sqrt() } else { 0.0 };
        Some(((interval.high - interval.low) / 2.0 + power).exp())
    }

    /// Two-sided p value of a ratio of 1: the interval excludes 1 at each confidence below 1 − p. 1 with too few units.
    pub fn p(&self) -> f64 {
        let middle = self.middle().filter(|middle| middle.value != 0.0);
        let Some(Middle { value, variance, freedom, wider }) = middle else { return 1.0 };
        let p = two_sided_student_p(value / variance.sqrt(), freedom);
        // What is not significant does not become so by ranks, and ranks of many pairs take their time.
        let by_ranks =
            self.groups().filter(|_| p < WORTH_RANKING).map_or(0.0, |groups| groups.p(value - value / wider));
        self.stage.p(p.max(by_ranks))
    }

    /// Where there are two and nothing between them.
    fn groups(&self) -> Option<Groups<'_>> {
        let [candidate, baseline] = &self.parts[..] else { return None };
        Some(Groups { candidate, baseline })
    }

    fn middle(&self) -> Option<Middle> {
        if self.units() < FEWEST {
            return None;
        }
        let parts: Vec<Middle> = self.parts.iter().map(|part| self.part(part)).collect();
        let sum = |of: &dyn Fn(&Middle) -> f64| parts.iter().map(of).sum::<f64>();
        let variance = sum(&|part| part.variance);
        let freedom = variance.powi(2) / sum(&|part| part.variance.powi(2) / part.freedom);
        let independent = sum(&|part| part.variance / part.wider.powi(2));
        let wider = if independent > 0.0 { (variance / independent).sqrt() } else { 1.0 };
        Some(Middle { value: sum(&|part| part.value), variance, freedom, wider })
    }

    fn part(&self, logs: &[f64]) -> Middle {
        let Middle { value, variance, freedom, .. } = Middle::of(logs);
        let wider = widening(logs.len(), self.correlation);
        // What correlated values say of their own scatter is worth fewer of them as well (Bartlett 1946).
        let squared = self.correlation.powi(2);
        let freedom = freedom * (1.0 - squared) / (1.0 + squared);
        Middle { value, variance: variance * wider.powi(2), freedom, wider }
    }
}

/// Two groups by their ranks; the values of the baseline have the other sign.
struct Groups<'a> {
    candidate: &'a [f64],
    baseline: &'a [f64],
}

impl Groups<'_> {
    /// All differences of a value of the one and a value of the other.
    fn differences(&self) -> Vec<f64> {
        self.candidate.iter().flat_map(|one| self.baseline.iter().map(move |other| one + other)).collect()
    }

    /// Mean and deviation of the number of differences above 0 where the groups are alike.
    fn expected(&self) -> (f64, f64) {
        let [one, other] = [self.candidate, self.baseline].map(|group| group.len() as f64);
        (one * other / 2.0, (one * other * (one + other + 1.0) / 12.0).sqrt())
    }

    /// The p value of a difference of `shift`, by the normal approximation, which is too large far out. 0 where all differences are on
    /// one side of it.
    fn p(&self, shift: f64) -> f64 {
        let differences = self.differences();
        let above = differences.iter().filter(|difference| **difference > shift).count();
        let ties = differences.iter().filter(|difference| **difference == shift).count();
        if ties == 0 && (above == 0 || above == differences.len()) {
            return 0.0;
        }
        let (mean, deviation) = self.expected();
        two_sided_p(((above as f64 + ties as f64 / 2.0 - mean).abs() - 0.5).max(0.0) / deviation)
    }

    /// From the k-th lowest to the k-th highest difference; from the lowest to the highest where that is too little.
    fn interval(&self, miss: f64) -> [f64; 2] {
        let (mean, deviation) = self.expected();
        let rank = (mean + 0.5 - two_sided_z(miss) * deviation).max(1.0) as usize;
        let differences = sorted(&self.differences());
        [differences[rank - 1], differences[differences.len() - rank]]
    }
}

/// The middle of a part, or of all together.
struct Middle {
    value: f64,
    /// That of `value`, not of the units.
    variance: f64,
    freedom: f64,
    /// By how much correlation makes the interval wider.
    wider: f64,
}

impl Middle {
    /// Of one value at least; what is said of the variance of one or two is not to be used.
    fn of(logs: &[f64]) -> Middle {
        let ascending = sorted(logs);
        let (n, trimmed) = (logs.len(), logs.len() / TRIMMED_ONE_IN);
        let kept = &ascending[trimmed..n - trimmed];
        let (lowest, highest) = (kept[0], kept[kept.len() - 1]);
        // Relative to one of them, so that equal values have no scatter at all.
        let mean = |values: &mut dyn Iterator<Item = f64>, count: usize| {
            lowest + values.map(|value| value - lowest).sum::<f64>() / count as f64
        };
        let winsorized = || ascending.iter().map(|log| log.clamp(lowest, highest));
        let middle = mean(&mut winsorized(), n);
        let squares: f64 = winsorized().map(|log| (log - middle).powi(2)).sum();
        let count = kept.len() as f64;
        Middle {
            value: mean(&mut kept.iter().copied(), kept.len()),
            variance: squares / (count * (count - 1.0)),
            freedom: count - 1.0,
            wider: 1.0,
        }
    }
}

fn log(value: f64) -> f64 {
    assert!(value > 0.0, "the logarithm of {value}");
    value.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_candidate_over_baseline_in_both_kinds() {
        let baseline: Vec<f64> = (0..9).map(|i| 100.0 + f64::from(i * 5 % 9) * 0.1).collect();
        let candidate: Vec<f64> = baseline.iter().map(|value| value * 1.25).collect();
        let pairs: Vec<(f64, f64)> = baseline.iter().copied().zip(candidate.iter().copied()).collect();
        for evidence in [Evidence::of_pairs(&pairs), Evidence::of_groups(&baseline, &candidate)] {
            assert!((evidence.ratio().unwrap() - 1.25).abs() < 1e-3);
            assert!((evidence.reversed().ratio().unwrap() - 0.8).abs() < 1e-3);
            let interval = evidence.log_interval(0.95).unwrap();
            assert!(interval.low > 1.2_f64.ln() && interval.high < 1.3_f64.ln(), "{interval:?}");
            assert!(evidence.p() < 1e-6);
        }
    }

    #[test]
    fn two_groups_have_the_test_of_welch_and_outliers_are_left_out() {
        // Nine values each, of which none is left out: means 2 and 3.4, variances of the means 7.5/9 and 30/9.
        let one: Vec<f64> = (0..9).map(|i| f64::from(i) - 2.0).collect();
        let other: Vec<f64> = one.iter().map(|value| 2.0 * value - 0.6).collect();
        let found = Evidence::independent(&other, &one);
        let t = 1.4 / (37.5_f64 / 9.0).sqrt();
        let freedom = (37.5_f64 / 9.0).powi(2) / (((7.5_f64 / 9.0).powi(2) + (30.0_f64 / 9.0).powi(2)) / 8.0);
        assert!((found.log_ratio().unwrap() - 1.4).abs() < 1e-12);
        assert!((found.p() - two_sided_student_p(t, freedom)).abs() < 1e-12, "{}", found.p());
        // Hollander and Wolfe (1999), example 4.1: permeability of membranes, rank sum 30 of the five, exactly 0.2544.
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let early = [1.15, 0.88, 0.90, 0.74, 1.21].map(|value: f64| -value);
        let by_ranks = Groups { candidate: &term, baseline: &early }.p(0.0);
        assert!((by_ranks - 0.2544).abs() < 0.01, "{by_ranks}");
        // Twelve values of which one at each end is left out: ten remain, and the scatter is that of the winsorized ones.
        let wild = |far: f64| {
            Evidence::paired((0..12).map(|i| if i == 7 { far } else { 0.01 * f64::from(i) }).collect())
        };
        assert_eq!(wild(0.2).interval(0.95), wild(50.0).interval(0.95));
    }

    /// Two groups, of which a tenth is trimmed at each end, and a chain of the same parts: Yuen's test and Moses' interval,
    /// computed apart from this program with an integral of Student's density.
    #[test]
    fn intervals_and_p_values_agree_with_another_program() {
        let candidate = [0.31, 0.12, 0.25, 0.44, 0.18, 0.29, 0.95, 0.21, 0.34, 0.27, 0.15, 0.38];
        let baseline = [0.11, 0.05, 0.19, 0.02, 0.14, -0.6, 0.23, 0.09, 0.17, 0.07, 0.13];
        let close = |found: f64, expected: f64| (found - expected).abs() < 1e-9 * expected.abs();
        let groups = Evidence::independent(&candidate, &baseline);
        for (correlation, confidence, low, high, detectable, p) in [
            (0.0, 0.95, 0.08, 0.29, 1.152_607_082_596_076_8, 0.000_970_768_687_977_380_1),
            (0.0, 0.8, 0.116_933_347_512_725_66, 0.25, 1.109_112_039_903_768_8, 0.000_970_768_687_977_380_1),
            (
                0.3,
                0.95,
                0.044_856_767_828_312_744,
                0.333_183_075_380_776_2,
                1.215_663_663_856_184_2,
                0.011_136_734_851_447_824,
            ),
            (
                0.3,
                0.8,
                0.094_854_358_636_865_78,
                0.278_263_778_704_116_45,
                1.153_535_656_029_082_6,
                0.011_136_734_851_447_824,
            ),
        ] {
            let found = groups.clone().correlated(correlation);
            assert!(close(found.log_ratio().unwrap(), 0.174_222_222_222_222_2));
            let interval = found.log_interval(confidence).unwrap();
            assert!(close(interval.low, low) && close(interval.high, high), "{interval:?}");
            assert!(
                close(found.detectable(confidence).unwrap(), detectable),
                "{:?}",
                found.detectable(confidence)
            );
            assert!(close(found.p(), p), "{}", found.p());
            assert!(close(found.reversed().p(), p) && found.units() == 11);
        }
        // With a link between them ranks have no say.
        let chained = Evidence::chain(&candidate, &[vec![0.0; 5]], &baseline).log_interval(0.95).unwrap();
        assert!(close(chained.low, 0.083_189_556_835_970_71) && close(chained.high, 0.265_254_887_608_473_7));
        let paired = Evidence::paired(vec![0.05, 0.11, -0.02, 0.08, 0.03, 0.09, 0.01]);
        let interval = paired.log_interval(0.95).unwrap();
        assert!(
            close(interval.low, 0.006_950_773_223_425_764) && close(interval.high, 0.093_049_226_776_574_23)
        );
        assert!(close(paired.p(), 0.029_489_728_019_258_41));
        assert!(close(paired.detectable(0.95).unwrap(), 1.060_757_765_892_372_8));
    }

    #[test]
    fn units_that_share_something_are_one_unit_together() {
        let logs = [0.1, 0.3, 0.2, 0.5, 0.4, 0.9];
        let found = Evidence::grouped(&logs, &["a", "b", "a", "b", "c", "c"]);
        assert_eq!(found.parts, [vec![mean_of(0.1, 0.2), mean_of(0.3, 0.5), mean_of(0.4, 0.9)]]);
    }

    fn mean_of(one: f64, other: f64) -> f64 {
        one + (other - one) / 2.0
    }

    #[test]
    fn correlation_makes_intervals_wider_and_p_values_larger_alike() {
        let logs = |level: f64| (0..12).map(|i| level + 0.01 * f64::from(i * 5 % 12)).collect::<Vec<_>>();
        for evidence in [Evidence::paired(logs(-0.1)), Evidence::independent(&logs(0.07), &logs(0.0))] {
            let width =
                |of: &Evidence| of.log_interval(0.95).map(|interval| interval.high - interval.low).unwrap();
            let wide = evidence.clone().correlated(0.3);
            assert!(width(&wide) > widening(12, 0.3) * width(&evidence), "{wide:?}");
            let p = wide.p();
            assert!(p > evidence.p() && p < WORTH_RANKING);
            let detectable = wide.detectable(0.95).unwrap().ln();
            assert!(detectable > width(&wide) / 2.0 && detectable < width(&wide), "{detectable}");
            let excludes = |confidence: f64| !wide.log_interval(confidence).unwrap().contains(0.0);
            assert!(excludes(1.0 - 1.001 * p) && !excludes(1.0 - 0.5 * p), "{p}");
        }
    }

    #[test]
    fn the_ratio_goes_from_case_to_hub_to_hub_to_case_and_every_part_makes_the_interval_wider() {
        let logs = |ratio: f64, scatter: f64| -> Vec<f64> {
            (0..9).map(|set| ratio.ln() + scatter * (f64::from(set * 7 % 9) / 8.0 - 0.5)).collect()
        };
        let width = |of_case, of_link, of_baseline| {
            // The case costs 3 of a hub that costs half of the other hub, of which the baseline costs 2.
            let found = Evidence::chain(&logs(3.0, of_case), &[logs(0.5, of_link)], &logs(2.0, of_baseline));
            assert!((found.ratio().unwrap() - 0.75).abs() < 1e-9, "{found:?}");
            let interval = found.log_interval(0.95).unwrap();
            interval.high - interval.low
        };
        let one = width(0.1, 0.0, 0.0);
        assert!((width(0.0, 0.1, 0.0) - one).abs() < 1e-9 && (width(0.0, 0.0, 0.1) - one).abs() < 1e-9);
        let three = width(0.1, 0.1, 0.1);
        assert!(three > 1.4 * one && three < 1.75 * one, "{three} {one}");
        let few = Evidence::chain(&logs(3.0, 0.1), &[vec![0.1; 2]], &logs(2.0, 0.1));
        assert_eq!((few.interval(0.95), few.p(), few.units()), (None, 1.0, 2));
    }

    #[test]
    fn nothing_is_no_evidence_and_equal_values_have_no_scatter() {
        for nothing in [Evidence::paired(vec![]), Evidence::of_groups(&[], &[1.0])] {
            assert_eq!((nothing.ratio(), nothing.interval(0.95), nothing.p()), (None, None, 1.0));
        }
        assert_eq!(Evidence::paired(vec![0.1; 2]).interval(0.95), None);
        let equal = Evidence::paired(vec![0.1; 7]);
        let interval = equal.log_interval(0.95).unwrap();
        assert_eq!((interval.low, interval.high, equal.p()), (0.1, 0.1, 0.0));
        assert_eq!(Evidence::paired(vec![0.0; 7]).p(), 1.0);
    }
}
