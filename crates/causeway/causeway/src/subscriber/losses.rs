//! Losses: what was overwritten before a subscriber read it, or skipped because it lagged.

use std::sync::atomic::Ordering;

use super::Subscriber;
use crate::error::Result;
use crate::log::{Loss, Memory};
use crate::message::Received;
use crate::options::Policy;

/// What is known of the end of the time in which publishers waited for this subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demotion {
    None,
    /// To be told.
    Found,
    Told,
}

impl Subscriber {
    #[cold]
    pub(super) fn note_loss(&mut self, loss: Loss) -> Result<()> {
        self.sequences.note_loss();
        self.count_loss(loss);
        self.publish_cursor();
        (self.lost, self.needs_care) = (Some(loss), true);
        self.find_demotion();
        self.check_deadline()
    }

    /// Counts a loss, for this subscriber and in its page.
    pub(super) fn count_loss(&mut self, loss: Loss) {
        self.lost_messages += loss.messages;
        self.lost_bytes += loss.bytes;
        let words = self.page.words();
        words.lost_messages.store(self.lost_messages, Ordering::Relaxed);
        words.lost_bytes.store(self.lost_bytes, Ordering::Relaxed);
    }

    pub(super) fn take_loss(&mut self) -> Option<Loss> {
        let loss = self.lost.take();
        self.look_after_care();
        loss
    }

    /// What is to be told before the next message.
    pub(super) fn take_news<M>(&mut self) -> Option<Received<M>> {
        if self.demotion == Demotion::Found {
            self.demotion = Demotion::Told;
            self.look_after_care();
            return Some(Received::Demoted);
        }
        self.take_loss().map(Received::lost)
    }

    /// Whether there is something to tell.
    pub(super) fn has_news(&self) -> bool {
        self.lost.is_some() || self.demotion == Demotion::Found
    }

    /// Notices that publishers no longer wait for this subscriber. It looks once in each eighth of the ring, where it finds a loss, and before
    /// it sleeps.
    pub(super) fn find_demotion(&mut self) {
        let may_be = self.demotion == Demotion::None && matches!(self.policy, Policy::DemoteAfter(_));
        if may_be && self.is_demoted() {
            (self.demotion, self.needs_care) = (Demotion::Found, true);
        }
    }

    fn look_after_care(&mut self) {
        self.needs_care = self.has_news()
            || self.disconnected.is_some()
            || self.removed
            || self.policy.lag_bytes_max().is_some()
            || self.topics.is_some()
            || self.kept.is_some();
    }

    /// Skips what is older than the policy allows.
    pub(super) fn bound_lag(&mut self, bytes: u64) -> Result<()> {
        let present_start = self.status.words().log_start.load(Ordering::Acquire);
        let newest = self.log.tail().hint.load(Ordering::Acquire).max(present_start);
        let oldest = newest.saturating_sub(bytes);
        if oldest > self.reader.position() {
            let loss = self.reader.skip_to(oldest)?;
            self.note_loss(loss)?;
        }
        Ok(())
    }

    /// Messages lost since this subscriber joined.
    pub fn lost_messages(&self) -> u64 {
        self.lost_messages
    }

    /// Messages of this publisher ([`Publisher::id`](crate::Publisher::id)) lost since this subscriber joined, as far as later
    /// messages of it have shown: see
    /// [`Message::lost_before`](crate::Message::lost_before).
    pub fn lost_messages_of(&self, publisher: u8) -> u64 {
        self.sequences.lost_of(publisher)
    }
}
