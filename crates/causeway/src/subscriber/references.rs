//! What a subscriber of large payloads needs of its [`Subscriber`]: to look at a message, and to pass it later.

use std::sync::Arc;

use super::{COPY_ATTEMPTS_MAX, Subscriber};
use crate::error::{Error, Result};
use crate::log::Frame;
use crate::log::mapped::MappedLog;
use crate::log::pages::SubscriberPage;
use crate::message::Received;
use crate::outcome::TryRecvError;

impl Subscriber {
    /// Copies the next message into the buffer and stays before it. `None` if there is no message, or a loss.
    pub(crate) fn copy_next(&mut self) -> Result<Option<Frame>> {
        for _ in 0..COPY_ATTEMPTS_MAX {
            let Some(frame) = self.find()? else { return Ok(None) };
            if self.copy(&frame)? {
                return Ok(Some(frame));
            }
        }
        Err(Error::Corrupt { position: self.reader.position() })
    }

    /// The payload that [`Subscriber::copy_next`] copied.
    pub(crate) fn copied(&self, frame: &Frame) -> &[u8] {
        &self.buffer[..frame.payload_bytes as usize]
    }

    /// Advances past that message.
    pub(crate) fn pass(&mut self, frame: &Frame) {
        self.advance_past(frame);
    }

    /// What a poll returns when [`Subscriber::copy_next`] found no message.
    pub(crate) fn loss_or_empty<M>(&mut self) -> Result<Received<M>, TryRecvError> {
        self.no_message()
    }

    /// The page and the present log.
    pub(crate) fn page_and_log(&self) -> (&Arc<SubscriberPage>, &Arc<MappedLog>) {
        (&self.page, &self.log)
    }

    /// One bit for each publisher that has not left.
    pub(crate) fn present_publishers(&self) -> u64 {
        self.status.words().publishers.load(std::sync::atomic::Ordering::Acquire)
    }
}
