//! One unicast after the other over Unix sockets: what a D-Bus daemon does with a signal.

use std::io;
use std::os::fd::OwnedFd;

use causeway_os::socket;

use super::group::sndbuf;
use super::message_buffer::Room;
use super::multicast::{Multicast, MulticastReceiver, MulticastSender, pairs};
use crate::sys;
use weighbridge_harness::contract::{Caps, EndResources, Facts, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;

/// Over stream sockets.
#[derive(Debug)]
pub(super) struct UnixStream;

impl Multicast for UnixStream {
    const ID: &'static str = "unix-stream";
    const ABOUT: &'static str = "a send to each Unix stream socket, one receiver after the other";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::BYTE_STREAM);
    type Sender = Sender;
    type Receiver = Receiver<true>;

    fn create(_params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        pairs(receivers, socket::stream_pair)
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        Sender::new(resources.fds, params)
    }

    fn receiver(mut resources: EndResources, params: &CaseParams) -> io::Result<Self::Receiver> {
        Receiver::new(resources.take_fd(), params)
    }
}

/// Over sockets that keep records.
#[derive(Debug)]
pub(super) struct UnixSeqpacket;

impl Multicast for UnixSeqpacket {
    const ID: &'static str = "unix-seqpacket";
    const ABOUT: &'static str = "a send to each Unix seqpacket socket, one receiver after the other";
    const CAPS: Caps = Caps::PAYLOAD;
    type Sender = Sender;
    type Receiver = Receiver<false>;

    fn fit(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        fits_send_buffer(host, params)
    }

    fn create(_params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        pairs(receivers, socket::seqpacket_pair)
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        Sender::new(resources.fds, params)
    }

    fn receiver(mut resources: EndResources, params: &CaseParams) -> io::Result<Self::Receiver> {
        Receiver::new(resources.take_fd(), params)
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

/// All sockets, and one message.
#[derive(Debug)]
pub(super) struct Sender {
    sockets: Vec<OwnedFd>,
    message: Room,
}

impl Sender {
    fn new(sockets: Vec<OwnedFd>, params: &CaseParams) -> io::Result<Sender> {
        Ok(Sender { sockets, message: Room::new(params.payload_bytes)? })
    }
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

/// One socket. `WHOLE`: reads until a message is whole, because the socket keeps no boundaries.
#[derive(Debug)]
pub(super) struct Receiver<const WHOLE: bool> {
    socket: OwnedFd,
    message: Room,
}

impl<const WHOLE: bool> Receiver<WHOLE> {
    pub(super) fn new(socket: OwnedFd, params: &CaseParams) -> io::Result<Self> {
        Ok(Receiver { socket, message: Room::new(params.payload_bytes)? })
    }
}

impl<const WHOLE: bool> MulticastReceiver for Receiver<WHOLE> {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        let message = self.message.bytes_mut();
        let mut filled = 0;
        loop {
            match sys::retry(|| sys::read(&self.socket, &mut message[filled..]))? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the sender closed its end")),
                count => filled += count,
            }
            if !WHOLE || filled == message.len() {
                return Ok(Some(&self.message.bytes()[..filled]));
            }
        }
    }
}
