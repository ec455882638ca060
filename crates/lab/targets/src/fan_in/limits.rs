//! Which cases a machine can have, and what raises the limit of those that it cannot.

use super::{Order, STREAMS, StreamWait, writers};
use crate::descriptors;
use weighbridge_harness::axis::Peers;
use weighbridge_harness::contract::Unsupported;
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;

/// Descriptors of a process beside those of the streams: its own, those of the roles, and some to spare.
pub(super) const OTHERS: usize = 64;
/// Of each role, in the coordinator: process, sockets, counters.
pub(super) const EACH_ROLE: usize = 8;
/// FD_SETSIZE of `select(2)`.
pub(super) const SELECT_FDS: usize = 1024;

/// May this case run here? Raises the limit of descriptors as far as the case needs and this process may.
pub(super) fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let (streams, writers) = (params.count(STREAMS), writers(params));
    if writers > streams {
        return Err(Unsupported(format!(
            "{writers} writers have nothing to write to among {streams} streams"
        )));
    }
    match params.choice() {
        StreamWait::None if params.choice::<Order>() == Order::Random => {
            return Err(Unsupported(
                "a reader that waits for one stream after the other blocks for ever while its writer waits for room in \
                 another; wait=none needs order=cyclic"
                    .into(),
            ));
        }
        StreamWait::Select if streams + OTHERS > SELECT_FDS => {
            return Err(Unsupported(format!(
                "select takes descriptors below FD_SETSIZE = {SELECT_FDS}, which the C library fixes: at most {} \
                 streams; use another wait",
                SELECT_FDS - OTHERS
            )));
        }
        StreamWait::Uring => {
            if let Some(why) = &host.uring_refused {
                return Err(Unsupported(why.clone()));
            }
        }
        _ => {}
    }
    let is_one_process = params.choice::<Peers>() == Peers::Thread;
    let ends = if is_one_process { streams * 2 } else { streams };
    // The reader keeps the writers' ends until a message for each is full.
    let on_the_way = if is_one_process { 0 } else { (writers * 200).min(streams) };
    let needed = ends + on_the_way + EACH_ROLE * (writers + 1) + OTHERS;
    descriptors::fit(needed, &format!("{streams} streams"))
}

/// What an error in making that number of streams is about.
pub(super) fn explain(error: std::io::Error, index: usize, streams: usize) -> std::io::Error {
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
    std::io::Error::new(error.kind(), format!("stream {} of {streams}: {error}{hint}", index + 1))
}
