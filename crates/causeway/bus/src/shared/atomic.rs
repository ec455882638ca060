//! The atomics of the order log: those of the processor, or those of loom when a model is checked.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

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
