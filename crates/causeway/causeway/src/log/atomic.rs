//! The atomics of the protocol: those of the processor, or those of loom when a model is checked.
//!
//! [`log`](super) takes its atomics and fences from here only, so that `--cfg loom` runs the code that ships.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A word that no thread waits for and whose order no proof needs: loom does not branch on it.
pub use std::sync::atomic::AtomicU64 as QuietU64;

#[cfg(not(loom))]
pub use causeway_os::fences::{fence_after_exchange, full_fence};

/// In the model: see `causeway_os::fences`.
#[cfg(loom)]
pub fn fence_after_exchange() {
    fence(Ordering::SeqCst);
}

/// In the model: see `causeway_os::fences`.
#[cfg(loom)]
pub fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Pauses between two loads of a word that another thread is about to change.
#[inline(always)]
pub fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}
