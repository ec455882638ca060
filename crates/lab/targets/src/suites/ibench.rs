//! The first chart of the kdbus discussion of 2014: `test-bus-kernel-benchmark chart` beside ibench.
//!
//! ibench passes the payload there and back over two pipes, and polls before each read as a main loop would. The chart of
//! the bus sends it one way; the reply is empty. Both fill the payload with memset, and no process reads it.

use std::time::Duration;

use super::{BOTH, ROUNDTRIP};
use weighbridge_harness::plan::{Group, Sizes, Suite};
use weighbridge_harness::planner::Timing;

/// A bus that copies, and one that passes memory files.
const COPY_AND_MEMFD: (&str, &str) = ("causeway-sw", "memfd-pass");
pub(super) const COPY: Group = Group::of(ROUNDTRIP, &[COPY_AND_MEMFD.0], Sizes::PowersOfTwo, BOTH);
pub(super) const MEMFD: Group = Group::of(ROUNDTRIP, &[COPY_AND_MEMFD.1], Sizes::PowersOfTwo, BOTH);

/// A call as a program makes it.
pub(super) const CALL: Group = Group::of(ROUNDTRIP, &["causeway-call"], Sizes::PowersOfTwo, BOTH);

/// Large payloads by reference, in memory files that are used again.
pub(super) const REFERENCE: Group = Group::of(ROUNDTRIP, &["causeway-memfd"], Sizes::PowersOfTwo, BOTH);

/// ibench itself.
pub(super) const IBENCH: Group = Group::of(ROUNDTRIP, &["pipe"], Sizes::PowersOfTwo, BOTH)
    .with(&[("touch", &["write"]), ("wait", &["poll"])]);

/// A chart of such a bus by size.
pub(super) const fn chart(name: &'static str, about: &'static str, groups: &'static [Group]) -> Suite {
    Suite {
        name,
        about,
        // All sizes in both placements are many cases, and each of them gets little time.
        timing: Timing { sample_ns: 2_700_000, samples: 12, least_samples: 4, run_ns: 45_000_000 },
        budget: Duration::from_secs(190),
        precision: 0.05,
        crossover: Some(COPY_AND_MEMFD),
        in_turn: false,
        groups,
    }
}

pub(super) const SUITE: Suite = chart(
    "ibench",
    "the chart of test-bus-kernel-benchmark beside ibench: copy, memfd, calls, references and pipes by size",
    &[
        COPY.with(&[("direction", &["request"]), ("touch", &["write"]), ("wait", &["block"])]),
        MEMFD.with(&[("direction", &["request"]), ("touch", &["write"])]),
        CALL.with(&[("direction", &["request"]), ("touch", &["write"]), ("wait", &["block"])]),
        REFERENCE.with(&[("direction", &["request"]), ("touch", &["write"]), ("wait", &["block"])]),
        IBENCH,
    ],
);
