//! Large payloads, published by reference: the payload lies in a memory file that its publisher wrote and every subscriber maps, and the
//! log carries where it lies. Neither side copies it.
//!
//! The server makes the files and hands them out on request. So it accepts no descriptor, no publisher has one on its way to a
//! subscriber that does not take it, and a subscriber that never asks costs nothing. A file is of one of two kinds
//! (`docs/decisions/large-payloads.md`): one that is used again, which its publisher alone can write, or one that is sealed when it
//! is published, which no process can write any more.
//!
//! [`file`] is one file, [`pool`] the files of a publisher, [`keepers`] says who still reads which, [`reference`] is what the log carries.

#[cfg(feature = "tokio")]
mod asynchronous;
mod file;
mod keepers;
mod payload;
mod pool;
mod publisher;
mod reference;
mod subscriber;
#[cfg(test)]
mod tests;

#[cfg(feature = "tokio")]
pub use asynchronous::AsyncLargeSubscriber;
pub use file::{SealedBuffer, SealedPayload};
pub use payload::{LargeMessage, LargePayload};
pub use pool::{PoolOptions, PoolReport};
pub use publisher::{LargeLoan, LargePublisher};
pub use subscriber::LargeSubscriber;

use crate::error::Result;
use crate::group::Group;
use crate::options::{GroupOptions, SubscribeOptions};
use crate::wire::FINGERPRINT_OF_LARGE_PAYLOADS as FINGERPRINT;

impl GroupOptions {
    /// Makes this a group of large payloads: [`Group::large_publisher`] publishes them by reference, and
    /// [`Group::large_subscribe`] receives them. Other publishers are refused. A [`Subscriber`](crate::Subscriber) sees references in
    /// place of payloads. The log carries 64 bytes for each payload, so a small [`capacity_bytes`](GroupOptions::capacity_bytes) is enough.
    pub fn large_payloads(mut self) -> GroupOptions {
        self.fingerprint = FINGERPRINT;
        self
    }
}

impl Group {
    /// Makes a publisher of payloads by reference, with a pool of memory files of its own. The group needs
    /// [`GroupOptions::large_payloads`].
    ///
    /// # Errors
    /// As [`Group::publisher`]; [`Error::Invalid`](crate::Error::Invalid) for a pool without files or of more than 64, or of files
    /// without bytes; [`Refusal::OtherType`](crate::Refusal::OtherType) for another group.
    pub fn large_publisher(&self, options: PoolOptions) -> Result<LargePublisher> {
        options.check()?;
        let publisher = self.publisher_of(FINGERPRINT)?;
        let pool = self.with_connection(|socket| pool::Pool::start(socket, &options))?;
        Ok(LargePublisher::new(publisher, pool))
    }

    /// As [`Group::subscribe`], for a group of large payloads.
    ///
    /// # Errors
    /// As [`Group::subscribe`]; [`Refusal::OtherType`](crate::Refusal::OtherType) for another group.
    pub fn large_subscribe(&self, options: impl Into<SubscribeOptions>) -> Result<LargeSubscriber> {
        let options = SubscribeOptions { fingerprint: FINGERPRINT, ..options.into() };
        Ok(LargeSubscriber::new(self.subscribe(options)?))
    }
}
