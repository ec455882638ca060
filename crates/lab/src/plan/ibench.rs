//! The first chart of the kdbus discussion of 2014: `test-bus-kernel-benchmark chart` beside ibench.
//!
//! ibench passes the payload there and back over two pipes, and polls before each read as a main loop would. The chart of
//! the bus sends it one way; the reply is empty. Both fill the payload with memset, and nobody reads it.

use std::time::Duration;

use super::{BOTH, Group, Sizes, Suite};
use crate::planner::Timing;

/// So many sizes in both placements are many cases; each is worth little time.
pub(super) const TIMING: Timing =
    Timing { sample_ns: 3_000_000, samples: 12, least_samples: 4, run_ns: 45_000_000 };
pub(super) const BUDGET: Duration = Duration::from_secs(150);

/// A bus that copies, and one that passes memory files.
pub(super) const COPY_AND_MEMFD: (&str, &str) = ("causeway-sw", "memfd-pass");

/// ibench itself.
pub(super) const IBENCH: Group = Group {
    patterns: &["roundtrip"],
    mechanisms: &["pipe"],
    sizes: Sizes::PowersOfTwo,
    placements: BOTH,
    axes: &[("touch", &["write"]), ("wait", &["poll"])],
};

pub(super) const SUITE: Suite = Suite {
    name: "ibench",
    about: "the chart of test-bus-kernel-benchmark beside ibench: copy, memfd and pipes by size",
    timing: TIMING,
    budget: BUDGET,
    precision: 0.05,
    meet: Some(COPY_AND_MEMFD),
    groups: &[
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["causeway-sw"],
            sizes: Sizes::PowersOfTwo,
            placements: BOTH,
            axes: &[("direction", &["request"]), ("touch", &["write"]), ("wait", &["block"])],
        },
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["memfd-pass"],
            sizes: Sizes::PowersOfTwo,
            placements: BOTH,
            axes: &[("direction", &["request"]), ("touch", &["write"])],
        },
        IBENCH,
    ],
};
