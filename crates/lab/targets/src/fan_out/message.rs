//! What a message holds: a word that is its sequence number in disguise. And room for one in a role's own memory.

use crate::prelude::*;

const SENDER: u64 = 0;

/// Inverse of the factor in [`touch::word`] modulo 2⁶⁴, by Newton's iteration: each step doubles the right bits.
const INVERSE: u64 = {
    let factor: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut inverse = factor;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
};

/// A message that may be lost must say which one it is, the others are known by their order.
pub(super) fn least_bytes(caps: Caps) -> usize {
    if caps.has(Caps::LOSSY) { 8 } else { 1 }
}

/// How much of a message is touched: its word always, where the word must tell the sequence.
pub(super) fn touch_of(caps: Caps, touch: Touch) -> Touch {
    if caps.has(Caps::LOSSY) && touch == Touch::None { Touch::First } else { touch }
}

/// Writes message `sequence`.
#[inline]
pub(super) fn write(payload: &mut [u8], sequence: u64, touch: Touch) {
    touch::write(payload, touch::word(sequence, SENDER), touch);
}

/// Which message this says it is.
#[inline]
pub(crate) fn sequence(payload: &[u8]) -> u64 {
    let word = payload.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    word.wrapping_mul(INVERSE) >> 1
}

/// Is this message `sequence`, as far as it is touched?
#[inline]
pub(super) fn check(payload: &[u8], len: usize, sequence: u64, touch: Touch) -> io::Result<()> {
    let expected = touch::expected(len, touch::word(sequence, SENDER), touch);
    if payload.len() == len && touch::read(payload, touch) == expected {
        return Ok(());
    }
    Err(damaged(payload.len(), len, sequence))
}

/// The same, byte by byte.
pub(super) fn check_all(payload: &[u8], len: usize, sequence: u64) -> io::Result<()> {
    if payload.len() == len && touch::is_filled_with(payload, touch::word(sequence, SENDER)) {
        Ok(())
    } else {
        Err(damaged(payload.len(), len, sequence))
    }
}

/// As many bytes as a message has, touched and locked, for mechanisms that copy it from there or to there.
pub(super) struct Room {
    buffer: Buffer,
    len: usize,
}

impl Room {
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
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes_mut()[..self.len]
    }
}

#[cold]
fn damaged(got: usize, len: usize, sequence: u64) -> io::Error {
    io::Error::other(format!("message {sequence} of {len} bytes arrived damaged, with {got} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_tells_its_sequence_and_no_other() {
        let mut payload = [0; 20];
        for number in [0, 1, 2, 77, 1 << 40, (1 << 63) - 1] {
            write(&mut payload, number, Touch::All);
            assert_eq!(sequence(&payload), number);
            let is_right = |payload: &[u8], number| {
                [check(payload, 20, number, Touch::All).is_ok(), check_all(payload, 20, number).is_ok()]
            };
            assert_eq!(is_right(&payload, number), [true; 2], "{number}");
            assert_eq!(is_right(&payload, number ^ 1), [false; 2], "{number}");
            assert_eq!(is_right(&payload[..19], number), [false; 2], "{number}");
            payload[19] ^= 1;
            assert_eq!(is_right(&payload, number), [false; 2], "{number}");
        }
    }
}
