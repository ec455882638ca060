//! The publisher of a group.

mod epoch;
mod space;

use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::handshake::{Offer, Part};
use causeway_os::memory::Access;

use crate::error::{Error, Result};
use crate::log::mapped::{MappedLog, SHORT_WORDS};
use crate::log::pages::StatusPages;
use crate::log::wait::{Published, await_space, stop_awaiting_space};
use crate::log::wake_word::WakeWord;
use crate::log::word::PUBLISHERS_MAX;
use crate::log::{Claim, Claimed, Kind, Label, Memory, Position, Writer};
use crate::next_logs::NextLogs;
use crate::outcome::{PublishTimeoutError, TryPublishError};
use crate::request::Request;
use crate::serve::Host;
use crate::subscriber_set::SubscriberSet;
use crate::wire::{
    ANSWER_TIME, GETS_LOGS, IS_AWAITED, IS_LATE, Message, Op, answer, ask, check_offer, granted,
    take_fds_and_wake_page, tell_or_hear_why,
};
use epoch::Followed;

/// Publishes messages. [`Group::publisher`](crate::Group::publisher) makes one.
///
/// Each way to publish exists three times: `try_…` never waits, the plain name waits while the log is full, `…_timeout`
/// waits for a limited time.
#[derive(Debug)]
pub struct Publisher {
    log: Arc<MappedLog>,
    writer: Writer<Arc<MappedLog>>,
    subscribers: SubscriberSet,
    /// The frame of the present [`Loan`].
    loaned: Option<Claim>,
    /// Length of the present loan, if its frame is claimed by the commit.
    unclaimed_bytes: Option<usize>,
    /// Where a short message is written before it is committed.
    stage: [u8; STAGE_BYTES],
    /// Open as long as this publisher lives: subscribers see that it does.
    _lifeline: OwnedFd,
    /// Keeps the server alive, if the group is served by this process.
    host: Option<Arc<Host>>,
    /// The logs to come, if another process serves a group that has more than one.
    next_logs: Option<NextLogs>,
}

/// Messages up to this length are written to a buffer and copied into the log by the commit. Subscribers poll the cache line
/// of such a message; each separate store to it would be fetched by them and have to be fetched back. See
/// `docs/decisions/spin.md`.
const STAGE_BYTES: usize = 256;

/// How often a publisher yields to another one that frees space, before it reports the log as full.
const YIELDS_MAX: u32 = 200;

impl Publisher {
    /// Becomes a publisher over a fresh connection. `local` is the log of a group served by this process, `fingerprint` the type of
    /// the messages or 0.
    pub(crate) fn join(
        socket: OwnedFd,
        local: Option<(Arc<MappedLog>, Arc<Host>)>,
        fingerprint: u64,
        own: Offer,
    ) -> Result<Publisher> {
        let request = Message::from(Request::Publish { fingerprint }).with_offer(own);
        let answered = ask(&socket, request)?;
        check_offer(&answered.0, own, Part::Writes)?;
        let ([owner, flags, ..], mut fds) = granted(answered, "a publisher")?;
        let owner = u8::try_from(owner).ok().filter(|owner| usize::from(*owner) < PUBLISHERS_MAX);
        let owner = owner.ok_or_else(|| Error::invalid("answer", "a slot that no publisher has"))?;
        let next_logs =
            fds.pop_if(|_| flags & GETS_LOGS != 0).map(|fd| NextLogs::start(fd, own)).transpose()?;
        let mut joined = Vec::new();
        let (log, status, lifeline, wake_page, host) = match local {
            Some((log, host)) => {
                let ([status, lifeline], wake_page) = take_fds_and_wake_page(fds)?;
                (log, status, lifeline, wake_page, Some(host))
            }
            None => {
                let ([status, log, lifeline], wake_page) = take_fds_and_wake_page(fds)?;
                let log = MappedLog::open(&log, Access::ReadWrite, own)?;
                tell_or_hear_why(&socket, Request::Mapped { epoch: log.epoch() })?;
                if flags & (IS_LATE | IS_AWAITED) != 0 {
                    // Once the others have mapped the log, or those that waited for it are placed; or have had the time for it.
                    loop {
                        match answer(&socket, Some(ANSWER_TIME)) {
                            Ok((notice, fds)) if notice.op == Op::Joined => joined.push((notice, fds)),
                            Err(Error::ServerGone) if flags & IS_LATE == 0 => break,
                            begun => break drop(granted(begun?, "a publisher")?),
                        }
                    }
                }
                (Arc::new(log), status, lifeline, wake_page, None)
            }
        };
        // What one before it in its slot has left.
        log.tail().publishers[usize::from(owner)].waits_for.store(0, Ordering::Relaxed);
        let wake_word = WakeWord::open(Arc::clone(&log), wake_page)?;
        let status = StatusPages::open(&status)?;
        let subscribers = SubscriberSet::new(socket, status, wake_word, log.epoch(), joined)?;
        Ok(Publisher {
            writer: Writer::new(Arc::clone(&log), log.kind(), owner),
            log,
            subscribers,
            loaned: None,
            unclaimed_bytes: None,
            stage: [0; STAGE_BYTES],
            _lifeline: lifeline,
            host,
            next_logs,
        })
    }

    /// Number of this publisher in its group: what subscribers see as [`Message::publisher`](crate::Message).
    pub fn id(&self) -> u8 {
        self.writer.owner()
    }

    /// The longest payload, in bytes: a quarter of the capacity.
    pub fn payload_bytes_max(&self) -> usize {
        self.writer.payload_bytes_max()
    }

    /// Publishes a copy of `payload` with topic 0, without waiting. Returns its position in the log.
    ///
    /// Makes no system call unless a subscriber sleeps. One call wakes all subscribers that sleep on the futex; each
    /// subscriber that waits for its file descriptor takes one call more.
    ///
    /// # Errors
    /// [`TryPublishError::Full`] when there is no space; the message was not published.
    /// [`TryPublishError::Disconnected`] when the group was closed. [`TryPublishError::Failed`] with [`Error::TooLong`],
    /// with [`Error::Evicted`] when this publisher was evicted, with [`Error::Corrupt`] when another publisher violated the
    /// protocol, or with [`Error::ServerGone`] when the server died before this publisher knew all subscribers.
    #[inline(always)]
    pub fn try_publish(&mut self, payload: &[u8]) -> Result<Position, TryPublishError> {
        self.try_publish_with_topic(0, payload)
    }

    /// As [`Publisher::try_publish`], with a topic: a number that subscribers see as [`Message::topic`](crate::Message). A
    /// subscriber of other topics ([`SubscribeOptions::topics`](crate::SubscribeOptions::topics)) is not woken. To limit the wait
    /// while the log is full, use [`Publisher::loan_timeout`] and [`Loan::with_topic`].
    #[inline(always)]
    pub fn try_publish_with_topic(
        &mut self,
        topic: u32,
        payload: &[u8],
    ) -> Result<Position, TryPublishError> {
        let claim = match self.claim_fast(payload.len()) {
            Some(claim) => claim,
            None => match self.claim(payload.len())? {
                Some(claim) => claim,
                None => return self.give_up(TryPublishError::Full),
            },
        };
        self.log.write_payload(claim.position, payload);
        Ok(self.commit(claim, Label { topic, correlation: 0 })?)
    }

    /// Publishes a copy of `payload` with topic 0. Sleeps while the log is full, without a limit of time: a subscriber with
    /// [`Policy::Reliable`](crate::Policy::Reliable) that does not read blocks this call. Returns the position in the log.
    ///
    /// # Errors
    /// [`Error::Disconnected`] when the group was closed, and those of [`TryPublishError::Failed`] at
    /// [`Publisher::try_publish`].
    #[inline(always)]
    pub fn publish(&mut self, payload: &[u8]) -> Result<Position> {
        self.publish_with_topic(0, payload)
    }

    /// As [`Publisher::publish`], with a topic; see [`Publisher::try_publish_with_topic`].
    #[inline(always)]
    pub fn publish_with_topic(&mut self, topic: u32, payload: &[u8]) -> Result<Position> {
        let claim = match self.claim_fast(payload.len()) {
            Some(claim) => claim,
            None => self.claim_waiting(payload.len())?,
        };
        self.log.write_payload(claim.position, payload);
        self.commit(claim, Label { topic, correlation: 0 })
    }

    /// As [`Publisher::publish`], but waits at most for `timeout`.
    ///
    /// # Errors
    /// [`PublishTimeoutError::Timeout`] when the log was full until then; otherwise as [`Publisher::try_publish`].
    #[inline(always)]
    pub fn publish_timeout(
        &mut self,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<Position, PublishTimeoutError> {
        let claim = match self.claim_fast(payload.len()) {
            Some(claim) => claim,
            None => match self.claim_until(payload.len(), Instant::now().checked_add(timeout))? {
                Some(claim) => claim,
                None => return self.give_up(PublishTimeoutError::Timeout),
            },
        };
        self.log.write_payload(claim.position, payload);
        Ok(self.commit(claim, Label::default())?)
    }

    /// Space in the log for a message of `payload_bytes`, to be written in place and then committed. Does not wait. The space
    /// holds arbitrary bytes at first. A loan that is dropped without a commit publishes nothing.
    ///
    /// # Errors
    /// As [`Publisher::try_publish`].
    #[inline(always)]
    pub fn try_loan(&mut self, payload_bytes: usize) -> Result<Loan<'_>, TryPublishError> {
        self.loaned = self.claim_fast(payload_bytes);
        if self.loaned.is_none() {
            self.loaned = self.claim(payload_bytes)?;
        }
        if self.loaned.is_none() {
            return Err(TryPublishError::Full);
        }
        Ok(Loan { publisher: self, topic: 0, correlation: 0 })
    }

    /// As [`Publisher::try_loan`]; sleeps while the log is full, without a limit of time. In a group of several publishers, a
    /// message of up to 256 bytes gets its place by [`Loan::commit`], which then is what sleeps: until then it delays nobody.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    #[inline(always)]
    pub fn loan(&mut self, payload_bytes: usize) -> Result<Loan<'_>> {
        self.loaned = self.claim_fast(payload_bytes);
        if self.loaned.is_none() {
            match self.log.kind() {
                Kind::Shared if payload_bytes <= STAGE_BYTES.min(self.payload_bytes_max()) => {
                    self.unclaimed_bytes = Some(payload_bytes);
                }
                _ => self.loaned = Some(self.claim_waiting(payload_bytes)?),
            }
        }
        Ok(Loan { publisher: self, topic: 0, correlation: 0 })
    }

    /// As [`Publisher::loan`], but waits at most for `timeout`. Fails as [`Publisher::publish_timeout`].
    #[inline(always)]
    pub fn loan_timeout(
        &mut self,
        payload_bytes: usize,
        timeout: Duration,
    ) -> Result<Loan<'_>, PublishTimeoutError> {
        self.loaned = self.claim_fast(payload_bytes);
        if self.loaned.is_none() {
            self.loaned = self.claim_until(payload_bytes, Instant::now().checked_add(timeout))?;
        }
        if self.loaned.is_none() {
            return Err(PublishTimeoutError::Timeout);
        }
        Ok(Loan { publisher: self, topic: 0, correlation: 0 })
    }

    /// Waits until `count` subscribers have joined and receive what is published from now on, at most for `timeout`; without
    /// one it waits without a limit. Returns whether they have.
    ///
    /// # Errors
    /// [`Error::ServerGone`] when the process that serves the group is gone: then no process can join.
    pub fn wait_for_subscribers(&mut self, count: u32, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.subscribers.wait_for(count, deadline)
    }

    /// Whether the process that serves the group is gone. Messages still flow without it, but no process can join.
    pub fn server_is_gone(&mut self) -> bool {
        self.subscribers.server_is_gone()
    }

    /// The log and the subscribers, for what is published by reference; and the number of this publisher.
    pub(crate) fn parts(&mut self) -> (&MappedLog, &mut SubscriberSet, u8) {
        (&self.log, &mut self.subscribers, self.writer.owner())
    }

    /// A claim that reads no word of another process.
    #[inline(always)]
    fn claim_fast(&mut self, payload_bytes: usize) -> Option<Claim> {
        if self.loaned.is_some() {
            self.abandon(); // a loan that was leaked (`mem::forget`) and not dropped
        }
        self.unclaimed_bytes = None;
        let claim = self.writer.claim_fast(payload_bytes)?;
        self.subscribers.end_wait(self.log.tail(), self.writer.owner());
        Some(claim)
    }

    /// A message is given up because the log is full: subscribers can see how often that happened.
    #[cold]
    pub(crate) fn give_up<T, E>(&self, error: E) -> Result<T, E> {
        self.log.tail().given_up.fetch_add(1, Ordering::Relaxed);
        Err(error)
    }

    /// A claim, or `None` when the log is full.
    #[inline(never)]
    fn claim(&mut self, payload_bytes: usize) -> Result<Option<Claim>> {
        if payload_bytes > self.payload_bytes_max() {
            self.check_length(payload_bytes)?;
        }
        if self.subscribers.needs_care() {
            self.subscribers.check_complete()?;
            if self.follow()? == Followed::Moved {
                self.check_length(payload_bytes)?;
            }
        }
        for _ in 0..YIELDS_MAX {
            let tail = self.log.tail();
            let is_full = match self.writer.claim(payload_bytes, &mut self.subscribers.gate(tail))? {
                Claimed::At(claim) => {
                    self.subscribers.end_wait(tail, self.writer.owner());
                    return Ok(Some(claim));
                }
                Claimed::Contended => {
                    std::thread::yield_now();
                    continue;
                }
                Claimed::Full => {
                    self.subscribers.check_complete()?;
                    true
                }
                Claimed::Sealed => false,
            };
            match self.follow()? {
                Followed::Moved => self.check_length(payload_bytes)?,
                Followed::NotYet => std::thread::yield_now(),
                Followed::Present if !is_full => return Err(Error::Disconnected),
                Followed::Present => {
                    if !self.subscribers.demote_overdue(&*self.log, self.writer.owner())
                        && !self.subscribers.remove_dead_slowest()
                    {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    #[cold]
    fn check_length(&mut self, payload_bytes: usize) -> Result<()> {
        loop {
            let limit_bytes = self.payload_bytes_max();
            if payload_bytes <= limit_bytes {
                return Ok(());
            }
            if self.follow()? != Followed::Moved {
                return Err(Error::TooLong { payload_bytes, limit_bytes });
            }
        }
    }

    #[cold]
    fn abandon(&mut self) {
        if let Some(claim) = self.loaned.take() {
            // Fails if this publisher was evicted meanwhile: then the server has decided the frame already.
            let _ = self.writer.abandon(claim);
            // A subscriber that stopped at the unfinished frame must look behind it.
            self.subscribers.wake(self.log.tail(), None);
        }
    }

    #[inline(never)]
    fn claim_waiting(&mut self, payload_bytes: usize) -> Result<Claim> {
        let claim = self.claim_until(payload_bytes, None)?;
        Ok(claim.expect("without a deadline it waits until there is space"))
    }

    /// A claim, waiting for space until `deadline`; `None` when that has passed.
    #[inline(never)]
    fn claim_until(&mut self, payload_bytes: usize, deadline: Option<Instant>) -> Result<Option<Claim>> {
        if let Some(claim) = self.claim(payload_bytes)? {
            return Ok(Some(claim));
        }
        let owner = self.writer.owner();
        loop {
            // Each time anew: another log may have become the present one.
            let log = Arc::clone(&self.log);
            let slowest = self.subscribers.slowest(log.tail());
            await_space(log.tail(), owner);
            let mut waited = self.claim(payload_bytes);
            let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if matches!(waited, Ok(None)) && !is_over() {
                if self.subscribers.is_behind() {
                    self.wait_for_log();
                } else {
                    waited = self.subscribers.sleep_until_space(slowest, deadline).map(|()| None);
                }
                if matches!(waited, Ok(None)) {
                    waited = self.claim(payload_bytes);
                }
            }
            stop_awaiting_space(log.tail(), owner);
            match waited {
                Ok(None) if !is_over() => {}
                decided => return decided,
            }
        }
    }

    /// The server decided the frame of this publisher. Where it disconnects one, it says so before that.
    #[cold]
    fn why_evicted(&mut self) -> Error {
        self.subscribers.why_out().filter(|why| matches!(why, Error::Refused(_))).unwrap_or(Error::Evicted)
    }

    #[inline(always)]
    fn commit(&mut self, claim: Claim, label: Label) -> Result<Position> {
        let position = self.writer.commit(claim, label).map_err(|_| self.why_evicted())?;
        let lag_bytes_max = self.log.capacity_bytes() / 2;
        let published = Published { topic: label.topic, position, lag_bytes_max };
        self.subscribers.wake(self.log.tail(), Some(published));
        if self.subscribers.needs_care() {
            // The message is published. The next call claims nothing without asking: it returns the error, or goes on in another log.
            self.writer.forget_limit();
        }
        Ok(Position(position))
    }
}

/// Space in the log that belongs to this publisher until it is committed or dropped; see [`Publisher::loan`] for short
/// messages. Messages that are published after it become visible only then, so fill it without delay.
#[derive(Debug)]
pub struct Loan<'a> {
    /// Holds the claim too: moving a claim costs time (`docs/decisions/spin.md`).
    publisher: &'a mut Publisher,
    topic: u32,
    correlation: u64,
}

impl Loan<'_> {
    pub(crate) fn with_correlation(mut self, correlation: u64) -> Self {
        self.correlation = correlation;
        self
    }

    /// Sets the mark of the message: a number beside the payload that subscribers see as [`Message::mark`](crate::Message). 0 by
    /// default. A program that passes on messages of elsewhere says with it where each comes from, to itself above all.
    pub fn with_mark(self, mark: u64) -> Self {
        self.with_correlation(mark)
    }

    /// Sets the topic of the message: a number that subscribers see as [`Message::topic`](crate::Message). 0 by default.
    pub fn with_topic(mut self, topic: u32) -> Self {
        self.topic = topic;
        self
    }

    /// Publishes what was written, and returns its position in the log.
    ///
    /// # Errors
    /// [`Error::Evicted`] if this publisher was evicted meanwhile, and [`Refusal::Disconnected`](crate::Refusal) if it was disconnected;
    /// nothing was published. For a message that is claimed only now
    /// ([`Publisher::loan`]), those of [`Publisher::publish`].
    #[inline(always)]
    pub fn commit(self) -> Result<Position> {
        let label = Label { topic: self.topic, correlation: self.correlation };
        let claim = match (self.publisher.loaned.take(), self.publisher.unclaimed_bytes) {
            (Some(claim), _) => claim,
            // The line of the header is written from the claim to the end without a pause: a subscriber that polls takes it
            // away once, and not once for the claim and once for the commit.
            (None, Some(payload_bytes)) => self.publisher.claim_waiting(payload_bytes)?,
            (None, None) => return Err(Error::Evicted),
        };
        if claim.payload_bytes <= SHORT_WORDS as u64 * 8 {
            let words = std::array::from_fn(|index| {
                let bytes = self.publisher.stage[index * 8..][..8].try_into();
                u64::from_ne_bytes(bytes.expect("eight bytes"))
            });
            self.publisher.log.write_short(claim.position, &words);
        } else if let Some(staged) = self.publisher.stage.get(..claim.payload_bytes as usize) {
            self.publisher.log.write_payload(claim.position, staged);
        }
        self.publisher.commit(claim, label)
    }
}

impl Deref for Loan<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        let Some(claim) = &self.publisher.loaned else {
            return &self.publisher.stage[..self.publisher.unclaimed_bytes.unwrap_or(0)];
        };
        match self.publisher.stage.get(..claim.payload_bytes as usize) {
            Some(staged) => staged,
            None => self.publisher.writer.claimed_bytes(claim),
        }
    }
}

impl DerefMut for Loan<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        let Publisher { loaned, unclaimed_bytes, stage, writer, .. } = &mut *self.publisher;
        let Some(claim) = loaned else { return &mut stage[..unclaimed_bytes.unwrap_or(0)] };
        match stage.get_mut(..claim.payload_bytes as usize) {
            Some(staged) => staged,
            None => writer.claimed_bytes_mut(claim),
        }
    }
}

impl Drop for Loan<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.publisher.loaned.is_some() {
            self.publisher.abandon();
        }
    }
}
