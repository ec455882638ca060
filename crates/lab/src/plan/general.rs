//! The suites that compare everything with everything.

use std::time::Duration;

use super::{BOTH, Group, KIB, MIB, Sizes, Suite};
use crate::planner::Timing;

/// Every mechanism that exchanges something.
pub(super) const EVERY: &[&str] = &[
    "pipe",
    "pipe-packet",
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
pub(super) const HARNESS: Group = Group {
    patterns: &["roundtrip"],
    mechanisms: &["noop"],
    sizes: Sizes::These(&[1]),
    placements: &["same-cpu"],
    axes: &[],
};

/// Six runs of each of its hundred cases take a minute; the rest of the budget goes to those with the widest intervals.
pub(super) const QUICK: Suite = Suite {
    name: "quick",
    about: "every mechanism, a few sizes, one CPU and two, within two minutes",
    timing: Timing { sample_ns: 4_000_000, samples: 15, least_samples: 5, run_ns: 90_000_000 },
    budget: Duration::from_secs(105),
    precision: 0.02,
    meet: None,
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
            patterns: &["roundtrip"],
            mechanisms: &["causeway-sw"],
            sizes: Sizes::These(&[1, 4 * KIB, 64 * KIB]),
            placements: BOTH,
            axes: &[],
        },
        // What one order for many writers costs shows at one size.
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["causeway-mw"],
            sizes: Sizes::These(&[4 * KIB]),
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
        Group {
            patterns: &["stream"],
            mechanisms: &["causeway-sw"],
            sizes: Sizes::These(&[64 * KIB]),
            placements: &["two-cpus"],
            axes: &[],
        },
    ],
};

pub(super) const IPC: Suite = Suite {
    name: "ipc",
    about: "the main mechanisms over every power of two from 1 B to 4 MiB, one CPU and two",
    timing: Timing { sample_ns: 5_000_000, samples: 20, least_samples: 5, run_ns: 150_000_000 },
    budget: Duration::from_secs(20 * 60),
    precision: 0.02,
    meet: None,
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
};

pub(super) const FULL: Suite = Suite {
    name: "full",
    about: "every mechanism, every size, one CPU and two and free, and the ways to wait of each",
    timing: Timing { sample_ns: 10_000_000, samples: 30, least_samples: 5, run_ns: 450_000_000 },
    budget: Duration::from_secs(6 * 60 * 60),
    precision: 0.01,
    meet: None,
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
            axes: &[("wait", &["poll"])],
        },
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["pipe", "unix-stream", "unix-seqpacket", "tcp"],
            sizes: Sizes::These(&[1, 4 * KIB, 64 * KIB, MIB]),
            placements: BOTH,
            axes: &[("wait", &["epoll"])],
        },
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["pipe", "unix-stream", "unix-seqpacket", "tcp"],
            sizes: Sizes::These(&[1, 4 * KIB, 64 * KIB, MIB]),
            placements: BOTH,
            axes: &[("wait", &["uring"])],
        },
        Group {
            patterns: &["roundtrip"],
            mechanisms: &["ring-futex", "ring-eventfd"],
            sizes: Sizes::These(&[1, 4 * KIB, 64 * KIB, MIB]),
            placements: BOTH,
            axes: &[("wait", &["spin-block"])],
        },
    ],
};
