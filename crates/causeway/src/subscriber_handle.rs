//! One subscriber as publishers and the server see it: its page, its doorbell, and how long it may hold space.

use std::sync::Arc;

use rustix::net::SendFlags;

use crate::foreign::ForeignSocket;
use crate::log::layout::SubscriberWords;
use crate::log::pages::SubscriberPage;
use crate::log::wait::WaitingSubscriber;
use crate::options::Policy;

/// A subscriber of the group.
#[derive(Debug)]
pub struct SubscriberHandle {
    /// Its slot.
    pub slot: usize,
    /// Counts the subscribers that have used the slot.
    pub generation: u32,
    /// What happens when it falls behind.
    pub policy: Policy,
    /// Its page.
    pub page: Arc<SubscriberPage>,
    /// Our end of its doorbell. A socket, not an eventfd: sending with MSG_DONTWAIT cannot block, whatever the subscriber
    /// does with its end, whereas an eventfd blocks its writers when a holder fills it and makes it blocking.
    pub doorbell: ForeignSocket,
    /// The highest cursor seen: a cursor that decreases is ignored.
    pub seen_cursor: u64,
    /// Scratch of [`wake_waiters`](crate::log::wait::wake_waiters).
    pub notified: u32,
}

impl WaitingSubscriber for SubscriberHandle {
    #[inline(always)]
    fn slot(&self) -> usize {
        self.slot
    }

    #[inline(always)]
    fn words(&self) -> &SubscriberWords {
        self.page.words()
    }

    fn ring_doorbell(&self) {
        // Errors need no handling: a full buffer is readable already, and the other end of a closed socket is gone.
        let _ = rustix::net::send(&self.doorbell, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    #[inline(always)]
    fn notified(&mut self) -> &mut u32 {
        &mut self.notified
    }
}
