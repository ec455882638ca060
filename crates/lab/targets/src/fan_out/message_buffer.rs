//! Room for one message in a role's own memory, for mechanisms that copy it from there or to there.

use std::io;

use weighbridge_harness::buffer::Buffer;

/// As many bytes as a message has, touched and locked before anything is timed.
#[derive(Debug)]
pub(super) struct Room {
    buffer: Buffer,
    len: usize,
}

impl Room {
    /// Of exactly `len` bytes.
    pub(super) fn new(len: usize) -> io::Result<Room> {
        let mut buffer = Buffer::new(len.max(1))?;
        buffer.prefault()?;
        Ok(Room { buffer, len })
    }

    /// The message that `write` writes here.
    #[inline]
    pub(super) fn filled(&mut self, write: impl FnOnce(&mut [u8])) -> &[u8] {
        let room = self.bytes_mut();
        write(room);
        room
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.len]
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes_mut()[..self.len]
    }
}
