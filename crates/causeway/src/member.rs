//! One receiver as publishers and the server see it: its page, its doorbell, and how long it may hold space.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::SendFlags;

use crate::log::layout::ReceiverWords;
use crate::log::pages::ReceiverPage;
use crate::log::sleep::Sleepy;
use crate::options::Policy;

/// A receiver.
#[derive(Debug)]
pub struct Member {
    /// Its slot.
    pub slot: usize,
    /// Which receiver in the life of that slot.
    pub generation: u32,
    /// What becomes of it when it falls behind.
    pub policy: Policy,
    /// Its page.
    pub page: Arc<ReceiverPage>,
    /// Our end of its doorbell. A socket, not an eventfd: sending with MSG_DONTWAIT cannot block, whatever the receiver
    /// does with its end, whereas an eventfd blocks its writers when a holder fills it and makes it blocking.
    pub bell: OwnedFd,
    /// The highest cursor seen: a receiver that goes backwards is not believed.
    pub seen: u64,
    /// Scratch of [`sleep`](crate::log::sleep).
    pub rung: u32,
}

impl Sleepy for Member {
    #[inline(always)]
    fn slot(&self) -> usize {
        self.slot
    }

    #[inline(always)]
    fn words(&self) -> &ReceiverWords {
        self.page.words()
    }

    fn ring(&self) {
        // A full buffer means that the descriptor is readable already; a closed one that nobody is there.
        let _ = rustix::net::send(&self.bell, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    #[inline(always)]
    fn rung(&mut self) -> &mut u32 {
        &mut self.rung
    }
}
