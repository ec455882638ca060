//! Which cases a machine can have, and what raises the limit of those that it cannot.

use causeway_os::limits;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::{ORDER, STREAMS, WAIT, count, writers};
use crate::contract::Fit;
use crate::host::Host;
use crate::link::Link;

/// Descriptors of a process beside those of the streams: its own, those of the roles, and some to spare.
const OTHERS: usize = 64;
/// Of each role, in the coordinator: process, control socket, board.
const EACH_ROLE: usize = 8;
/// FD_SETSIZE of `select(2)`.
pub(super) const SELECT_FDS: usize = 1024;

/// May this case run here? Raises the limit of descriptors as far as the case needs and this process may.
pub(super) fn fit(host: &Host, link: &Link) -> Fit {
    let (streams, writers) = (count(link, STREAMS), writers(link));
    if writers > streams {
        return Fit::No(format!("{writers} writers have nothing to write to among {streams} streams"));
    }
    match link.axis(WAIT.name) {
        "none" if link.axis(ORDER.name) == "random" => {
            return Fit::No(
                "a reader that waits for one stream after the other blocks for good while its writer waits for room in \
                 another; wait=none needs order=cyclic"
                    .into(),
            );
        }
        "select" if streams + OTHERS > SELECT_FDS => {
            return Fit::No(format!(
                "select takes descriptors below FD_SETSIZE = {SELECT_FDS}, which the C library fixes: at most {} \
                 streams; use another wait",
                SELECT_FDS - OTHERS
            ));
        }
        "uring" => {
            if let Some(why) = &host.uring_refused {
                return Fit::No(why.clone());
            }
        }
        _ => {}
    }
    // Both ends of every stream are in the coordinator until they are sent, and in a process that has all roles.
    let needed = streams * 2 + EACH_ROLE * (writers + 1) + OTHERS;
    match raise_nofile(needed as u64) {
        Ok(()) => Fit::Yes,
        Err(most) => Fit::No(format!(
            "{streams} streams need {needed} descriptors, and the hard limit RLIMIT_NOFILE is {most}; raise it with \
             ulimit -Hn {needed} as root, or with `* hard nofile {needed}` in /etc/security/limits.conf"
        )),
    }
}

/// Sees to it that this process, and those that it starts from now on, may have so many descriptors: the soft limit is
/// raised to the hard one, and where that is too low and this process may, the hard one too. Otherwise the hard limit.
fn raise_nofile(needed: u64) -> Result<(), u64> {
    let (soft, hard) = limits::nofile();
    if soft >= needed {
        return Ok(());
    }
    if hard >= needed {
        return limits::raise_nofile().map(|_| ()).map_err(|_| soft);
    }
    let limit = Rlimit { current: Some(needed), maximum: Some(needed) };
    setrlimit(Resource::Nofile, limit).map_err(|_| hard)
}

/// What an error on the way to so many streams is about.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_descriptors_than_any_kernel_gives_are_refused_with_the_limit() {
        let (_, hard) = limits::nofile();
        assert_eq!(raise_nofile(1), Ok(()));
        // Above what fs.nr_open can be set to; root may not have them either.
        assert_eq!(raise_nofile(1 << 40), Err(hard));
        assert_eq!(limits::nofile().1, hard);
    }
}
