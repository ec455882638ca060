//! The second chart of the kdbus discussion of 2014: kdbench, which goes to the kernel without a library, beside ibench.
//!
//! Blocking synchronous calls between two processes; the payload, filled with memset, travels both ways, copied or in
//! memory files that are used again.

use super::ibench::{CALL, COPY, IBENCH, MEMFD, REFERENCE, chart};
use weighbridge_harness::plan::Suite;

pub(super) const SUITE: Suite = chart(
    "kdbench",
    "the chart of kdbench beside ibench: copy, memfd, calls, references and pipes by size, payload both ways",
    &[
        COPY.with(&[("touch", &["write"]), ("wait", &["block"])]),
        MEMFD.with(&[("touch", &["write"])]),
        CALL.with(&[("touch", &["write"]), ("wait", &["block"])]),
        REFERENCE.with(&[("touch", &["write"]), ("wait", &["block"])]),
        IBENCH,
    ],
);
