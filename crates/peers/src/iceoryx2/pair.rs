//! Two ends, a service for each direction.

use std::io;

use causeway_os::socket;
use iceoryx2::node::Node;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::ipc_threadsafe as ipc;
use iceoryx2::sample::Sample;
use iceoryx2::sample_mut::SampleMut;
use weighbridge_lab::contract::{Caps, Endpoint, Handoff, Mechanism, Side};
use weighbridge_lab::host::Host;
use weighbridge_lab::link::{Link, Wait};

use super::place::{self, Place};
use super::port::{Channel, Incoming, Outgoing, error, node};

/// The mechanism.
#[derive(Debug)]
pub struct Iceoryx2;

impl Mechanism for Iceoryx2 {
    const ID: &'static str = super::ID;
    const ABOUT: &'static str = "iceoryx2 publish-subscribe, written and read where a message lies; polled, or with its events beside it";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::DUPLEX).and(Caps::ZERO_COPY);
    const WAITS: &'static [Wait] = &[Wait::Spin, Wait::Block];
    type End = End;

    fn plan(_host: &Host, _link: &Link) -> io::Result<[Handoff; 2]> {
        let (near, far) = socket::seqpacket_pair()?;
        let place = Place::new();
        let words = place.words();
        let near = Handoff { words: words.clone(), guard: Some(Box::new(place)), ..Handoff::of([near]) };
        Ok([near, Handoff { words, ..Handoff::of([far]) }])
    }

    fn attach(side: Side, mut handoff: Handoff, link: &Link) -> io::Result<End> {
        let node = node(&place::config(&handoff.words)?)?;
        let meeting = handoff.take_fd();
        let meet = || {
            socket::send_with_fds(&meeting, &[0], &[])?;
            match socket::recv_with_fds(&meeting, &mut [0], 0)? {
                (0, _) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the other end is gone")),
                _ => Ok(()),
            }
        };
        let (there, back) = ("there", "back");
        let (own, theirs) = if side == Side::Near { (there, back) } else { (back, there) };
        let outgoing = Channel::open(&node, own, 1, 0, link)?.publisher()?;
        let incoming = Channel::open(&node, theirs, 1, 0, link)?.subscriber(link.wait)?;
        // A message sent before the other end subscribed would not reach it.
        meet()?;
        outgoing.publisher.update_connections().map_err(error)?;
        Ok(End { outgoing, incoming, len: link.payload_bytes, _node: node })
    }
}

/// One end.
#[derive(Debug)]
pub struct End {
    outgoing: Outgoing,
    incoming: Incoming,
    len: usize,
    _node: Node<ipc::Service>,
}

/// A message that is being written, and the end that sends it.
#[derive(Debug)]
pub struct Written<'a> {
    sample: SampleMut<ipc::Service, [u8], ()>,
    end: &'a Outgoing,
}

impl AsMut<[u8]> for Written<'_> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        self.sample.payload_mut()
    }
}

/// A message that was received.
#[derive(Debug)]
pub struct Read(Sample<ipc::Service, [u8], ()>);

impl AsRef<[u8]> for Read {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0.payload()
    }
}

impl Endpoint for End {
    type Tx<'a> = Written<'a>;
    type Rx<'a> = Read;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<Written<'_>> {
        let sample = super::port::loan(&self.outgoing.publisher, len.min(self.len))?;
        Ok(Written { sample, end: &self.outgoing })
    }

    #[inline]
    fn commit(tx: Written<'_>) -> io::Result<()> {
        tx.sample.send().map_err(error)?;
        Outgoing::ring(tx.end.bell.as_ref())
    }

    #[inline]
    fn take(&mut self, _len: usize) -> io::Result<Read> {
        self.incoming.take().map(Read)
    }
}
