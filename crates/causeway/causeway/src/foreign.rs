//! Sockets at whose other end may be a process that we do not trust, and the threads that close them.
//!
//! A peer can send descriptors along with its bytes, and the process that throws them away closes them. Closing some
//! descriptors blocks: a TCP socket with SO_LINGER waits for its own peer, for years if that was asked for. Since Linux
//! 6.16 the kernel refuses descriptors for a socket ([`refuse_descriptors`]). Before that, only threads that nothing
//! waits for may read such a socket or close it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use causeway_os::lock::lock;
use causeway_os::socket::refuse_descriptors;

/// A socket at whose other end may be any process. Its drop never blocks.
#[derive(Debug)]
pub struct ForeignSocket {
    /// `None` only in the drop.
    socket: Option<OwnedFd>,
    refuses_descriptors: bool,
}

impl ForeignSocket {
    /// Refuses all descriptors that a peer sends from now on, if the kernel can. To be called before a peer has the
    /// other end.
    pub fn new(socket: OwnedFd) -> ForeignSocket {
        let refuses_descriptors = refuse_descriptors(&socket).unwrap_or(false);
        ForeignSocket { socket: Some(socket), refuses_descriptors }
    }

    /// Whether the kernel keeps descriptors away. Otherwise a read of this socket may block while it closes one.
    pub fn refuses_descriptors(&self) -> bool {
        self.refuses_descriptors
    }
}

impl AsFd for ForeignSocket {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_ref().expect("a socket is there until its drop").as_fd()
    }
}

impl Drop for ForeignSocket {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take().filter(|_| !self.refuses_descriptors) {
            close_elsewhere(socket);
        }
    }
}

/// Threads that close. One that waits in a close for ever is replaced, up to this number; after that, sockets stay
/// open.
const CLOSERS_MAX: usize = 64;
/// A thread without work ends after this time.
const IDLE_TIME: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Closers {
    waiting: VecDeque<OwnedFd>,
    threads: usize,
    idle: usize,
}

static CLOSERS: Mutex<Closers> = Mutex::new(Closers { waiting: VecDeque::new(), threads: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

/// Closes a socket in a thread that nothing waits for.
fn close_elsewhere(socket: OwnedFd) {
    let mut closers = lock(&CLOSERS);
    closers.waiting.push_back(socket);
    if closers.idle >= closers.waiting.len() {
        WORK.notify_one();
    } else if closers.threads < CLOSERS_MAX && crate::reservation::spawn("causeway-close", close_all).is_ok()
    {
        // Without a thread now, the next close tries again.
        closers.threads += 1;
    }
}

fn close_all() {
    let mut closers = lock(&CLOSERS);
    loop {
        if let Some(socket) = closers.waiting.pop_front() {
            drop(closers);
            drop(socket);
            closers = lock(&CLOSERS);
            continue;
        }
        closers.idle += 1;
        let (again, waited) = WORK.wait_timeout(closers, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
        closers = again;
        closers.idle -= 1;
        if waited.timed_out() && closers.waiting.is_empty() {
            closers.threads -= 1;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_os::socket::stream_pair;

    #[test]
    fn a_socket_that_may_hold_descriptors_is_closed_by_another_thread() {
        for _ in 0..3 {
            let (near, far) = stream_pair().unwrap();
            drop(ForeignSocket { socket: Some(near), refuses_descriptors: false });
            let closed = causeway_os::process::poll(&[far.as_fd()], Some(Duration::from_secs(60)));
            assert_eq!(closed.unwrap(), [true], "the socket stays open");
        }
    }
}
