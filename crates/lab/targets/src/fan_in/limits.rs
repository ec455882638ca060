//! Which cases a machine can have, and what raises the limit of those that it cannot.

use super::{Order, STREAMS, StreamWait, writers};
use crate::descriptors::{self, OTHERS};
use crate::prelude::*;
use weighbridge_harness::axis::Peers;

/// FD_SETSIZE of `select(2)`.
pub(super) const SELECT_FDS: usize = 1024;

/// May this case run here? Raises the limit of descriptors as far as the case needs and this process may.
pub(super) fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let (streams, writers) = (params.count(STREAMS), writers(params));
    let refused = match params.choice() {
        _ if writers > streams => {
            Some(format!("{writers} writers have nothing to write to among {streams} streams"))
        }
        StreamWait::None if params.choice::<Order>() == Order::Random => Some(
            "a reader that waits for one stream after the other blocks for ever while its writer waits for room in \
             another; wait=none needs order=cyclic"
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
    // The reader keeps the writers' ends until a message for each is full; threads of one process keep both ends of all.
    let is_one_process = params.choice::<Peers>() == Peers::Thread;
    let others_ends = if is_one_process { streams } else { (writers * 200).min(streams) };
    descriptors::fit(writers + 1, streams + others_ends, &format!("{streams} streams"))
}

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
