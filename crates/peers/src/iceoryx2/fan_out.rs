//! One publisher, many subscribers.

use std::io;

use ::iceoryx2::node::Node;
use ::iceoryx2::prelude::ipc;
use causeway_os::socket;
use weighbridge_lab::contract::{Caps, Facts, Fit, Handoff};
use weighbridge_lab::fan_out::{Cast, Receive, Send, burst, pairs, receivers};
use weighbridge_lab::host::Host;
use weighbridge_lab::link::{Link, Wait};

use super::place::{self, Place};
use super::port::{Incoming, Outgoing, Received, Service, node};
use super::{BORROWED, Meeting, default_depth};

/// The way to reach many.
#[derive(Debug)]
pub struct Iceoryx2;

/// Name of the one service.
const SERVICE: &str = "cast";

/// A queue holds a whole burst.
fn depth(link: &Link) -> usize {
    default_depth(link).max(burst(link) as usize)
}

impl Cast for Iceoryx2 {
    const ID: &'static str = super::ID;
    const ABOUT: &'static str = "iceoryx2 publish-subscribe: an index pushed to the queue of each subscriber";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::ZERO_COPY);
    const WAITS: &'static [Wait] = &[Wait::Block, Wait::Spin, Wait::Yield];
    type Sender = Sender;
    type Receiver = Receiver;

    fn fit(_host: &Host, link: &Link) -> Fit {
        let messages = depth(link).saturating_add(BORROWED).saturating_mul(receivers(link));
        place::fits(messages, link, "use fewer receivers or a smaller burst")
    }

    fn plan(_link: &Link, receivers: usize) -> io::Result<Vec<Handoff>> {
        let (place, guard) = Place::create()?;
        let mut handoffs = pairs(receivers, socket::seqpacket_pair)?;
        for handoff in &mut handoffs {
            handoff.words = place.words().into();
        }
        handoffs[0].guard = Some(Box::new(guard));
        Ok(handoffs)
    }

    fn sender(handoff: Handoff, link: &Link) -> io::Result<Sender> {
        let node = node(&Place::of(&handoff.words).config()?)?;
        let service = Service::open(&node, SERVICE, receivers(link), depth(link), link)?;
        let outgoing = service.publisher()?;
        for meeting in handoff.fds.into_iter().map(Meeting) {
            meeting.tell()?;
            meeting.hear()?;
        }
        outgoing.connect()?;
        Ok(Sender { outgoing, len: link.payload_bytes, _node: node })
    }

    fn receiver(mut handoff: Handoff, link: &Link) -> io::Result<Receiver> {
        let meeting = Meeting(handoff.take_fd());
        meeting.hear()?;
        let node = node(&Place::of(&handoff.words).config()?)?;
        let incoming = Service::open(&node, SERVICE, receivers(link), depth(link), link)?.subscriber()?;
        incoming.connect()?;
        meeting.tell()?;
        Ok(Receiver { incoming, held: None, _node: node })
    }
}

/// The publisher.
#[derive(Debug)]
pub struct Sender {
    outgoing: Outgoing,
    len: usize,
    _node: Node<ipc::Service>,
}

impl Send for Sender {
    #[inline]
    fn emit(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let mut room = self.outgoing.loan(self.len)?;
        write(room.as_mut());
        room.send()
    }

    fn facts(&self) -> Facts {
        self.outgoing.facts()
    }
}

/// A subscriber, and the message that it reads.
#[derive(Debug)]
pub struct Receiver {
    incoming: Incoming,
    held: Option<Received>,
    _node: Node<ipc::Service>,
}

impl Receive for Receiver {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        self.held = None;
        let message = self.incoming.take()?;
        let held: &Received = self.held.insert(message);
        Ok(Some(held.as_ref()))
    }
}
