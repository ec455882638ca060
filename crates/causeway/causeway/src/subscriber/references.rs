//! What a subscriber of large payloads needs of its [`Subscriber`]: to look at a message, and to pass it later.

use std::sync::Arc;

use super::Subscriber;
use super::receive::COPY_ATTEMPTS_MAX;
use crate::error::{Error, Result};
use crate::log::mapped::MappedLog;
use crate::log::pages::SubscriberPage;
use crate::log::{Frame, Loss};
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

    /// Advances past that message. Returns how many of its publisher were lost before it, as
    /// [`Message::lost_before`](crate::Message::lost_before) does.
    pub(crate) fn pass(&mut self, frame: &Frame) -> Option<u32> {
        self.advance_past(frame);
        self.lost_before
    }

    /// Advances past that message, whose payload is gone: it counts as lost, as those that were overwritten.
    pub(crate) fn pass_as_lost(&mut self, frame: &Frame) -> Loss {
        self.sequences.lose(frame);
        self.reader.advance_to(frame.end);
        let loss = Loss { messages: 1, bytes: frame.end - frame.position };
        self.count_loss(loss);
        self.publish_cursor();
        loss
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
