//! One publisher, many subscribers.

use std::io;

use causeway_os::socket;
use iceoryx2::node::Node;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::ipc;
use iceoryx2::sample::Sample;
use weighbridge_lab::buffer::Buffer;
use weighbridge_lab::contract::{Caps, Handoff};
use weighbridge_lab::fan_out::{Cast, Receive, Send, burst, receivers};
use weighbridge_lab::link::{Link, Wait};

use super::place::Place;
use super::port::{Channel, Incoming, Outgoing, error, loan, node};

/// The way to reach many.
#[derive(Debug)]
pub struct Iceoryx2;

impl Cast for Iceoryx2 {
    const ID: &'static str = super::ID;
    const ABOUT: &'static str = "iceoryx2 publish-subscribe: an index pushed to the queue of each subscriber";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::ZERO_COPY);
    const WAITS: &'static [Wait] = &[Wait::Block, Wait::Spin, Wait::Yield];
    type Sender = Sender;
    type Receiver = Receiver;

    fn plan(_link: &Link, receivers: usize) -> io::Result<Vec<Handoff>> {
        let (place, guard) = Place::create()?;
        let words = || place.words().into();
        let mut sender = Handoff { words: words(), guard: Some(Box::new(guard)), ..Handoff::default() };
        let mut all = Vec::with_capacity(receivers + 1);
        for _ in 0..receivers {
            let (near, far) = socket::seqpacket_pair()?;
            sender.fds.push(near);
            all.push(Handoff { words: words(), ..Handoff::of([far]) });
        }
        all.insert(0, sender);
        Ok(all)
    }

    fn sender(handoff: Handoff, link: &Link) -> io::Result<Sender> {
        let node = node(&Place::of(&handoff.words).config()?)?;
        let channel = Channel::open(&node, "cast", receivers(link), burst(link) as usize, link)?;
        let outgoing = channel.publisher()?;
        for meeting in &handoff.fds {
            socket::send_with_fds(meeting, &[0], &[])?;
            if socket::recv_with_fds(meeting, &mut [0], 0)?.0 == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "a receiver ended before it subscribed",
                ));
            }
        }
        outgoing.publisher.update_connections().map_err(error)?;
        let mut message = Buffer::new(link.payload_bytes)?;
        message.prefault()?;
        Ok(Sender { outgoing, message, len: link.payload_bytes, _node: node })
    }

    fn receiver(mut handoff: Handoff, link: &Link) -> io::Result<Receiver> {
        let meeting = handoff.take_fd();
        if socket::recv_with_fds(&meeting, &mut [0], 0)?.0 == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the sender is gone"));
        }
        let node = node(&Place::of(&handoff.words).config()?)?;
        let channel = Channel::open(&node, "cast", receivers(link), burst(link) as usize, link)?;
        let incoming = channel.subscriber(link.wait)?;
        socket::send_with_fds(&meeting, &[0], &[])?;
        Ok(Receiver { incoming, held: None, _node: node })
    }
}

/// The publisher.
#[derive(Debug)]
pub struct Sender {
    outgoing: Outgoing,
    message: Buffer,
    len: usize,
    _node: Node<ipc::Service>,
}

impl Send for Sender {
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        &mut self.message.bytes_mut()[..self.len]
    }

    #[inline]
    fn emit(&mut self) -> io::Result<()> {
        let mut sample = loan(&self.outgoing.publisher, self.len)?;
        sample.payload_mut().copy_from_slice(&self.message.bytes()[..self.len]);
        sample.send().map_err(error)?;
        Outgoing::ring(self.outgoing.bell.as_ref())
    }
}

/// A subscriber, and the message that it reads.
#[derive(Debug)]
pub struct Receiver {
    incoming: Incoming,
    held: Option<Sample<ipc::Service, [u8], ()>>,
    _node: Node<ipc::Service>,
}

impl Receive for Receiver {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        self.held = None;
        let sample = self.incoming.take()?;
        Ok(Some(self.held.insert(sample).payload()))
    }
}
