//! The suites: what a list of cases measures, with the timing and the budget that suit it. A suite is one constant in a file
//! of this folder, and one line in [`ALL`].

use weighbridge_harness::plan::Suite;
mod causeway;
mod general;
mod others;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const BOTH: &[&str] = &["same-cpu", "two-cpus"];
const ROUNDTRIP: &[&str; 1] = &["roundtrip"];
const STREAM: &[&str; 1] = &["stream"];

/// Every suite, the default first.
pub const ALL: &[Suite] = &[
    general::QUICK,
    general::IPC,
    general::FULL,
    others::IBENCH,
    others::KDBENCH,
    others::EPOLL_BENCH,
    others::SLAB_TEST,
    others::AKBENCH,
    others::SCALING,
    causeway::SUITE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::{lock, mechanism, signal};
    use std::collections::BTreeSet;
    use std::time::Duration;
    use weighbridge_harness::catalogue;
    use weighbridge_harness::plan::{Changes, estimate};
    use weighbridge_record::CaseId;

    fn find(name: &str) -> &'static Suite {
        crate::register();
        Suite::find(name).unwrap()
    }

    #[test]
    fn every_case_of_every_suite_exists() {
        crate::register();
        for suite in ALL {
            for id in suite.cases(&Changes::default()) {
                // An axis or a wait that a mechanism lacks would be a mistake in the list above.
                assert_eq!(catalogue::resolve(&id).err(), None, "{}", suite.name);
            }
        }
    }

    #[test]
    fn every_mechanism_is_in_quick_and_full_or_says_why_not() {
        let names = |suite: &str| -> BTreeSet<String> {
            let cases = find(suite).cases(&Changes::default());
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
        let quick = find("quick").cases(&Changes::default());
        for target in catalogue::all() {
            if let InSuites::AtSmallSizes(why) = target.in_suites {
                let is_large = |id: &CaseId| {
                    id.pattern == "roundtrip" && id.mechanism == target.id && id.payload_bytes > 4096
                };
                assert!(!quick.iter().any(is_large) && why.len() > 10, "{}: {why}", target.id);
            }
        }
    }

    /// A sample of whole ticks has the same number of timer interrupts each time, or one more by chance.
    #[test]
    fn no_short_sample_is_a_whole_number_of_kernel_ticks_long() {
        for suite in ALL {
            for hz in [100.0, 250.0, 300.0, 1000.0] {
                let ticks = suite.timing.sample_ns as f64 * hz / 1e9;
                let off = (ticks - ticks.round()).abs();
                assert!(ticks > 10.0 || off >= 0.1, "{}: {ticks} ticks at {hz} Hz", suite.name);
            }
        }
    }

    #[test]
    fn the_quick_suite_has_at_least_sixty_cases_and_fits_its_budget() {
        let suite = find("quick");
        let cases = suite.cases(&Changes::default()).len();
        let unbounded = estimate(cases, suite.timing, Duration::MAX, 40);
        assert!(cases >= 60 && unbounded.least < suite.budget, "{cases} cases: {unbounded:?}");
    }

    #[test]
    fn the_ipc_suite_has_every_power_of_two_in_both_placements() {
        let cases = find("ipc").cases(&Changes::default());
        let has = |power: u32, place| cases.contains(&CaseId::new("roundtrip", "pipe", 1 << power, place));
        assert!((0..=22).all(|power| BOTH.iter().all(|place| has(power, place))));
    }

    #[test]
    fn quick_keeps_cpus_of_two_roles_from_halting_unless_the_user_says_otherwise() {
        let of = |changes: &Changes| -> Vec<String> {
            let cases = find("quick").cases(changes).into_iter();
            let of_tcp = cases.filter(|id| id.mechanism == "tcp" && id.payload_bytes == 4096);
            of_tcp.map(|id| id.to_string()).collect()
        };
        let busy = ["roundtrip/tcp/4096/same-cpu", "roundtrip/tcp/4096/two-cpus/idle=busy"];
        assert_eq!(of(&Changes::default()), busy);
        let halting = Changes { axes: vec![("idle".into(), vec!["halt".into()])], ..Changes::default() };
        assert_eq!(of(&halting), ["roundtrip/tcp/4096/same-cpu", "roundtrip/tcp/4096/two-cpus"]);
        let placements = Some(vec!["free".into(), "same-cpu".into()]);
        let placed = of(&Changes { placements, ..Changes::default() });
        assert_eq!(placed, ["roundtrip/tcp/4096/free", "roundtrip/tcp/4096/same-cpu"]);
    }

    #[test]
    fn changes_take_the_place_of_what_the_suite_has() {
        let changes = Changes {
            sizes: Some(vec![7]),
            placements: Some(vec!["free".into()]),
            axes: vec![("touch".into(), vec!["all".into(), "none".into()])],
        };
        let cases = find("quick").cases(&changes);
        let pipe = CaseId::new("roundtrip", "pipe", 7, "free");
        assert!(cases.contains(&pipe.clone().with("touch", "none")));
        assert!(cases.contains(&pipe), "touch=all is the default");
        let harness = CaseId::new("roundtrip", "noop", 1, "same-cpu");
        assert!(cases.contains(&harness), "the harness is always measured");
        assert!(!cases.iter().any(|id| id.mechanism == "pipe" && id.payload_bytes != 7));
    }
}
