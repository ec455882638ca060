//! What a subscriber of large payloads needs of its [`Subscriber`]: to look at a message, and to pass it later.

use std::sync::Arc;

use super::Subscriber;
use crate::log::mapped::MappedLog;
use crate::log::pages::SubscriberPage;
use crate::log::{Frame, Loss};

impl Subscriber {
    /// The payload that [`Subscriber::copy_next`] copied.
    pub(crate) fn copied(&self, frame: &Frame) -> &[u8] {
        &self.buffer[..frame.payload_bytes as usize]
    }

    /// Advances past that message.
    pub(crate) fn pass(&mut self, frame: &Frame) {
        self.advance_past(frame);
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

    /// The page and the present log.
    pub(crate) fn page_and_log(&self) -> (&Arc<SubscriberPage>, &Arc<MappedLog>) {
        (&self.page, &self.log)
    }

    /// One bit for each publisher that has not left.
    pub(crate) fn present_publishers(&self) -> u64 {
        self.status.words().publishers.load(std::sync::atomic::Ordering::Acquire)
    }
}
