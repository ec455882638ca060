//! What was read, message by message: the next number of each publisher, and a sum over all.

use crate::prelude::*;

/// Different writers put different words for the same number; there are fewer writers than this.
const WRITERS_BELOW: u64 = 1 << 16;

#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Which of the reader's logs it was in.
    pub(super) log: usize,
    /// Index of its publisher among those of the log.
    pub(super) publisher: u8,
    /// How many messages that publisher had sent before, modulo 2³².
    pub(super) sequence: u32,
    pub(super) payload: &'a [u8],
}

/// The word that message `sequence` of a writer (from 0) is filled with.
#[inline]
pub(super) fn word(writer: u64, sequence: u64) -> u64 {
    touch::word(sequence * WRITERS_BELOW + writer, 0)
}

pub(super) struct Accounts {
    has_one_log: bool,
    /// Which publisher a writer is.
    publishers: Vec<u8>,
    /// Which writer a publisher of the one log is.
    writers: Vec<Option<usize>>,
    /// How many messages of each writer were read, verified ones included: the number that its next one must have.
    pub(super) next: Vec<u64>,
    len: usize,
    touch: Touch,
    pub(super) events: u64,
    pub(super) bytes: u64,
    pub(super) sum: u64,
}

impl Accounts {
    pub(super) fn new(publishers: Vec<u8>, has_one_log: bool, len: usize, touch: Touch) -> Accounts {
        let mut writers = vec![None; 1 << u8::BITS];
        for (writer, publisher) in publishers.iter().enumerate() {
            writers[usize::from(*publisher)] = Some(writer);
        }
        let next = vec![0; publishers.len()];
        Accounts { has_one_log, publishers, writers, next, len, touch, events: 0, bytes: 0, sum: 0 }
    }

    /// A message of the timed part: which writer's it is, and its number.
    #[inline]
    pub(super) fn take(&mut self, seen: Seen<'_>) -> io::Result<(usize, u64)> {
        let numbered = self.number(&seen)?;
        self.events += 1;
        self.bytes += seen.payload.len() as u64;
        self.sum = self.sum.wrapping_add(touch::read(seen.payload, self.touch));
        Ok(numbered)
    }

    /// A message before it, byte by byte.
    pub(super) fn verify(&mut self, seen: Seen<'_>) -> io::Result<()> {
        let (writer, sequence) = self.number(&seen)?;
        if touch::is_filled_with(seen.payload, word(writer as u64, sequence)) {
            Ok(())
        } else {
            Err(io::Error::other(format!("message {sequence} of writer {} arrived damaged", writer + 1)))
        }
    }

    /// Publisher and number of a message, which must be the next one of that publisher and have the right length.
    #[inline]
    fn number(&mut self, seen: &Seen<'_>) -> io::Result<(usize, u64)> {
        let writer = if self.has_one_log {
            self.writers[usize::from(seen.publisher)]
        } else {
            (self.publishers[seen.log] == seen.publisher).then_some(seen.log)
        };
        let Some(writer) = writer else { return Err(strange(seen)) };
        let sequence = self.next[writer];
        if seen.sequence != sequence as u32 || seen.payload.len() != self.len {
            return Err(wrong(seen, writer, sequence, self.len));
        }
        self.next[writer] = sequence + 1;
        Ok((writer, sequence))
    }
}

#[cold]
fn strange(seen: &Seen<'_>) -> io::Error {
    io::Error::other(format!("publisher {} of log {} is no writer", seen.publisher, seen.log))
}

#[cold]
fn wrong(seen: &Seen<'_>, writer: usize, sequence: u64, len: usize) -> io::Error {
    io::Error::other(format!(
        "message {} of writer {} with {} bytes arrived where message {sequence} with {len} bytes was due",
        seen.sequence,
        writer + 1,
        seen.payload.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(log: usize, publisher: u8, sequence: u32, payload: &[u8]) -> Seen<'_> {
        Seen { log, publisher, sequence, payload }
    }

    #[test]
    fn every_publisher_has_numbers_of_its_own_and_a_gap_is_noticed() {
        let mut accounts = Accounts::new(vec![5, 2], true, 3, Touch::All);
        for (publisher, sequence) in [(2, 0), (2, 1), (5, 0), (2, 2)] {
            accounts.take(seen(0, publisher, sequence, b"abc")).unwrap();
        }
        assert_eq!((&accounts.next[..], accounts.events, accounts.bytes), (&[1, 3][..], 4, 12));
        let why = accounts.take(seen(0, 5, 2, b"abc")).unwrap_err().to_string();
        assert!(why.contains("message 2 of writer 1") && why.contains("message 1"), "{why}");
        assert!(accounts.take(seen(0, 2, 2, b"abc")).is_err(), "a message came twice");
        assert!(accounts.take(seen(0, 2, 3, b"abcd")).is_err(), "a message is too long");
        assert!(accounts.take(seen(0, 3, 0, b"abc")).unwrap_err().to_string().contains("publisher 3"));
    }

    #[test]
    fn of_several_logs_each_has_one_writer_and_no_other() {
        let mut accounts = Accounts::new(vec![0, 0], false, 0, Touch::All);
        for (log, sequence) in [(0, 0), (1, 0), (1, 1)] {
            accounts.take(seen(log, 0, sequence, b"")).unwrap();
        }
        assert_eq!(accounts.next, [1, 2]);
        assert!(accounts.take(seen(1, 1, 2, b"")).is_err());
    }

    #[test]
    fn a_verified_message_is_that_of_its_writer_byte_by_byte() {
        let mut accounts = Accounts::new(vec![0, 1], true, 20, Touch::None);
        let mut payload = [0; 20];
        touch::write(&mut payload, word(1, 0), Touch::All);
        accounts.verify(seen(0, 1, 0, &payload)).unwrap();
        assert!(accounts.verify(seen(0, 0, 0, &payload)).is_err(), "the message of another writer");
        touch::write(&mut payload, word(1, 1), Touch::All);
        payload[19] ^= 1;
        assert!(accounts.verify(seen(0, 1, 1, &payload)).is_err(), "a changed byte");
    }
}
