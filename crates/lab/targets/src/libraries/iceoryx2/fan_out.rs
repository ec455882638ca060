//! One publisher, many subscribers.

use ::iceoryx2::node::Node;
use ::iceoryx2::prelude::ipc;
use causeway_os::socket;

use super::place;
use super::port::{Incoming, Outgoing, Received, Service, node};
use super::{BORROWED, Meeting, default_depth};
use crate::fan_out::{Multicast, MulticastReceiver, MulticastSender, burst, pairs, receivers};
use crate::prelude::*;

pub(super) struct Iceoryx2;

const SERVICE: &str = "cast";

/// A queue holds a whole burst.
fn depth(params: &CaseParams) -> usize {
    default_depth(params).max(burst(params) as usize)
}

impl Multicast for Iceoryx2 {
    const ID: &'static str = super::ID;
    const ABOUT: &'static str = "iceoryx2 publish-subscribe: an index pushed to the queue of each subscriber";
    const CAPS: Caps = Caps::PAYLOAD.and(Caps::ZERO_COPY);
    const WAITS: &'static [Wait] = &[Wait::Block, Wait::Spin, Wait::Yield];
    type Sender = Sender;
    type Receiver = Receiver;

    fn properties(_params: &CaseParams) -> Properties {
        super::PROPERTIES
    }

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        let messages = depth(params).saturating_add(BORROWED).saturating_mul(receivers(params));
        place::fits(messages, params, "use fewer receivers or a smaller burst")
    }

    fn create(_params: &CaseParams, receivers: usize) -> io::Result<Vec<EndResources>> {
        let (place, guard) = place::create()?;
        let mut resources_by_role = pairs(receivers, socket::seqpacket_pair)?;
        for resources in &mut resources_by_role {
            resources.words = place.words().into();
        }
        resources_by_role[0].guard = Some(Box::new(guard));
        Ok(resources_by_role)
    }

    fn sender(resources: EndResources, params: &CaseParams) -> io::Result<Sender> {
        let node = node(&place::config(&resources.words)?)?;
        let service = Service::open(&node, SERVICE, receivers(params), depth(params), params)?;
        let outgoing = service.publisher()?;
        for control_socket in resources.fds.into_iter().map(Meeting) {
            control_socket.tell()?;
            control_socket.hear()?;
        }
        outgoing.connect()?;
        Ok(Sender { outgoing, len: params.payload_bytes, _node: node })
    }

    fn receiver(mut resources: EndResources, params: &CaseParams) -> io::Result<Receiver> {
        let control_socket = Meeting(resources.take_fd());
        control_socket.hear()?;
        let node = node(&place::config(&resources.words)?)?;
        let incoming =
            Service::open(&node, SERVICE, receivers(params), depth(params), params)?.subscriber()?;
        incoming.connect()?;
        control_socket.tell()?;
        Ok(Receiver { incoming, held: None, _node: node })
    }
}

pub(super) struct Sender {
    outgoing: Outgoing,
    len: usize,
    _node: Node<ipc::Service>,
}

impl MulticastSender for Sender {
    #[inline]
    fn send(&mut self, write: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let mut room = self.outgoing.loan(self.len)?;
        write(room.as_mut());
        room.send()
    }

    fn facts(&self) -> Facts {
        self.outgoing.facts()
    }
}

pub(super) struct Receiver {
    incoming: Incoming,
    held: Option<Received>,
    _node: Node<ipc::Service>,
}

impl MulticastReceiver for Receiver {
    #[inline]
    fn take(&mut self) -> io::Result<Option<&[u8]>> {
        self.held = None;
        let message = self.incoming.take()?;
        let held: &Received = self.held.insert(message);
        Ok(Some(held.as_ref()))
    }
}
