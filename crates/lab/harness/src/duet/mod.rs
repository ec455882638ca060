//! The hub duet: a case and a yardstick take turns in slices of some milliseconds, so that what disturbs the machine for
//! longer than a slice disturbs both alike and cancels in their ratio.
//!
//! A *set* is one run with fresh processes of two or three *parties*, each an ordinary case with roles, memory and samples of
//! its own. The parties pass a `turnstile`: the one whose turn it is works, the roles of the others
//! sleep on a futex. The *hub* of a case is a party of the same kind in the same placement, because a yardstick must feel
//! the same noise. Ratios to the hub are the primary data; the set is the unit of every interval.

mod slices;
pub(crate) mod turnstile;

pub(crate) use slices::Slices;
pub use slices::{LEAST_BLOCKS, WARM_BLOCKS};

/// Parties of a set at most: partners cool each other's caches.
pub(crate) const MAX_PARTIES: usize = 3;

/// xorshift64* (Vigna, 2016): what is drawn can be repeated from a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Puts items into random order (Fisher and Yates, 1938).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            // The high half: the low bits of this generator are its weakest.
            let other = ((u128::from(self.next_u64()) * (last as u128 + 1)) >> 64) as usize;
            items.swap(last, other);
        }
    }
}
