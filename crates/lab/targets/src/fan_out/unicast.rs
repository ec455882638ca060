//! One unicast after the other over Unix sockets: what a D-Bus daemon does with a signal.

use causeway_os::socket;

use super::group::sndbuf;
use super::message::Room;
use super::multicast::{Multicast, MulticastReceiver, MulticastSender, pairs};
use crate::prelude::*;
use crate::sys;

/// Over stream sockets (`STREAM`), or over sockets that keep records.
pub(super) struct Unix<const STREAM: bool>;

impl<const STREAM: bool> Multicast for Unix<STREAM> {
    const ID: &'static str = if STREAM { "unix-stream" } else { "unix-seqpacket" };
    const ABOUT: &'static str = if STREAM {
        "a send to each Unix stream socket, one receiver after the other"
    } else {
        "a send to each Unix seqpacket socket, one receiver after the other"
    };
    const CAPS: Caps = if STREAM { Caps::PAYLOAD.and(Caps::BYTE_STREAM) } else { Caps::PAYLOAD };
    type Sender = Sender;
    type Receiver = Receiver<STREAM>;

    fn properties(_params: &CaseParams) -> Properties {
        properties::of_kernel(Across::SharedPath)
    }

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        if STREAM { Ok(()) } else { fits_send_buffer(host, params) }
    }

    fn ahead_max(_params: &CaseParams) -> Option<u64> {
        None
    }

    fn create(_params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        pairs(receivers, if STREAM { socket::stream_pair } else { socket::seqpacket_pair })
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        Ok(Sender { sockets: resources.fds, message: Room::new(params.payload_bytes)? })
    }

    fn receiver(resources: EndResources, params: &CaseParams) -> io::Result<Self::Receiver> {
        Receiver::new(resources, params)
    }
}

/// A record is at most as long as the send buffer less what the kernel keeps of it.
pub(super) fn fits_send_buffer(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    let buffer = host.sysctl_number("net/core/wmem_default").unwrap_or(u64::MAX);
    if params.payload_bytes as u64 > buffer.saturating_sub(32) {
        return Err(Unsupported(format!(
            "a record of {} bytes exceeds the send buffer of net.core.wmem_default = {buffer} bytes; raise it with \
             sysctl net.core.wmem_default={}",
            params.payload_bytes,
            params.payload_bytes + 32
        )));
    }
    Ok(())
}

pub(super) struct Sender {
    sockets: Vec<OwnedFd>,
    message: Room,
}

impl MulticastSender for Sender {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let message = self.message.filled(write);
        self.sockets.iter().try_for_each(|socket| send_all(socket, message))
    }

    fn facts(&self) -> Facts {
        self.sockets.first().map(sndbuf).unwrap_or_default()
    }
}

#[inline]
fn send_all(socket: &OwnedFd, mut message: &[u8]) -> io::Result<()> {
    loop {
        match sys::retry(|| sys::send(socket, message))? {
            sent if sent == message.len() => return Ok(()),
            sent => message = &message[sent..],
        }
    }
}

/// One socket or pipe. `WHOLE`: reads until a message is whole, because no boundaries are kept.
pub(super) struct Receiver<const WHOLE: bool> {
    end: OwnedFd,
    message: Room,
}

impl<const WHOLE: bool> Receiver<WHOLE> {
    pub(super) fn new(mut resources: EndResources, params: &CaseParams) -> io::Result<Self> {
        Ok(Receiver { end: resources.take_fd(), message: Room::new(params.payload_bytes)? })
    }
}

impl<const WHOLE: bool> MulticastReceiver for Receiver<WHOLE> {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        let message = self.message.bytes_mut();
        let count = if WHOLE {
            sys::fill(&self.end, message)?
        } else {
            sys::retry(|| sys::read(&self.end, message))?
        };
        if count == 0 || WHOLE && count < message.len() {
            return Err(sys::end_of_stream("the sender closed its end"));
        }
        Ok(Some(&message[..count]))
    }
}
