//! Endpoints of mechanisms that copy: a buffer to write a message in, a buffer to read one into, and a transport.

use std::io;

use crate::buffer::Buffer;
use crate::contract::{Endpoint, Facts};

/// What carries bytes from a buffer here to a buffer there.
pub trait Transport {
    /// Sends all of a message.
    ///
    /// # Errors
    /// The kernel's, or the peer is gone.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// Receives a message of at most the buffer's length, and says how long it was.
    ///
    /// # Errors
    /// The kernel's, or the peer is gone.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Effective settings, read back.
    fn facts(&self) -> Facts;

    /// Messages must be received into a buffer of at least this length (POSIX queues insist).
    fn least_buffer_bytes(&self) -> usize {
        0
    }
}

/// An end of a copying mechanism.
pub struct Copying<T> {
    transport: T,
    outgoing: Buffer,
    incoming: Buffer,
    least_bytes: usize,
}

impl<T: Transport> Copying<T> {
    /// Buffers for messages of up to `message_bytes`, on this CPU's node.
    pub fn new(transport: T, message_bytes: usize) -> io::Result<Copying<T>> {
        let least_bytes = transport.least_buffer_bytes();
        Ok(Copying {
            transport,
            outgoing: Buffer::new(message_bytes.max(1))?,
            incoming: Buffer::new(message_bytes.max(least_bytes).max(1))?,
            least_bytes,
        })
    }
}

/// A message in the outgoing buffer.
pub struct Outgoing<'a, T> {
    end: &'a mut Copying<T>,
    len: usize,
}

impl<T> AsMut<[u8]> for Outgoing<'_, T> {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.end.outgoing.bytes_mut()[..self.len]
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
        Ok(Outgoing { end: self, len })
    }

    #[inline]
    fn commit(tx: Outgoing<'_, T>) -> io::Result<()> {
        tx.end.transport.send(&tx.end.outgoing.bytes()[..tx.len])
    }

    #[inline]
    fn take(&mut self, len: usize) -> io::Result<&[u8]> {
        let room = len.max(self.least_bytes);
        let count = self.transport.receive(&mut self.incoming.bytes_mut()[..room])?;
        Ok(&self.incoming.bytes()[..count])
    }

    fn prefault(&mut self) -> io::Result<()> {
        self.outgoing.prefault()?;
        self.incoming.prefault()
    }

    fn facts(&self) -> Facts {
        let mut facts = self.transport.facts();
        let is_locked = self.outgoing.is_locked() && self.incoming.is_locked();
        facts.insert("buffers_locked".into(), if is_locked { "yes" } else { "no" }.into());
        facts
    }
}
