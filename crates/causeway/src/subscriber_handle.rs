//! One subscriber as publishers and the server see it: its page, its doorbell, and how long it may hold space.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use causeway_os::futex;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::log::layout::SubscriberWords;
use crate::log::pages::SubscriberPage;
use crate::log::wait::{Notes, WaitingSubscriber};
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
    pub doorbell: OwnedFd,
    /// The highest cursor seen: a cursor that decreases is ignored.
    pub seen_cursor: u64,
    /// For which of its waits this process has notified it.
    pub notes: Notes,
}

impl WaitingSubscriber for SubscriberHandle {
    #[inline(always)]
    fn words(&self) -> &SubscriberWords {
        self.page.words()
    }

    fn ring_doorbell(&mut self) -> bool {
        // A full buffer is readable already, and behind a closed socket no process is left.
        !matches!(
            rustix::net::send(&self.doorbell, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            Err(Errno::NOMEM | Errno::NOBUFS | Errno::INTR)
        )
    }

    fn wake_own_futex(&mut self) -> bool {
        futex::wake(&self.words().arm, u32::MAX).is_ok()
    }

    #[inline(always)]
    fn notes(&mut self) -> &mut Notes {
        &mut self.notes
    }
}
