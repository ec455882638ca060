//! epoll_bench of 2006: 2,000 streams into one reader, a byte each, in fifteen intervals.
//!
//! Two threads of one process; the writer is nicer by ten. Intervals are shorter than the second that epoll_bench prints a
//! line for, so that there is time for several runs; rates are per second all the same.

use std::time::Duration;

use weighbridge_harness::plan::{Group, Suite};
use weighbridge_harness::planner::Timing;

pub(super) const SUITE: Suite = Suite {
    name: "epoll_bench",
    about: "epoll_bench with 2,000 pipes, Unix streams (-u), TCP connections (-i), and those without epoll (-i -f)",
    timing: Timing { sample_ns: 200_000_000, samples: 15, least_samples: 15, run_ns: 3_000_000_000 },
    budget: Duration::from_secs(100),
    precision: 0.05,
    crossover: None,
    in_turn: false,
    groups: &[
        Group::one(&["fan-in"], &["pipe"], &[1], &["free"], &[("nice", &["0:10"]), ("peers", &["thread"])]),
        Group::one(
            &["fan-in"],
            &["unix-stream"],
            &[1],
            &["free"],
            &[("nice", &["0:10"]), ("peers", &["thread"])],
        ),
        Group::one(
            &["fan-in"],
            &["tcp"],
            &[1],
            &["free"],
            &[("nice", &["0:10"]), ("nodelay", &["no"]), ("peers", &["thread"])],
        ),
        Group::one(
            &["fan-in"],
            &["tcp"],
            &[1],
            &["free"],
            &[("nice", &["0:10"]), ("nodelay", &["no"]), ("peers", &["thread"]), ("wait", &["none"])],
        ),
    ],
};
