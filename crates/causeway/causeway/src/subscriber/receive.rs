//! Receiving: the next message is found, copied and passed.
//!
//! The usual case is a poll that finds a message or nothing, without a look at anything but the log. What else can be the case (a
//! loss, the end of the log, a deadline that was missed, a topic that is not wanted) is looked at in `find_slow`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use rustix::io::Errno;

use super::keep::Kept;
use super::{InPlace, SHORT_BYTES, Subscriber, Waited};
use crate::error::{Error, Result};
use crate::log::wait::advance_cursor;
use crate::log::{Frame, Memory, Peek, Position, TryPeek};
use crate::message::{Message, Received};
use crate::outcome::{RecvTimeoutError, TryRecvError};

/// How often a subscriber may be overtaken while it copies the same message, before it reports the log as corrupt. The floor
/// only rises, so the first peek after an interrupted copy finds the loss. Only a publisher that moves the floor back and
/// forth causes more attempts.
const COPY_ATTEMPTS_MAX: usize = 100;

impl Subscriber {
    /// The next message, or the loss before it. Does not wait.
    ///
    /// The payload is copied into a buffer of this subscriber, so that no publisher can change it afterwards. To read it in
    /// place, see [`Subscriber::try_recv_in_place`].
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] when there is no message yet. [`TryRecvError::Disconnected`] when every message was received
    /// and none will come. A program that only polls is told that as well: every 64 empty polls the library makes sure that
    /// its thread watches the sockets of this subscriber. [`TryRecvError::Failed`] with [`Error::MissedDeadline`] when the
    /// policy disconnects this subscriber, with [`Error::Corrupt`] when a publisher violated the protocol, or with
    /// [`Error::Os`] when there is no memory for a copy of the message.
    #[inline(always)]
    pub fn try_recv(&mut self) -> Result<Received<Message<'_>>, TryRecvError> {
        match self.take()? {
            Some(frame) => Ok(Received::Message(self.message(&frame))),
            None => self.no_message(),
        }
    }

    /// The next message, or the loss before it. Waits for it as [`Subscriber::wait`] does, without a limit of time.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when every message was received and none will come, and those of [`TryRecvError::Failed`] at
    /// [`Subscriber::try_recv`].
    pub fn recv(&mut self) -> Result<Received<Message<'_>>> {
        loop {
            if let Some(taken) = self.take_or_loss()? {
                return Ok(self.received(taken));
            }
            let _ = self.wait(None)?;
        }
    }

    /// As [`Subscriber::recv`], but waits at most for `timeout`.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] when nothing came until then; otherwise as [`Subscriber::try_recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Received<Message<'_>>, RecvTimeoutError> {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(taken) = self.take_or_loss()? {
                return Ok(self.received(taken));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if self.wait(left)? == Waited::TimedOut {
                return Err(RecvTimeoutError::Timeout);
            }
        }
    }

    /// The next message, taken into the buffer, or the loss before it.
    pub(crate) fn take_or_loss(&mut self) -> Result<Option<Received<Frame>>> {
        match self.take()? {
            Some(frame) => Ok(Some(Received::Message(frame))),
            None => Ok(self.take_news()),
        }
    }

    /// What [`Subscriber::take_or_loss`] returned, with the payload in the buffer.
    pub(crate) fn received(&self, taken: Received<Frame>) -> Received<Message<'_>> {
        taken.map(|frame| self.message(&frame))
    }

    /// Copies the next message into the buffer and advances past it. `None` if there is no message, or a loss that now
    /// stands in `lost`.
    #[inline(always)]
    fn take(&mut self) -> Result<Option<Frame>> {
        // The usual case apart: its frame stays in registers.
        if !self.needs_care
            && let TryPeek::Frame(frame) = self.reader.try_peek()
            && self.copy(&frame)?
        {
            self.advance_past(&frame);
            return Ok(Some(frame));
        }
        self.take_slow()
    }

    #[inline(never)]
    fn take_slow(&mut self) -> Result<Option<Frame>> {
        let Some(mut frame) = self.find()? else { return Ok(None) };
        if !self.copy(&frame)? {
            match self.copy_next()? {
                Some(another) => frame = another,
                None => return Ok(None),
            }
        }
        match self.kept {
            None => self.advance_past(&frame),
            Some(_) => self.advance_keeping(&frame),
        }
        Ok(Some(frame))
    }

    /// The message of this frame, whose payload is in the buffer.
    #[inline(always)]
    pub(crate) fn message(&self, frame: &Frame) -> Message<'_> {
        let Frame { position, publisher, sequence, topic, correlation: mark, .. } = *frame;
        let bytes = &self.buffer[..frame.payload_bytes as usize];
        let (position, lost_before) = (Position(position), self.lost_before);
        Message { bytes, position, publisher, sequence, topic, mark, lost_before }
    }

    /// Copies the payload into the buffer. Returns false if it was overwritten meanwhile.
    #[inline(always)]
    fn copy(&mut self, frame: &Frame) -> Result<bool> {
        let length = frame.payload_bytes as usize;
        if self.buffer.len() < length {
            self.enlarge(length)?;
        }
        // What shares the header's line is copied whole, without a loop.
        Ok(match self.buffer.first_chunk_mut::<SHORT_BYTES>() {
            Some(short) if length <= SHORT_BYTES => self.reader.copy(frame, short),
            _ => self.reader.copy(frame, &mut self.buffer[..length]),
        })
    }

    /// Copies the next message into the buffer and stays before it. `None` if there is no message, or a loss: also one that happened
    /// while it was copied, which the next peek finds.
    #[cold]
    #[inline(never)]
    pub(crate) fn copy_next(&mut self) -> Result<Option<Frame>> {
        for _ in 0..COPY_ATTEMPTS_MAX {
            let Some(frame) = self.find()? else { return Ok(None) };
            if self.copy(&frame)? {
                return Ok(Some(frame));
            }
        }
        Err(Error::Corrupt { position: self.reader.position() })
    }

    /// What a poll returns that found no message.
    #[inline(never)]
    pub(crate) fn no_message<M>(&mut self) -> Result<Received<M>, TryRecvError> {
        match self.take_news() {
            Some(news) => Ok(news),
            None => {
                self.count_empty_poll();
                Err(TryRecvError::Empty)
            }
        }
    }

    #[cold]
    pub(super) fn enlarge(&mut self, length: usize) -> Result<()> {
        self.buffer.try_reserve(length - self.buffer.len()).map_err(|_| {
            Error::os("allocate a buffer for", format!("a message of {length} bytes"), Errno::NOMEM)
        })?;
        self.buffer.resize(length, 0);
        Ok(())
    }

    /// The next message, read where it lies in the log, or the loss before it. Does not wait: call [`Subscriber::wait`]
    /// first, or use [`Subscriber::recv`], which copies. Fails as [`Subscriber::try_recv`].
    #[inline(always)]
    pub fn try_recv_in_place(&mut self) -> Result<Received<InPlace<'_>>, TryRecvError> {
        let Some(frame) = self.find()? else { return self.no_message() };
        self.frame = frame;
        Ok(Received::Message(InPlace::new(self)))
    }

    /// The next message. `None` if there is no message, or a loss that now stands in `lost`.
    #[inline(always)]
    pub(super) fn find(&mut self) -> Result<Option<Frame>> {
        if !self.needs_care {
            match self.reader.try_peek() {
                TryPeek::Frame(frame) => return Ok(Some(frame)),
                TryPeek::Empty if !self.has_ended() => return Ok(None),
                TryPeek::Empty | TryPeek::Unknown => {}
            }
        }
        self.find_slow()
    }

    #[inline(never)]
    fn find_slow(&mut self) -> Result<Option<Frame>> {
        self.check_deadline()?;
        if self.removed {
            return Err(Error::Disconnected);
        }
        if self.lost.is_none()
            && let Some(bytes) = self.policy.lag_bytes_max()
        {
            self.bound_lag(bytes)?;
        }
        if self.has_news() {
            return Ok(None);
        }
        loop {
            match self.reader.peek()? {
                Peek::Frame(frame) if !self.wants(frame.topic) => self.skip(&frame),
                Peek::Frame(frame) => return Ok(Some(frame)),
                Peek::Empty(_) => {
                    self.publish_cursor();
                    self.check_end()?;
                    return Ok(None);
                }
                Peek::Lost(loss) => {
                    self.note_loss(loss)?;
                    return Ok(None);
                }
                Peek::Sealed => {
                    self.follow()?;
                    if self.has_news() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn wants(&self, topic: u32) -> bool {
        self.topics.as_ref().is_none_or(|topics| topics.contains(&topic))
    }

    /// Advances past a message of a topic that this subscriber does not want.
    fn skip(&mut self, frame: &Frame) {
        self.sequences.skip(frame);
        self.reader.advance_to(frame.end);
        self.publish_cursor();
    }

    /// Publishes the cursor after the reader has passed padding or lost messages, so that publishers may reuse that space.
    /// A publisher that saw this subscriber before it was demoted may sleep until then.
    #[cold]
    pub(super) fn publish_cursor(&mut self) {
        let to = self.kept.as_ref().map_or(self.reader.position(), Kept::begin);
        let from = self.published_cursor;
        if from == to {
            return;
        }
        self.published_cursor = to;
        if advance_cursor(self.log.tail(), self.page.words(), self.log.capacity_bytes(), (from, to), || {}) {
            self.wake_publishers();
        }
    }

    /// Advances past the present message, and publishes the cursor.
    #[inline(always)]
    pub(super) fn advance_past(&mut self, frame: &Frame) {
        let end = frame.end;
        self.lost_before = self.sequences.receive(frame);
        // From the last cursor, not from the frame's start: an eighth may have been crossed in the padding between.
        let from = std::mem::replace(&mut self.published_cursor, end);
        self.reader.advance_to(end);
        self.received += 1;
        let words = self.page.words();
        words.received.store(self.received, Ordering::Relaxed);
        let mut crossed = false;
        if advance_cursor(self.log.tail(), words, self.log.capacity_bytes(), (from, end), || crossed = true) {
            self.wake_publishers();
        }
        if crossed {
            self.check_membership();
        }
    }

    #[cold]
    fn wake_publishers(&self) {
        let _ = futex::wake(self.page.cursor_futex(), u32::MAX);
    }

    /// Whether [`Subscriber::try_recv`] would return a message or a loss. Consumes nothing. Fails as [`Subscriber::recv`].
    #[inline(always)]
    pub fn is_ready(&mut self) -> Result<bool> {
        let ready = self.poll_ready()?;
        if !ready {
            self.count_empty_poll();
        }
        Ok(ready)
    }

    /// As [`Subscriber::is_ready`], for a poll that a wait follows: it is not counted.
    #[inline(always)]
    pub(super) fn poll_ready(&mut self) -> Result<bool> {
        if !self.needs_care {
            match self.reader.is_ready() {
                Some(true) => return Ok(true),
                Some(false) if !self.has_ended() => return Ok(false),
                Some(false) | None => {}
            }
        }
        Ok(self.find_slow()?.is_some() || self.has_news())
    }
}
