//! Which cases a machine can have, and what raises the limit of those that it cannot.

use super::{Order, STREAMS, StreamWait, writers};
use crate::descriptors::{self, OTHERS};
use crate::prelude::*;
use causeway_os::limits;
use weighbridge_harness::axis::Peers;
use weighbridge_harness::ctx;

/// FD_SETSIZE of `select(2)`.
pub(super) const SELECT_FDS: usize = 1024;

/// May this case run here? Raises the limit of descriptors as far as the case needs and this process may.
pub(super) fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let (streams, writers) = (streams(params), writers(params));
    let refused = match params.choice() {
        _ if writers > streams => {
            Some(format!("{writers} writers have nothing to write to among {streams} streams"))
        }
        StreamWait::None if params.choice::<Order>() == Order::Random => Some(
            "a reader that waits for one stream after the other blocks for ever while its writer waits for room in \
             another; wait=none needs order=cyclic"
                .into(),
        ),
        _ if ctx::rate(params).is_some() && params.choice::<Order>() == Order::Random => Some(
            "the bytes of a stream tell which messages they are only where writers go round their streams; rate needs \
             order=cyclic"
                .into(),
        ),
        StreamWait::Select if streams + OTHERS > SELECT_FDS => Some(format!(
            "select takes descriptors below FD_SETSIZE = {SELECT_FDS}, which the C library fixes: at most {} \
             streams; use another wait",
            SELECT_FDS - OTHERS
        )),
        StreamWait::Uring => host.uring_refused.clone(),
        _ => None,
    };
    if let Some(why) = refused {
        return Err(Unsupported(why));
    }
    let others_ends = if is_one_process(params) { streams } else { (writers * SENT_TOGETHER).min(streams) };
    descriptors::fit(writers + 1, streams + others_ends, &format!("{streams} streams"))
}

/// Ends that the reader keeps for each writer until a message is full.
const SENT_TOGETHER: usize = 200;

/// Threads of one process keep both ends of all streams.
fn is_one_process(params: &CaseParams) -> bool {
    params.choice::<Peers>() == Peers::Thread
}

/// How many streams a case has: with `streams=max` as many as the hard limit of descriptors leaves room for, which every role
/// has from the coordinator.
pub(super) fn streams(params: &CaseParams) -> usize {
    params.number(STREAMS.name).unwrap_or_else(|| most(limits::nofile().1, params))
}

fn most(descriptors: u64, params: &CaseParams) -> usize {
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX).min(MOST_DESCRIPTORS);
    let writers = writers(params);
    let left = descriptors.saturating_sub(descriptors::others(writers + 1));
    let most = if is_one_process(params) { left / 2 } else { left.saturating_sub(writers * SENT_TOGETHER) };
    // A single one is refused with the limit.
    most.max(1)
}

/// As many descriptors as a process has by default at most (fs.nr_open): where there is no limit, memory is one.
const MOST_DESCRIPTORS: usize = 1 << 20;

/// What an error in making that number of streams is about.
pub(super) fn explain(error: io::Error, index: usize, streams: usize) -> io::Error {
    let hint = match error.raw_os_error() {
        Some(libc::EMFILE) => "; the limit is RLIMIT_NOFILE, see ulimit -n",
        Some(libc::ENFILE) => "; the limit is fs.file-max, raise it with sysctl",
        Some(libc::EPERM) => "; the limit may be fs.pipe-user-pages-hard, see sysctl",
        Some(libc::EADDRNOTAVAIL) => "; there is no free port, see sysctl net.ipv4.ip_local_port_range",
        Some(libc::EAGAIN | libc::ETIMEDOUT | libc::EINPROGRESS) => {
            "; loopback connections may be filtered, or nf_conntrack may be full"
        }
        _ => "",
    };
    io::Error::new(error.kind(), format!("stream {} of {streams}: {error}{hint}", index + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_record::CaseId;

    #[test]
    fn as_many_streams_as_there_can_be_fit_the_limit_and_one_more_of_each_does_not() {
        crate::register();
        for peers in ["process", "thread"] {
            let id = CaseId::new("fan-in", "pipe", 1, "free").with("streams", "max").with("peers", peers);
            let (_, _, params) = weighbridge_harness::catalogue::resolve(&id).unwrap();
            let streams = most(20_000, &params);
            let needed = |streams: usize| {
                let more = if peers == "thread" { streams } else { SENT_TOGETHER };
                descriptors::others(2) + streams + more
            };
            assert!(needed(streams) <= 20_000 && needed(streams + 1) > 20_000, "{peers}: {streams}");
        }
    }
}
