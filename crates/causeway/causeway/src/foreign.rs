//! Sockets at whose other end may be a process that we do not trust, and the threads that close them.
//!
//! A peer can send descriptors along with its bytes, and the process that throws them away closes them. Closing some
//! descriptors blocks: a TCP socket with SO_LINGER waits for its own peer, for years if that was asked for. Since Linux
//! 6.16 the kernel refuses descriptors for a socket ([`refuse_descriptors`]). Before that, only threads that nothing
//! waits for may read such a socket or close it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, LazyLock};

use causeway_os::socket::refuse_descriptors;
use causeway_waiting::pool::Pool;

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

/// Closes a socket in a thread that nothing waits for.
fn close_elsewhere(socket: OwnedFd) {
    static CLOSERS: LazyLock<Arc<Pool>> = LazyLock::new(|| {
        Pool::new("causeway-close", CLOSERS_MAX, |name, work| crate::reservation::spawn(name, work).map(drop))
    });
    // Without a thread now, the next close tries again.
    let _ = CLOSERS.run(Box::new(move || drop(socket)));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
