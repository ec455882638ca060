//! Events per second over the number of streams.

use std::time::Duration;

use weighbridge_harness::plan::{Group, Sizes, Suite};
use weighbridge_harness::planner::Timing;

pub(super) const SUITE: Suite = Suite {
    name: "scaling",
    about: "10, 100, 1,000 and 10,000 pipes into one reader, in six ways to wait",
    timing: Timing { sample_ns: 21_700_000, samples: 12, least_samples: 12, run_ns: 260_400_000 },
    budget: Duration::from_secs(3 * 60),
    precision: 0.05,
    crossover: None,
    in_turn: false,
    groups: &[Group::of(&["fan-in"], &["pipe"], Sizes::These(&[1]), &["two-cpus"]).with(&[
        ("wait", &["epoll-et", "epoll-lt", "poll", "select", "uring", "none"]),
        ("streams", &["10", "100", "1000", "10000"]),
    ])],
};
