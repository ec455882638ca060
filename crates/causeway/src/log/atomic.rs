//! The atomics of the protocol: those of the processor, or those of loom when a model is checked.
//!
//! [`log`](super) takes its atomics and fences from here only, so that `--cfg loom` runs the code that ships.
//!
//! # Safety
//! The one instruction here that is not an atomic of the standard library changes no memory.
#![allow(unsafe_code)]

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A word that no thread waits for and whose order no proof needs: loom does not branch on it.
pub use std::sync::atomic::AtomicU64 as QuietU64;

/// The full fence between a locked read-modify-write and the loads that follow it.
///
/// On x86-64 a locked instruction already orders everything before and after it, so only the compiler is held
/// back; elsewhere (and in the model) it is a real fence, because there a load may overtake the store half of an
/// exchange however strongly that exchange was ordered.
#[inline(always)]
pub fn fence_after_exchange() {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(any(not(target_arch = "x86_64"), loom, miri))]
    fence(Ordering::SeqCst);
}

/// A full fence: every earlier store of this thread is visible to all before any later load of it.
///
/// On x86-64 a locked instruction on the thread's own stack does that at half the cost of the `mfence` that the standard
/// library emits. Elsewhere, and in the model, it is the standard library's.
#[inline(always)]
pub fn full_fence() {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    // SAFETY: adds nothing to the word that the stack pointer points to, which belongs to this thread. Without
    // `nomem`, the compiler moves no access across it.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0");
    }
    #[cfg(any(not(target_arch = "x86_64"), loom, miri))]
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
