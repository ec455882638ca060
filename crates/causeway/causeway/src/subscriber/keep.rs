//! Keeping: what was received stays in the log until it is released, and can be read again.
//!
//! The cursor that publishers see stays at the oldest message that is kept, while the reader goes on. Where the reader has gone on in
//! the next log of the group, the log that has ended is kept, too: nobody writes into it any more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Subscriber;
use crate::error::Result;
use crate::log::mapped::MappedLog;
use crate::log::word::GRANULE_BYTES;
use crate::log::{Frame, Peek, Position, Reader};
use crate::message::Message;

/// What a subscriber keeps.
#[derive(Debug)]
pub struct Kept {
    /// Publishers may overwrite what lies before this position.
    begin: u64,
    /// Logs that have ended and hold something that is kept, each with the position at which it ends.
    ended: VecDeque<(Arc<MappedLog>, u64)>,
}

impl Kept {
    /// Keeps everything from here on.
    pub fn from(position: u64) -> Kept {
        Kept { begin: position, ended: VecDeque::new() }
    }

    /// The position before which nothing is kept.
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// A log has been read to its end.
    pub fn end_log(&mut self, log: Arc<MappedLog>, end: u64) {
        if self.begin < end {
            self.ended.push_back((log, end));
        }
    }
}

impl Subscriber {
    /// Advances past the present message without a word to publishers.
    pub(super) fn advance_keeping(&mut self, frame: &Frame) {
        self.lost_before = self.sequences.receive(frame);
        self.reader.advance_to(frame.end);
        self.received += 1;
        self.page.words().received.store(self.received, Ordering::Relaxed);
    }

    /// Lets publishers overwrite what was received before `position`, where a message begins. Does nothing for a subscriber without
    /// [`SubscribeOptions::keep_received`](crate::SubscribeOptions::keep_received).
    pub fn release(&mut self, position: Position) {
        let end = self.reader.position();
        let Some(kept) = &mut self.kept else { return };
        let position = position.0 / GRANULE_BYTES * GRANULE_BYTES;
        kept.begin = kept.begin.max(position.min(end));
        while kept.ended.front().is_some_and(|(_, end)| *end <= kept.begin) {
            kept.ended.pop_front();
        }
        self.publish_cursor();
        self.check_membership();
    }

    /// Reads a message again that this subscriber has received, and keeps: the one at `position`, which is its
    /// [`Message::position`]. `None` if it is not there any more, because publishers do not wait for this subscriber. What this
    /// subscriber receives next stays the same. [`Message::lost_before`] is `None`.
    ///
    /// # Errors
    /// [`Error::Os`](crate::Error::Os) when there is no memory for a copy of the message.
    ///
    /// ```
    /// use causeway::{Group, GroupOptions, Policy, SubscribeOptions};
    ///
    /// let group = Group::create("prices", GroupOptions::new())?;
    /// let mut publisher = group.publisher()?;
    /// let mut subscriber = group.subscribe(SubscribeOptions::new(Policy::Reliable).keep_received())?;
    /// let position = publisher.publish(b"42.17")?;
    /// let _ = publisher.publish(b"42.18")?;
    /// for _ in 0..2 {
    ///     let _ = subscriber.recv()?;
    /// }
    /// assert_eq!(subscriber.read_again(position)?.expect("it is kept").bytes, b"42.17");
    /// subscriber.release(subscriber.position()); // from here on, publishers may overwrite both
    /// # Ok::<(), causeway::Error>(())
    /// ```
    pub fn read_again(&mut self, position: Position) -> Result<Option<Message<'_>>> {
        let Some(kept) = &self.kept else { return Ok(None) };
        let at = position.0;
        let ended = kept.ended.iter().find(|(_, end)| at < *end).map(|(log, _)| log);
        let log = Arc::clone(ended.unwrap_or(&self.log));
        let has_it = log.start().is_some_and(|(start, _)| at >= start);
        if !has_it || at >= self.reader.position() || !at.is_multiple_of(GRANULE_BYTES) {
            return Ok(None);
        }
        let mut reader = Reader::begin(log, at, 0);
        // What is not a message is none any more.
        let Ok(Peek::Frame(frame)) = reader.peek() else { return Ok(None) };
        let length = frame.payload_bytes as usize;
        if self.buffer.len() < length {
            self.enlarge(length)?;
        }
        if frame.position != at || !reader.copy(&frame, &mut self.buffer[..length]) {
            return Ok(None);
        }
        Ok(Some(Message { lost_before: None, ..self.message(&frame) }))
    }
}
