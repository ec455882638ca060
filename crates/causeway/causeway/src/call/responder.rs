//! Replying to one call, from any thread.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use causeway_os::lock::lock;
use causeway_waiting::patience::LOOK;

use super::connection::{reply, send_descriptors, topic};
use super::error::ReplyError;
use super::outgoing::Outgoing;
use crate::connection::{hang_up, has_ended};
use crate::error::Refusal;
use crate::log::Label;
use crate::wire::Message;

/// Cancelled calls that are remembered for one client.
const CANCELLED_MAX: usize = 1024;

/// The replies to one client: what its connection and all its [`Responder`]s share.
#[derive(Debug)]
pub struct Replies {
    outgoing: Mutex<Outgoing>,
    socket: Arc<OwnedFd>,
    patience: Duration,
    /// The connection has ended from this side: what is not sent by now is never sent.
    has_ended: AtomicBool,
    /// Calls that the client no longer waits for, and how many: without any, no lock is taken.
    cancelled: Mutex<VecDeque<u64>>,
    cancelled_count: AtomicUsize,
}

impl Replies {
    /// Replies over `outgoing` to the client at the other end of `socket`, which may keep its log full for `patience`.
    pub fn new(outgoing: Outgoing, socket: Arc<OwnedFd>, patience: Duration) -> Replies {
        Replies {
            outgoing: Mutex::new(outgoing),
            socket,
            patience,
            has_ended: AtomicBool::new(false),
            cancelled: Mutex::new(VecDeque::new()),
            cancelled_count: AtomicUsize::new(0),
        }
    }

    /// The longest reply, in bytes.
    pub fn payload_bytes_max(&self) -> usize {
        lock(&self.outgoing).payload_bytes_max()
    }

    /// The client no longer waits for the reply with this number.
    pub fn cancel(&self, number: u64) {
        let mut cancelled = lock(&self.cancelled);
        // One that was answered already, or is not one of this client, is forgotten some time.
        if cancelled.len() == CANCELLED_MAX {
            cancelled.pop_front();
        }
        cancelled.push_back(number);
        self.cancelled_count.store(cancelled.len(), Ordering::Release);
    }

    fn is_cancelled(&self, number: u64) -> bool {
        self.cancelled_count.load(Ordering::Acquire) > 0 && lock(&self.cancelled).contains(&number)
    }

    fn forget(&self, number: u64) {
        if self.cancelled_count.load(Ordering::Acquire) > 0 {
            let mut cancelled = lock(&self.cancelled);
            cancelled.retain(|other| *other != number);
            self.cancelled_count.store(cancelled.len(), Ordering::Release);
        }
    }

    /// Does `work` until it returns true, while the client has not read enough, and does not owe more than the
    /// patience: what counts is the same as for a subscriber.
    fn until_sent(
        &self,
        outgoing: &mut Outgoing,
        mut work: impl FnMut(&mut Outgoing) -> crate::Result<bool>,
    ) -> Result<(), ReplyError> {
        if self.has_ended.load(Ordering::Acquire) {
            return Err(ReplyError::ClientGone);
        }
        if work(outgoing)? {
            return Ok(());
        }
        outgoing.begin_wait();
        let sent = self.wait_and_send(outgoing, work);
        outgoing.end_wait();
        sent
    }

    fn wait_and_send(
        &self,
        outgoing: &mut Outgoing,
        mut work: impl FnMut(&mut Outgoing) -> crate::Result<bool>,
    ) -> Result<(), ReplyError> {
        loop {
            // A client that died is noticed by the thread of its connection, which ends it.
            if has_ended(&*self.socket, None) {
                return Err(ReplyError::ClientGone);
            }
            outgoing.wait_for_space(Instant::now().checked_add(LOOK))?;
            let owed = outgoing.count_wait();
            if work(outgoing)? {
                return Ok(());
            }
            if owed.exceeds(self.patience) {
                let _ = Message::refusal(Refusal::NotReading).send(&*self.socket, &[]);
                self.disconnect();
                return Err(ReplyError::ClientNotReading);
            }
        }
    }

    /// Ends the connection.
    pub fn disconnect(&self) {
        self.has_ended.store(true, Ordering::Release);
        hang_up(&self.socket);
    }
}

/// Replies to one call, now or later, from any thread. Dropped without a reply, it tells the client that there is none.
#[derive(Debug)]
#[must_use = "reply, or drop it to tell the client that there is no reply"]
pub struct Responder {
    replies: Arc<Replies>,
    number: u64,
    is_done: bool,
}

impl Responder {
    pub(super) fn new(replies: Arc<Replies>, number: u64) -> Responder {
        Responder { replies, number, is_done: false }
    }

    /// Whether the client no longer waits for this reply.
    pub fn is_cancelled(&self) -> bool {
        self.replies.is_cancelled(self.number)
    }

    /// Sends a copy of `payload` as the reply. While the client has not read enough of its earlier replies, this waits,
    /// for
    /// [`ServeOptions::patience`](super::ServeOptions::patience) at most; then it ends the connection of that client.
    ///
    /// # Errors
    /// [`ReplyError`]: the client does not get the reply. A reply that is too long it gets as an error.
    #[inline]
    pub fn reply(self, payload: &[u8]) -> Result<(), ReplyError> {
        self.reply_with_descriptors(payload, &[])
    }

    /// As [`Responder::reply`], without waiting: gives the responder back while there is no space.
    #[cfg(feature = "tokio")]
    pub(super) fn try_reply(mut self, payload: &[u8]) -> Result<Result<(), ReplyError>, Responder> {
        let label = Label { topic: topic(reply::REPLY, 0), correlation: self.number };
        let sent = match self.replies.outgoing.try_lock() {
            Ok(mut outgoing) if payload.len() <= outgoing.payload_bytes_max() && !self.is_cancelled() => {
                outgoing.try_send(label, payload)
            }
            _ => Ok(false),
        };
        match sent {
            Ok(true) => {
                self.is_done = true;
                Ok(Ok(()))
            }
            Ok(false) => Err(self),
            Err(error) => Ok(Err(error.into())),
        }
    }

    /// As [`Responder::reply`], with copies of up to 16 descriptors.
    pub fn reply_with_descriptors(
        mut self,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ReplyError> {
        self.check()?;
        let replies = &self.replies;
        let mut outgoing = lock(&replies.outgoing);
        let limit_bytes = outgoing.payload_bytes_max();
        if payload.len() > limit_bytes {
            drop(outgoing);
            return Err(self.refuse_length(payload.len(), limit_bytes));
        }
        let label = Label { topic: topic(reply::REPLY, fds.len()), correlation: self.number };
        let (mut unsent, number) = (!fds.is_empty(), self.number);
        let sent = replies.until_sent(&mut outgoing, |outgoing| {
            // Space first: descriptors whose message does not follow would be taken for those of another.
            if !outgoing.try_loan(payload.len())? {
                return Ok(false);
            }
            if std::mem::take(&mut unsent) {
                send_descriptors(&replies.socket, number, fds)?;
            }
            outgoing.loaned_mut().copy_from_slice(payload);
            outgoing.send_loaned(label).map(|()| true)
        });
        outgoing.give_back();
        drop(outgoing);
        self.is_done = sent.is_ok();
        sent
    }

    /// Space in the log for a reply of `payload_bytes`, to be written in place and then sent. Waits as
    /// [`Responder::reply`] does, and fails as that. Until it is sent or dropped, no other reply to this client can be
    /// sent.
    pub fn loan(&mut self, payload_bytes: usize) -> Result<ReplyLoan<'_>, ReplyError> {
        self.check()?;
        let limit_bytes = self.replies.payload_bytes_max();
        if payload_bytes > limit_bytes {
            return Err(self.refuse_length(payload_bytes, limit_bytes));
        }
        let Responder { replies, number, is_done } = self;
        let mut outgoing = lock(&replies.outgoing);
        replies.until_sent(&mut outgoing, |outgoing| outgoing.try_loan(payload_bytes))?;
        Ok(ReplyLoan { outgoing, number: *number, is_done })
    }

    fn check(&self) -> Result<(), ReplyError> {
        if self.is_cancelled() { Err(ReplyError::Cancelled) } else { Ok(()) }
    }

    #[cold]
    fn refuse_length(&mut self, bytes: usize, limit_bytes: usize) -> ReplyError {
        self.end(reply::TOO_LONG, &(bytes as u64).to_le_bytes());
        ReplyError::TooLong { bytes, limit_bytes }
    }

    /// Ends the call without a reply, for this reason.
    fn end(&mut self, kind: u32, payload: &[u8]) {
        if std::mem::replace(&mut self.is_done, true) {
            return;
        }
        let label = Label { topic: topic(kind, 0), correlation: self.number };
        let replies = &self.replies;
        // Without the client, nobody wants to know.
        let _ =
            replies.until_sent(&mut lock(&replies.outgoing), |outgoing| outgoing.try_send(label, payload));
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.is_done && !self.is_cancelled() {
            self.end(reply::NO_REPLY, &[]);
        }
        self.replies.forget(self.number);
    }
}

/// A reply that is being written where the client will read it. Dropped, it was not sent.
#[derive(Debug)]
#[must_use = "send it; dropped, it was not sent"]
pub struct ReplyLoan<'a> {
    outgoing: MutexGuard<'a, Outgoing>,
    number: u64,
    is_done: &'a mut bool,
}

impl ReplyLoan<'_> {
    /// Sends what was written.
    ///
    /// # Errors
    /// [`ReplyError::Failed`].
    #[inline]
    pub fn send(mut self) -> Result<(), ReplyError> {
        self.outgoing.send_loaned(Label { topic: topic(reply::REPLY, 0), correlation: self.number })?;
        *self.is_done = true;
        Ok(())
    }
}

impl Deref for ReplyLoan<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.outgoing.loaned()
    }
}

impl DerefMut for ReplyLoan<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.outgoing.loaned_mut()
    }
}

impl Drop for ReplyLoan<'_> {
    fn drop(&mut self) {
        self.outgoing.give_back();
    }
}
