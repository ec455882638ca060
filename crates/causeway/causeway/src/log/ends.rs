//! What a thread that watches other processes has learned of their ends, for one subscriber that may sleep.
//!
//! The subscriber announces its sleep, executes a full fence, and sleeps only if no more has become known than it has seen. The thread
//! stores what it learned, executes a full fence, and looks whether the subscriber sleeps. In every interleaving one of the two sees the
//! other. No word that the kernel compares belongs to the thread, so it wakes one that sleeps again and again until that is awake.

use super::atomic::{AtomicU32, Ordering, full_fence};

/// In the word that says what a subscriber knew when it fell asleep: it sleeps.
const ASLEEP: u32 = 4;

/// What one subscriber shares with the thread.
#[derive(Debug, Default)]
pub struct Ends {
    /// Bits below [`ASLEEP`].
    known: AtomicU32,
    /// [`ASLEEP`] and what of `known` the subscriber had seen when it fell asleep; 0 while it is awake.
    sleep: AtomicU32,
}

impl Ends {
    /// What the thread has learned, as a number that changes when it learns more.
    #[inline]
    pub fn known(&self) -> u32 {
        self.known.load(Ordering::Acquire)
    }

    /// The thread has learned this, too.
    pub fn learn(&self, more: u32) {
        self.known.fetch_or(more, Ordering::Release);
        full_fence(); // PAIR watched-ends
    }

    /// The subscriber, which has seen `seen`, is about to sleep: whatever else the thread learns ends that. To be called before
    /// [`Waiter::arm`](super::wait::Waiter::arm), whose fence serves this announcement too; then comes [`Ends::sleep`] or [`Ends::awake`].
    #[inline]
    pub fn announce(&self, seen: u32) {
        self.sleep.store(ASLEEP | seen, Ordering::Relaxed); // PAIR watched-ends: the fence in `Waiter::arm`
    }

    /// Lets the subscriber sleep as it has announced. Nothing if the thread has learned more already, and the sleep did not begin.
    #[inline]
    pub fn sleep<T>(&self, seen: u32, sleep: impl FnOnce() -> T) -> Option<T> {
        let slept = (self.known() == seen).then(sleep);
        self.awake();
        slept
    }

    /// The subscriber is awake. A thread that sees it late wakes one that does not sleep.
    #[inline]
    pub fn awake(&self) {
        self.sleep.store(0, Ordering::Relaxed);
    }

    /// Whether the subscriber sleeps, or is about to, without having seen all that is known: it is to be woken, and asked again later. To be
    /// called after [`Ends::learn`].
    pub fn must_wake(&self) -> bool {
        let sleep = self.sleep.load(Ordering::Relaxed);
        sleep != 0 && sleep & !ASLEEP != self.known()
    }
}
