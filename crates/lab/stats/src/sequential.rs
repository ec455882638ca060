//! Looking at a comparison several times and stopping when it is clear, without claiming too often.
//!
//! A 95 % interval looked at five times misses 1 in the same comparison in up to 14 % of cases. Here the 5 % are spent over
//! the looks, little at first: each look has its own, larger confidence, and the interval there is valid whenever one stops
//! (repeated confidence intervals; Jennison and Turnbull 1989).

use crate::normal::{two_sided_p, two_sided_z};

/// Two-sided error over all looks together.
pub const ALPHA: f64 = 0.05;

/// Part of `alpha` that is spent when the part `fraction` of all sets is there: on each side 2 − 2·Φ(z_(α/4)/√t), which gives
/// nearly the boundaries of O'Brien and Fleming (1979) for any times of looking (Lan and DeMets 1983). It is at least a ten-thousandth of
/// the linear share: in a long comparison these boundaries are so far out at first that no difference, however large, would end it early.
///
/// # Panics
/// If `fraction` is not above 0 and at most 1, or `alpha` is not between 0 and 1.
pub fn spent(fraction: f64, alpha: f64) -> f64 {
    assert!(fraction > 0.0 && fraction <= 1.0, "a fraction of {fraction}");
    (2.0 * two_sided_p(two_sided_z(alpha / 2.0) / fraction.sqrt())).max(1e-4 * alpha * fraction)
}

/// The boundaries |z| at these fractions of the whole, ascending, such that a process of independent increments crosses up to each look
/// with the probability that stands beside its fraction: by numerical integration over the values at which it has not
/// yet crossed (Armitage, McPherson and Rowe 1969).
///
/// # Panics
/// If fractions or probabilities do not ascend.
pub fn boundaries(looks: &[(f64, f64)]) -> Vec<f64> {
    assert!(looks.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "looks that do not ascend: {looks:?}");
    const CELLS: usize = 400;
    // The score S(t) = z·√t has variance t. `density` holds it on cells between −limit and limit.
    let (mut density, mut limit, mut before, mut spent_before) = (vec![1.0], 0.0_f64, 0.0, 0.0);
    let mut out = vec![];
    for &(fraction, spent) in looks {
        let spend = spent - spent_before;
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
        (limit, before, spent_before) = (high, fraction, spent);
    }
    out
}

/// The most sets of a comparison that nobody has planned otherwise.
pub const USUAL_MOST: usize = 40;

/// The first look of a comparison.
const FIRST: usize = 8;

/// When a comparison of at most so many sets is looked at, and with which confidence.
#[derive(Clone, Debug, PartialEq)]
pub struct Looks {
    /// Sets and confidence of each look, in their order.
    at: Vec<(usize, f64)>,
}

impl Looks {
    /// Looks at 8 sets, then at about one and a half times as many each time, the last at `most`. The number has to be planned: what
    /// early looks may spend depends on how many sets there will be.
    ///
    /// # Panics
    /// If `most` is 0.
    pub fn up_to(most: usize) -> Looks {
        assert!(most > 0, "a comparison of no sets");
        let further = |sets: &usize| Some(sets * 3 / 2);
        // One so close to the last that it would add nothing is left out.
        let mut sets: Vec<usize> =
            std::iter::successors(Some(FIRST), further).take_while(|sets| sets * 5 <= most * 4).collect();
        sets.push(most);
        Looks::spending(
            sets.into_iter().map(|sets| (sets, spent(sets as f64 / most as f64, ALPHA))).collect(),
        )
    }

    /// The plan of a comparison that came to its end with so many sets for a reason that has nothing to do with what they showed: its time
    /// was over. The last look may spend all that is left.
    ///
    /// # Panics
    /// If `sets` is 0.
    pub fn ended_at(&self, sets: usize) -> Looks {
        let most = self.at.last().map_or(sets, |(most, _)| *most) as f64;
        let before = self.iter().map(|(at, _)| at).filter(|at| *at < sets);
        let mut looks: Vec<(usize, f64)> = before.map(|at| (at, spent(at as f64 / most, ALPHA))).collect();
        looks.push((sets, ALPHA));
        Looks::spending(looks)
    }

    /// Looks at so many sets, by each of which so much is spent.
    fn spending(looks: Vec<(usize, f64)>) -> Looks {
        let most = looks.last().map_or(1, |(sets, _)| *sets) as f64;
        let fractions: Vec<(f64, f64)> =
            looks.iter().map(|(sets, spent)| (*sets as f64 / most, *spent)).collect();
        let confidence = |bound: f64| 1.0 - two_sided_p(bound);
        let bounds = boundaries(&fractions).into_iter().map(confidence);
        Looks { at: looks.into_iter().map(|(sets, _)| sets).zip(bounds).collect() }
    }

    /// Sets and confidence of each look.
    pub fn iter(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.at.iter().copied()
    }

    /// What this many sets are to the plan; beyond the last look they are the last.
    pub fn look(&self, sets: usize) -> Look {
        let next = self.at.iter().map(|(at, _)| *at).find(|at| *at > sets);
        let here = self.at.iter().find(|(at, _)| *at == sets).or(self.at.last().filter(|_| next.is_none()));
        match (here, next) {
            (Some((_, confidence)), next) => Look::At { confidence: *confidence, next },
            (None, Some(next)) => Look::GoOn { next },
            (None, None) => unreachable!("beyond the last look it is the last one"),
        }
    }

    /// The confidence that an interval has at this number of sets: that of the last look there was, which holds between looks too,
    /// because it is larger than that of the next; before the first that of the first.
    pub fn confidence_at(&self, sets: usize) -> f64 {
        let passed = self.at.iter().take_while(|(at, _)| *at <= sets).count();
        self.at[passed.max(1) - 1].1
    }
}

impl Default for Looks {
    fn default() -> Looks {
        Looks::up_to(USUAL_MOST)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_equal_looks_have_the_published_boundaries() {
        // Lan and DeMets (1983) with O'Brien–Fleming spending, two-sided 5 %, five looks (Jennison and Turnbull 2000, §7.2;
        // Reboussin et al. 2000).
        let found = boundaries(&[0.2, 0.4, 0.6, 0.8, 1.0].map(|fraction| (fraction, spent(fraction, 0.05))));
        for (found, published) in found.iter().zip([4.8769, 3.3569, 2.6803, 2.2898, 2.0310]) {
            assert!((found - published).abs() < 2e-3, "{found} against {published}");
        }
    }

    #[test]
    fn one_look_spends_all() {
        assert!((boundaries(&[(1.0, 0.05)])[0] - 1.96).abs() < 1e-3);
        assert!((spent(1.0, 0.05) - 0.05).abs() < 1e-9);
        assert!(spent(0.2, 0.05) < 2e-5);
    }

    #[test]
    fn looks_get_laxer_and_nothing_is_decided_between_them() {
        let looks = Looks::default();
        let (sets, confidences): (Vec<usize>, Vec<f64>) = looks.iter().unzip();
        assert_eq!(sets, [8, 12, 18, 27, 40]);
        assert!(confidences.is_sorted_by(|a, b| a > b), "{confidences:?}");
        assert!((0.95..0.96).contains(&confidences[4]), "{confidences:?}");
        assert_eq!(looks.look(3), Look::GoOn { next: 8 });
        assert_eq!(looks.look(13), Look::GoOn { next: 18 });
        assert!(matches!(looks.look(12), Look::At { next: Some(18), .. }));
        assert!(matches!(looks.look(40), Look::At { next: None, .. }) && looks.look(40) == looks.look(55));
        assert_eq!([3, 13, 99].map(|sets| looks.confidence_at(sets)), [0, 1, 4].map(|at| confidences[at]));
    }

    #[test]
    fn the_last_look_is_the_planned_number_of_sets_and_spends_what_is_left() {
        let sets = |most| Looks::up_to(most).iter().map(|(sets, _)| sets).collect::<Vec<_>>();
        assert_eq!(sets(1), [1]);
        assert_eq!(sets(14), [8, 14]);
        assert_eq!(sets(300), [8, 12, 18, 27, 40, 60, 90, 135, 202, 300]);
        for most in [1, 8, 14, 40, 300] {
            let (_, confidence) = Looks::up_to(most).iter().last().unwrap();
            assert!((0.9499..0.961).contains(&confidence), "{most}: {confidence}");
        }
        let planned = Looks::up_to(300);
        let ended = planned.ended_at(150);
        assert!(planned.confidence_at(150) > 0.99, "{planned:?}");
        assert!((0.9499..0.953).contains(&ended.confidence_at(150)), "{ended:?}");
        assert!((ended.confidence_at(90) - planned.confidence_at(90)).abs() < 1e-3, "{ended:?}");
        assert!((Looks::default().ended_at(5).confidence_at(5) - 0.95).abs() < 1e-3);
    }
}
