//! Looking at a comparison several times and stopping when it is clear, without claiming too often.
//!
//! A 95 % interval looked at five times misses 1 in the same comparison in up to 14 % of cases. Here the 5 % are spent over
//! the looks, little at first: each look has a share of its own, so the interval there is valid whenever and for whatever reason one stops
//! (repeated confidence intervals; Jennison and Turnbull 1989), and so is the p value, which is the least error at which that
//! interval excludes 1. Only such p values may be judged together with those of other comparisons.

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

/// Where in its plan a comparison is looked at, as parts of all sets that are planned: at the look before, and now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    before: f64,
    now: f64,
}

impl Stage {
    /// The only look.
    pub const ONLY: Stage = Stage { before: 0.0, now: 1.0 };

    /// What this look may spend of an error of `alpha`: what is spent by now, less what was spent by the look before. That a comparison
    /// which would be claimed now may have been claimed before is not made use of; at five looks the last has 0.037 of 0.05 instead of
    /// 0.045.
    pub fn share(self, alpha: f64) -> f64 {
        let before = if self.before > 0.0 { spent(self.before, alpha) } else { 0.0 };
        if self.now < 1.0 { spent(self.now, alpha) - before } else { alpha - before }
    }

    /// The p value of a comparison that has this one at this look, as if it were the only one: the least error of which that much may
    /// be spent here. 1 where that is more than a half.
    pub fn p(self, p: f64) -> f64 {
        if self == Stage::ONLY {
            return p;
        }
        let (mut low, mut high) = (p, 0.5);
        if low >= high || self.share(high) < p {
            return 1.0;
        }
        while high > 1.000_1 * low {
            let middle = (low.max(f64::MIN_POSITIVE) * high).sqrt();
            *(if self.share(middle) < p { &mut low } else { &mut high }) = middle;
            if high < 1e-12 {
                break;
            }
        }
        high
    }
}

/// The most sets of a comparison that nobody has planned otherwise.
pub const USUAL_MOST: usize = 40;

/// The first look of a comparison.
pub const FIRST: usize = 10;

/// When a comparison of at most so many sets is looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Looks {
    /// Sets and stage of each look, in their order.
    at: Vec<(usize, Stage)>,
}

impl Looks {
    /// Looks at 10 sets, then at about one and a half times as many each time, the last at `most`. The number has to be planned: what
    /// early looks may spend depends on how many sets there will be.
    ///
    /// # Panics
    /// If `most` is 0.
    pub fn up_to(most: usize) -> Looks {
        assert!(most > 0, "a comparison of no sets");
        let further = |sets: &usize| Some(sets * 3 / 2);
        // One so close to the last that it would add nothing is left out.
        let sets = std::iter::successors(Some(FIRST), further).take_while(|sets| sets * 5 <= most * 4);
        Looks::planned(sets.chain([most]).collect(), most)
    }

    /// The plan of a comparison that came to its end with so many sets for a reason that has nothing to do with what they showed: its time
    /// was over. The last look may spend all that is left.
    ///
    /// # Panics
    /// If `sets` is 0.
    pub fn ended_at(&self, sets: usize) -> Looks {
        assert!(sets > 0, "a comparison of no sets");
        let most = self.at.last().map_or(sets, |(most, _)| *most);
        let before = self.at.iter().map(|(at, _)| *at).filter(|at| *at < sets);
        let mut ended = Looks::planned(before.chain([sets]).collect(), most);
        if let Some((_, stage)) = ended.at.last_mut() {
            stage.now = 1.0;
        }
        ended
    }

    /// Looks at these numbers of sets of `most`.
    fn planned(sets: Vec<usize>, most: usize) -> Looks {
        let fraction = |sets: usize| sets as f64 / most as f64;
        let before = std::iter::once(0.0).chain(sets.iter().map(|sets| fraction(*sets)));
        let stage = |(before, sets): (f64, &usize)| (*sets, Stage { before, now: fraction(*sets) });
        Looks { at: before.zip(&sets).map(stage).collect() }
    }

    /// Sets of each look, and the confidence of its interval where all looks together have 95 %.
    pub fn iter(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.at.iter().map(|(sets, stage)| (*sets, 1.0 - stage.share(ALPHA)))
    }

    /// What this many sets are to the plan; beyond the last look they are the last.
    pub fn look(&self, sets: usize) -> Look {
        let next = self.at.iter().map(|(at, _)| *at).find(|at| *at > sets);
        let is_here = self.at.iter().any(|(at, _)| *at == sets) || next.is_none();
        match (is_here, next) {
            (true, next) => Look::At { stage: self.stage(sets), next },
            (false, Some(next)) => Look::GoOn { next },
            (false, None) => unreachable!("beyond the last look it is the last one"),
        }
    }

    /// The stage at this number of sets: that of the last look there was, before the first that of the first.
    pub fn stage(&self, sets: usize) -> Stage {
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
    /// A look.
    At {
        /// Which.
        stage: Stage,
        /// Sets at the next look, `None` at the last.
        next: Option<usize>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_spend_all_of_the_error_and_no_more() {
        assert_eq!((Stage::ONLY.share(0.05), Stage::ONLY.p(0.03)), (0.05, 0.03));
        assert!((spent(1.0, 0.05) - 0.05).abs() < 1e-9);
        assert!(spent(0.2, 0.05) < 2e-5);
        for looks in [Looks::default(), Looks::up_to(300), Looks::default().ended_at(30)] {
            let shares: f64 = looks.at.iter().map(|(_, stage)| stage.share(0.05)).sum();
            assert!((shares - 0.05).abs() < 1e-9, "{looks:?}");
        }
    }

    #[test]
    fn a_p_value_is_the_least_error_at_which_the_interval_excludes_1() {
        for (_, stage) in Looks::default().at {
            for p in [1e-9, 1e-5, 0.001, 0.01] {
                let found = stage.p(p);
                assert!(
                    found >= p && (found == 1.0 || (stage.share(found) / p - 1.0).abs() < 1e-3),
                    "{p}: {found}"
                );
            }
            assert_eq!(stage.p(0.9), 1.0);
            assert!(stage.p(0.0) < 1e-9);
        }
    }

    #[test]
    fn looks_get_laxer_and_nothing_is_decided_between_them() {
        let looks = Looks::default();
        let (sets, confidences): (Vec<usize>, Vec<f64>) = looks.iter().unzip();
        assert_eq!(sets, [10, 15, 22, 40]);
        assert!(confidences.is_sorted_by(|a, b| a > b), "{confidences:?}");
        assert!((0.95..0.96).contains(&confidences[3]), "{confidences:?}");
        assert_eq!(looks.look(3), Look::GoOn { next: 10 });
        assert_eq!(looks.look(16), Look::GoOn { next: 22 });
        assert!(matches!(looks.look(15), Look::At { next: Some(22), .. }));
        assert!(matches!(looks.look(40), Look::At { next: None, .. }) && looks.look(40) == looks.look(55));
        assert_eq!([3, 16, 99].map(|sets| looks.stage(sets)), [0, 1, 3].map(|at| looks.at[at].1));
    }

    #[test]
    fn the_last_look_is_the_planned_number_of_sets_and_spends_what_is_left() {
        let sets = |most| Looks::up_to(most).iter().map(|(sets, _)| sets).collect::<Vec<_>>();
        assert_eq!((sets(1), sets(14)), (vec![1], vec![10, 14]));
        assert_eq!(sets(300), [10, 15, 22, 33, 49, 73, 109, 163, 300]);
        let confidence = |looks: &Looks, sets| 1.0 - looks.stage(sets).share(0.05);
        let planned = Looks::up_to(300);
        let ended = planned.ended_at(150);
        assert!(confidence(&planned, 150) > 0.99, "{planned:?}");
        assert!((0.9499..0.953).contains(&confidence(&ended, 150)), "{ended:?}");
        assert!((confidence(&ended, 90) - confidence(&planned, 90)).abs() < 1e-3, "{ended:?}");
        assert!((confidence(&Looks::default().ended_at(5), 5) - 0.95).abs() < 1e-3);
    }
}
