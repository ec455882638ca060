//! What a comparison of two costs amounts to: the verdict, and how many sets would settle it.
//!
//! Everything is a ratio of costs, B over A: above 1 B is more expensive. Of rates, take the inverse.

use crate::evidence::Evidence;
use crate::interval::Interval;
use crate::normal::two_sided_z;
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
            sets: control.units(),
            has_moved: surely.is_some_and(|interval| !interval.contains(0.0)),
        })
    }

    /// The half-width that `sets` pairs would have: it falls with the root of their number.
    ///
    /// # Panics
    /// If `sets` is 0.
    pub fn with_sets(self, sets: usize) -> f64 {
        assert!(sets > 0, "a resolution with no sets");
        self.half_width * (self.sets as f64 / sets as f64).sqrt()
    }

    /// The margin that counts in a comparison of `sets` sets: the one asked for, or twice the resolution, as far as that is a margin
    /// at all.
    ///
    /// # Panics
    /// If `asked` is negative or `sets` is 0.
    pub fn margin(self, asked: f64, sets: usize) -> f64 {
        assert!(asked >= 0.0, "a margin of {asked}");
        asked.max((2.0 * self.with_sets(sets).exp_m1()).min(WIDEST_MARGIN))
    }

    /// At how many sets two equal sides will be called equivalent within `margin` with 80 % probability: the first of `looks`
    /// at which z_look + z_0.9 standard errors fit into ln(1 + margin) (two one-sided tests at no difference; Phillips 1990).
    /// `None` where the last look does not suffice.
    ///
    /// # Panics
    /// If `margin` is not positive.
    pub fn sets_needed(self, margin: f64, looks: &Looks) -> Option<usize> {
        assert!(margin > 0.0, "a margin of {margin}");
        let deviation = self.half_width / two_sided_z(0.05) * (self.sets as f64).sqrt();
        let fits = |(sets, confidence): (usize, f64)| {
            let errors = two_sided_z(1.0 - confidence) + two_sided_z(0.2);
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
    let suffices = middle.max(margin - middle);
    let needed = (sets as f64 * (half_width / suffices).powi(2) - 1e-9).ceil();
    needed.is_finite().then_some((needed as usize).max(sets + 1))
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
        let needed = [0.2, 0.02, 0.01, 0.002].map(|margin| still.sets_needed(margin, &Looks::default()));
        assert_eq!(needed[0], Some(8));
        assert!(needed[1] > needed[0] && needed[3].is_none(), "{needed:?}");
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
