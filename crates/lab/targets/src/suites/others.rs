//! The suites that repeat other tools, measured as those measure.

use std::time::Duration;

use super::{BOTH, MIB, ROUNDTRIP, STREAM};
use weighbridge_harness::plan::{Group, Sizes, Suite};
use weighbridge_harness::planner::Timing;

const FREE: &[&str; 1] = &["free"];
const SOLO: &[&str; 1] = &["solo"];
const PARALLEL: &[&str; 1] = &["parallel"];
const FAN_IN: &[&str; 1] = &["fan-in"];
/// An axis and its only value.
type Set = (&'static str, &'static [&'static str]);
const THREADS: Set = ("peers", &["thread"]);

/// What such suites have in common.
const LIKE_ITS_TOOL: Suite = Suite {
    name: "",
    about: "",
    timing: Timing { sample_ns: 0, samples: 0, least_samples: 0, run_ns: 0 },
    budget: Duration::ZERO,
    precision: 0.05,
    crossover: None,
    in_turn: false,
    groups: &[],
};

const COPY: Group = Group::of(ROUNDTRIP, &["causeway-sw"], Sizes::PowersOfTwo, BOTH);
const MEMFD: Group = Group::of(ROUNDTRIP, &["memfd-pass"], Sizes::PowersOfTwo, BOTH);
/// A call as a program makes it.
const CALL: Group = Group::of(ROUNDTRIP, &["causeway-call"], Sizes::PowersOfTwo, BOTH);
/// Large payloads by reference, in memory files that are used again.
const REFERENCE: Group = Group::of(ROUNDTRIP, &["causeway-memfd"], Sizes::PowersOfTwo, BOTH);
/// ibench itself, with pipes and with a socket pair.
const PIPES: Group = Group::of(ROUNDTRIP, &["pipe", "unix-stream"], Sizes::PowersOfTwo, BOTH)
    .with(&[("touch", &["write"]), ("wait", &["poll"])]);
/// All that kdbus did: names, match rules, headers, policy. Programs that measure no bus leave it out.
const BUS: Group = Group::of(ROUNDTRIP, &["causeway-bus"], Sizes::PowersOfTwo, BOTH).where_known();
/// A bus that copies and one that passes memory files; a whole bus and a pipe.
const CROSSOVERS: &[(&str, &str)] = &[("causeway-sw", "memfd-pass"), ("causeway-bus", "pipe")];

/// A chart of such a bus by size. All sizes in both placements are many cases, and each of them gets little time.
const CHART: Suite = Suite {
    timing: Timing { sample_ns: 2_700_000, samples: 12, least_samples: 4, run_ns: 45_000_000 },
    budget: Duration::from_secs(270),
    crossover: Some(CROSSOVERS),
    ..LIKE_ITS_TOOL
};

/// The first chart of the kdbus discussion of 2014: `test-bus-kernel-benchmark chart` beside ibench.
///
/// ibench passes the payload there and back over two pipes, and polls before each read as a main loop would. The chart of
/// the bus sends it one way; the reply is empty. Both fill the payload with memset, and no process reads it.
pub(super) const IBENCH: Suite = Suite {
    name: "ibench",
    about: "the chart of test-bus-kernel-benchmark beside ibench: copy, memfd, pipes, a socket pair, calls, references and a whole bus by size",
    groups: &[
        COPY.with(&[("direction", &["request"]), ("touch", &["write"]), ("wait", &["block"])]),
        MEMFD.with(&[("direction", &["request"]), ("touch", &["write"])]),
        CALL.with(&[("direction", &["request"]), ("touch", &["write"]), ("wait", &["block"])]),
        REFERENCE.with(&[("direction", &["request"]), ("touch", &["write"]), ("wait", &["block"])]),
        PIPES,
        BUS.with(&[("direction", &["request"]), ("touch", &["write"])]),
    ],
    ..CHART
};

/// The second chart of that discussion: kdbench, which goes to the kernel without a library, beside ibench. Blocking synchronous
/// calls between two processes; the payload, filled with memset, travels both ways, copied or in memory files that are used again.
pub(super) const KDBENCH: Suite = Suite {
    name: "kdbench",
    about: "the chart of kdbench beside ibench: copy, memfd, pipes, a socket pair, calls, references and a whole bus by size, payload both ways",
    groups: &[
        COPY.with(&[("touch", &["write"]), ("wait", &["block"])]),
        MEMFD.with(&[("touch", &["write"])]),
        CALL.with(&[("touch", &["write"]), ("wait", &["block"])]),
        REFERENCE.with(&[("touch", &["write"]), ("wait", &["block"])]),
        PIPES,
        BUS.with(&[("touch", &["write"])]),
    ],
    ..CHART
};

const NICER: Set = ("nice", &["0:10"]);
const DELAYED: Set = ("nodelay", &["no"]);

/// epoll_bench of 2006: 2,000 streams into one reader, a byte each, in fifteen intervals.
///
/// Two threads of one process; the writer is nicer by ten. Intervals are shorter than the second that epoll_bench prints a
/// line for, so that there is time for several runs; rates are per second all the same.
pub(super) const EPOLL_BENCH: Suite = Suite {
    name: "epoll_bench",
    about: "epoll_bench with 2,000 pipes, Unix streams (-u), TCP connections (-i), and those without epoll (-i -f)",
    timing: Timing { sample_ns: 200_000_000, samples: 15, least_samples: 15, run_ns: 3_000_000_000 },
    budget: Duration::from_secs(100),
    groups: &[
        Group::one(FAN_IN, &["pipe"], &[1], FREE, &[NICER, THREADS]),
        Group::one(FAN_IN, &["unix-stream"], &[1], FREE, &[NICER, THREADS]),
        Group::one(FAN_IN, &["tcp"], &[1], FREE, &[NICER, DELAYED, THREADS]),
        Group::one(FAN_IN, &["tcp"], &[1], FREE, &[NICER, DELAYED, THREADS, ("wait", &["none"])]),
    ],
    ..LIKE_ITS_TOOL
};

/// Events per second over the number of streams.
pub(super) const SCALING: Suite = Suite {
    name: "scaling",
    about: "10, 100, 1,000 and 10,000 pipes into one reader, in six ways to wait",
    timing: Timing { sample_ns: 21_700_000, samples: 12, least_samples: 12, run_ns: 260_400_000 },
    budget: Duration::from_secs(3 * 60),
    groups: &[Group::of(FAN_IN, &["pipe"], Sizes::These(&[1]), &["two-cpus"]).with(&[
        ("wait", &["epoll-et", "epoll-lt", "poll", "select", "uring", "none"]),
        ("streams", &["10", "100", "1000", "10000"]),
    ])],
    ..LIKE_ITS_TOOL
};

const SPREAD: &[&str; 1] = &["spread"];
const SAME_CPU: &[&str; 1] = &["same-cpu"];
/// The sizes that one CPU goes through, up to four pages.
const SIZES: Sizes = Sizes::These(&[8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384]);
/// The sizes that all CPUs go through together, up to a page.
const SIZES_TOGETHER: Sizes = Sizes::These(&[8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
/// About what a socket buffer's head takes.
const SK_BUFF: &[u64; 1] = &[256];
const CONCURRENT: &[&str] = &["alloc-reuse", "alloc-remote-free", "alloc-one-free-all"];

/// time_bench and slab_test of 2014, which measure the kernel's allocator from within, with the C library's allocator in
/// its place: a kernel module cannot be had without being root.
pub(super) const SLAB_TEST: Suite = Suite {
    name: "slab_test",
    about: "the tests of time_bench and slab_test with the C library's allocator: reuse, 10,000 at a time, concurrent, remote",
    timing: Timing { sample_ns: 2_700_000, samples: 12, least_samples: 4, run_ns: 40_000_000 },
    budget: Duration::from_secs(2 * 60),
    precision: 0.03,
    groups: &[
        Group::one(SOLO, &["alloc-reuse"], SK_BUFF, SAME_CPU, &[]),
        Group::one(SOLO, &["alloc-pattern"], SK_BUFF, SAME_CPU, &[]),
        Group::one(SOLO, &["pool-array-queue"], SK_BUFF, SAME_CPU, &[]),
        Group::of(SOLO, &["alloc-pattern"], SIZES, SAME_CPU).with(&[("count", &["10000"])]),
        Group::of(SOLO, &["alloc-reuse"], SIZES, SAME_CPU),
        Group::of(PARALLEL, &["alloc-pattern"], SIZES_TOGETHER, SPREAD).with(&[("count", &["10000"])]),
        Group::of(PARALLEL, CONCURRENT, SIZES_TOGETHER, SPREAD),
    ],
    ..LIKE_ITS_TOOL
};

const GIB: u64 = 1 << 30;
const BUFFER: &[u64; 1] = &[MIB];
const PINGPONG: &[&str; 1] = &["pingpong"];
const MEMCPY: &[&str; 1] = &["memcpy"];
const NONE: &[u64; 1] = &[0];
const DATA: Set = ("working-set", &["268435456"]);
const FRESH: Set = ("memory", &["fresh"]);
/// As akbench's flags, which are neighbors.
const ONE_LINE: Set = ("layout", &["one-line"]);

/// akbench of 2025: `latency_all` and `bandwidth_all`, 1 GiB through buffers of 1 MiB, nothing pinned.
///
/// Its senders take the data from a block of 1 GiB and its receivers copy it to another; pipe, FIFO and message queue
/// receivers to one that was never touched. Here as there.
pub(super) const AKBENCH: Suite = Suite {
    name: "akbench",
    about: "akbench's latency_all and bandwidth_all: signals, system calls, memcpy, and 1 GiB through everything",
    timing: Timing { sample_ns: 5_300_000, samples: 12, least_samples: 2, run_ns: 60_000_000 },
    budget: Duration::from_secs(80),
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
        Group::one(PARALLEL, MEMCPY, &[GIB], FREE, &[("roles", &["1"]), THREADS]),
        Group::one(PARALLEL, MEMCPY, &[GIB / 2], FREE, &[("roles", &["2"]), THREADS]),
        Group::one(PARALLEL, MEMCPY, &[GIB / 3], FREE, &[("roles", &["3"]), THREADS]),
        Group::one(PARALLEL, MEMCPY, &[GIB / 4], FREE, &[("roles", &["4"]), THREADS]),
        Group::one(STREAM, &["tcp"], BUFFER, FREE, &[DELAYED, DATA]),
        Group::one(STREAM, &["unix-stream"], BUFFER, FREE, &[DATA]),
        Group::one(STREAM, &["pipe"], BUFFER, FREE, &[FRESH, DATA]),
        Group::one(STREAM, &["fifo"], BUFFER, FREE, &[FRESH, DATA]),
        Group::one(STREAM, &["mq-posix"], &[8192], FREE, &[FRESH, DATA]),
        Group::one(STREAM, &["buffers-barrier"], BUFFER, FREE, &[("backing", &["file"]), DATA]),
        Group::one(STREAM, &["buffers-barrier"], BUFFER, FREE, &[("backing", &["shm"]), DATA]),
    ],
    ..LIKE_ITS_TOOL
};
