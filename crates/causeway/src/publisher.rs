//! The publishing end of a group.

use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_os::memory::Access;

use crate::audience::Audience;
use crate::error::{Error, Result};
use crate::log::mapped::{MappedLog, SHORT_WORDS};
use crate::log::pages::StatusPage;
use crate::log::sleep::{await_space, stop_awaiting_space};
use crate::log::{Claim, Claimed, Label, Memory, Writer};
use crate::serve::Host;
use crate::wire::{ANSWER_TIME, Message, Op, ask, take_fds, tell};

/// A place in the log: bytes since the group began. Later messages have higher positions, for every receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// What became of a message. Both are normal: on `Full` the caller retries, waits, or drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Published {
    /// Every receiver will see it, at this position.
    At(Position),
    /// A receiver that may hold space does. Nobody will see the message.
    Full,
}

/// Publishes messages. Made by [`Group::publisher`](crate::Group::publisher).
#[derive(Debug)]
pub struct Publisher {
    log: Arc<MappedLog>,
    writer: Writer<Arc<MappedLog>>,
    audience: Audience,
    /// The frame of the loan that is out.
    open: Option<Claim>,
    /// Where a short message is written before it is committed.
    stage: [u8; STAGE_BYTES],
    /// Keeps the server of a group alive that lives in this process.
    _host: Option<Arc<Host>>,
}

/// Messages up to this length are written beside the log and copied into it by the commit, in one go. Receivers look at
/// the line in which such a message lies; each word written there on its own would be fetched by them and have to be
/// fetched back. See `docs/decisions/stage.md`.
const STAGE_BYTES: usize = 256;

/// How often a publisher yields to another one that frees space, before it takes the log for full.
const YIELDS: u32 = 200;

impl Publisher {
    /// Becomes a publisher over a fresh connection. `local` is the log of a group served by this process.
    pub(crate) fn join(socket: OwnedFd, local: Option<(Arc<MappedLog>, Arc<Host>)>) -> Result<Publisher> {
        let (granted, fds) = ask(&socket, Message::new(Op::Publish, &[]), Some(ANSWER_TIME))?;
        if granted.op != Op::Granted || granted.words[0] >= crate::log::word::PUBLISHERS_MAX as u32 {
            return Err(Error::invalid("answer", format!("{:?} to a publisher", granted.op)));
        }
        let (log, status, host) = match local {
            Some((log, host)) => {
                let [status] = take_fds(fds)?;
                (log, status, Some(host))
            }
            None => {
                let [status, log] = take_fds(fds)?;
                let log = MappedLog::open(&log, Access::ReadWrite)?;
                tell(&socket, Message::new(Op::Mapped, &[]))?;
                (Arc::new(log), status, None)
            }
        };
        let audience = Audience::new(socket, StatusPage::open(&status)?, granted.words[1])?;
        let kind = log.kind();
        let writer = Writer::new(Arc::clone(&log), kind, granted.words[0] as u8);
        Ok(Publisher { log, writer, audience, open: None, stage: [0; STAGE_BYTES], _host: host })
    }

    /// Which publisher of the group this is: what receivers see as [`Message::publisher`](crate::Message).
    pub fn id(&self) -> u8 {
        self.writer.owner()
    }

    /// The longest payload, in bytes: a quarter of the capacity.
    pub fn payload_bytes_max(&self) -> usize {
        self.writer.payload_bytes_max()
    }

    /// Publishes a copy of `payload`, about topic 0.
    ///
    /// Costs no system call unless a receiver sleeps; then one wakes all that sleep on the futex, and one each wakes
    /// those that wait for a file descriptor.
    ///
    /// # Errors
    /// [`Error::TooLong`]; [`Error::Evicted`] if this publisher was taken for gone; [`Error::Closed`];
    /// [`Error::Corrupt`] if another publisher broke the protocol.
    #[inline(always)]
    pub fn publish(&mut self, payload: &[u8]) -> Result<Published> {
        self.publish_about(0, payload)
    }

    /// Publishes a copy of `payload` about `topic`, a number that receivers see and may choose by.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    #[inline(always)]
    pub fn publish_about(&mut self, topic: u32, payload: &[u8]) -> Result<Published> {
        let claim = match self.claim_at_once(payload.len()) {
            Some(claim) => claim,
            None => match self.claim(payload.len())? {
                Some(claim) => claim,
                None => return Ok(Published::Full),
            },
        };
        self.log.write_payload(claim.position, payload);
        self.commit(claim, Label { topic, correlation: 0 }).map(Published::At)
    }

    /// Publishes a copy of `payload`; sleeps while the log is full, at most for `timeout`. `Full` then means that the
    /// time is over. Without a timeout it waits as long as a reliable receiver makes it wait.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    #[inline(always)]
    pub fn publish_within(&mut self, payload: &[u8], timeout: Option<Duration>) -> Result<Published> {
        let claim = match self.claim_at_once(payload.len()) {
            Some(claim) => claim,
            None => match self.claim_within(payload.len(), timeout)? {
                Some(claim) => claim,
                None => return Ok(Published::Full),
            },
        };
        self.log.write_payload(claim.position, payload);
        self.commit(claim, Label::default()).map(Published::At)
    }

    /// Space for a message of `payload_bytes`, to be written in place and then committed; `None` if the log is full.
    ///
    /// The bytes are whatever lay there before. Dropped without a commit, the loan publishes nothing.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    #[inline(always)]
    pub fn loan(&mut self, payload_bytes: usize) -> Result<Option<Loan<'_>>> {
        self.open = self.claim_at_once(payload_bytes);
        if self.open.is_none() {
            self.open = self.claim(payload_bytes)?;
        }
        Ok(self.open.is_some().then_some(Loan { publisher: self, topic: 0 }))
    }

    /// As [`Publisher::loan`]; sleeps while the log is full, at most for `timeout`.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    #[inline(always)]
    pub fn loan_within(
        &mut self,
        payload_bytes: usize,
        timeout: Option<Duration>,
    ) -> Result<Option<Loan<'_>>> {
        self.open = self.claim_at_once(payload_bytes);
        if self.open.is_none() {
            self.open = self.claim_within(payload_bytes, timeout)?;
        }
        Ok(self.open.is_some().then_some(Loan { publisher: self, topic: 0 }))
    }

    /// Whether the process that serves the group is gone. Traffic goes on without it, but nobody can join.
    pub fn server_is_gone(&mut self) -> bool {
        self.audience.server_is_gone()
    }

    /// Something that another thread can wait on until this publisher should try again.
    #[cfg(feature = "tokio")]
    pub(crate) fn space(&mut self) -> Space {
        let slowest = self.audience.whom_to_wait_for(self.log.tail());
        let page = slowest.and_then(|(slot, _)| self.audience.page_of(slot));
        Space {
            log: Arc::clone(&self.log),
            owner: self.writer.owner(),
            on: page.zip(slowest.map(|(_, cursor)| cursor)),
        }
    }

    /// Space that needs no look at anybody else's words.
    #[inline(always)]
    fn claim_at_once(&mut self, payload_bytes: usize) -> Option<Claim> {
        if self.open.is_some() {
            self.abandon(); // a loan that was forgotten and not dropped
        }
        let claim = self.writer.claim_at_once(payload_bytes)?;
        self.audience.not_held_up();
        Some(claim)
    }

    #[inline(never)]
    fn claim(&mut self, payload_bytes: usize) -> Result<Option<Claim>> {
        let limit_bytes = self.payload_bytes_max();
        if payload_bytes > limit_bytes {
            return Err(Error::TooLong { payload_bytes, limit_bytes });
        }
        self.audience.check_complete()?;
        for _ in 0..YIELDS {
            let tail = self.log.tail();
            match self.writer.claim(payload_bytes, &mut self.audience.gate(tail))? {
                Claimed::At(claim) => {
                    self.audience.not_held_up();
                    return Ok(Some(claim));
                }
                Claimed::Full => {
                    self.audience.check_complete()?;
                    if !self.audience.expel_if_late(tail) && !self.audience.drop_dead_in_the_way() {
                        return Ok(None);
                    }
                }
                Claimed::Contended => std::thread::yield_now(),
                Claimed::Sealed => return Err(Error::Closed),
            }
        }
        Ok(None)
    }

    /// Gives up the frame of the loan that is out, if there is one.
    #[cold]
    fn abandon(&mut self) {
        if let Some(claim) = self.open.take() {
            // Evicted meanwhile: then somebody else has given the frame up already.
            let _ = self.writer.abandon(claim);
            // Receivers that sleep before the padding have nothing to read, but one that looked at the unfinished
            // frame must look behind it.
            self.audience.wake(self.log.tail());
        }
    }

    #[inline(never)]
    fn claim_within(&mut self, payload_bytes: usize, timeout: Option<Duration>) -> Result<Option<Claim>> {
        if let Some(claim) = self.claim(payload_bytes)? {
            return Ok(Some(claim));
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let log = Arc::clone(&self.log);
        let (tail, owner) = (log.tail(), self.writer.owner());
        let waited = loop {
            let slowest = self.audience.whom_to_wait_for(tail);
            await_space(tail, owner);
            match self.claim(payload_bytes) {
                Ok(None) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => break Ok(None),
                Ok(None) => {}
                decided => break decided,
            }
            if let Err(error) = self.audience.sleep_until_space(slowest, deadline) {
                break Err(error);
            }
        };
        stop_awaiting_space(tail, owner);
        waited
    }

    #[inline(always)]
    fn commit(&mut self, claim: Claim, label: Label) -> Result<Position> {
        let position = self.writer.commit(claim, label)?;
        self.audience.wake(self.log.tail());
        // The message is out. If somebody could not be told, the server is asked to; the next call says so here.
        let _ = self.audience.check_complete();
        Ok(Position(position))
    }
}

/// A wait for space that does not borrow the publisher. It ends when the slowest receiver moves on or dies, and after a
/// moment in any case: what a publisher must look at meanwhile (deadlines, a server's death) it looks at itself.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub(crate) struct Space {
    log: Arc<MappedLog>,
    owner: u8,
    on: Option<(Arc<crate::log::pages::ReceiverPage>, u64)>,
}

#[cfg(feature = "tokio")]
impl Space {
    pub(crate) fn wait(self) {
        const MOMENT: Duration = Duration::from_millis(10);
        let Some((page, cursor)) = self.on else {
            std::thread::sleep(Duration::from_micros(50));
            return;
        };
        await_space(self.log.tail(), self.owner);
        let now = page.words().cursor.load(std::sync::atomic::Ordering::Acquire);
        if now <= cursor {
            let _ = page.cursor_to_wait_for().wait(cursor as u32, Some(MOMENT));
        }
        stop_awaiting_space(self.log.tail(), self.owner);
    }
}

/// Space in the log that belongs to this publisher until it is committed or dropped. Holds everybody up who comes
/// after it, so fill it and let go.
#[derive(Debug)]
pub struct Loan<'a> {
    /// Holds the claim: it would be copied about here.
    publisher: &'a mut Publisher,
    topic: u32,
}

impl Loan<'_> {
    /// Says what the message is about.
    pub fn about(mut self, topic: u32) -> Self {
        self.topic = topic;
        self
    }

    /// Publishes what was written.
    ///
    /// # Errors
    /// [`Error::Evicted`] if this publisher was taken for gone meanwhile; then nothing was published.
    #[inline(always)]
    pub fn commit(self) -> Result<Position> {
        let label = Label { topic: self.topic, correlation: 0 };
        let Some(claim) = self.publisher.open.take() else { return Err(Error::Evicted) };
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
        let Some(claim) = &self.publisher.open else { return &[] };
        match self.publisher.stage.get(..claim.payload_bytes as usize) {
            Some(staged) => staged,
            None => self.publisher.writer.claimed_bytes(claim),
        }
    }
}

impl DerefMut for Loan<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        let Publisher { open, stage, writer, .. } = &mut *self.publisher;
        let Some(claim) = open else { return &mut [] };
        match stage.get_mut(..claim.payload_bytes as usize) {
            Some(staged) => staged,
            None => writer.claimed_bytes_mut(claim),
        }
    }
}

impl Drop for Loan<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.publisher.open.is_some() {
            self.publisher.abandon();
        }
    }
}
