//! The second chart of the kdbus discussion of 2014: kdbench, which goes to the kernel without a library, beside ibench.
//!
//! Blocking synchronous calls between two processes; the payload, filled with memset, travels both ways, copied or in
//! memory files that are used again.

use super::ibench::{BUDGET, COPY_AND_MEMFD, IBENCH, TIMING};
use super::{BOTH, Group, Sizes, Suite};

pub(super) const SUITE: Suite = Suite {
    name: "kdbench",
    about: "the chart of kdbench beside ibench: copy, memfd and pipes by size, payload both ways",
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
            axes: &[("touch", &["write"]), ("wait", &["block"])],
        },
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["memfd-pass"],
            sizes: Sizes::PowersOfTwo,
            placements: BOTH,
            axes: &[("touch", &["write"])],
        },
        IBENCH,
    ],
};
