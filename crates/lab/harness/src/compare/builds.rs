//! Builds of one source that differ in the layout of their code: which of them a set is started from, and what that makes of the sets.
//!
//! Where the functions of a program lie is fixed when it is linked, and costs or saves some per cent by luck (Mytkowicz et al. 2009; Curtsinger
//! and Berger 2013). Two builds differ in it whether or not their sources do, and no number of sets shows that. So a side may be several
//! builds, each linked in another order, and then a pair of builds is what an interval rests on.

use std::path::PathBuf;

use weighbridge_record::ComparedSet;
use weighbridge_stats::median;

use crate::coordinator::PeerStart;
use crate::duet::Random;

/// A build from which the peers of a side are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The program; `None` for that of the coordinator.
    pub program: Option<PathBuf>,
    /// The digest of the program, which tells it from others.
    pub digest: String,
}

/// The order in which a case takes pairs of builds: each once in a random order, then each once more.
#[derive(Debug, Default)]
pub(super) struct Turns {
    left: Vec<usize>,
}

impl Turns {
    /// Which of so many pairs is next.
    pub(super) fn next(&mut self, pairs: usize, random: &mut Random) -> usize {
        if self.left.is_empty() {
            self.left = (0..pairs.max(1)).collect();
            random.shuffle(&mut self.left);
        }
        self.left.pop().expect("it has just been filled")
    }
}

/// How the peers of a side start in the sets of such a pair, and the build, where the side has builds of its own.
pub(super) fn start_of<'a>(
    builds: &'a [Build],
    start: &PeerStart,
    pair: usize,
) -> (PeerStart, Option<&'a str>) {
    let build = (!builds.is_empty()).then(|| &builds[pair % builds.len()]);
    let program = build.map_or_else(|| start.program.clone(), |build| build.program.clone());
    (PeerStart { program, ..start.clone() }, build.map(|build| build.digest.as_str()))
}

/// From which builds the sets of a case were started.
pub(super) struct Builds<'a> {
    /// The builds of A and B in each set: those that share a pair are a group.
    pub(super) of_sets: Vec<[&'a str; 2]>,
}

impl<'a> Builds<'a> {
    /// `None` where both sides are one build.
    pub(super) fn of(sets: &'a [ComparedSet]) -> Option<Builds<'a>> {
        let of_set = |set: &'a ComparedSet| Some([set.a.build.as_deref()?, set.b.build.as_deref()?]);
        let of_sets = sets.iter().map(of_set).collect::<Option<Vec<_>>>()?;
        (!of_sets.is_empty()).then_some(Builds { of_sets })
    }

    /// Different builds of A and of B.
    pub(super) fn counts(&self) -> [u32; 2] {
        [0, 1].map(|side| {
            let mut all: Vec<&str> = self.of_sets.iter().map(|builds| builds[side]).collect();
            all.sort_unstable();
            all.dedup();
            all.len() as u32
        })
    }

    /// Has a side more than one?
    pub(super) fn are_several(&self) -> bool {
        self.counts().iter().any(|count| *count > 1)
    }

    /// The values of a side without what its builds differ in: each build has the median of all.
    pub(super) fn levelled(&self, side: usize, values: &[f64]) -> Vec<f64> {
        let level = |build: &str| {
            let own = self.of_sets.iter().zip(values).filter(|(builds, _)| builds[side] == build);
            median(&own.map(|(_, value)| *value).collect::<Vec<_>>())
        };
        if values.is_empty() || self.counts()[side] == 1 {
            return values.to_vec();
        }
        let all = median(values);
        let levelled = |(builds, value): (&[&str; 2], &f64)| match level(builds[side]) {
            level if level > 0.0 => value / level * all,
            _ => *value,
        };
        self.of_sets.iter().zip(values).map(levelled).collect()
    }
}

/// The log ratios without what pairs of builds differ in: what neighboring sets have in common shows in these.
pub(super) fn within_pairs(sets: &[ComparedSet]) -> Vec<f64> {
    let logs: Vec<f64> = sets.iter().map(|set| set.log_ratio).collect();
    let Some(builds) = Builds::of(sets).filter(Builds::are_several) else { return logs };
    let middle = |pair: &[&str; 2]| {
        let own = builds.of_sets.iter().zip(&logs).filter(|(of, _)| *of == pair);
        median(&own.map(|(_, log)| *log).collect::<Vec<_>>())
    };
    builds.of_sets.iter().zip(&logs).map(|(pair, log)| log - middle(pair)).collect()
}

#[cfg(test)]
mod tests {
    use weighbridge_record::{CaseId, CaseVerdict, PerOp, SideOfSet};

    use super::super::judge::{Judged, Rules, judge};
    use super::*;

    #[test]
    fn each_pair_has_its_turn_before_any_has_a_second_one() {
        let (mut turns, mut random) = (Turns::default(), Random::new(3));
        let taken: Vec<usize> = (0..24).map(|_| turns.next(8, &mut random)).collect();
        for round in taken.chunks(8) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, (0..8).collect::<Vec<_>>(), "{taken:?}");
        }
        assert!(taken.chunks(8).any(|round| round != &taken[..8]), "in another order each time: {taken:?}");
        assert_eq!(Turns::default().next(0, &mut random), 0, "sides without builds of their own");
    }

    /// Sets of one case in which pairs of builds take turns: each build costs what its layout makes it cost, and `b` more on side B.
    fn sets(layouts: [&[f64]; 2], b: f64, count: usize) -> Vec<ComparedSet> {
        let case = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
        let pairs = layouts[0].len().max(layouts[1].len());
        let side = |name: &str, build: usize, value: f64| SideOfSet {
            case: case.clone(),
            build: Some(format!("{name}{build}")),
            value,
            slices: None,
            per_op: PerOp::default(),
            flags: Vec::new(),
            frequencies: Vec::new(),
        };
        let set = |set: usize| {
            let [of_a, of_b] = layouts.map(|layouts| set * 5 % pairs % layouts.len());
            let noise = 0.002 * ((set * 7 % 12) as f64 - 5.5) / 5.5;
            let log_ratio = (layouts[1][of_b] * b / layouts[0][of_a]).ln() + noise;
            let a = side("a", of_a, 1000.0 * layouts[0][of_a]);
            ComparedSet {
                case: case.clone(),
                set: set as u32,
                slice_ms: None,
                b: side("b", of_b, 1000.0 * layouts[0][of_a] * log_ratio.exp()),
                control: Some(a.clone()),
                a,
                log_ratio,
                control_log_ratio: Some(-noise),
            }
        };
        (0..count).map(set).collect()
    }

    fn verdict_of(sets: &[ComparedSet]) -> CaseVerdict {
        let labels = ["a".into(), "b".into()];
        let case = sets[0].case.clone();
        let judged = Judged::of_sets(case, labels, "ns/roundtrip".into(), sets, 0, 0.0, Vec::new());
        judge(&[judged], Rules::default()).0.remove(0)
    }

    const A: [f64; 4] = [1.00, 1.09, 1.02, 1.03];
    const B: [f64; 4] = [1.13, 1.01, 1.11, 1.08];

    /// The builds of each side differ by more than the sides do.
    #[test]
    fn what_builds_of_a_side_differ_by_is_no_regression_and_more_than_that_is_one() {
        let found = verdict_of(&sets([&A, &B], 1.0, 400));
        assert!(found.is_inconclusive() && found.builds == Some([4, 4]), "{found:?}");
        assert!(found.remarks.iter().any(|remark| remark.contains("4 pairs of builds")), "{found:?}");
        assert_eq!(found.settled_by, None, "more sets would not settle it");
        // The same sets, as if each side were one build: sure of what is luck.
        let mut blind = sets([&A, &B], 1.0, 400);
        for set in &mut blind {
            (set.a.build, set.b.build) = (Some("a".into()), Some("b".into()));
        }
        let blind = verdict_of(&blind);
        assert!(blind.is_regression() && blind.builds == Some([1, 1]), "{blind:?}");
        assert!(verdict_of(&sets([&A, &A], 1.3, 40)).is_regression());
        let alike = verdict_of(&sets([&A, &A], 1.0, 40));
        assert_eq!(alike.verdict, "equivalent", "layouts that both sides have cancel: {alike:?}");
    }

    /// Two groups of layouts on one side are no two modes of its code.
    #[test]
    fn layouts_in_two_groups_are_no_change_of_shape() {
        let split = [1.0, 1.5, 1.0, 1.5, 1.0, 1.5];
        let found = verdict_of(&sets([&[1.2; 1], &split], 1.0, 42));
        assert!(found.is_inconclusive() && found.builds == Some([1, 6]), "{found:?}");
    }
}
