//! The suites that compare everything with everything.

use std::time::Duration;

use super::{BOTH, Group, KIB, MIB, ROUNDTRIP, STREAM, Sizes, Suite};
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
const SIGNALS: &[&str] = &[
    "atomic",
    "spin-yield",
    "barrier",
    "futex",
    "sem-posix",
    "sem-sysv",
    "condvar",
    "eventfd",
    "pipe-byte",
    "socket-byte",
    "signal",
    "uring-msg",
];
const LOCKS: &[&str] = &["mutex", "futex-mutex", "spin-lock", "ticket-lock"];
/// What carries no payload.
const EMPTY: Sizes = Sizes::These(&[0]);
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
pub(super) const HARNESS: Group = Group::of(ROUNDTRIP, &["noop"], Sizes::These(&[1]), &["same-cpu"]);
const SOME_SIZES: Sizes = Sizes::These(&[1, 4 * KIB, 64 * KIB, MIB]);
/// Those that can wait in several ways of the kernel's.
const POLLED: Group =
    Group::of(ROUNDTRIP, &["pipe", "unix-stream", "unix-seqpacket", "tcp"], SOME_SIZES, BOTH);

/// Six runs of each of its hundred cases take a minute; the rest of the budget goes to those with the widest intervals.
pub(super) const QUICK: Suite = Suite {
    name: "quick",
    about: "every mechanism, a few sizes, one CPU and two, within two minutes",
    timing: Timing { sample_ns: 4_000_000, samples: 15, least_samples: 5, run_ns: 90_000_000 },
    budget: Duration::from_secs(105),
    precision: 0.02,
    crossover: None,
    groups: &[
        HARNESS,
        Group::of(ROUNDTRIP, EVERY, Sizes::These(&[1, 4 * KIB]), BOTH),
        Group::of(ROUNDTRIP, LARGE, Sizes::These(&[64 * KIB]), BOTH),
        Group::of(ROUNDTRIP, &["causeway-sw"], Sizes::These(&[1, 4 * KIB, 64 * KIB]), BOTH),
        // What one order for many writers costs shows at one size.
        Group::of(ROUNDTRIP, &["causeway-mw"], Sizes::These(&[4 * KIB]), BOTH),
        Group::of(STREAM, EVERY, Sizes::These(&[64 * KIB]), &["two-cpus"]),
        Group::of(STREAM, &["causeway-sw"], Sizes::These(&[64 * KIB]), &["two-cpus"]),
    ],
};

pub(super) const IPC: Suite = Suite {
    name: "ipc",
    about: "the main mechanisms over every power of two from 1 B to 4 MiB, one CPU and two",
    timing: Timing { sample_ns: 5_000_000, samples: 20, least_samples: 5, run_ns: 150_000_000 },
    budget: Duration::from_secs(20 * 60),
    precision: 0.02,
    crossover: None,
    groups: &[
        HARNESS,
        Group::of(ROUNDTRIP, MAIN, Sizes::PowersOfTwo, BOTH),
        Group::of(STREAM, MAIN, Sizes::PowersOfTwo, &["two-cpus"]),
    ],
};

pub(super) const FULL: Suite = Suite {
    name: "full",
    about: "every mechanism, every size, one CPU and two and free, and the ways to wait of each; signals and locks",
    timing: Timing { sample_ns: 10_000_000, samples: 30, least_samples: 5, run_ns: 450_000_000 },
    budget: Duration::from_secs(6 * 60 * 60),
    precision: 0.01,
    crossover: None,
    groups: &[
        HARNESS,
        Group {
            patterns: &["roundtrip", "stream"],
            mechanisms: EVERY,
            sizes: Sizes::PowersOfTwo,
            placements: &["same-cpu", "two-cpus", "free"],
            axes: &[],
        },
        POLLED.with(&[("wait", &["poll"])]),
        POLLED.with(&[("wait", &["epoll"])]),
        POLLED.with(&[("wait", &["uring"])]),
        Group::of(ROUNDTRIP, &["ring-futex", "ring-eventfd"], SOME_SIZES, BOTH)
            .with(&[("wait", &["spin-block"])]),
        Group {
            patterns: &["roundtrip", "stream"],
            mechanisms: &["causeway-sw", "causeway-mw"],
            sizes: Sizes::PowersOfTwo,
            placements: &["same-cpu", "two-cpus", "free"],
            axes: &[],
        },
        Group::of(&["pingpong"], SIGNALS, EMPTY, BOTH),
        Group::of(&["contend"], LOCKS, EMPTY, BOTH),
        Group::of(&["all-to-all"], &["pipe", "unix-stream"], Sizes::These(&[100]), &["free"]),
    ],
};
