//! Bodies for experiments.

use weighbridge_dbus::wire::{Body, Endian};

/// Bytes that no fault copies from elsewhere unnoticed: xorshift64* from a seed.
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = Random(seed | 1);
    (0..count).map(|_| random.next().to_le_bytes()[5]).collect()
}

/// A body with a number and that many random bytes, in a byte order.
pub fn blob(endian: Endian, number: u32, count: usize) -> Body {
    Body::in_order(endian).u32(number).blob(&bytes(u64::from(number) + 1, count))
}

/// Numbers that are the same in every examination: xorshift64*.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below a limit.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("below a usize")
    }

    /// One of some words.
    pub fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}
