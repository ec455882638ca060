//! Which cases a suite has, and how long they take.

use std::time::Duration;

use weighbridge_record::CaseId;

use crate::planner::Timing;
use crate::session::expected_run;
use crate::subject;

/// A list of cases with the timing and the budget that suit it.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Length and number of samples.
    pub timing: Timing,
    /// What its runs may take together unless the user says otherwise.
    pub budget: Duration,
    /// Relative half-width of the interval to be reached unless the user says otherwise.
    pub precision: f64,
    groups: &'static [Group],
}

/// The product of some patterns, mechanisms, sizes and placements.
#[derive(Clone, Copy, Debug)]
struct Group {
    patterns: &'static [&'static str],
    mechanisms: &'static [&'static str],
    sizes: Sizes,
    placements: &'static [&'static str],
    axes: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, Debug)]
enum Sizes {
    These(&'static [u64]),
    /// Every power of two from 1 B to 4 MiB.
    PowersOfTwo,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Every mechanism that exchanges something.
const EVERY: &[&str] = &[
    "pipe",
    "fifo",
    "unix-stream",
    "unix-seqpacket",
    "unix-dgram",
    "tcp",
    "udp",
    "mq-posix",
    "msg-sysv",
    "ring-spin",
    "ring-futex",
    "ring-eventfd",
    "memfd-pass",
    "vmsplice",
    "process-vm",
];
/// One of each kind.
const MAIN: &[&str] =
    &["pipe", "unix-stream", "unix-seqpacket", "tcp", "mq-posix", "ring-spin", "ring-futex", "memfd-pass"];
/// Those that carry every size.
const LARGE: &[&str] = &[
    "pipe",
    "unix-stream",
    "tcp",
    "ring-spin",
    "ring-futex",
    "ring-eventfd",
    "memfd-pass",
    "vmsplice",
    "process-vm",
];
const BOTH: &[&str] = &["same-cpu", "two-cpus"];
const CAUSEWAY_SIZES: Sizes =
    Sizes::These(&[1, 64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB]);
const HARNESS: Group = Group {
    patterns: &["roundtrip"],
    mechanisms: &["noop"],
    sizes: Sizes::These(&[1]),
    placements: &["same-cpu"],
    axes: &[],
};

/// The suites, the default first.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "quick",
        about: "every mechanism, a few sizes, one CPU and two, within two minutes",
        timing: Timing { sample_ns: 4_000_000, samples: 15, least_samples: 5, run_ns: 90_000_000 },
        budget: Duration::from_secs(105),
        precision: 0.02,
        groups: &[
            HARNESS,
            Group {
                patterns: &["roundtrip"],
                mechanisms: EVERY,
                sizes: Sizes::These(&[1, 4 * KIB]),
                placements: BOTH,
                axes: &[],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: LARGE,
                sizes: Sizes::These(&[64 * KIB]),
                placements: BOTH,
                axes: &[],
            },
            Group {
                patterns: &["stream"],
                mechanisms: EVERY,
                sizes: Sizes::These(&[64 * KIB]),
                placements: &["two-cpus"],
                axes: &[],
            },
        ],
    },
    Suite {
        name: "ipc",
        about: "the main mechanisms over every power of two from 1 B to 4 MiB, one CPU and two",
        timing: Timing { sample_ns: 5_000_000, samples: 20, least_samples: 5, run_ns: 150_000_000 },
        budget: Duration::from_secs(20 * 60),
        precision: 0.02,
        groups: &[
            HARNESS,
            Group {
                patterns: &["roundtrip"],
                mechanisms: MAIN,
                sizes: Sizes::PowersOfTwo,
                placements: BOTH,
                axes: &[],
            },
            Group {
                patterns: &["stream"],
                mechanisms: MAIN,
                sizes: Sizes::PowersOfTwo,
                placements: &["two-cpus"],
                axes: &[],
            },
        ],
    },
    Suite {
        name: "full",
        about: "every mechanism, every size, one CPU and two and free, and the ways to wait of each",
        timing: Timing { sample_ns: 10_000_000, samples: 30, least_samples: 5, run_ns: 450_000_000 },
        budget: Duration::from_secs(6 * 60 * 60),
        precision: 0.01,
        groups: &[
            HARNESS,
            Group {
                patterns: &["roundtrip", "stream"],
                mechanisms: EVERY,
                sizes: Sizes::PowersOfTwo,
                placements: &["same-cpu", "two-cpus", "free"],
                axes: &[],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["pipe", "unix-stream", "unix-seqpacket", "tcp"],
                sizes: Sizes::These(&[1, 4 * KIB, 64 * KIB, MIB]),
                placements: BOTH,
                axes: &[("wait", "poll")],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["pipe", "unix-stream", "unix-seqpacket", "tcp"],
                sizes: Sizes::These(&[1, 4 * KIB, 64 * KIB, MIB]),
                placements: BOTH,
                axes: &[("wait", "epoll")],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["pipe", "unix-stream", "unix-seqpacket", "tcp"],
                sizes: Sizes::These(&[1, 4 * KIB, 64 * KIB, MIB]),
                placements: BOTH,
                axes: &[("wait", "uring")],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["ring-futex", "ring-eventfd"],
                sizes: Sizes::These(&[1, 4 * KIB, 64 * KIB, MIB]),
                placements: BOTH,
                axes: &[("wait", "spin-block")],
            },
        ],
    },
    Suite {
        name: "causeway",
        about: "Causeway beside what its targets are stated against: pipe, bare cache line, ring",
        timing: Timing { sample_ns: 4_000_000, samples: 15, least_samples: 5, run_ns: 90_000_000 },
        budget: Duration::from_secs(5 * 60),
        precision: 0.02,
        groups: &[
            HARNESS,
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["pipe"],
                sizes: CAUSEWAY_SIZES,
                placements: BOTH,
                axes: &[("wait", "poll")],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["causeway-sw"],
                sizes: CAUSEWAY_SIZES,
                placements: &["same-cpu"],
                axes: &[("wait", "block")],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["causeway-sw"],
                sizes: CAUSEWAY_SIZES,
                placements: &["two-cpus"],
                axes: &[("wait", "spin-block")],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["causeway-sw", "causeway-mw"],
                sizes: Sizes::These(&[8]),
                placements: &["two-cpus"],
                axes: &[("wait", "spin")],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["causeway-sw"],
                sizes: Sizes::These(&[8]),
                placements: &["two-cpus"],
                axes: &[("wait", "spin"), ("receive", "in-place")],
            },
            Group {
                patterns: &["roundtrip"],
                mechanisms: &["ring-spin"],
                sizes: Sizes::These(&[8]),
                placements: &["two-cpus"],
                axes: &[],
            },
            Group {
                patterns: &["handoff"],
                mechanisms: &["atomic"],
                sizes: Sizes::These(&[0]),
                placements: &["two-cpus"],
                axes: &[],
            },
            Group {
                patterns: &["stream"],
                mechanisms: &["ring-spin"],
                sizes: Sizes::These(&[64 * KIB]),
                placements: &["two-cpus"],
                axes: &[],
            },
            Group {
                patterns: &["stream"],
                mechanisms: &["causeway-sw"],
                sizes: Sizes::These(&[64 * KIB]),
                placements: &["two-cpus"],
                axes: &[("wait", "spin")],
            },
            Group {
                patterns: &["stream"],
                mechanisms: &["causeway-sw"],
                sizes: Sizes::These(&[64 * KIB]),
                placements: &["two-cpus"],
                axes: &[("wait", "spin"), ("receive", "in-place")],
            },
            Group {
                patterns: &["fan-out"],
                mechanisms: &["causeway-sw"],
                sizes: Sizes::These(&[64]),
                placements: &["free"],
                axes: &[("receivers", "100"), ("burst", "16"), ("wait", "yield")],
            },
        ],
    },
];

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
        SUITES.iter().find(|suite| suite.name == name)
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
        let is_harness = self.mechanisms == HARNESS.mechanisms;
        let changes = if is_harness { &Changes::default() } else { changes };
        let sizes = changes.sizes.clone().unwrap_or_else(|| match self.sizes {
            Sizes::These(sizes) => sizes.to_vec(),
            Sizes::PowersOfTwo => (0..=22).map(|power| 1 << power).collect(),
        });
        let placements = changes
            .placements
            .clone()
            .unwrap_or_else(|| self.placements.iter().map(|placement| (*placement).into()).collect());
        let mut ids = Vec::new();
        for pattern in self.patterns {
            for mechanism in self.mechanisms {
                for size in &sizes {
                    for placement in &placements {
                        let mut id = CaseId::new(pattern, mechanism, *size, placement);
                        id.axes
                            .extend(self.axes.iter().map(|(axis, value)| ((*axis).into(), (*value).into())));
                        ids.extend(with_axes(id, &changes.axes));
                    }
                }
            }
        }
        ids
    }
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
    let Ok((subject, pattern, _)) = subject::resolve(&id) else { return id };
    let declared = subject.axes_in(pattern);
    let own_wait = subject.waits.first().map_or("block", |wait| wait.name());
    id.axes.retain(|name, value| {
        let default = declared.iter().find(|axis| axis.name == name).map(|axis| axis.default);
        default != Some(value) && !(name == "wait" && value == own_wait)
    });
    id
}

/// How long a session of so many cases takes: until each has its first interval, and with every run that it may make.
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
    use std::collections::BTreeSet;

    #[test]
    fn every_case_of_every_suite_exists() {
        for suite in SUITES {
            for id in suite.cases(&Changes::default()) {
                // An axis or a wait that a mechanism lacks would be a mistake in the list above.
                assert!(subject::resolve(&id).is_ok(), "{}: {:?}", suite.name, subject::resolve(&id).err());
            }
        }
    }

    #[test]
    fn the_quick_suite_has_every_mechanism_and_at_least_sixty_cases_and_fits_its_budget() {
        let suite = Suite::find("quick").unwrap();
        let cases = suite.cases(&Changes::default());
        assert!(cases.len() >= 60, "{}", cases.len());
        let mechanisms: BTreeSet<_> = cases.iter().map(|id| id.mechanism.as_str()).collect();
        assert!(EVERY.iter().all(|mechanism| mechanisms.contains(mechanism)));
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
            "the harness is always weighed"
        );
        assert!(!cases.iter().any(|id| id.mechanism == "pipe" && id.payload_bytes != 7));
    }
}
