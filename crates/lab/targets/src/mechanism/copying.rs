//! Endpoints of mechanisms that copy: a buffer to write a message in, a buffer to read one into, and a transport.

use super::yes_no;
use crate::prelude::*;

/// What carries bytes from a buffer here to a buffer there. Errors are the kernel's, or the peer is gone.
pub(super) trait Transport {
    /// What stands before each message in its buffer, at both ends (the type of a System V message). It is written once,
    /// at the beginning of the buffer, so a transport that keeps one leaves [`Transport::reserve`] as it is.
    const PREFIX: &'static [u8] = &[];

    /// Does [`Transport::send`] read the message while it is called, and from anywhere? Else it must lie in the outgoing
    /// buffer, where it stays until the receiver has read it.
    const SENDS_FROM_ANYWHERE: bool = Self::PREFIX.is_empty();

    /// Sends all of a message. It starts with [`Transport::PREFIX`].
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Receives a message of at most the buffer's length, the prefix included, and says how long it was without.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Where in the outgoing buffer the next message is written, once the receiver no longer reads there.
    #[inline]
    fn reserve(&mut self) -> io::Result<usize> {
        Ok(0)
    }

    /// Returns when nothing that was sent lies in the outgoing buffer any more.
    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// How long the outgoing buffer must be for messages of `message_bytes`.
    fn outgoing_bytes(&self, message_bytes: usize) -> usize {
        message_bytes
    }

    /// Messages must be received into a buffer of at least this length (POSIX queues insist).
    fn least_buffer_bytes(&self) -> usize {
        0
    }

    fn facts(&self) -> io::Result<Facts>;

    fn figures(&self) -> io::Result<Figures> {
        Ok(Figures::new())
    }
}

pub(super) struct Copying<T> {
    transport: T,
    outgoing: Buffer,
    incoming: Buffer,
    least_bytes: usize,
}

impl<T: Transport> Copying<T> {
    /// Buffers for messages of up to `message_bytes`, on this CPU's node.
    pub(super) fn new(transport: T, message_bytes: usize) -> io::Result<Copying<T>> {
        let prefix = T::PREFIX.len();
        let least_bytes = transport.least_buffer_bytes();
        let mut outgoing = Buffer::new((prefix + transport.outgoing_bytes(message_bytes)).max(1))?;
        outgoing.bytes_mut()[..prefix].copy_from_slice(T::PREFIX);
        let incoming = Buffer::new((prefix + message_bytes.max(least_bytes)).max(1))?;
        Ok(Copying { transport, outgoing, incoming, least_bytes })
    }
}

pub(super) struct Outgoing<'a, T> {
    end: &'a mut Copying<T>,
    at: usize,
    len: usize,
}

impl<T: Transport> AsMut<[u8]> for Outgoing<'_, T> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        let from = self.at + T::PREFIX.len();
        &mut self.end.outgoing.bytes_mut()[from..from + self.len]
    }
}

impl<T: Transport> Endpoint for Copying<T> {
    type Tx<'a>
        = Outgoing<'a, T>
    where
        T: 'a;
    type Rx<'a>
        = &'a [u8]
    where
        T: 'a;

    #[inline]
    fn loan(&mut self, len: usize) -> io::Result<Outgoing<'_, T>> {
        let at = self.transport.reserve()?;
        Ok(Outgoing { end: self, at, len })
    }

    #[inline]
    fn commit(tx: Outgoing<'_, T>) -> io::Result<()> {
        let to = tx.at + T::PREFIX.len() + tx.len;
        tx.end.transport.send(&tx.end.outgoing.bytes()[tx.at..to])
    }

    #[inline]
    fn send_from(&mut self, message: &[u8]) -> io::Result<()> {
        if T::SENDS_FROM_ANYWHERE {
            return self.transport.send(message);
        }
        let mut tx = self.loan(message.len())?;
        tx.as_mut().copy_from_slice(message);
        Self::commit(tx)
    }

    #[inline]
    fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        let prefix = T::PREFIX.len();
        let room = prefix + len.max(self.least_bytes);
        let count = self.transport.receive(&mut self.incoming.bytes_mut()[..room])?;
        Ok(&self.incoming.bytes()[prefix..prefix + count])
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.outgoing.prefault()?;
        self.incoming.prefault()
    }

    fn settle(&mut self) -> io::Result<()> {
        self.transport.settle()
    }

    fn figures(&self) -> io::Result<Figures> {
        self.transport.figures()
    }

    fn facts(&self) -> io::Result<Facts> {
        let mut facts = self.transport.facts()?;
        let is_locked = self.outgoing.is_locked() && self.incoming.is_locked();
        facts.insert("buffers_locked".into(), yes_no(is_locked));
        Ok(facts)
    }
}
