//! One end of a pair: publisher of its own service, subscriber of the other's.

use ::iceoryx2::node::Node;
use ::iceoryx2::prelude::ipc;

use super::place;
use super::port::{Incoming, Outgoing, Received, Service, Written, node};
use super::{Meeting, depth};
use crate::prelude::*;

const PAGE_BYTES: usize = 4096;

/// One end, with the ports of both services. They go before the node.
pub(super) struct Iceoryx2End {
    outgoing: Outgoing,
    incoming: Incoming,
    control_socket: Meeting,
    payload_bytes: usize,
    _node: Node<ipc::Service>,
}

impl Iceoryx2End {
    /// Creates or opens both services and takes part in them, one end after the other: of two that create the same
    /// service at the same time, one has to wait and try again.
    pub(super) fn attach(
        side: Side,
        mut resources: EndResources,
        params: &CaseParams,
    ) -> io::Result<Iceoryx2End> {
        let control_socket = Meeting(resources.take_fd());
        if side == Side::Far {
            control_socket.hear()?;
        }
        let node = node(&place::config(&resources.words)?)?;
        let names = ["from-near", "from-far"];
        let [own, theirs] = if side == Side::Near { names } else { [names[1], names[0]] };
        let open = |name| Service::open(&node, name, 1, depth(params), params);
        let (outgoing, incoming) = (open(own)?.publisher()?, open(theirs)?.subscriber()?);
        control_socket.tell()?;
        if side == Side::Near {
            control_socket.hear()?;
        }
        outgoing.connect()?;
        incoming.connect()?;
        let payload_bytes = params.payload_bytes;
        Ok(Iceoryx2End { outgoing, incoming, control_socket, payload_bytes, _node: node })
    }

    /// Waits until the other end is as far as this one.
    fn pass_barrier(&self) -> io::Result<()> {
        self.control_socket.tell()?;
        self.control_socket.hear()
    }

    /// Sends a message that is there for its place only.
    fn send_blank(&mut self, len: usize) -> io::Result<()> {
        let mut tx = self.loan(len)?;
        tx.as_mut().fill(0);
        Self::commit(tx)
    }
}

impl Endpoint for Iceoryx2End {
    type Tx<'a> = Written<'a>;
    type Rx<'a> = Received;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<Written<'_>> {
        self.outgoing.loan(len)
    }

    #[inline]
    fn commit(tx: Written<'_>) -> io::Result<()> {
        tx.send()
    }

    #[inline]
    fn take(&mut self, _len: usize) -> io::Result<Received> {
        self.incoming.take()
    }

    /// Has every message's place written here and read there. Both ends do this at the same time.
    fn prefault(&mut self) -> io::Result<()> {
        let (depth, len) = (self.incoming.depth(), self.payload_bytes);
        for _ in 0..depth {
            self.send_blank(len)?;
        }
        self.pass_barrier()?;
        // One that is read leaves room for one more in the queue, and a last one is written: that is all there are.
        let held = self.take(len)?;
        read_pages(held.as_ref());
        self.pass_barrier()?;
        self.send_blank(len)?;
        self.loan(len)?.as_mut().fill(0);
        drop(held);
        for _ in 0..depth {
            read_pages(self.take(len)?.as_ref());
        }
        self.pass_barrier()
    }

    fn settle(&mut self) -> io::Result<()> {
        // Who is gone needs nothing any more, and the coordinator knows that it went too early.
        match self.pass_barrier() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    fn facts(&self) -> io::Result<Facts> {
        Ok(self.outgoing.facts())
    }
}

fn read_pages(payload: &[u8]) {
    payload.chunks(PAGE_BYTES).for_each(|page| {
        std::hint::black_box(page[0]);
    });
}
