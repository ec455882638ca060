//! Words that this process can look at and not change.
//!
//! A word of a mapping made for reading must not be an [`AtomicU32`]: safe code could store through it, and the kernel
//! answers that with SIGSEGV. Loads are fine there: the standard library promises that atomic loads of up to a pointer's
//! size work on read-only memory on the architectures that this crate is for.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A 32-bit word that others may change at any time.
#[derive(Clone, Copy, Debug)]
pub struct LoadU32<'a>(pub(crate) &'a AtomicU32);

/// A 64-bit word that others may change at any time.
#[derive(Clone, Copy, Debug)]
pub struct LoadU64<'a>(pub(super) &'a AtomicU64);

impl LoadU32<'_> {
    /// Loads the value that the word holds now.
    #[inline]
    pub fn load(self, order: Ordering) -> u32 {
        self.0.load(order)
    }
}

impl LoadU64<'_> {
    /// Loads the value that the word holds now.
    #[inline]
    pub fn load(self, order: Ordering) -> u64 {
        self.0.load(order)
    }
}
