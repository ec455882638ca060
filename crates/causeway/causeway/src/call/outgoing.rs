//! The writing end of one direction of a connection: a log with one reader.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::clock;
use causeway_waiting::patience::{Clock, Owed};

use crate::error::{Error, Result};
use crate::foreign::ForeignSocket;
use crate::log::layout::Tail;
use crate::log::mapped::MappedLog;
use crate::log::pages::SubscriberPage;
use crate::log::wait::{WaitingSubscriber, await_space, note_cpu, stop_awaiting_space, wake_waiters};
use crate::log::wake_word::WakeWord;
use crate::log::word::GRANULE_BYTES;
use crate::log::{Claim, Claimed, Kind, Label, Memory, Writer};
use crate::options::Policy;
use crate::subscriber_handle::SubscriberHandle;

/// The longest sleep for space before the caller checks whether the reader still lives.
const SLICE: Duration = Duration::from_millis(5);

/// The slot of the one publisher of such a log.
const OWNER: u8 = 0;

/// Writes messages that one other process reads.
#[derive(Debug)]
pub struct Outgoing {
    log: Arc<MappedLog>,
    writer: Writer<Arc<MappedLog>>,
    reader: SubscriberHandle,
    /// Where the reader sleeps if it is a process of the same user.
    wake_word: WakeWord,
    /// The frame that is being written in place.
    loaned: Option<Claim>,
    waits: Waits,
}

/// How long the reader has kept this end waiting.
#[derive(Debug, Default)]
struct Waits {
    clock: Clock,
    owed: Owed,
    /// What it had received when that was last counted.
    received: u64,
}

impl Outgoing {
    /// The writing end of `log`, whose reader has `page` and is rung at `doorbell`.
    pub fn new(
        log: Arc<MappedLog>,
        page: SubscriberPage,
        doorbell: ForeignSocket,
        wake_word: WakeWord,
    ) -> Outgoing {
        let reader = SubscriberHandle::new(0, 1, Policy::Reliable, Arc::new(page), Some(doorbell), None);
        let writer = Writer::new(Arc::clone(&log), Kind::Single, OWNER);
        Outgoing { log, writer, reader, wake_word, loaned: None, waits: Waits::default() }
    }

    pub fn payload_bytes_max(&self) -> usize {
        self.writer.payload_bytes_max()
    }

    /// Sends a copy of `payload`. Returns false, without having sent anything, while the log is full.
    ///
    /// # Panics
    /// If the payload is longer than [`Outgoing::payload_bytes_max`].
    pub fn try_send(&mut self, label: Label, payload: &[u8]) -> Result<bool> {
        let Some(claim) = self.claim(payload.len())? else { return Ok(false) };
        self.log.write_payload(claim.position, payload);
        self.commit(claim, label)?;
        Ok(true)
    }

    /// Claims space for a message to be written in place. Returns false while the log is full. Space that was claimed before and not
    /// sent is given up.
    ///
    /// # Panics
    /// As [`Outgoing::try_send`].
    pub fn try_loan(&mut self, payload_bytes: usize) -> Result<bool> {
        // In a log of one publisher, a claim that is given up leaves no trace.
        self.loaned = self.claim(payload_bytes)?;
        Ok(self.loaned.is_some())
    }

    /// The space that was claimed; nothing if none was.
    #[inline]
    pub fn loaned(&self) -> &[u8] {
        self.loaned.as_ref().map_or(&[], |claim| self.writer.claimed_bytes(claim))
    }

    #[inline]
    pub fn loaned_mut(&mut self) -> &mut [u8] {
        match &self.loaned {
            Some(claim) => self.writer.claimed_bytes_mut(claim),
            None => &mut [],
        }
    }

    pub fn give_back(&mut self) {
        self.loaned = None;
    }

    pub fn send_loaned(&mut self, label: Label) -> Result<()> {
        match self.loaned.take() {
            Some(claim) => self.commit(claim, label),
            None => Err(Error::Evicted),
        }
    }

    #[inline]
    fn claim(&mut self, payload_bytes: usize) -> Result<Option<Claim>> {
        if let Some(claim) = self.writer.claim_fast(payload_bytes) {
            return Ok(Some(claim));
        }
        match self.writer.claim(payload_bytes, &mut || self.reader.highest_cursor())? {
            Claimed::At(claim) => Ok(Some(claim)),
            Claimed::Full | Claimed::Contended => Ok(None),
            Claimed::Sealed => Err(Error::Disconnected),
        }
    }

    #[inline]
    fn commit(&mut self, claim: Claim, label: Label) -> Result<()> {
        self.writer.commit(claim, label)?;
        let reader = std::slice::from_mut(&mut self.reader);
        if wake_waiters(&self.wake_word, reader, None, |bits| self.wake_word.wake(bits)) {
            note_cpu(self.log.tail());
        }
        Ok(())
    }

    /// Sleeps until the reader may have freed space, at most until `deadline` and not for long: the caller tries again, and
    /// checks now and then whether the reader lives.
    pub fn wait_for_space(&mut self, deadline: Option<Instant>) -> Result<()> {
        let tail: &Tail = self.log.tail();
        await_space(tail, OWNER);
        let cursor = self.reader.words().cursor.load(Ordering::Acquire); // PAIR space: after the announcement
        let left = deadline.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()).min(SLICE));
        let slept = if cursor > self.reader.seen_cursor {
            Ok(())
        } else {
            self.reader.page.cursor_to_wait_for().wait(cursor as u32, Some(left)).map(drop)
        };
        stop_awaiting_space(tail, OWNER);
        slept.map_err(|error| Error::os("wait for", "space in a log", error))
    }

    /// There is no space: a wait for the reader begins.
    pub fn begin_wait(&mut self) {
        self.count_wait();
    }

    /// Counts what was waited since it was last counted, and what the reader has received since: how long it has kept this end waiting in all.
    pub fn count_wait(&mut self) -> Owed {
        let received = self.received_up_to();
        let passed = received - std::mem::replace(&mut self.waits.received, received);
        self.waits.owed.wait(self.waits.clock.look(clock::monotonic_ns()));
        self.waits.owed.pass(passed / GRANULE_BYTES, passed);
        self.waits.owed
    }

    /// There is space, or nobody waits any longer.
    pub fn end_wait(&mut self) {
        self.waits.clock.stop();
    }

    /// What a writer waits for that finds no space.
    #[cfg(feature = "tokio")]
    pub fn space(&mut self) -> crate::space::Space {
        let cursor = self.received_up_to();
        let on = Some((Arc::clone(&self.reader.page), cursor));
        crate::space::Space { log: Arc::clone(&self.log), owner: OWNER, on }
    }

    pub fn received_up_to(&mut self) -> u64 {
        self.reader.highest_cursor()
    }
}
