//! A subscriber's access to a log. It writes nothing, trusts nothing and never waits.
//!
//! Every field is loaded once, checked, and used from the local copy. Whatever a publisher writes into the log, the result is
//! a message, a loss, nothing, or [`Corrupt`]. A reader reads no byte outside the ring, and its work per call is bounded by
//! the number of granules.

use super::Corrupt;
use super::atomic::{Ordering, fence};
use super::memory::Memory;
use super::reclaim;
use super::word::{GRANULE_BYTES, State, Word, span_of};

/// A complete frame. Its payload is still in the log: copy it with [`Reader::copy`], then call [`Reader::advance`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Position of the frame.
    pub position: u64,
    /// Position of the next frame.
    pub end: u64,
    /// Slot of the publisher.
    pub publisher: u8,
    /// Length of the payload.
    pub payload_bytes: u32,
    /// Messages that this publisher had published before, modulo 2³².
    pub sequence: u32,
    /// The topic that the publisher set.
    pub topic: u32,
    /// Which request this answers.
    pub correlation: u64,
}

/// What was overwritten before this subscriber read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Messages, exactly.
    pub messages: u64,
    /// Bytes of log that they took.
    pub bytes: u64,
}

/// What lies at a reader's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Peek {
    /// A message.
    Frame(Frame),
    /// Nothing yet. The slot of the publisher that has claimed the next frame and not finished it, if there is one.
    Empty(Option<u8>),
    /// The reader was overtaken. It has already moved to the oldest message still in the log.
    Lost(Loss),
    /// The log ends here.
    Sealed,
}

/// The result of [`Reader::try_peek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TryPeek {
    /// A message.
    Frame(Frame),
    /// Nothing yet.
    Empty,
    /// Something else: use [`Reader::peek`].
    Unknown,
}

/// Which message a new subscriber receives first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The first message published after it joined.
    #[default]
    Next,
    /// The oldest message still in the log.
    Oldest,
}

/// A subscriber's access to a log.
#[derive(Debug)]
pub struct Reader<M> {
    memory: M,
    position: u64,
    /// Messages before `position` since the group began.
    messages: u64,
    limit: u64,
}

impl<M: Memory> Reader<M> {
    /// A reader at the oldest message still in the log. If publishers are to wait for it, they must know its cursor before
    /// this call.
    pub fn join(memory: M) -> Result<Reader<M>, Corrupt> {
        fence(Ordering::SeqCst); // PAIR join-mark: the fence in `reclaim::advance_floor`
        let mut reader = Reader { memory, position: 0, messages: 0, limit: 0 };
        (reader.position, reader.messages) = reader.mark()?;
        Ok(reader)
    }

    /// A reader at the beginning of a log, whose first position and number of messages are these.
    pub fn begin(memory: M, position: u64, messages: u64) -> Reader<M> {
        Reader { memory, position, messages, limit: 0 }
    }

    /// The memory that this reader reads.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The position up to which everything was consumed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Messages before this reader's position since the group began.
    pub fn messages_before(&self) -> u64 {
        self.messages
    }

    /// Advances past everything that is complete now: at most as many frames as the ring can hold, one peek each.
    pub fn skip_to_end(&mut self) -> Result<(), Corrupt> {
        self.skip_to(u64::MAX).map(drop)
    }

    /// Advances past whole frames until `position` or beyond, as far as they are complete, and returns what was skipped.
    pub fn skip_to(&mut self, position: u64) -> Result<Loss, Corrupt> {
        let (from, before) = (self.position, self.messages);
        for _ in 0..=self.memory.capacity_bytes() / GRANULE_BYTES {
            if self.position >= position {
                break;
            }
            match self.peek()? {
                Peek::Frame(frame) => self.advance(&frame),
                Peek::Lost(_) => {}
                Peek::Empty(_) | Peek::Sealed => break,
            }
        }
        Ok(Loss { messages: self.messages.wrapping_sub(before), bytes: self.position - from })
    }

    /// What lies at this reader's position. Advances past padding, and past what was lost.
    #[inline]
    pub fn peek(&mut self) -> Result<Peek, Corrupt> {
        match self.try_peek() {
            TryPeek::Frame(frame) => Ok(Peek::Frame(frame)),
            TryPeek::Empty => Ok(Peek::Empty(None)),
            TryPeek::Unknown => self.peek_slow(),
        }
    }

    /// The two usual results of [`Reader::peek`], with the least code that can find them. Inlined, so that a frame stays in
    /// registers.
    #[inline(always)]
    pub fn try_peek(&self) -> TryPeek {
        let position = self.position;
        if position > self.limit {
            return TryPeek::Unknown;
        }
        let (header, meta, lap) =
            (self.memory.header(position), self.memory.meta(position), self.memory.lap(position));
        let word = Word(header.load(Ordering::Acquire)); // PAIR log-commit
        if word.is_done(lap) {
            let meta = [0, 1, 2].map(|index: usize| meta[index].load(Ordering::Relaxed));
            let frame = Frame::new(word, meta, position);
            if !self.overtaken() && frame.is_possible(word, self.memory.capacity_bytes()) {
                return TryPeek::Frame(frame);
            }
        } else if word == self.memory.free(position) && !self.overtaken() {
            return TryPeek::Empty;
        }
        TryPeek::Unknown
    }

    /// Whether a message lies here, by the header word alone; it may have been overwritten since. `None` for anything but a
    /// message or nothing: use [`Reader::peek`].
    #[inline(always)]
    pub fn is_ready(&self) -> Option<bool> {
        let position = self.position;
        if position > self.limit {
            return None;
        }
        let word = Word(self.memory.header(position).load(Ordering::Acquire)); // PAIR log-commit
        if word.is_done(self.memory.lap(position)) {
            Some(true)
        } else if word == self.memory.free(position) && !self.overtaken() {
            Some(false)
        } else {
            None
        }
    }

    /// [`Reader::peek`] for every case.
    #[inline(never)]
    fn peek_slow(&mut self) -> Result<Peek, Corrupt> {
        let capacity = self.memory.capacity_bytes();
        // A ring holds at most this many frames of padding in a row.
        for _ in 0..=capacity / GRANULE_BYTES {
            let position = self.position;
            if position > self.limit {
                // Beyond the limit lie bytes of the lap before, which can have any value. The word at the limit is valid.
                self.limit = self.memory.tail().limit.load(Ordering::Acquire); // PAIR log-limit
                if position > self.limit {
                    return if self.overtaken() {
                        self.resume().map(Peek::Lost)
                    } else {
                        Ok(Peek::Empty(None))
                    };
                }
            }
            let word = Word(self.memory.header(position).load(Ordering::Acquire)); // PAIR log-commit
            let meta = self.memory.meta(position);
            let meta = [0, 1, 2].map(|index: usize| meta[index].load(Ordering::Relaxed));
            if self.overtaken() {
                return self.resume().map(Peek::Lost);
            }
            let corrupt = Corrupt { position, word };
            if word.lap() != self.memory.lap(position) {
                return Err(corrupt);
            }
            let span = word.span_bytes();
            match word.state().ok_or(corrupt)? {
                State::Free => return Ok(Peek::Empty(None)),
                State::Busy => return Ok(Peek::Empty(Some(word.owner()))),
                State::Sealed => return Ok(Peek::Sealed),
                State::Done => {
                    let frame = Frame::new(word, meta, position);
                    return frame.is_possible(word, capacity).then_some(Peek::Frame(frame)).ok_or(corrupt);
                }
                State::Pad if span == 0 || span > capacity => return Err(corrupt),
                State::Pad => self.position += span,
            }
        }
        Err(Corrupt { position: self.position, word: Word(0) })
    }

    /// Copies the payload of a frame that [`Reader::peek`] returned; `into` has its length. Returns false if it was
    /// overwritten meanwhile: then `into` holds arbitrary bytes, and the next peek reports the loss.
    #[inline(always)]
    pub fn copy(&self, frame: &Frame, into: &mut [u8]) -> bool {
        self.memory.read_payload(frame.position, into);
        self.intact_from(frame.position)
    }

    /// Whether publishers have not yet been allowed to overwrite the frame at `position`.
    #[inline(always)]
    pub fn intact_from(&self, position: u64) -> bool {
        fence(Ordering::Acquire); // PAIR floor-payload: the fence before payload stores in `Writer`
        self.memory.tail().floor.load(Ordering::Relaxed) <= position
    }

    /// Advances past a frame.
    #[inline(always)]
    pub fn advance(&mut self, frame: &Frame) {
        debug_assert_eq!(frame.position, self.position);
        self.advance_to(frame.end);
    }

    /// Advances past the present frame, which ends at `end`.
    #[inline(always)]
    pub fn advance_to(&mut self, end: u64) {
        self.position = end;
        self.messages = self.messages.wrapping_add(1); // its beginning came from the log
    }

    /// Whether publishers have been allowed to overwrite this reader's position.
    #[inline(always)]
    fn overtaken(&self) -> bool {
        !self.intact_from(self.position)
    }

    /// Advances to the mark, and returns what was lost.
    #[cold]
    fn resume(&mut self) -> Result<Loss, Corrupt> {
        let (position, messages) = self.mark()?;
        let corrupt = Corrupt { position, word: Word(0) };
        if position <= self.position || messages < self.messages {
            return Err(corrupt);
        }
        let loss = Loss { messages: messages - self.messages, bytes: position - self.position };
        (self.position, self.messages) = (position, messages);
        Ok(loss)
    }

    /// The mark: a boundary at or above the floor, and the messages before it.
    fn mark(&self) -> Result<(u64, u64), Corrupt> {
        let is_position =
            |position: u64| position.is_multiple_of(GRANULE_BYTES) && position <= reclaim::POSITION_MAX;
        let mark = reclaim::mark(&self.memory).ok_or(Corrupt { position: self.position, word: Word(0) })?;
        is_position(mark.0).then_some(mark).ok_or(Corrupt { position: mark.0, word: Word(0) })
    }
}

impl Frame {
    /// The frame that these words describe.
    #[inline(always)]
    fn new(word: Word, meta: [u64; 3], position: u64) -> Frame {
        Frame {
            position,
            end: position + word.span_bytes(),
            publisher: word.owner(),
            payload_bytes: meta[0] as u32,
            sequence: (meta[1] >> 32) as u32,
            topic: meta[1] as u32,
            correlation: meta[2],
        }
    }

    /// Whether the length of the payload agrees with that of the frame.
    #[inline(always)]
    fn is_possible(&self, word: Word, capacity: u64) -> bool {
        let payload_bytes = u64::from(self.payload_bytes);
        payload_bytes <= capacity / 4 && span_of(payload_bytes) == word.span_bytes()
    }
}
