//! Figures of other tools that look like ours and are compared with none of them. Data only.

use super::definition::Unequal;

/// Figures of other tools that are compared with none of ours, and why.
pub const UNEQUAL: &[Unequal] = &[
    Unequal {
        name: "lmbench-bw_mem rd, wr, rdwr, cp",
        why: "they touch one word of four bytes in sixteen and count all sixteen; no operation of ours leaves bytes out",
    },
    Unequal {
        name: "lmbench-bw_mem fwr, fcp",
        why: "loops of plain C over words of four bytes, which its compiler did not replace by memset and memcpy; no operation of \
              ours is such a loop",
    },
    Unequal {
        name: "lmbench-lat_proc exec, shell",
        why: "they fork before they start a program, which copies the page tables of lmbench; our posix_spawn copies none",
    },
    Unequal {
        name: "lmbench-lat_ctx",
        why: "it takes what it holds to be the cost of the pipe off a round trip; the difference of two measurements has no equal \
              here, and what switches cost stands in our rows as switches per operation",
    },
    Unequal {
        name: "lmbench-lat_tcp, bw_tcp",
        why: "their server puts itself into the background, where its end cannot be waited for; see iperf3 for TCP",
    },
    Unequal {
        name: "perf-syscall-getpgid, fork, execve",
        why: "getpgid is not an operation of ours; a fork copies the page tables of its process, and perf with its libraries is ten \
              times as expensive to fork as a peer of ours",
    },
    Unequal {
        name: "perf-futex-hash, requeue, lock-pi; perf-epoll-ctl",
        why: "they measure tables of the kernel under contention, which no case of ours does",
    },
];
