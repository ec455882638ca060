//! Full fences, cheaper than those of the standard library where the architecture allows it.
//!
//! # Safety
//! The one instruction here changes no memory.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

/// The full fence between a locked read-modify-write and the loads that follow it.
///
/// On x86-64 a locked instruction already orders everything before and after it, so only the compiler is held
/// back; elsewhere it is a real fence, because there a load may overtake the store half of an exchange however
/// strongly that exchange was ordered.
#[inline(always)]
pub fn fence_after_exchange() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    std::sync::atomic::fence(Ordering::SeqCst);
}

/// A full fence: every earlier store of this thread is visible to all before any later load of it.
///
/// On x86-64 a locked instruction on the thread's own stack does that at half the cost of the `mfence` that the standard
/// library emits. Elsewhere it is the standard library's.
#[inline(always)]
pub fn full_fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: adds nothing to the word that the stack pointer points to, which belongs to this thread. Without
    // `nomem`, the compiler moves no access across it.
    unsafe {
        std::arch::asm!("lock or dword ptr [rsp], 0");
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    std::sync::atomic::fence(Ordering::SeqCst);
}
