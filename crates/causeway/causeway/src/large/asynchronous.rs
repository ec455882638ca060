//! Receiving by reference in a tokio program.

use super::payload::LargeMessage;
use super::subscriber::{Files, LargeSubscriber};
use crate::asynchronous::AsyncSubscriber;
use crate::error::Result;
use crate::message::Received;
use crate::outcome::or_none;

/// A [`LargeSubscriber`] in a tokio program.
#[derive(Debug)]
pub struct AsyncLargeSubscriber {
    subscriber: AsyncSubscriber,
    files: Files,
}

impl AsyncLargeSubscriber {
    /// Registers a subscriber with the present tokio runtime.
    ///
    /// # Errors
    /// As [`AsyncSubscriber::new`], which also says where this panics.
    pub fn new(subscriber: LargeSubscriber) -> Result<AsyncLargeSubscriber> {
        let (subscriber, files) = subscriber.into_parts();
        Ok(AsyncLargeSubscriber { subscriber: AsyncSubscriber::new(subscriber)?, files })
    }

    /// The next message, or the loss before it; waits for it. Cancel-safe. The first reference to a file asks the process that
    /// serves the group for it, and blocks the thread for that long. Fails as [`LargeSubscriber::recv`].
    pub async fn recv(&mut self) -> Result<Received<LargeMessage>> {
        loop {
            self.subscriber.ready().await?;
            if let Some(received) = or_none(self.files.try_recv(self.subscriber.get_mut()))? {
                return Ok(received);
            }
        }
    }
}
