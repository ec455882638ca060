//! Which cases a suite has, and how long they take.
//!
//! The harness has no suites of its own: crates with targets hand over theirs with [`add`].

use std::collections::BTreeSet;
use std::time::Duration;

use weighbridge_record::CaseId;

use crate::axis::{Choice, Idle};
use crate::catalogue;
use crate::contract::{InSuites, Target};
use crate::planner::Timing;
use crate::registry::Registry;
use crate::session::expected_run;

/// A list of cases with the timing and the budget that suit it.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Length and number of samples.
    pub timing: Timing,
    /// Time for all runs together, unless the user gives another.
    pub budget: Duration,
    /// Relative half-width of the interval to be reached unless the user says otherwise.
    pub precision: f64,
    /// Pairs of mechanisms; the size at which two are equally fast is searched for when all cases have been measured.
    pub crossover: Option<&'static [(&'static str, &'static str)]>,
    /// Do its cases take turns with a hub? Those that repeat another tool are measured as that tool does.
    pub in_turn: bool,
    /// Its cases.
    pub groups: &'static [Group],
}

/// Names, as suites have them.
type Words = &'static [&'static str];
/// A list of one.
type One<T> = &'static [T; 1];

/// The product of some patterns, mechanisms, sizes, placements and values of axes.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    patterns: Words,
    mechanisms: Which,
    sizes: Sizes,
    placements: Words,
    axes: &'static [(&'static str, Words)],
    /// Do CPUs that roles have to themselves not halt?
    is_without_halts: bool,
    /// Are its mechanisms those of a crate above, which not every program has?
    is_of_another_crate: bool,
}

/// Which mechanisms, signals or locks a group takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    /// These.
    These(Words),
    /// Every one of the pattern's that does not declare [`InSuites::Never`].
    Every,
    /// Of those, the ones that declare [`InSuites::AtEverySize`].
    EveryAtLargeSizes,
}

impl Which {
    /// Their names, in the order of the catalogue.
    fn names(self, pattern: &str) -> Vec<&'static str> {
        let is_in = |part: InSuites| match self {
            Which::EveryAtLargeSizes => part == InSuites::AtEverySize,
            _ => !matches!(part, InSuites::Never(_)),
        };
        let Which::These(names) = self else {
            let drives = |target: &&Target| target.patterns.iter().any(|known| known.id == pattern);
            let all = catalogue::all().filter(drives).filter(|target| is_in(target.in_suites));
            return all.map(|target| target.id).collect();
        };
        names.to_vec()
    }
}

/// Payload sizes of a group, in bytes.
#[derive(Clone, Copy, Debug)]
pub enum Sizes {
    /// These.
    These(&'static [u64]),
    /// Every power of two from 1 B to 4 MiB.
    PowersOfTwo,
}

impl Group {
    /// The harness itself, which suites measure beside the rest whatever the user changes.
    pub const HARNESS: Group = Group::of(&["roundtrip"], &["noop"], Sizes::These(&[1]), &["same-cpu"]);

    /// Some mechanisms in one pattern, with nothing but their defaults.
    pub const fn of(pattern: One<&'static str>, mechanisms: Words, sizes: Sizes, placements: Words) -> Group {
        Group::every(pattern, Which::These(mechanisms), sizes, placements)
    }

    /// Every mechanism in one pattern, with nothing but their defaults.
    pub const fn every(
        patterns: One<&'static str>,
        mechanisms: Which,
        sizes: Sizes,
        placements: Words,
    ) -> Group {
        Group {
            patterns,
            mechanisms,
            sizes,
            placements,
            axes: &[],
            is_without_halts: false,
            is_of_another_crate: false,
        }
    }

    /// The same, with these values of axes.
    pub const fn with(self, axes: &'static [(&'static str, Words)]) -> Group {
        Group { axes, ..self }
    }

    /// The same, with `idle=busy` where roles have CPUs of their own. How long a virtual CPU takes to halt and to wake, and how long its
    /// hypervisor spins before that, differs by a factor of two from one pair of processes to the next and belongs to no mechanism.
    pub const fn without_halts(self) -> Group {
        Group { is_without_halts: true, ..self }
    }

    /// The same, in programs that hand its mechanisms to the catalogue; others leave the group out.
    pub const fn where_known(self) -> Group {
        Group { is_of_another_crate: true, ..self }
    }

    /// A single case.
    pub const fn one(
        pattern: One<&'static str>,
        mechanism: One<&'static str>,
        bytes: One<u64>,
        placement: One<&'static str>,
        axes: &'static [(&'static str, Words)],
    ) -> Group {
        Group::of(pattern, mechanism, Sizes::These(bytes), placement).with(axes)
    }
}

static SUITES: Registry<Suite> = Registry::new("suites");

/// Adds the suites of another crate, whose targets the [catalogue](catalogue::add) was given. A program does so before it looks for a
/// suite.
pub fn add(suites: &'static [Suite]) {
    SUITES.add(suites);
}

/// Every suite, the default first.
pub fn suites() -> impl Iterator<Item = &'static Suite> + Clone {
    SUITES.list().iter().copied()
}

/// What the user wants in place of what the suite has.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Payload sizes.
    pub sizes: Option<Vec<u64>>,
    /// Placements.
    pub placements: Option<Vec<String>>,
    /// Values of further axes; the product of all of them is taken.
    pub axes: Vec<(String, Vec<String>)>,
}

impl Suite {
    /// The one that is measured where none is asked for: the first that was added.
    pub fn first() -> &'static Suite {
        suites().next().expect("a program adds its suites at its start")
    }

    /// The suite with this name.
    pub fn find(name: &str) -> Option<&'static Suite> {
        suites().find(|suite| suite.name == name)
    }

    /// The ids of its cases, in the order of the suite, each once. With changes to sizes or placements, the groups that
    /// had fixed ones of their own take the new ones; the harness stays as it is.
    pub fn cases(&self, changes: &Changes) -> Vec<CaseId> {
        let mut seen = BTreeSet::new();
        let ids = self.groups.iter().flat_map(|group| group.cases(changes));
        ids.filter(|id| seen.insert(id.clone())).collect()
    }
}

impl Group {
    fn cases(&self, changes: &Changes) -> Vec<CaseId> {
        let is_harness = self.mechanisms == Group::HARNESS.mechanisms;
        let changes = if is_harness { &Changes::default() } else { changes };
        let sizes = changes.sizes.clone().unwrap_or_else(|| match self.sizes {
            Sizes::These(sizes) => sizes.to_vec(),
            Sizes::PowersOfTwo => (0..=22).map(|power| 1 << power).collect(),
        });
        let owned =
            |values: &[&str]| -> Vec<String> { values.iter().map(|value| (*value).to_owned()).collect() };
        let placements = changes.placements.clone().unwrap_or_else(|| owned(self.placements));
        let own: Vec<(String, Vec<String>)> =
            self.axes.iter().map(|(axis, values)| ((*axis).to_owned(), owned(values))).collect();
        let mut ids = Vec::new();
        for pattern in self.patterns {
            let is_known = |name: &&str| !self.is_of_another_crate || is_driven(name, pattern);
            for mechanism in self.mechanisms.names(pattern).into_iter().filter(is_known) {
                for size in &sizes {
                    for placement in &placements {
                        let mut id = CaseId::new(pattern, mechanism, *size, placement);
                        if self.is_without_halts && !matches!(placement.as_str(), "same-cpu" | "free") {
                            id = id.with(Idle::AXIS.name, Idle::Busy.name());
                        }
                        ids.extend(
                            with_axes(id, &own).into_iter().flat_map(|id| with_axes(id, &changes.axes)),
                        );
                    }
                }
            }
        }
        ids
    }
}

/// Is there a target of this name in the pattern?
fn is_driven(name: &str, pattern: &str) -> bool {
    catalogue::all()
        .any(|target| target.id == name && target.patterns.iter().any(|known| known.id == pattern))
}

/// The case on every combination of the values of some axes, those at their defaults left out of its id.
pub fn with_axes(id: CaseId, axes: &[(String, Vec<String>)]) -> Vec<CaseId> {
    let with = |ids: Vec<CaseId>, (axis, values): &(String, Vec<String>)| {
        ids.iter().flat_map(|id| values.iter().map(|value| id.clone().with(axis, value))).collect()
    };
    axes.iter().fold(vec![id], with).into_iter().map(without_defaults).collect()
}

/// One case has one spelling: axes that stand at their default are not in it.
pub fn without_defaults(mut id: CaseId) -> CaseId {
    let Ok((target, pattern, _)) = catalogue::resolve(&id) else { return id };
    let declared = target.axes_in(pattern);
    let own_wait = target.waits.first().map_or("block", |wait| wait.name());
    id.axes.retain(|name, value| {
        let default = declared.iter().find(|axis| axis.name == name).map(|axis| axis.default);
        default != Some(value) && !(name == "wait" && value == own_wait)
    });
    id
}

/// How long a session takes: until each has its first interval, and with every run that it may make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The fewest runs.
    pub least: Duration,
    /// The most runs, or the budget, whichever is less.
    pub most: Duration,
}

/// Estimates a session.
pub fn estimate(cases: usize, timing: Timing, budget: Duration, max_runs: usize) -> Estimate {
    let round = expected_run(timing) * cases as u32;
    let first_look = weighbridge_stats::stopping::LOOKS[0].min(max_runs) as u32;
    Estimate { least: (round * first_look).min(budget), most: (round * max_runs as u32).min(budget) }
}
