//! akbench of 2025: `latency_all` and `bandwidth_all`, 1 GiB through buffers of 1 MiB, nothing pinned.
//!
//! Its senders take the data from a block of 1 GiB and its receivers copy it to another; pipe, FIFO and message queue
//! receivers to one that was never touched. Here as there.

use std::time::Duration;

use super::{MIB, STREAM};
use weighbridge_harness::plan::{Group, Suite};
use weighbridge_harness::planner::Timing;

const GIB: u64 = 1 << 30;
const FREE: &[&str; 1] = &["free"];
const BUFFER: &[u64; 1] = &[MIB];
const PINGPONG: &[&str; 1] = &["pingpong"];
const SOLO: &[&str; 1] = &["solo"];
const PARALLEL: &[&str; 1] = &["parallel"];
const MEMCPY: &[&str; 1] = &["memcpy"];
const NONE: &[u64; 1] = &[0];
/// An axis and its only value.
type Set = (&'static str, &'static [&'static str]);
const DATA: Set = ("working-set", &["268435456"]);
const FRESH: Set = ("memory", &["fresh"]);
const THREADS: Set = ("peers", &["thread"]);
/// As akbench's flags, which are neighbours.
const ONE_LINE: Set = ("layout", &["one-line"]);

pub(super) const SUITE: Suite = Suite {
    name: "akbench",
    about: "akbench's latency_all and bandwidth_all: signals, system calls, memcpy, and 1 GiB through everything",
    timing: Timing { sample_ns: 5_300_000, samples: 12, least_samples: 2, run_ns: 60_000_000 },
    budget: Duration::from_secs(80),
    precision: 0.05,
    crossover: None,
    in_turn: false,
    groups: &[
        Group::one(PINGPONG, &["atomic"], NONE, FREE, &[ONE_LINE, THREADS]),
        // What its name calls release and acquire is a relaxed store; on x86 the code is the same.
        Group::one(PINGPONG, &["atomic"], NONE, FREE, &[ONE_LINE, ("order", &["acqrel"]), THREADS]),
        Group::one(PINGPONG, &["barrier"], NONE, FREE, &[]),
        Group::one(PINGPONG, &["condvar"], NONE, FREE, &[THREADS]),
        Group::one(PINGPONG, &["sem-posix"], NONE, FREE, &[]),
        Group::one(SOLO, &["statfs"], NONE, FREE, &[]),
        Group::one(SOLO, &["fstatfs"], NONE, FREE, &[]),
        Group::one(SOLO, &["getpid"], NONE, FREE, &[]),
        Group::one(SOLO, MEMCPY, &[GIB], FREE, &[]),
        Group::one(PARALLEL, MEMCPY, &[GIB], FREE, &[("roles", &["1"])]),
        Group::one(PARALLEL, MEMCPY, &[GIB / 2], FREE, &[("roles", &["2"])]),
        Group::one(PARALLEL, MEMCPY, &[GIB / 3], FREE, &[("roles", &["3"])]),
        Group::one(PARALLEL, MEMCPY, &[GIB / 4], FREE, &[("roles", &["4"])]),
        Group::one(STREAM, &["tcp"], BUFFER, FREE, &[("nodelay", &["no"]), DATA]),
        Group::one(STREAM, &["unix-stream"], BUFFER, FREE, &[DATA]),
        Group::one(STREAM, &["pipe"], BUFFER, FREE, &[FRESH, DATA]),
        Group::one(STREAM, &["fifo"], BUFFER, FREE, &[FRESH, DATA]),
        Group::one(STREAM, &["mq-posix"], &[8192], FREE, &[FRESH, DATA]),
        Group::one(STREAM, &["buffers-barrier"], BUFFER, FREE, &[("backing", &["file"]), DATA]),
        Group::one(STREAM, &["buffers-barrier"], BUFFER, FREE, &[("backing", &["shm"]), DATA]),
    ],
};
