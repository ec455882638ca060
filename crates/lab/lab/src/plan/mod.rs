//! Which cases a suite has, and how long they take. A suite is one constant in a file of this folder, and one line in
//! [`SUITES`].

mod akbench;
mod causeway;
mod epoll_bench;
mod general;
mod ibench;
mod kdbench;
mod scaling;
mod slab_test;

use std::sync::OnceLock;
use std::time::Duration;

use weighbridge_record::CaseId;

use crate::axis::{Choice, Idle};
use crate::catalogue;
use crate::contract::InSuites;
use crate::planner::Timing;
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
    /// Two mechanisms; the size at which they are equally fast is searched for when all cases have been measured.
    pub crossover: Option<(&'static str, &'static str)>,
    /// Do its cases take turns with a hub? Those that repeat another tool are measured as that tool does.
    pub in_turn: bool,
    /// Its cases.
    pub groups: &'static [Group],
}

/// The product of some patterns, mechanisms, sizes, placements and values of axes.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    patterns: &'static [&'static str],
    mechanisms: Which,
    sizes: Sizes,
    placements: &'static [&'static str],
    axes: &'static [(&'static str, &'static [&'static str])],
    /// Do CPUs that roles have to themselves not halt?
    is_without_halts: bool,
}

/// Which mechanisms, signals or locks a group takes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    These(&'static [&'static str]),
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
        match self {
            Which::These(names) => names.to_vec(),
            _ => catalogue::own()
                .filter(|target| target.patterns.iter().any(|known| known.id == pattern))
                .filter(|target| is_in(target.in_suites))
                .map(|target| target.id)
                .collect(),
        }
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

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const BOTH: &[&str] = &["same-cpu", "two-cpus"];
const ROUNDTRIP: &[&str; 1] = &["roundtrip"];
const STREAM: &[&str; 1] = &["stream"];

impl Group {
    /// Some mechanisms in one pattern, with nothing but their defaults.
    pub const fn of(
        pattern: &'static [&'static str; 1],
        mechanisms: &'static [&'static str],
        sizes: Sizes,
        placements: &'static [&'static str],
    ) -> Group {
        Group::every(pattern, Which::These(mechanisms), sizes, placements)
    }

    /// Every mechanism in one pattern, with nothing but their defaults.
    const fn every(
        pattern: &'static [&'static str; 1],
        mechanisms: Which,
        sizes: Sizes,
        placements: &'static [&'static str],
    ) -> Group {
        Group { patterns: pattern, mechanisms, sizes, placements, axes: &[], is_without_halts: false }
    }

    /// The same, with these values of axes.
    pub const fn with(self, axes: &'static [(&'static str, &'static [&'static str])]) -> Group {
        Group { axes, ..self }
    }

    /// The same, with `idle=busy` where roles have CPUs of their own. How long a virtual CPU takes to halt and to wake, and how long its
    /// hypervisor spins before that, differs by a factor of two from one pair of processes to the next and belongs to no mechanism.
    const fn without_halts(self) -> Group {
        Group { is_without_halts: true, ..self }
    }

    /// A single case.
    const fn one(
        pattern: &'static [&'static str; 1],
        mechanism: &'static [&'static str; 1],
        bytes: &'static [u64; 1],
        placement: &'static [&'static str; 1],
        axes: &'static [(&'static str, &'static [&'static str])],
    ) -> Group {
        Group::of(pattern, mechanism, Sizes::These(bytes), placement).with(axes)
    }
}

/// The suites of this crate, the default first.
pub const SUITES: &[Suite] = &[
    general::QUICK,
    general::IPC,
    general::FULL,
    ibench::SUITE,
    kdbench::SUITE,
    epoll_bench::SUITE,
    slab_test::SUITE,
    akbench::SUITE,
    scaling::SUITE,
    causeway::SUITE,
];

/// Every suite: those of this crate, the default first, then those of other crates.
pub fn suites() -> impl Iterator<Item = &'static Suite> + Clone {
    SUITES.iter().chain(FURTHER.get_or_init(|| &[]).iter())
}

/// Adds the suites of another crate, whose targets the [catalogue](catalogue::add) was given. A program does so once, before it looks for a
/// suite.
///
/// # Panics
/// On the second call, and after suites were looked up.
pub fn add(suites: &'static [Suite]) {
    assert!(FURTHER.set(suites).is_ok(), "suites are added once, before anything is looked up");
}

static FURTHER: OnceLock<&'static [Suite]> = OnceLock::new();

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
    /// The suite with this name.
    pub fn find(name: &str) -> Option<&'static Suite> {
        suites().find(|suite| suite.name == name)
    }

    /// The ids of its cases, in the order of the suite, each once. With changes to sizes or placements, the groups that
    /// had fixed ones of their own take the new ones; the harness stays as it is.
    pub fn cases(&self, changes: &Changes) -> Vec<CaseId> {
        let mut ids: Vec<CaseId> = Vec::new();
        for group in self.groups {
            for id in group.cases(changes) {
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
        }
        ids
    }
}

impl Group {
    fn cases(&self, changes: &Changes) -> Vec<CaseId> {
        let is_harness = self.mechanisms == general::HARNESS.mechanisms;
        let changes = if is_harness { &Changes::default() } else { changes };
        let sizes = changes.sizes.clone().unwrap_or_else(|| match self.sizes {
            Sizes::These(sizes) => sizes.to_vec(),
            Sizes::PowersOfTwo => (0..=22).map(|power| 1 << power).collect(),
        });
        let placements = changes
            .placements
            .clone()
            .unwrap_or_else(|| self.placements.iter().map(|placement| (*placement).into()).collect());
        let owned = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let own: Vec<(String, Vec<String>)> =
            self.axes.iter().map(|(axis, values)| ((*axis).to_owned(), owned(values))).collect();
        let mut ids = Vec::new();
        for pattern in self.patterns {
            for mechanism in self.mechanisms.names(pattern) {
                for size in &sizes {
                    for placement in &placements {
                        let id = CaseId::new(pattern, mechanism, *size, placement);
                        let may_halt = !matches!(placement.as_str(), "same-cpu" | "free");
                        let id = if self.is_without_halts && may_halt {
                            id.with(Idle::AXIS.name, Idle::Busy.name())
                        } else {
                            id
                        };
                        for id in with_axes(id, &own) {
                            ids.extend(with_axes(id, &changes.axes));
                        }
                    }
                }
            }
        }
        ids
    }
}

/// What other crates have added, which no suite of ours names: each pattern at some sizes, on one CPU and on two.
pub fn of_further_families(changes: &Changes) -> Vec<CaseId> {
    let sizes = changes.sizes.clone().unwrap_or_else(|| vec![1, 4 * KIB, 64 * KIB]);
    let placements: Vec<&str> = match &changes.placements {
        Some(placements) => placements.iter().map(String::as_str).collect(),
        None => BOTH.to_vec(),
    };
    let mut ids = Vec::new();
    for target in catalogue::further().iter().flat_map(|family| family.targets) {
        for pattern in target.patterns {
            for size in &sizes {
                for placement in &placements {
                    let id = CaseId::new(pattern.id, target.id, *size, placement);
                    ids.extend(with_axes(id, &changes.axes));
                }
            }
        }
    }
    ids
}

/// The case on every combination of the values of some axes, those at their defaults left out of its id.
pub fn with_axes(id: CaseId, axes: &[(String, Vec<String>)]) -> Vec<CaseId> {
    let mut ids = vec![id];
    for (axis, values) in axes {
        ids = ids
            .into_iter()
            .flat_map(|id| values.iter().map(move |value| id.clone().with(axis, value)))
            .collect();
    }
    ids.into_iter().map(without_defaults).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lock, mechanism, signal};
    use std::collections::BTreeSet;

    #[test]
    fn every_case_of_every_suite_exists() {
        for suite in SUITES {
            for id in suite.cases(&Changes::default()) {
                // An axis or a wait that a mechanism lacks would be a mistake in the list above.
                assert!(
                    catalogue::resolve(&id).is_ok(),
                    "{}: {:?}",
                    suite.name,
                    catalogue::resolve(&id).err()
                );
            }
        }
    }

    #[test]
    fn every_mechanism_is_in_quick_and_full_or_says_why_not() {
        let names = |suite: &str| -> BTreeSet<String> {
            let cases = Suite::find(suite).unwrap().cases(&Changes::default());
            cases.into_iter().map(|id| format!("{}/{}", id.pattern, id.mechanism)).collect()
        };
        let (quick, full) = (names("quick"), names("full"));
        let compared =
            [(mechanism::ALL, &quick), (mechanism::ALL, &full), (signal::ALL, &full), (lock::ALL, &full)];
        for (targets, suite) in compared {
            for target in targets {
                // What a mechanism does to itself is a price in an explanation, which no suite compares.
                for pattern in target.patterns.iter().filter(|pattern| pattern.id != "self") {
                    let name = format!("{}/{}", pattern.id, target.id);
                    match target.in_suites {
                        InSuites::Never(why) => assert!(why.len() > 10, "{name}: {why}"),
                        _ => assert!(suite.contains(&name), "{name} is missing"),
                    }
                }
            }
        }
        // The list that this test compares with is not empty of what people look for.
        for name in ["roundtrip/pipe", "stream/buffers-barrier", "roundtrip/causeway-mw"] {
            assert!(quick.contains(name), "{name} is not in quick");
        }
    }

    #[test]
    fn a_mechanism_that_is_compared_at_small_sizes_only_says_why() {
        for target in catalogue::own() {
            if let InSuites::AtSmallSizes(why) = target.in_suites {
                let large = Which::EveryAtLargeSizes.names("roundtrip");
                assert!(!large.contains(&target.id) && why.len() > 10, "{}: {why}", target.id);
            }
        }
    }

    /// A sample of whole ticks has the same number of timer interrupts each time, or one more by chance.
    #[test]
    fn no_short_sample_is_a_whole_number_of_kernel_ticks_long() {
        for suite in SUITES {
            for hz in [100.0, 250.0, 300.0, 1000.0] {
                let ticks = suite.timing.sample_ns as f64 * hz / 1e9;
                let off = (ticks - ticks.round()).abs();
                assert!(ticks > 10.0 || off >= 0.1, "{}: {ticks} ticks at {hz} Hz", suite.name);
            }
        }
    }

    #[test]
    fn the_quick_suite_has_at_least_sixty_cases_and_fits_its_budget() {
        let suite = Suite::find("quick").unwrap();
        let cases = suite.cases(&Changes::default());
        assert!(cases.len() >= 60, "{}", cases.len());
        let unbounded = estimate(cases.len(), suite.timing, Duration::MAX, 40);
        assert!(unbounded.least < suite.budget, "{unbounded:?}");
    }

    #[test]
    fn the_ipc_suite_has_every_power_of_two_in_both_placements() {
        let cases = Suite::find("ipc").unwrap().cases(&Changes::default());
        for power in 0..=22 {
            for placement in BOTH {
                assert!(cases.contains(&CaseId::new("roundtrip", "pipe", 1 << power, placement)));
            }
        }
    }

    #[test]
    fn quick_keeps_cpus_of_two_roles_from_halting_unless_the_user_says_otherwise() {
        let quick = Suite::find("quick").unwrap();
        let of = |changes: &Changes, bytes| -> Vec<String> {
            let cases = quick.cases(changes).into_iter();
            cases
                .filter(|id| id.mechanism == "tcp" && id.payload_bytes == bytes)
                .map(|id| id.to_string())
                .collect()
        };
        let busy = ["roundtrip/tcp/4096/same-cpu", "roundtrip/tcp/4096/two-cpus/idle=busy"];
        assert_eq!(of(&Changes::default(), 4096), busy);
        let halting = Changes { axes: vec![("idle".into(), vec!["halt".into()])], ..Changes::default() };
        assert_eq!(of(&halting, 4096), ["roundtrip/tcp/4096/same-cpu", "roundtrip/tcp/4096/two-cpus"]);
        let placements = Some(vec!["free".into(), "same-cpu".into()]);
        let placed = of(&Changes { placements, ..Changes::default() }, 4096);
        assert_eq!(placed, ["roundtrip/tcp/4096/free", "roundtrip/tcp/4096/same-cpu"]);
    }

    #[test]
    fn changes_take_the_place_of_what_the_suite_has() {
        let changes = Changes {
            sizes: Some(vec![7]),
            placements: Some(vec!["free".into()]),
            axes: vec![("touch".into(), vec!["all".into(), "none".into()])],
        };
        let cases = Suite::find("quick").unwrap().cases(&changes);
        assert!(cases.contains(&CaseId::new("roundtrip", "pipe", 7, "free")), "touch=all is the default");
        assert!(cases.contains(&CaseId::new("roundtrip", "pipe", 7, "free").with("touch", "none")));
        assert!(
            cases.contains(&CaseId::new("roundtrip", "noop", 1, "same-cpu")),
            "the harness is always measured"
        );
        assert!(!cases.iter().any(|id| id.mechanism == "pipe" && id.payload_bytes != 7));
    }
}
