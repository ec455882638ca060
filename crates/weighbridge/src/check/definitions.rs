//! Which figures of other tools are compared with which of ours, and what has to be known for that. Data only.
//!
//! The bands are for ours over theirs. A narrow one says that both do the same; a wide one says what the difference is. No
//! perf event is ever attached to our threads: it would slow their context switches.

use super::definition::{Definition, Meaning, Place, Reads, Runs, Scale, Server, Tool};

/// Linux's own benchmarks. On Debian each kernel version has its own; any will do.
const PERF: Tool = Tool { name: "perf", package: "linux-perf", folders: &[] };
const IPERF3: Tool = Tool { name: "iperf3", package: "iperf3", folders: &[] };
/// In non-free, because of a restriction on publishing figures of changed versions.
const LMBENCH: Tool = Tool {
    name: "lmbench",
    package: "lmbench (in non-free)",
    folders: &["/usr/lib/lmbench/bin/*", "/usr/lib/lmbench/bin"],
};
const HACKBENCH: Tool = Tool { name: "hackbench", package: "rt-tests", folders: &[] };

/// A tool that is done in half a second or less.
const SHORT: Runs = Runs { theirs: 3, ours: 3 };
/// A tool that takes a second or more.
const LONG: Runs = Runs { theirs: 1, ours: 3 };
/// A tool whose second sees several levels of speed: as many runs of ours as take a second.
const DRIFTING: Runs = Runs { theirs: 1, ours: 5 };

/// Messages of 20 senders, each of which writes N (`-l`) to each of 20 receivers.
const fn messages(of_each_to_each: u32) -> Scale {
    Scale::Over(20.0 * 20.0 * of_each_to_each as f64)
}

/// What lmbench's figures of a single call have in common; the fields that are empty are those of each.
const CALL: Definition = Definition {
    name: "",
    tool: &LMBENCH,
    command: &[],
    server: None,
    place: Place::Ours,
    case: "",
    unit: "ns/op",
    runs: SHORT,
    reads: Reads::Before("microseconds"),
    scale: Scale::Times(1e3),
    meaning: Meaning {
        counts: "calls, one after the other",
        message: "one byte where there is any",
        peers: "one process",
        warm_up: "calibrated; the median of eleven tries; what its loop and clock cost is subtracted",
    },
    band: [0.8, 1.25],
    because: "",
    outside: "mitigations or auditing that hold for one process only (seccomp, ptrace)",
};

/// lmbench's figure of one system call that `lat_syscall` makes with these words.
const fn syscall(
    name: &'static str,
    command: &'static [&'static str],
    case: &'static str,
    because: &'static str,
) -> Definition {
    Definition { name, command, case, because, ..CALL }
}

/// The same of figures of large blocks; lmbench's MB, for rates, are powers of ten.
const BLOCKS: Definition = Definition {
    unit: "bytes/s",
    reads: Reads::SecondOfTwo,
    scale: Scale::Times(1e6),
    meaning: Meaning {
        counts: "bytes of the block, counted once; its MB are 10^6 bytes, and its `64m` are 64 MiB",
        message: "64 MiB, the same blocks over and over",
        peers: "one process",
        warm_up: "the blocks are written before; calibrated; the median of eleven tries",
    },
    band: [0.85, 1.15],
    outside: "the two processes got pages of different sizes (transparent huge pages), or another machine on the same host \
              uses the memory",
    ..CALL
};
/// The same of round trips between two processes.
const ROUND_TRIP: Definition = Definition {
    unit: "ns/roundtrip",
    band: [0.85, 1.15],
    because: "the same system calls on the same CPU",
    outside: "a perf event attached to either side adds a microsecond to each context switch",
    ..CALL
};
/// The same of perf's benchmarks of memory.
const PERF_BLOCKS: Definition =
    Definition { tool: &PERF, reads: Reads::PerfBytes, scale: Scale::Times(1.0), ..BLOCKS };
/// perf's figure of one way to copy.
const fn perf_memcpy(
    name: &'static str,
    command: &'static [&'static str],
    case: &'static str,
    peers: &'static str,
    because: &'static str,
) -> Definition {
    let meaning = Meaning {
        counts: "bytes copied, counted once; its `GB` are 2^30 bytes and its `-s 64MB` are 64 MiB",
        message: "64 MiB from one block to another, the same blocks 16 times",
        peers,
        warm_up: "one copy, so that no page is touched for the first time",
    };
    Definition { name, command, case, meaning, because, ..PERF_BLOCKS }
}
/// The same of groups of processes.
const GROUPS: Definition = Definition {
    tool: &HACKBENCH,
    unit: "messages/s",
    runs: LONG,
    reads: Reads::After("Time:"),
    scale: messages(1000),
    meaning: Meaning {
        counts: "time in which 20 senders write N messages (its -l N) to each of 20 receivers; taken as messages per second",
        message: "100 bytes, one buffer of each process used again and never looked at",
        peers: "40 processes in blocking write and read on either side",
        warm_up: "none; the start of the first process, emptying the buffers and the last exit are inside the time",
    },
    band: [0.8, 1.3],
    because: "as many processes make the same writes and reads on the same CPU, but its time begins with empty buffers and ends when \
              the last process has ended, and ours is a part of the time between",
    outside: "the order in which the scheduler runs 40 processes decides how full each buffer gets, and so how often a process sleeps",
    ..CALL
};
const IPERF3_COMMAND: &[&str] =
    &["iperf3", "-c", "127.0.0.1", "-p", "{port}", "-t", "1", "-l", "128K", "-A", "{near},{far}", "-J"];
/// The same of iperf3.
const TCP: Definition = Definition {
    tool: &IPERF3,
    command: IPERF3_COMMAND,
    server: Some(Server {
        command: &["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", "{port}", "--forceflush"],
        ready: "Server listening",
    }),
    place: Place::Own,
    unit: "bytes/s",
    runs: DRIFTING,
    reads: Reads::Iperf3Received,
    scale: Scale::Times(1.0 / 8.0),
    meaning: Meaning {
        counts: "bits per second that the receiver counted, powers of ten",
        message: "128 KiB in a write, one buffer used again; its content is never looked at",
        peers: "two processes; a select before each write and read, where ours block",
        warm_up: "none; slow start is inside the second",
    },
    outside: "on a virtual machine whose idle CPUs halt, loopback TCP changes its speed by a factor of up to three within \
              seconds, with how often the receiver sleeps; several runs of this check then differ as much",
    ..CALL
};

/// Every comparison, in the order in which they are shown.
pub const ALL: &[Definition] = &[
    Definition {
        name: "perf-sched-pipe",
        tool: &PERF,
        command: &["perf", "bench", "sched", "pipe", "-l", "100000"],
        case: "roundtrip/pipe/4/same-cpu",
        reads: Reads::Before("usecs/op"),
        meaning: Meaning {
            counts: "round trips over two pipes; an op is a write and a read on either side",
            message: "4 bytes (an int), one buffer used again",
            peers: "two processes in blocking read and write",
            warm_up: "none; fork, exit and wait are inside the time, less than 1 % of 100,000 round trips",
        },
        because: "the same system calls on the same CPU, the same number of bytes",
        outside: "a perf event attached to either side, such as a profiler of the whole machine, adds a microsecond to each \
                  context switch",
        ..ROUND_TRIP
    },
    Definition {
        name: "perf-sched-messaging",
        tool: &PERF,
        command: &["perf", "bench", "sched", "messaging", "-g", "1", "-l", "1000"],
        case: "all-to-all/unix-stream/100/same-cpu/touch=none",
        reads: Reads::After("Total time:"),
        ..GROUPS
    },
    Definition {
        name: "perf-syscall-basic",
        tool: &PERF,
        command: &["perf", "bench", "syscall", "basic", "-l", "1000000"],
        case: "solo/getppid/0/same-cpu",
        reads: Reads::Before("usecs/op"),
        meaning: Meaning {
            counts: "calls of getppid, whatever the name `basic` suggests",
            message: "none",
            peers: "one process",
            warm_up: "none",
        },
        band: [0.85, 1.15],
        because: "the same system call in a loop; on both sides the C library's wrapper is a few instructions",
        ..CALL
    },
    perf_memcpy(
        "perf-mem-memcpy",
        &["perf", "bench", "mem", "memcpy", "-f", "default", "-s", "64MB", "-l", "16"],
        "solo/memcpy/67108864/same-cpu",
        "one process; memcpy of the C library",
        "the same function of the same C library on blocks of the same size that were touched before",
    ),
    perf_memcpy(
        "perf-mem-memcpy-unrolled",
        &["perf", "bench", "mem", "memcpy", "-f", "x86-64-unrolled", "-s", "64MB", "-l", "16"],
        "solo/copy-unrolled/67108864/same-cpu",
        "one process; a loop of the kernel over 64 bytes by registers of eight",
        "both loops read and write a line by words of eight bytes, ours in another order of instructions",
    ),
    perf_memcpy(
        "perf-mem-memcpy-movsq",
        &["perf", "bench", "mem", "memcpy", "-f", "x86-64-movsq", "-s", "64MB", "-l", "16"],
        "solo/rep-movsq/67108864/same-cpu",
        "one process; the instruction rep movsq",
        "the same instruction on blocks of the same size that were touched before",
    ),
    Definition {
        name: "perf-mem-memset",
        command: &["perf", "bench", "mem", "memset", "-f", "default", "-s", "64MB", "-l", "16"],
        case: "solo/memset/67108864/same-cpu",
        meaning: Meaning {
            counts: "bytes filled; its `GB` are 2^30 bytes and its `-s 64MB` are 64 MiB",
            message: "64 MiB, the same block 16 times, with the number of the turn; ours with a byte that is not zero",
            peers: "one process; memset of the C library",
            warm_up: "one fill, so that no page is touched for the first time",
        },
        because: "the same function of the same C library on a block of the same size that was touched before; one of its 16 fills is \
                  with zero, which some processors do more than twice as fast: up to 4 %",
        ..PERF_BLOCKS
    },
    Definition {
        name: "perf-epoll-wait",
        command: &["perf", "bench", "epoll", "wait", "-t", "1", "-f", "64", "-r", "1"],
        place: Place::Own,
        case: "fan-in/pipe/8/two-cpus/max-events=1/order=cyclic/peers=thread/streams=64/wait=epoll-lt/yield-limit=0",
        unit: "events/s",
        runs: LONG,
        reads: Reads::Before("operations/sec"),
        meaning: Meaning {
            counts: "returns of epoll_wait, one event each, with the read that follows",
            message: "8 bytes into one of 64 eventfds, where ours are pipes",
            peers: "two threads; its writer sleeps after each round of 64, which with the timer's slack of 50 µs is up to half of \
                    its time, and ours never does",
            warm_up: "none; only whole seconds count",
        },
        band: [0.7, 3.0],
        because: "the same wait and read for each event on the same two CPUs, but an eventfd costs less than a pipe, and a writer \
                  that sleeps half of its time makes half the events",
        outside: "how long its writer sleeps (timer slack), and how expensive it is to wake an idle CPU",
        ..PERF_BLOCKS
    },
    Definition {
        name: "perf-futex-wake",
        command: &["perf", "bench", "futex", "wake", "-t", "1"],
        place: Place::Own,
        case: "pingpong/futex/0/two-cpus",
        unit: "ns/hop",
        runs: LONG,
        reads: Reads::Before("ms (+-"),
        scale: Scale::Times(1e6),
        meaning: Meaning {
            counts: "one call that wakes one sleeper, a mean of ten; the sleeper's way back is not in it, while a hop of ours ends there",
            message: "none",
            peers: "two threads; the sleeper has slept for 100 ms",
            warm_up: "none; a clock of microseconds around a single call",
        },
        band: [0.1, 10.0],
        because: "a sleep of 100 ms lets the other CPU fall into a deeper idle state than a sleep of one hop does, and the call alone \
                  is less than the hop: only the order of magnitude can agree",
        outside: "its waker and sleeper happened to share a CPU, so that no idle CPU was woken",
        ..PERF_BLOCKS
    },
    Definition {
        name: "iperf3",
        case: "stream/tcp/131072/two-cpus/touch=none",
        band: [0.6, 1.8],
        because: "the same writes and reads on the same two CPUs, but every one of its own is preceded by a select",
        ..TCP
    },
    Definition {
        name: "iperf3-touched",
        case: "stream/tcp/131072/two-cpus",
        band: [0.5, 1.8],
        because: "as iperf3, but our sender writes every byte of a message and our receiver reads it",
        ..TCP
    },
    Definition {
        name: "lmbench-lat_syscall",
        command: &["lat_syscall", "null"],
        case: "solo/getppid/0/same-cpu",
        meaning: Meaning {
            counts: "calls of getppid",
            message: "none",
            peers: "one process",
            warm_up: "calibrated; the median of eleven tries; what its loop and clock cost is subtracted",
        },
        band: [0.85, 1.15],
        because: "the same system call in a loop",
        ..CALL
    },
    syscall(
        "lmbench-lat_syscall-read",
        &["lat_syscall", "read"],
        "solo/read-zero/0/same-cpu",
        "a read of one byte of /dev/zero on both sides; its loop has more around the call",
    ),
    syscall(
        "lmbench-lat_syscall-write",
        &["lat_syscall", "write"],
        "solo/write-null/0/same-cpu",
        "a write of one byte to /dev/null on both sides; its loop has more around the call",
    ),
    syscall(
        "lmbench-lat_syscall-stat",
        &["lat_syscall", "stat", "/"],
        "solo/stat/0/same-cpu",
        "a stat of / on both sides",
    ),
    syscall(
        "lmbench-lat_syscall-fstat",
        &["lat_syscall", "fstat", "/"],
        "solo/fstat/0/same-cpu",
        "an fstat of an open / on both sides",
    ),
    syscall(
        "lmbench-lat_syscall-open",
        &["lat_syscall", "open", "/dev/null"],
        "solo/open-close/0/same-cpu",
        "an open of /dev/null for reading, and its close, on both sides",
    ),
    Definition {
        name: "lmbench-lat_proc-fork",
        command: &["lat_proc", "fork"],
        case: "solo/fork-cycle/0/same-cpu",
        meaning: Meaning {
            counts: "fork of a child that ends at once, and wait",
            message: "none",
            peers: "one process and its child",
            warm_up: "calibrated; the median of eleven tries",
        },
        band: [0.3, 3.0],
        because: "the same calls, but a fork copies the page tables of its process, and ours is another program than theirs; its child runs \
                  the handlers of exit, ours calls _exit",
        outside: "locked memory, which must be copied at once",
        ..CALL
    },
    Definition {
        name: "lmbench-lat_pipe",
        command: &["lat_pipe"],
        case: "roundtrip/pipe/1/same-cpu",
        runs: LONG,
        meaning: Meaning {
            counts: "round trips over two pipes",
            message: "1 byte",
            peers: "two processes in blocking read and write",
            warm_up: "calibrated; the median of eleven tries (its option -W is in microseconds, not in runs)",
        },
        ..ROUND_TRIP
    },
    Definition {
        name: "lmbench-lat_unix",
        command: &["lat_unix"],
        case: "roundtrip/unix-stream/1/same-cpu",
        meaning: Meaning {
            counts: "round trips over one Unix stream socket pair",
            message: "1 byte",
            peers: "two processes in blocking read and write",
            warm_up: "calibrated; the median of eleven tries",
        },
        band: [0.8, 1.2],
        ..ROUND_TRIP
    },
    Definition {
        name: "lmbench-lat_sem",
        command: &["lat_sem"],
        case: "pingpong/sem-sysv/0/same-cpu",
        unit: "ns/hop",
        runs: LONG,
        meaning: Meaning {
            counts: "hops, by its own count; between two context switches it counts up to three",
            message: "none",
            peers: "two processes; one semop both posts and waits, where ours are two calls",
            warm_up: "calibrated; the median of eleven tries",
        },
        band: [1.0, 4.0],
        because: "the kernel completes the second half of a sleeper's semop in its place, so lmbench makes up to three turns of its \
                  loop for one wake-up: up to three times too low, and least so on one CPU",
        outside: "context switches per hop tell: ours make one, lmbench's fewer",
        ..CALL
    },
    Definition {
        name: "lmbench-bw_pipe",
        command: &["bw_pipe"],
        case: "stream/pipe/65536/same-cpu/touch=none",
        runs: LONG,
        reads: Reads::Before("MB/sec"),
        meaning: Meaning {
            counts: "bytes that its reader counted; its MB are 10^6 bytes",
            message: "64 KiB, one buffer used again and never looked at",
            peers: "two processes in blocking read and write",
            warm_up: "calibrated; the median of eleven tries; every 10 MiB the reader asks for more",
        },
        band: [0.8, 1.25],
        because: "the same writes and reads on the same CPU; every 10 MiB lmbench waits for the pipe to run dry",
        outside: "a pipe that is smaller than 64 KiB, because pipe-user-pages-soft is used up",
        ..BLOCKS
    },
    Definition {
        name: "lmbench-bw_unix",
        command: &["bw_unix"],
        case: "stream/unix-stream/65536/same-cpu/touch=none",
        runs: LONG,
        reads: Reads::Before("MB/sec"),
        meaning: Meaning {
            counts: "10 MiB for each turn of its loop, not what arrived: right as long as -M is not given (with -M its figure is wrong)",
            message: "64 KiB, one buffer used again and never looked at",
            peers: "two processes in blocking read and write",
            warm_up: "calibrated; the median of eleven tries; every 10 MiB the reader asks for more",
        },
        band: [0.7, 1.4],
        because: "the same writes and reads on the same CPU, but how many bytes a read finds depends on who runs when",
        outside: "socket buffers of other sizes (net.core.wmem_default)",
        ..BLOCKS
    },
    Definition {
        name: "lmbench-bw_mem-bcopy",
        command: &["bw_mem", "64m", "bcopy"],
        case: "solo/memcpy/67108864/same-cpu",
        because: "its bcopy is the C library's memmove, which copies blocks of this size with the same code as memcpy",
        ..BLOCKS
    },
    Definition {
        name: "lmbench-bw_mem-bzero",
        command: &["bw_mem", "64m", "bzero"],
        case: "solo/memset-zero/67108864/same-cpu",
        because: "its bzero is the C library's memset with zero, and so is ours here: some processors fill memory with zero more than \
                  twice as fast as with other bytes",
        ..BLOCKS
    },
    Definition {
        name: "lmbench-bw_mem-frd",
        command: &["bw_mem", "64m", "frd"],
        case: "solo/read-sum/67108864/same-cpu",
        band: [0.8, 3.0],
        because: "both read every byte, but it adds words of 4 bytes in plain C, which its compiler may or may not have turned into vectors, \
                  and ours adds words of 8 bytes with vectors",
        ..BLOCKS
    },
    Definition {
        name: "hackbench",
        command: &["hackbench", "-g", "1", "-l", "1000"],
        case: "all-to-all/unix-stream/100/same-cpu/touch=none",
        ..GROUPS
    },
    Definition {
        name: "hackbench-pipe",
        command: &["hackbench", "-g", "1", "-l", "3000", "-p"],
        case: "all-to-all/pipe/100/same-cpu/touch=none",
        scale: messages(3000),
        ..GROUPS
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weighbridge_harness::{catalogue, plan};
    use weighbridge_record::CaseId;

    #[test]
    fn every_case_has_one_spelling_its_unit_a_band_around_what_is_meant_and_reasons() {
        crate::register();
        let names: BTreeSet<&str> = ALL.iter().map(|definition| definition.name).collect();
        assert_eq!(names.len(), ALL.len());
        assert!(super::super::existing().count() >= 24);
        for Definition { name, tool, case, unit, band, runs, because, outside, .. } in ALL {
            assert!(name.starts_with(tool.name), "{name} is one of {}", tool.name);
            assert!(band[0] > 0.0 && band[0] < band[1] && runs.theirs > 0 && runs.ours > 0, "{name}");
            for sentence in [because, outside] {
                assert!(!sentence.is_empty() && !sentence.ends_with('.'), "{name}: {sentence}");
            }
            let id: CaseId = case.parse().unwrap();
            assert_eq!(id.to_string(), *case, "axes stand in order");
            if let Ok((_, pattern, _)) = catalogue::resolve(&id) {
                assert_eq!(plan::without_defaults(id.clone()), id, "{name}: no default is spelled out");
                assert_eq!(pattern.unit.name(id.payload_bytes), *unit, "{name}");
            }
        }
    }
}
