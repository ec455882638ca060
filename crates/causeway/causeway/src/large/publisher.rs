//! Publishing by reference.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use super::keepers::Overdue;
use super::pool::{Claim, Pool, PoolReport};
use super::reference::{BYTES, CORRELATION, Reference};
use crate::error::{Error, Result};
use crate::log::wait::{await_space, stop_awaiting_space};
use crate::log::{Memory, Position};
use crate::outcome::{PublishTimeoutError, TryPublishError};
use crate::publisher::{Loan, Publisher};

/// Publishes payloads by reference. [`Group::large_publisher`](crate::Group::large_publisher) makes one.
///
/// ```
/// use causeway::{Group, GroupOptions, Policy, PoolOptions};
///
/// let group = Group::create("frames", GroupOptions::new().large_payloads())?;
/// let mut publisher = group.large_publisher(PoolOptions::new(1 << 20).sealed())?;
/// let mut subscriber = group.large_subscribe(Policy::Reliable)?;
///
/// let mut loan = publisher.loan(1 << 20)?; // written where subscribers will read it
/// loan.fill(7);
/// loan.publish()?;
///
/// let message = subscriber.recv()?.message().expect("a reliable subscriber loses nothing");
/// let payload = message.payload.as_slice().expect("it is sealed");
/// assert!(payload.len() == 1 << 20 && payload.iter().all(|byte| *byte == 7));
/// # Ok::<(), causeway::Error>(())
/// ```
#[derive(Debug)]
pub struct LargePublisher {
    publisher: Publisher,
    pool: Pool,
    overdue: Overdue,
}

impl LargePublisher {
    pub(super) fn new(publisher: Publisher, pool: Pool) -> LargePublisher {
        LargePublisher { publisher, pool, overdue: Overdue::default() }
    }

    /// The longest payload, in bytes, as the options of the pool say.
    pub fn payload_bytes_max(&self) -> usize {
        self.pool.payload_bytes_max()
    }

    /// What the pool has done.
    pub fn pool_report(&self) -> PoolReport {
        self.pool.report()
    }

    /// The publisher of the references. What it publishes itself is received as a payload too, after a copy: for short messages
    /// among large ones.
    pub fn get_mut(&mut self) -> &mut Publisher {
        &mut self.publisher
    }

    /// Memory for a payload of `payload_bytes`, to be written and then published. Does not wait. It holds arbitrary bytes at
    /// first. Dropped, it publishes nothing.
    ///
    /// # Errors
    /// [`TryPublishError::Full`] while subscribers keep all files of the pool. [`TryPublishError::Failed`] with
    /// [`Error::TooLong`], with [`Error::Invalid`] for no bytes, and for a new file with [`Error::Os`] without memory, or
    /// [`Error::ServerGone`]: the server makes files. Those that are used again need no server once they are made.
    pub fn try_loan(&mut self, payload_bytes: usize) -> Result<LargeLoan<'_>, TryPublishError> {
        let claim = self.claim(payload_bytes)?;
        self.lend(claim, payload_bytes, TryPublishError::Full)
    }

    /// As [`LargePublisher::try_loan`]; sleeps while subscribers keep all files of the pool, without a limit of time.
    ///
    /// # Errors
    /// As [`TryPublishError::Failed`] at [`LargePublisher::try_loan`].
    pub fn loan(&mut self, payload_bytes: usize) -> Result<LargeLoan<'_>> {
        let claim =
            Some(self.claim_until(payload_bytes, None)?.expect("without a deadline it waits for a file"));
        self.lend(claim, payload_bytes, Error::NoAnswer)
    }

    /// As [`LargePublisher::loan`], but waits at most for `timeout`.
    ///
    /// # Errors
    /// [`PublishTimeoutError::Timeout`] when subscribers kept all files until then; otherwise as [`LargePublisher::try_loan`].
    pub fn loan_timeout(
        &mut self,
        payload_bytes: usize,
        timeout: Duration,
    ) -> Result<LargeLoan<'_>, PublishTimeoutError> {
        let claim = self.claim_until(payload_bytes, Instant::now().checked_add(timeout))?;
        self.lend(claim, payload_bytes, PublishTimeoutError::Timeout)
    }

    /// The loan of a file; without one, the payload is given up.
    fn lend<E>(
        &mut self,
        claim: Option<Claim>,
        payload_bytes: usize,
        without: E,
    ) -> Result<LargeLoan<'_>, E> {
        if claim.is_none() {
            return self.publisher.give_up(without);
        }
        Ok(LargeLoan { publisher: self, claim, payload_bytes, topic: 0 })
    }

    /// A file, or `None` while subscribers keep all of them.
    fn claim(&mut self, payload_bytes: usize) -> Result<Option<Claim>> {
        let limit_bytes = self.pool.payload_bytes_max();
        match payload_bytes {
            0 => return Err(Error::invalid("call", "a payload by reference has at least one byte")),
            _ if payload_bytes > limit_bytes => return Err(Error::TooLong { payload_bytes, limit_bytes }),
            _ => {}
        }
        let (log, set, _) = self.publisher.parts();
        loop {
            if let Some(claim) = self.pool.claim(set, log.tail(), payload_bytes)? {
                self.overdue.end(payload_bytes);
                return Ok(Some(claim));
            }
            if self.overdue.demote(set, log.tail(), self.pool.oldest()).is_err() && !set.remove_dead_slowest()
            {
                // Subscribers that sleep through messages of other topics keep the files of these.
                set.wake(log.tail(), None);
                return Ok(None);
            }
        }
    }

    /// A file, waiting for one until `deadline`; `None` when that has passed.
    fn claim_until(&mut self, payload_bytes: usize, deadline: Option<Instant>) -> Result<Option<Claim>> {
        if let Some(claim) = self.claim(payload_bytes)? {
            return Ok(Some(claim));
        }
        let (.., owner) = self.publisher.parts();
        let waited = loop {
            await_space(self.publisher.parts().0.tail(), owner);
            match self.claim(payload_bytes) {
                Ok(None) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => break Ok(None),
                Ok(None) => {}
                decided => break decided,
            }
            let (log, set, _) = self.publisher.parts();
            if let Err(wait) = self.overdue.demote(set, log.tail(), self.pool.oldest())
                && let Err(error) = wait.sleep(deadline)
            {
                break Err(error);
            }
            if set.server_is_gone() {
                set.remove_dead();
            }
        };
        stop_awaiting_space(self.publisher.parts().0.tail(), owner);
        waited
    }
}

/// Memory that belongs to this publisher until it is published or dropped.
#[derive(Debug)]
pub struct LargeLoan<'a> {
    publisher: &'a mut LargePublisher,
    /// `None` once it was published.
    claim: Option<Claim>,
    payload_bytes: usize,
    topic: u32,
}

impl LargeLoan<'_> {
    /// Sets the topic of the message. 0 by default.
    pub fn with_topic(mut self, topic: u32) -> Self {
        self.topic = topic;
        self
    }

    /// Publishes what was written. Sleeps while the log is full, as [`Publisher::publish`] does. Returns the position in the log.
    ///
    /// # Errors
    /// As [`Publisher::publish`]; [`Error::Os`] when the kernel does not seal the payload.
    pub fn publish(mut self) -> Result<Position> {
        self.publish_in(|publisher| publisher.loan(BYTES))
    }

    /// As [`LargeLoan::publish`], without waiting. After [`TryPublishError::Full`] the payload is still here, to be published later.
    /// After a success, [`Error::Invalid`].
    pub fn try_publish(&mut self) -> Result<Position, TryPublishError> {
        self.publish_in(|publisher| publisher.try_loan(BYTES))
    }

    /// As [`LargeLoan::try_publish`], but waits at most for `timeout`.
    pub fn publish_timeout(&mut self, timeout: Duration) -> Result<Position, PublishTimeoutError> {
        self.publish_in(|publisher| publisher.loan_timeout(BYTES, timeout))
    }

    fn publish_in<E: From<Error>>(
        &mut self,
        claim: impl FnOnce(&mut Publisher) -> Result<Loan<'_>, E>,
    ) -> Result<Position, E> {
        let LargePublisher { publisher, pool, .. } = &mut *self.publisher;
        let Some(file) = &mut self.claim else {
            return Err(Error::invalid("call", "this payload was published already").into());
        };
        let mut loan = claim(publisher)?.with_topic(self.topic).with_correlation(CORRELATION);
        // Space in the log is there: what is sealed is published.
        let reference: Reference = pool.finish(file, self.payload_bytes)?;
        loan.copy_from_slice(&reference.to_bytes());
        let position = loan.commit()?;
        pool.sent(file, position.0);
        self.claim = None;
        Ok(position)
    }
}

impl Deref for LargeLoan<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.claim.as_ref().map_or(&[], |claim| self.publisher.pool.bytes(claim, self.payload_bytes))
    }
}

impl DerefMut for LargeLoan<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.claim {
            Some(claim) => self.publisher.pool.bytes_mut(claim, self.payload_bytes),
            None => &mut [],
        }
    }
}

impl Drop for LargeLoan<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.publisher.pool.give_back(claim);
        }
    }
}
