//! Bodies for experiments.

use causeway_dbus_wire::random::Random;
use causeway_dbus_wire::wire::{Body, Endian};

/// Bytes that no fault copies from elsewhere unnoticed: xorshift64* from a seed.
pub fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut random = Random(seed | 1);
    (0..count).map(|_| random.next_u64().to_le_bytes()[5]).collect()
}

/// A body with a number and that many random bytes, in a byte order.
pub fn blob(endian: Endian, number: u32, count: usize) -> Body {
    Body::in_order(endian).u32(number).blob(&bytes(u64::from(number) + 1, count))
}
