//! What sockets of a group in the kernel have in common, of UDP and netlink: a sender that is connected to the group, and
//! members that may lose messages.

use std::time::Duration;

use causeway_os::socket;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};

use super::message::Room;
use super::multicast::{MulticastReceiver, MulticastSender};
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
