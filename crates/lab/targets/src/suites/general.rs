//! The suites that compare everything with everything.

use std::time::Duration;

use super::{BOTH, KIB, MIB, ROUNDTRIP, STREAM};
use weighbridge_harness::plan::{Group, Sizes, Suite, Which};
use weighbridge_harness::planner::Timing;

/// What carries no payload.
const EMPTY: Sizes = Sizes::These(&[0]);
/// One of each kind.
const MAIN: &[&str] =
    &["pipe", "unix-stream", "unix-seqpacket", "tcp", "mq-posix", "ring-spin", "ring-futex", "memfd-pass"];
const SOME_SIZES: Sizes = Sizes::These(&[1, 4 * KIB, 64 * KIB, MIB]);
/// Those that can wait in several ways of the kernel's.
const POLLED: Group =
    Group::of(ROUNDTRIP, &["pipe", "unix-stream", "unix-seqpacket", "tcp"], SOME_SIZES, BOTH);

/// What the halts of CPUs add to what [`Group::without_halts`] leaves.
const WITH_HALTS: Group = Group::of(ROUNDTRIP, &["pipe", "ring-futex"], Sizes::These(&[1]), &["two-cpus"]);

/// Sets are short, because an order among twenty mechanisms is sure with nine of each at the earliest: two groups of nine differ by
/// chance in the least likely way once in 24,310 times, and one of eight once in 6,435, which 190 pairs at 5 % do not allow.
pub(super) const QUICK: Suite = Suite {
    name: "quick",
    about: "every mechanism, a few sizes, one CPU and two, within two minutes",
    timing: Timing { sample_ns: 4_700_000, samples: 8, least_samples: 5, run_ns: 20_000_000 },
    budget: Duration::from_secs(109),
    precision: 0.02,
    crossover: None,
    in_turn: true,
    groups: &[
        Group::HARNESS,
        Group::every(ROUNDTRIP, Which::Every, Sizes::These(&[1, 4 * KIB]), BOTH).without_halts(),
        Group::every(ROUNDTRIP, Which::EveryAtLargeSizes, Sizes::These(&[64 * KIB]), BOTH).without_halts(),
        Group::every(STREAM, Which::Every, Sizes::These(&[64 * KIB]), &["two-cpus"]).without_halts(),
        WITH_HALTS,
    ],
};

pub(super) const IPC: Suite = Suite {
    name: "ipc",
    about: "the main mechanisms over every power of two from 1 B to 4 MiB, one CPU and two",
    timing: Timing { sample_ns: 5_300_000, samples: 20, least_samples: 5, run_ns: 150_000_000 },
    budget: Duration::from_secs(20 * 60),
    precision: 0.02,
    crossover: None,
    in_turn: true,
    groups: &[
        Group::HARNESS,
        Group::of(ROUNDTRIP, MAIN, Sizes::PowersOfTwo, BOTH),
        Group::of(STREAM, MAIN, Sizes::PowersOfTwo, &["two-cpus"]),
    ],
};

pub(super) const FULL: Suite = Suite {
    name: "full",
    about: "every mechanism, every size, one CPU and two and free, and the ways to wait of each; signals and locks",
    timing: Timing { sample_ns: 11_300_000, samples: 30, least_samples: 5, run_ns: 450_000_000 },
    budget: Duration::from_secs(6 * 60 * 60),
    precision: 0.01,
    crossover: None,
    in_turn: true,
    groups: &[
        Group::HARNESS,
        Group::every(ROUNDTRIP, Which::Every, Sizes::PowersOfTwo, &["same-cpu", "two-cpus", "free"]),
        Group::every(STREAM, Which::Every, Sizes::PowersOfTwo, &["same-cpu", "two-cpus", "free"]),
        POLLED.with(&[("wait", &["poll"])]),
        POLLED.with(&[("wait", &["epoll"])]),
        POLLED.with(&[("wait", &["uring"])]),
        Group::of(ROUNDTRIP, &["ring-futex", "ring-eventfd"], SOME_SIZES, BOTH)
            .with(&[("wait", &["spin-block"])]),
        Group::every(&["pingpong"], Which::Every, EMPTY, BOTH),
        Group::every(&["contend"], Which::Every, EMPTY, BOTH),
        Group::every(&["all-to-all"], Which::Every, Sizes::These(&[100]), &["free"]),
    ],
};
