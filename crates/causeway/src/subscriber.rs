//! A subscriber of a group.

mod health;
mod in_place;
mod references;
mod sequences;
mod wait;

pub use health::Health;
pub use in_place::InPlace;
#[cfg(feature = "tokio")]
pub(crate) use wait::DRAIN_READS_MAX;
pub use wait::Waited;

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::futex;
use causeway_os::memory::Access;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::log::layout::SUBSCRIBERS_MAX;
use crate::log::mapped::MappedLog;
use crate::log::pages::{StatusPages, SubscriberPage};
use crate::log::wait::{WaitTarget, Waiter, advance_cursor, topic_bit};
use crate::log::wake_word::WakeWord;
use crate::log::word::{GRANULE_BYTES, HEADER_BYTES};
use crate::log::{Frame, Loss, Memory, Peek, Position, Reader, Start, TryPeek};
use crate::message::{Message, Received};
use crate::options::{Policy, SubscribeOptions};
use crate::outcome::{RecvTimeoutError, TryRecvError};
use crate::serve::Host;
use crate::spin::{Pace, Spin};
use crate::subscriber_handle::own_process;
use crate::trust::Trust;
use crate::watch::Watch;
use crate::wire::{self, ANSWER_TIME, Op, answer, ask, take_fds_and_wake_page};
use sequences::Sequences;
pub(crate) use wait::check_doorbell;
use wait::{check_lifeline, futex_of};

/// Receives messages. [`Group::subscribe`](crate::Group::subscribe) makes one.
///
/// `try_…` never waits, [`Subscriber::recv`] waits, [`Subscriber::recv_timeout`] waits for a limited time. A program with an
/// event loop of its own uses [`Subscriber::arm`] and the file descriptor.
#[derive(Debug)]
pub struct Subscriber {
    reader: Reader<Arc<MappedLog>>,
    log: Arc<MappedLog>,
    page: Arc<SubscriberPage>,
    wake_word: WakeWord,
    status: StatusPages,
    socket: Arc<OwnedFd>,
    doorbell: OwnedFd,
    /// Hangs up when the server and all publishers are gone.
    lifeline: Arc<OwnedFd>,
    /// The process that joined; a forked child is not a subscriber.
    process: u32,
    slot: usize,
    generation: u32,
    policy: Policy,
    trust: Trust,
    waiter: Waiter,
    wait_target: WaitTarget,
    spin: Spin,
    pace: Pace,
    watch: Option<Watch>,
    /// How often the program polled without finding a message; modulo 2³².
    empty_polls: u32,
    /// The cursor that publishers see.
    published_cursor: u64,
    /// The frame that [`InPlace`] shows.
    frame: Frame,
    /// The next call must look at more than the log: there is a loss to return, this subscriber is disconnected, its policy
    /// bounds its lag, or it wants some topics only.
    needs_care: bool,
    /// The topics that it wants; `None` for all.
    topics: Option<BTreeSet<u32>>,
    /// A loss that was detected and not yet returned.
    lost: Option<Loss>,
    /// This subscriber missed its deadline and has left the group: how many messages it had not received.
    disconnected: Option<u64>,
    /// The server has removed this subscriber.
    removed: bool,
    /// All other ends of the doorbell are closed: it is rung no more.
    doorbell_closed: bool,
    /// All other ends of the lifeline are closed: the server and all publishers are gone.
    lifeline_closed: bool,
    buffer: Vec<u8>,
    received: u64,
    lost_messages: u64,
    lost_bytes: u64,
    sequences: Sequences,
    /// What [`Message::lost_before`] says of the last message.
    lost_before: Option<u32>,
    _host: Option<Arc<Host>>,
}

/// Payload bytes in the cache line of the header.
const SHORT_BYTES: usize = (GRANULE_BYTES - HEADER_BYTES) as usize;

/// How often a subscriber may be overtaken while it copies the same message, before it reports the log as corrupt. The floor
/// only rises, so the first peek after an interrupted copy finds the loss. Only a publisher that moves the floor back and
/// forth causes more attempts.
const COPY_ATTEMPTS_MAX: usize = 100;

/// The filter of these topics. Never 0, which stands for all topics.
fn filter_of(topics: &BTreeSet<u32>) -> u32 {
    topics.iter().fold(0, |filter, topic| filter | topic_bit(*topic)).max(u32::from(topics.is_empty()))
}

/// After this many empty polls the library watches the sockets for the program.
const EMPTY_POLLS_PER_WATCH: u32 = 64;

/// Tells the server how far this subscriber is, and waits for its answer.
fn confirm(socket: &OwnedFd, step: Op) -> Result<()> {
    match ask(socket, wire::Message::new(step, &[]), Some(ANSWER_TIME))?.0.op {
        Op::Granted => Ok(()),
        other => Err(Error::invalid("answer", format!("{other:?} to a subscriber"))),
    }
}

/// Says goodbye: the membership ends now, although a forked child may hold another descriptor of the socket.
impl Drop for Subscriber {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        }
    }
}

impl Subscriber {
    /// Becomes a subscriber over a new connection.
    pub(crate) fn join(
        socket: OwnedFd,
        options: SubscribeOptions,
        host: Option<Arc<Host>>,
    ) -> Result<Subscriber> {
        let ([policy, deadline], [low, high]) =
            (options.policy.to_words(), wire::halves(options.fingerprint));
        let request = wire::Message::new(Op::Subscribe, &[policy, deadline, low, high]);
        let start = Instant::now();
        let timeout = options.timeout.unwrap_or(Duration::MAX);
        // A server that works answers at once, if only that the grant follows later.
        let (mut granted, mut fds) = ask(&socket, request, Some(timeout.min(ANSWER_TIME)))?;
        if granted.op == Op::Waiting {
            let left = options.timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            (granted, fds) = answer(&socket, left)?;
        }
        let [slot, generation, trust, ..] = granted.words;
        if granted.op != Op::Granted || slot as usize >= SUBSCRIBERS_MAX {
            return Err(Error::invalid("answer", format!("{:?} to a subscriber", granted.op)));
        }
        let trust =
            Trust::from_word(trust).ok_or_else(|| Error::invalid("answer", "an unknown kind of trust"))?;
        let ([status, log, page, doorbell, lifeline], wake_page) = take_fds_and_wake_page(fds)?;
        if wake_page.is_some() != (trust == Trust::SameUser) {
            return Err(Error::invalid(
                "answer",
                "a wake page is for processes of one user, and for them only",
            ));
        }
        check_doorbell(&doorbell)?;
        check_lifeline(&lifeline)?;
        let log = Arc::new(MappedLog::open(&log, Access::ReadOnly)?);
        let page = Arc::new(SubscriberPage::open_own(&page)?);
        let wake_word = WakeWord::open(Arc::clone(&log), wake_page)?;
        page.words().process.store(own_process(), Ordering::Relaxed);
        let filter = options.topics.as_ref().map_or(0, filter_of);
        page.words().topics.store(u64::from(filter), Ordering::Relaxed);
        // From the answer on, publishers keep what this subscriber has not read.
        confirm(&socket, Op::Ready)?;
        let mut reader = Reader::join(Arc::clone(&log))?;
        page.words().cursor.store(reader.position(), Ordering::Release);
        if options.start == Start::Next {
            reader.skip_to_end()?;
            page.words().cursor.store(reader.position(), Ordering::Release);
        }
        // From the answer on, others see that it is there.
        confirm(&socket, Op::Placed)?;
        let published_cursor = reader.position();
        Ok(Subscriber {
            reader,
            log,
            page,
            wake_word,
            status: StatusPages::open(&status)?,
            socket: Arc::new(socket),
            doorbell,
            lifeline: Arc::new(lifeline),
            process: std::process::id(),
            slot: slot as usize,
            generation,
            policy: options.policy,
            waiter: Waiter::new(),
            wait_target: futex_of(trust),
            trust,
            spin: Spin::default(),
            pace: Pace::default(),
            watch: None,
            empty_polls: 0,
            published_cursor,
            frame: Frame::default(),
            needs_care: options.policy.lag_bytes_max().is_some() || options.topics.is_some(),
            topics: options.topics,
            lost: None,
            disconnected: None,
            removed: false,
            doorbell_closed: false,
            lifeline_closed: false,
            buffer: vec![0; SHORT_BYTES],
            received: 0,
            lost_messages: 0,
            lost_bytes: 0,
            sequences: Sequences::default(),
            lost_before: None,
            _host: host,
        })
    }

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
            Some(frame) => Ok(self.message(&frame)),
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
            None => Ok(self.take_loss().map(Received::lost)),
        }
    }

    /// What [`Subscriber::take_or_loss`] returned, with the payload in the buffer.
    pub(crate) fn received(&self, taken: Received<Frame>) -> Received<Message<'_>> {
        match taken {
            Received::Message(frame) => self.message(&frame),
            Received::Lost { messages, bytes } => Received::Lost { messages, bytes },
        }
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
            match self.find_and_copy_again()? {
                Some(another) => frame = another,
                None => return Ok(None),
            }
        }
        self.advance_past(&frame);
        Ok(Some(frame))
    }

    /// The message of this frame, whose payload is in the buffer.
    #[inline(always)]
    fn message(&self, frame: &Frame) -> Received<Message<'_>> {
        let Frame { position, publisher, sequence, topic, .. } = *frame;
        let bytes = &self.buffer[..frame.payload_bytes as usize];
        let (position, lost_before) = (Position(position), self.lost_before);
        Received::Message(Message { bytes, position, publisher, sequence, topic, lost_before })
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

    /// This subscriber was overtaken while it copied. The next peek finds the loss: then this is `None`.
    #[cold]
    #[inline(never)]
    fn find_and_copy_again(&mut self) -> Result<Option<Frame>> {
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
    fn no_message<M>(&mut self) -> Result<Received<M>, TryRecvError> {
        match self.take_loss() {
            Some(loss) => Ok(Received::lost(loss)),
            None => {
                self.count_empty_poll();
                Err(TryRecvError::Empty)
            }
        }
    }

    #[cold]
    fn enlarge(&mut self, length: usize) -> Result<()> {
        self.buffer.try_reserve(length - self.buffer.len()).map_err(|_| {
            Error::os("allocate a buffer for", format!("a message of {length} bytes"), Errno::NOMEM)
        })?;
        self.buffer.resize(length, 0);
        Ok(())
    }

    /// The next message, read where it lies in the log, or the loss before it. Does not wait: call [`Subscriber::wait`]
    /// first, or use [`Subscriber::recv`], which copies.
    ///
    /// # Errors
    /// As [`Subscriber::try_recv`].
    #[inline(always)]
    pub fn try_recv_in_place(&mut self) -> Result<Received<InPlace<'_>>, TryRecvError> {
        let Some(frame) = self.find()? else { return self.no_message() };
        self.frame = frame;
        Ok(Received::Message(InPlace::new(self)))
    }

    /// Polling the log does not show that all other processes were killed. A program that polls and never waits gets the
    /// thread that watches the sockets.
    #[inline(always)]
    fn count_empty_poll(&mut self) {
        self.empty_polls = self.empty_polls.wrapping_add(1);
        if self.empty_polls.is_multiple_of(EMPTY_POLLS_PER_WATCH) {
            self.poll_with_care();
        }
    }

    #[cold]
    fn poll_with_care(&mut self) {
        self.needs_care |= matches!(self.policy, Policy::DisconnectAfter(_)) && self.is_demoted();
        if self.watch.is_some() {
            return;
        }
        // Without descriptors or threads for it now, this is tried again after as many empty polls.
        self.watch =
            Watch::start(&self.socket, &self.lifeline, self.wake_word.clone(), Arc::clone(&self.page)).ok();
    }

    /// The next message. `None` if there is no message, or a loss that now stands in `lost`.
    #[inline(always)]
    fn find(&mut self) -> Result<Option<Frame>> {
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
        if self.lost.is_some() {
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
                Peek::Sealed => return Err(Error::Disconnected),
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

    /// There is no message: fails if none will come.
    fn check_end(&mut self) -> Result<()> {
        if !self.has_ended() {
            return Ok(());
        }
        // The last publisher may have published and left after the peek and before the status was read.
        match self.reader.peek()? {
            Peek::Empty(_) => Err(Error::Disconnected),
            Peek::Lost(loss) => self.note_loss(loss),
            Peek::Frame(_) | Peek::Sealed => Ok(()),
        }
    }

    /// Whether no further message will be published.
    #[inline(always)]
    fn has_ended(&self) -> bool {
        self.status.words().phase.load(Ordering::Acquire) == 2
            || ((self.lifeline_closed || self.server_is_gone()) && self.no_publisher_is_left())
    }

    /// Whether no publisher is left, where some process is known to be gone.
    #[cold]
    fn no_publisher_is_left(&self) -> bool {
        self.all_peers_gone()
            || (self.server_is_gone() && (self.remote_publishers() == 0 || self.is_removed()))
    }

    /// Whether the server has removed this subscriber. A server that died leaves the list as it was.
    fn is_removed(&self) -> bool {
        self.status.words().subscribers[self.slot].load(Ordering::Acquire) != self.generation
    }

    /// One bit for each publisher that does not die with the server.
    fn remote_publishers(&self) -> u64 {
        let status = self.status.words();
        status.publishers.load(Ordering::Acquire) & !status.local_publishers.load(Ordering::Acquire)
    }

    fn all_peers_gone(&self) -> bool {
        self.lifeline_closed || self.watch.as_ref().is_some_and(|watch| watch.watched().all_peers_gone())
    }

    #[inline(always)]
    fn server_is_gone(&self) -> bool {
        self.doorbell_closed || self.watch.as_ref().is_some_and(|watch| watch.watched().server_is_gone())
    }

    #[cold]
    fn note_loss(&mut self, loss: Loss) -> Result<()> {
        self.sequences.note_loss();
        self.lost_messages += loss.messages;
        self.lost_bytes += loss.bytes;
        let words = self.page.words();
        words.lost_messages.store(self.lost_messages, Ordering::Relaxed);
        words.lost_bytes.store(self.lost_bytes, Ordering::Relaxed);
        self.publish_cursor();
        (self.lost, self.needs_care) = (Some(loss), true);
        self.check_deadline()
    }

    fn take_loss(&mut self) -> Option<Loss> {
        self.needs_care = self.disconnected.is_some()
            || self.removed
            || self.policy.lag_bytes_max().is_some()
            || self.topics.is_some();
        self.lost.take()
    }

    /// Skips what is older than the policy allows.
    fn bound_lag(&mut self, bytes: u64) -> Result<()> {
        let newest = self.log.tail().hint.load(Ordering::Acquire);
        let oldest = newest.saturating_sub(bytes);
        if oldest > self.reader.position() {
            let loss = self.reader.skip_to(oldest)?;
            self.note_loss(loss)?;
        }
        Ok(())
    }

    /// Fails if this subscriber missed the deadline after which its policy disconnects it.
    fn check_deadline(&mut self) -> Result<()> {
        match self.disconnected {
            None if matches!(self.policy, Policy::DisconnectAfter(_)) && self.is_demoted() => {
                self.disconnect()
            }
            None => Ok(()),
            Some(lost_messages) => Err(Error::MissedDeadline { lost_messages }),
        }
    }

    /// Leaves the group. What was not received counts as lost, the loss that was found already too.
    #[cold]
    fn disconnect(&mut self) -> Result<()> {
        let found = self.take_loss().map_or(0, |loss| loss.messages);
        let (position, before) = (self.reader.position(), self.reader.messages_before());
        // A log that is corrupt has no end; then what was counted so far is what is known.
        let _ = self.reader.skip_to_end();
        let unread = self.reader.messages_before().wrapping_sub(before);
        self.lost_messages += unread;
        self.lost_bytes += self.reader.position() - position;
        self.page.words().lost_messages.store(self.lost_messages, Ordering::Relaxed);
        self.publish_cursor();
        (self.disconnected, self.needs_care) = (Some(found + unread), true);
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        Err(Error::MissedDeadline { lost_messages: found + unread })
    }

    fn is_demoted(&self) -> bool {
        self.log.tail().demoted[self.slot].load(Ordering::Acquire) == self.generation
    }

    /// Publishes the cursor after the reader has passed padding or lost messages, so that publishers may reuse that space.
    /// A publisher that saw this subscriber before it was demoted may sleep until then.
    #[cold]
    fn publish_cursor(&mut self) {
        let (from, to) = (self.published_cursor, self.reader.position());
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
    fn advance_past(&mut self, frame: &Frame) {
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

    /// Publishers do not wait for a subscriber that the server has removed, and it must not go on as if they did. Checked once
    /// in each eighth of the ring, and when there is no message.
    #[cold]
    fn check_membership(&mut self) {
        if self.is_removed() {
            (self.removed, self.needs_care) = (true, true);
        }
    }

    #[cold]
    fn wake_publishers(&self) {
        let _ = futex::wake(self.page.cursor_futex(), u32::MAX);
    }

    /// Whether [`Subscriber::try_recv`] would return a message or a loss. Consumes nothing.
    ///
    /// # Errors
    /// As [`Subscriber::recv`].
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
    fn poll_ready(&mut self) -> Result<bool> {
        if !self.needs_care {
            match self.reader.is_ready() {
                Some(true) => return Ok(true),
                Some(false) if !self.has_ended() => return Ok(false),
                Some(false) | None => {}
            }
        }
        Ok(self.find_slow()?.is_some() || self.lost.is_some())
    }

    /// Number of this subscriber in its group.
    pub fn id(&self) -> u32 {
        self.slot as u32
    }

    /// How far the subscribers of this group trust each other, as its creator decided.
    pub fn trust(&self) -> Trust {
        self.trust
    }

    /// The position up to which every message was received or lost.
    pub fn position(&self) -> Position {
        Position(self.reader.position())
    }

    /// Messages lost since this subscriber joined.
    pub fn lost_messages(&self) -> u64 {
        self.lost_messages
    }

    /// Messages of this publisher ([`Publisher::id`](crate::Publisher::id)) lost since this subscriber joined, as far as later
    /// messages of it have shown: see [`Message::lost_before`].
    pub fn lost_messages_of(&self, publisher: u8) -> u64 {
        self.sequences.lost_of(publisher)
    }
}
