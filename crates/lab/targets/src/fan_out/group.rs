//! What sockets of a group in the kernel have in common, of UDP and netlink: a sender that is connected to the group, and
//! members that may lose messages or have none that they want.

use std::time::Duration;

use causeway_os::socket;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};

use super::message::Room;
use super::multicast::{MulticastReceiver, MulticastSender};
use super::receivers;
use super::uninterested::Uninterested;
use crate::prelude::*;
use crate::sys;

/// How long a receiver sleeps before it asks whether the message that it waits for counts as lost.
const PAUSE: Duration = Duration::from_millis(50);

/// Size of a socket's send buffer, as it is.
pub(super) fn sndbuf(socket: impl AsFd) -> Facts {
    let bytes = socket::send_buffer_bytes(socket).ok();
    bytes.map(|bytes| ("sndbuf_bytes".into(), bytes.to_string())).into_iter().collect()
}

/// A socket connected to the group, and one message.
pub(super) struct Sender {
    socket: OwnedFd,
    message: Room,
    no_failure: Option<Errno>,
    facts: Facts,
}

impl Sender {
    /// `no_failure` is an answer of the kernel that comes although the message reached the group, and `facts` what the mechanism
    /// knows of its sockets.
    pub(super) fn new(
        mut resources: EndResources,
        params: &CaseParams,
        no_failure: Option<Errno>,
        facts: Facts,
    ) -> io::Result<Sender> {
        Ok(Sender {
            socket: resources.take_fd(),
            message: Room::new(params.payload_bytes)?,
            no_failure,
            facts,
        })
    }
}

impl MulticastSender for Sender {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let message = self.message.filled(write);
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.socket, message)) {
            Err(error) if Some(error) != self.no_failure => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        facts.extend(sndbuf(&self.socket));
        facts
    }
}

/// A member of a group that may lose messages: what does not come for a while may never come.
pub(super) struct Receiver {
    socket: OwnedFd,
    message: Room,
    facts: Facts,
}

impl Receiver {
    /// `facts` is what the mechanism knows of its sockets.
    pub(super) fn new(
        mut resources: EndResources,
        params: &CaseParams,
        facts: Facts,
    ) -> io::Result<Receiver> {
        let socket = resources.take_fd();
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(PAUSE))?;
        // One byte more than a message has, so that a longer one is noticed.
        Ok(Receiver { socket, message: Room::new(params.payload_bytes + 1)?, facts })
    }
}

impl MulticastReceiver for Receiver {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        let message = self.message.bytes_mut();
        match sys::recv(&self.socket, message, 0) {
            Ok(count) => Ok(Some(&message[..count])),
            // ENOBUFS: netlink says that this member has lost something; the next message tells what.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ENOBUFS)) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn facts(&self) -> Facts {
        let mut facts = self.facts.clone();
        let rcvbuf = socket::receive_buffer_bytes(&self.socket).ok();
        facts.extend(rcvbuf.map(|bytes| ("rcvbuf_bytes".into(), bytes.to_string())));
        facts
    }
}

/// A member whose socket has a filter that returns zero: the kernel runs it for each message in the call of the sender, and discards
/// the message before it has a place in a queue.
pub(super) struct Discarding(OwnedFd);

impl Discarding {
    /// In the coordinator, before anything is sent: the sockets of those members that want no message.
    pub(super) fn filter(members: &[OwnedFd], params: &CaseParams) -> io::Result<()> {
        Ok(members.iter().skip(receivers(params)).try_for_each(socket::discard_arrivals)?)
    }

    pub(super) fn of(mut resources: EndResources) -> Box<dyn Uninterested> {
        Box::new(Discarding(resources.take_fd()))
    }
}

impl Uninterested for Discarding {
    fn sleep(&mut self, ended: BorrowedFd<'_>) -> io::Result<()> {
        let wait = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut both = [wait(ended.as_raw_fd()), wait(self.0.as_raw_fd())];
        while sys::poll(&mut both)? == 0 {}
        match both.map(|entry| entry.revents) {
            [_, 0] => Ok(()),
            _ => Err(io::Error::other("a message came through a filter that discards all")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    /// Without the filter the same message ends the sleep, as a failure.
    #[test]
    fn what_the_filter_discards_wakes_nobody_and_what_passes_is_an_error() {
        let ended = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        for is_filtered in [true, false] {
            let (near, far) = socket::seqpacket_pair().unwrap();
            if is_filtered {
                socket::discard_arrivals(&far).unwrap();
            }
            let mut end = Discarding(far);
            sys::send(&near, b"message").unwrap();
            assert_eq!(end.sleep(ended.as_fd()).is_ok(), is_filtered);
        }
    }
}
