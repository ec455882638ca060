//! Sockets whose end is the end of a membership, and how either side notices it.

use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use causeway_os::socket::{Credentials, peer_process};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{Shutdown, shutdown};
use rustix::time::Timespec;

/// A connection that ends with this value, although a forked child may hold another descriptor of it. In such a child, which
/// is not a member, nothing ends.
#[derive(Debug)]
pub struct Membership {
    socket: Arc<OwnedFd>,
    /// The process that joined.
    process: u32,
}

impl Membership {
    pub fn new(socket: Arc<OwnedFd>) -> Membership {
        Membership { socket, process: std::process::id() }
    }

    /// Whether this is the process that joined.
    pub fn is_own(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Deref for Membership {
    type Target = Arc<OwnedFd>;

    fn deref(&self) -> &Arc<OwnedFd> {
        &self.socket
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.is_own() {
            hang_up(&self.socket);
        }
    }
}

/// The process at the other end of a connection that it made itself: a pair of sockets shows the process that made the pair.
pub fn pidfd_of(socket: impl AsFd, peer: Credentials) -> Option<OwnedFd> {
    peer_process(socket, peer.pid).0
}

/// Shuts a connection down in both directions, also for other processes that hold a descriptor of its socket.
pub fn hang_up(socket: &OwnedFd) {
    let _ = shutdown(socket, Shutdown::Both);
}

/// Whether the other side of a connection has ended it, or its process has ended, if that is known. Something to read is no end.
pub fn has_ended(socket: impl AsFd, pidfd: Option<&Arc<OwnedFd>>) -> bool {
    let mut ends = vec![PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::RDHUP)];
    // A pidfd is readable when its process has ended.
    ends.extend(pidfd.map(|pidfd| PollFd::new(&**pidfd, PollFlags::IN)));
    poll(&mut ends, Some(&Timespec::default())).is_ok_and(|ended| ended > 0)
}

/// Whether a connection has ended in both directions; one that its other side only shut down for writing has not.
pub fn is_hung_up(socket: impl AsFd) -> bool {
    let mut end = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty())];
    poll(&mut end, Some(&Timespec::default())).is_ok_and(|ended| ended > 0)
}
