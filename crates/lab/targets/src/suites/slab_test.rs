//! time_bench and slab_test of 2014, which measure the kernel's allocator from within, with the C library's allocator in
//! its place: a kernel module cannot be had without being root.

use std::time::Duration;

use weighbridge_harness::plan::{Group, Sizes, Suite};
use weighbridge_harness::planner::Timing;

const SOLO: &[&str; 1] = &["solo"];
const PARALLEL: &[&str; 1] = &["parallel"];
/// The sizes that one CPU goes through, up to four pages.
const SIZES: &[u64] = &[8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384];
/// The sizes that all CPUs go through together, up to a page.
const SIZES_TOGETHER: &[u64] = &[8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// About what a socket buffer's head takes.
const SK_BUFF: &[u64; 1] = &[256];

pub(super) const SUITE: Suite = Suite {
    name: "slab_test",
    about: "the tests of time_bench and slab_test with the C library's allocator: reuse, 10,000 at a time, concurrent, remote",
    timing: Timing { sample_ns: 2_700_000, samples: 12, least_samples: 4, run_ns: 40_000_000 },
    budget: Duration::from_secs(2 * 60),
    precision: 0.03,
    crossover: None,
    in_turn: false,
    groups: &[
        Group::one(SOLO, &["alloc-reuse"], SK_BUFF, &["same-cpu"], &[]),
        Group::one(SOLO, &["alloc-pattern"], SK_BUFF, &["same-cpu"], &[]),
        Group::one(SOLO, &["pool-array-queue"], SK_BUFF, &["same-cpu"], &[]),
        Group::of(SOLO, &["alloc-pattern"], Sizes::These(SIZES), &["same-cpu"])
            .with(&[("count", &["10000"])]),
        Group::of(SOLO, &["alloc-reuse"], Sizes::These(SIZES), &["same-cpu"]),
        Group::of(PARALLEL, &["alloc-pattern"], Sizes::These(SIZES_TOGETHER), &["spread"])
            .with(&[("count", &["10000"])]),
        Group::of(
            PARALLEL,
            &["alloc-reuse", "alloc-remote-free", "alloc-one-free-all"],
            Sizes::These(SIZES_TOGETHER),
            &["spread"],
        ),
    ],
};
