//! What a comparison of two costs amounts to: the verdict, and how many sets would settle it.
//!
//! Everything is a ratio of costs, B over A: above 1 B is more expensive. Of rates, take the inverse.

use crate::binomial::Binomial;
use crate::evidence::Evidence;
use crate::interval::Interval;
use crate::normal::{two_sided_t, two_sided_z};
use crate::order::median;
use crate::regime::gap_test;
use crate::sequential::Looks;

/// Margin within which costs are the same, unless the user says otherwise: 2 %.
pub const DEFAULT_MARGIN: f64 = 0.02;

/// The widest margin that the resolution of a machine makes: nobody calls costs the same that may differ by more.
pub const WIDEST_MARGIN: f64 = 0.1;

/// Confidence at which the A/A control must not exclude 1. Not 95 %: each comparison has its control, and one in twenty would be
/// void by chance.
pub const CONTROL_CONFIDENCE: f64 = 0.99;

/// Fewest sets with a control that tell what the machine resolves.
const FEWEST_CONTROLS: usize = 6;

/// Fewest sets, and fewest with a control, on which a verdict rests: six pairs of A with itself cannot show at [`CONTROL_CONFIDENCE`] that
/// they differ, and in fewer starts a mode that one in four is in goes unseen too often.
pub const FEWEST_SETS: usize = 10;

/// How large a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The whole interval is beyond the margin.
    BeyondMargin,
    /// There is a change; whether it is beyond the margin is not settled.
    NotSettled,
}

/// What may be said of B against A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same within the margin.
    Equivalent,
    /// B costs less.
    Improved(Size),
    /// B costs more.
    Regressed(Size),
    /// One side has two modes and the other has one: no single ratio describes that. Counts as regressed.
    ChangedShape,
    /// The data do not say.
    Inconclusive {
        /// About how many sets would settle it, where there is an interval to tell from.
        settled_by: Option<usize>,
    },
    /// The control moved: B against A may be what A against A shows.
    Void,
}

impl Verdict {
    /// Is B worse, in size or in shape?
    pub fn is_regression(self) -> bool {
        matches!(self, Verdict::Regressed(_) | Verdict::ChangedShape)
    }

    /// The same where only what is surely beyond the margin is called a change.
    #[must_use]
    pub fn beyond_margin(self, interval: Option<Interval>, margin: f64, sets: usize) -> Verdict {
        let (Verdict::Regressed(Size::NotSettled) | Verdict::Improved(Size::NotSettled)) = self else {
            return self;
        };
        let settled_by = interval.and_then(|Interval { low, high, .. }| {
            let (middle, half_width) = ((low * high).sqrt().ln().abs(), (high / low).ln() / 2.0);
            sets_for(half_width, (middle - margin.ln_1p()).abs(), sets)
        });
        Verdict::Inconclusive { settled_by }
    }

    /// The word for a report.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Equivalent => "equivalent",
            Verdict::Improved(_) => "improved",
            Verdict::Regressed(_) => "regressed",
            Verdict::ChangedShape => "changed shape",
            Verdict::Inconclusive { .. } => "inconclusive",
            Verdict::Void => "void",
        }
    }
}

/// What this machine can tell apart, from comparisons of A with itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolution {
    /// Half-width of the 95 % interval of the ratio A/A, on logarithms: 0.005 reads ± 0.5 %.
    pub half_width: f64,
    /// By how much the second A differs from the first, on logarithms: it is as likely that a side of the comparison does.
    pub displacement: f64,
    /// Pairs on which it rests.
    pub sets: usize,
    /// Does the control exclude 1 at [`CONTROL_CONFIDENCE`]? Then the verdict is [`Verdict::Void`].
    pub has_moved: bool,
}

impl Resolution {
    /// From the control's log ratios; `None` with fewer than six.
    pub fn of(control: &Evidence) -> Option<Resolution> {
        let interval = control.log_interval(0.95).filter(|_| control.units() >= FEWEST_CONTROLS)?;
        let surely = control.log_interval(CONTROL_CONFIDENCE);
        Some(Resolution {
            half_width: (interval.high - interval.low) / 2.0,
            displacement: control.log_ratio()?.abs(),
            sets: control.units(),
            has_moved: surely.is_some_and(|interval| !interval.contains(0.0)),
        })
    }

    /// Is the second A displaced by surely more than the margin that was asked for, on a machine that resolves that margin? Then the verdict is
    /// [`Verdict::Void`] however many other cases there are.
    pub fn is_displaced(self, asked: f64) -> bool {
        let margin = asked.ln_1p();
        self.half_width <= margin && self.displacement - self.half_width > margin
    }

    /// The half-width that `sets` pairs would have: it falls with the root of their number.
    ///
    /// # Panics
    /// If `sets` is 0.
    pub fn with_sets(self, sets: usize) -> f64 {
        assert!(sets > 0, "a resolution with no sets");
        self.half_width * (self.sets as f64 / sets as f64).sqrt()
    }

    /// The margin that counts in a comparison of `sets` sets: the one asked for, or twice the resolution, or as far as A against itself
    /// reaches from 1, as far as that is a margin at all.
    ///
    /// # Panics
    /// If `asked` is negative or `sets` is 0.
    pub fn margin(self, asked: f64, sets: usize) -> f64 {
        assert!(asked >= 0.0, "a margin of {asked}");
        let half_width = self.with_sets(sets);
        let reach = (2.0 * half_width.exp_m1()).max((self.displacement + half_width).exp_m1());
        asked.max(reach.min(WIDEST_MARGIN))
    }

    /// At how many sets two equal sides will be called equivalent within `margin` with 80 % probability: the first of `looks`
    /// at which t_look + t_0.9 standard errors fit into ln(1 + margin) (two one-sided tests at no difference; Phillips 1990).
    /// `None` where the last look does not suffice.
    ///
    /// # Panics
    /// If `margin` is not positive.
    pub fn sets_needed(self, margin: f64, looks: &Looks) -> Option<usize> {
        assert!(margin > 0.0, "a margin of {margin}");
        let deviation = self.half_width / two_sided_z(0.05) * (self.sets as f64).sqrt();
        let fits = |(sets, confidence): (usize, f64)| {
            let freedom = (sets.max(3) - 1) as f64;
            let errors = two_sided_t(1.0 - confidence, freedom) + two_sided_t(0.2, freedom);
            (errors * deviation <= margin.ln_1p() * (sets as f64).sqrt()).then_some(sets)
        };
        looks.iter().find_map(fits)
    }
}

/// The verdict from the interval [l, h] of the ratio of costs B/A, made of `sets` sets.
///
/// Inside 1/(1 + δ) … 1 + δ: equivalent, also where 1 is not inside, because a difference that does not matter is none (two
/// one-sided tests; Schuirmann 1987). Otherwise l > 1: regressed, beyond the margin where l > 1 + δ; h < 1: improved, likewise.
/// Otherwise inconclusive. [`Verdict::Void`] and [`Verdict::ChangedShape`] are not decided here but by [`Resolution::has_moved`]
/// and [`shape_changed`].
///
/// # Panics
/// If `margin` is negative or an end is not positive.
pub fn verdict(interval: Option<Interval>, margin: f64, sets: usize) -> Verdict {
    assert!(margin >= 0.0, "a margin of {margin}");
    let Some(Interval { low, high, .. }) = interval else {
        return Verdict::Inconclusive { settled_by: None };
    };
    assert!(low > 0.0 && low <= high, "a ratio of costs from {low} to {high}");
    let (least, most) = (1.0 / (1.0 + margin), 1.0 + margin);
    let size = |is_beyond: bool| if is_beyond { Size::BeyondMargin } else { Size::NotSettled };
    if low >= least && high <= most {
        Verdict::Equivalent
    } else if low > 1.0 {
        Verdict::Regressed(size(low > most))
    } else if high < 1.0 {
        Verdict::Improved(size(high < least))
    } else {
        Verdict::Inconclusive { settled_by: settled_by(low.ln(), high.ln(), margin.ln_1p(), sets) }
    }
}

/// With an estimate m from 1 and a margin d (logarithms), an interval of half-width |m| excludes 1, and one of d − |m| lies inside
/// the margin; the larger of the two comes first, and half-widths fall with the root of the number of sets.
fn settled_by(low: f64, high: f64, margin: f64, sets: usize) -> Option<usize> {
    let (middle, half_width) = (f64::midpoint(low, high).abs(), (high - low) / 2.0);
    sets_for(half_width, middle.max(margin - middle), sets)
}

/// How many sets have a half-width of `suffices`, where `sets` have this one.
fn sets_for(half_width: f64, suffices: f64, sets: usize) -> Option<usize> {
    let needed = (sets as f64 * (half_width / suffices).powi(2) - 1e-9).ceil();
    needed.is_finite().then_some((needed as usize).max(sets + 1))
}

/// Starts of B in which it was slow, of those that were seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowStarts {
    /// How many.
    pub seen: usize,
    /// The share of all starts that is not excluded: with a probability of 95 % so many or more would have been seen (Clopper and Pearson
    /// 1934). 3/n where none was seen (Hanley and Lippman-Hand 1983).
    pub not_excluded: f64,
}

/// Of sets with these log ratios of costs, B over A, in how many was B slow: further above the middle than the margin, and than five times
/// the scatter? `None` without sets.
///
/// # Panics
/// If `margin` is negative.
pub fn slow_starts(log_ratios: &[f64], margin: f64) -> Option<SlowStarts> {
    assert!(margin >= 0.0, "a margin of {margin}");
    let n = log_ratios.len();
    if n == 0 {
        return None;
    }
    let middle = median(log_ratios);
    let scatter = median(&log_ratios.iter().map(|log| (log - middle).abs()).collect::<Vec<_>>());
    let far = margin.ln_1p().max(5.0 * scatter);
    let seen = log_ratios.iter().filter(|log| **log - middle > far).count();
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 1e-6 {
        let share = f64::midpoint(low, high);
        *(if Binomial::new(n, share).at_most(seen) > 0.05 { &mut low } else { &mut high }) = share;
    }
    Some(SlowStarts { seen, not_excluded: high })
}

/// Do the sets, by their log ratios, fall into two groups that are further apart than the margin? Then no single ratio describes them.
pub fn has_two_groups(log_ratios: &[f64], margin: f64) -> bool {
    let ratios: Vec<f64> = log_ratios.iter().map(|log| log.exp()).collect();
    gap_test(&ratios).is_some_and(|gap| gap.levels[1] >= gap.levels[0] * (1.0 + margin))
}

/// Which side has two modes where the other has one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShapeChange {
    /// Is it B? Otherwise A.
    pub is_in_b: bool,
    /// Both levels, in the unit of the values.
    pub levels: [f64; 2],
}

/// Does one side alone fall into two groups ([`gap_test`] on the sets' values, ratios to the hub or costs), at least `margin`
/// apart, while the other side lies in one of them, but for so few values that the sides do not visit the groups alike (exact test of
/// Fisher 1935, both sides, at `level`)? `None` otherwise and below ten sets a side.
pub fn shape_changed(a: &[f64], b: &[f64], margin: f64, level: f64) -> Option<ShapeChange> {
    let fewest = crate::regime::FEWEST;
    if a.len() < fewest || b.len() < fewest {
        return None;
    }
    let split_alone = |own: &[f64], other: &[f64]| {
        let gap = gap_test(own).filter(|gap| gap.levels[1] >= gap.levels[0] * (1.0 + margin))?;
        let middle = f64::midpoint(gap.below, gap.above);
        let groups = |side: &[f64]| {
            let upper = side.iter().filter(|value| **value > middle).count();
            [side.len() - upper, upper]
        };
        let differ = fisher(groups(own), groups(other)) <= level;
        (differ && gap_test(other).is_none()).then_some(gap.levels)
    };
    let in_a = split_alone(a, b).map(|levels| ShapeChange { is_in_b: false, levels });
    in_a.or_else(|| split_alone(b, a).map(|levels| ShapeChange { is_in_b: true, levels }))
}

/// The probability that two samples which visit two groups alike are divided over them at least as unevenly as these, the number of
/// values in each sample and each group being given: twice the smaller tail of the hypergeometric distribution.
fn fisher(one: [usize; 2], other: [usize; 2]) -> f64 {
    let choose =
        |n: usize, k: usize| (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64);
    let (size, upper) = (one[0] + one[1], one[1] + other[1]);
    let all = size + other[0] + other[1];
    let probability = |k: usize| choose(upper, k) * choose(all - upper, size - k) / choose(all, size);
    let possible = (upper + size).saturating_sub(all)..=upper.min(size);
    let tail = |of: &dyn Fn(&usize) -> bool| possible.clone().filter(of).map(probability).sum::<f64>();
    (2.0 * tail(&|k| *k <= one[1]).min(tail(&|k| *k >= one[1]))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_divided_alike_are_likely_and_the_tea_of_fisher_is_as_he_says() {
        // The lady who tells eight cups of tea apart: 1 in 70, and on both sides twice that.
        assert!((fisher([4, 0], [0, 4]) - 2.0 / 70.0).abs() < 1e-12);
        assert!((fisher([1, 3], [3, 1]) - 34.0 / 70.0).abs() < 1e-12);
        assert_eq!(fisher([5, 5], [5, 5]), 1.0);
        assert!((fisher([10, 0], [7, 3]) - fisher([7, 3], [10, 0])).abs() < 1e-12);
        assert!(fisher([40, 0], [20, 20]) < 1e-6);
    }

    fn at(low: f64, high: f64) -> Option<Interval> {
        Some(Interval { low, high, confidence: 0.95 })
    }

    #[test]
    fn the_verdict_follows_the_interval() {
        for (interval, expected) in [
            (at(1.05, 1.20), Verdict::Regressed(Size::BeyondMargin)),
            (at(1.01, 1.20), Verdict::Regressed(Size::NotSettled)),
            (at(0.80, 0.97), Verdict::Improved(Size::BeyondMargin)),
            (at(0.80, 0.99), Verdict::Improved(Size::NotSettled)),
            (at(0.995, 1.005), Verdict::Equivalent),
            (at(1.001, 1.019), Verdict::Equivalent),
            (at(0.99, 1.02), Verdict::Equivalent),
            (None, Verdict::Inconclusive { settled_by: None }),
        ] {
            assert_eq!(verdict(interval, 0.02, 12), expected, "{interval:?}");
        }
        assert!(
            Verdict::Regressed(Size::NotSettled).is_regression() && Verdict::ChangedShape.is_regression()
        );
        assert!(!Verdict::Improved(Size::BeyondMargin).is_regression() && !Verdict::Void.is_regression());
    }

    #[test]
    fn an_open_case_says_how_many_sets_would_settle_it() {
        // ± 4 % around no difference, margin 2 %: half the width takes four times the sets.
        let open = verdict(at(1.0 / 1.0404, 1.0404), 0.02, 10);
        assert_eq!(open, Verdict::Inconclusive { settled_by: Some(40) });
        // No margin and no difference: never.
        assert_eq!(verdict(at(0.5, 2.0), 0.0, 10), Verdict::Inconclusive { settled_by: None });
    }

    #[test]
    fn the_resolution_comes_from_a_against_itself() {
        let control = |middle: f64| -> Evidence {
            Evidence::paired((0..12).map(|i| middle + 0.004 * (f64::from(i * 5 % 12) - 5.5)).collect())
        };
        let still = Resolution::of(&control(0.0)).unwrap();
        assert!((0.007..0.013).contains(&still.half_width) && !still.has_moved, "{still:?}");
        assert!((still.margin(0.01, 12) - 2.0 * still.half_width.exp_m1()).abs() < 1e-12);
        assert_eq!((still.margin(0.05, 12), still.margin(0.01, 1200)), (0.05, 0.01));
        let restless = Resolution { half_width: 0.4, ..still };
        assert_eq!((restless.margin(0.02, 12), restless.margin(0.3, 12)), (WIDEST_MARGIN, 0.3));
        assert!((still.with_sets(48) - still.half_width / 2.0).abs() < 1e-12);
        assert!(Resolution::of(&control(0.05)).unwrap().has_moved);
        assert_eq!(Resolution::of(&Evidence::paired(vec![0.0; 5])), None);
        let displaced = Resolution::of(&control(0.04)).unwrap();
        assert!(displaced.is_displaced(0.02) && !displaced.is_displaced(0.04) && !still.is_displaced(0.02));
        assert!(displaced.margin(0.02, 12) > 0.045 && displaced.margin(0.02, 12) < 0.06, "{displaced:?}");
        let needed = [0.2, 0.02, 0.01, 0.002].map(|margin| still.sets_needed(margin, &Looks::default()));
        assert_eq!(needed[0], Some(10));
        assert!(needed[1] > needed[0] && needed[3].is_none(), "{needed:?}");
    }

    #[test]
    fn what_may_be_below_the_margin_is_no_change_where_that_is_asked_for() {
        for (interval, expected) in [
            (at(1.05, 1.20), Verdict::Regressed(Size::BeyondMargin)),
            (at(0.80, 0.97), Verdict::Improved(Size::BeyondMargin)),
            (at(0.995, 1.005), Verdict::Equivalent),
            // 1.04 ± 3 % lies beyond 2 % once it is ± 2 %.
            (at(1.04 / 1.03, 1.04 * 1.03), Verdict::Inconclusive { settled_by: Some(28) }),
        ] {
            assert_eq!(
                verdict(interval, 0.02, 12).beyond_margin(interval, 0.02, 12),
                expected,
                "{interval:?}"
            );
        }
    }

    #[test]
    fn slow_starts_are_counted_and_bounded_by_the_rule_of_three() {
        let logs: Vec<f64> = (0..30).map(|i| 0.001 * f64::from(i * 7 % 30)).collect();
        let none = slow_starts(&logs, 0.02).unwrap();
        assert!(none.seen == 0 && (none.not_excluded - 0.095).abs() < 0.001, "{none:?}");
        let mut some = logs.clone();
        (some[4], some[19]) = (0.4, 0.41);
        let some = slow_starts(&some, 0.02).unwrap();
        assert!(some.seen == 2 && (some.not_excluded - 0.1953).abs() < 0.001, "{some:?}");
        assert_eq!(slow_starts(&[], 0.02), None);
        assert!(!has_two_groups(&logs, 0.02));
        let groups: Vec<f64> =
            logs.iter().enumerate().map(|(i, log)| log + if i % 5 == 0 { 0.4 } else { 0.0 }).collect();
        assert!(has_two_groups(&groups, 0.02));
    }

    #[test]
    fn two_modes_on_one_side_only_are_a_change_of_shape() {
        let one: Vec<f64> = (0..24).map(|i| 1.0 + 0.001 * f64::from(i * 7 % 24)).collect();
        let two: Vec<f64> =
            one.iter().enumerate().map(|(i, v)| if i.is_multiple_of(3) { v * 1.8 } else { *v }).collect();
        let found = shape_changed(&one, &two, 0.02, 0.05).unwrap();
        assert!(found.is_in_b && found.levels[1] > 1.7, "{found:?}");
        assert!(!shape_changed(&two, &one, 0.02, 0.05).unwrap().is_in_b);
        assert_eq!(shape_changed(&one, &one, 0.02, 0.05), None);
        assert_eq!(shape_changed(&two, &two, 0.02, 0.05), None);
        assert_eq!(shape_changed(&one, &two[..9], 0.02, 0.05), None);
        assert_eq!(shape_changed(&one, &two, 0.02, 0.001), None, "eight of 24 against none: one in 256");
        assert_eq!(shape_changed(&one, &two, 1.0, 0.05), None);
    }
}
