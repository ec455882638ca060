//! The hub duet: a case and a yardstick take turns in slices of some milliseconds, so that what disturbs the machine for
//! longer than a slice disturbs both alike and cancels in their ratio.
//!
//! A *set* is one run with fresh processes of two or three *parties*, each an ordinary case with roles, memory and samples of
//! its own. The parties pass a [turnstile](turnstile::Turnstile): the one whose turn it is works, the roles of the others
//! sleep on a futex. The *hub* of a case is a party of the same kind in the same placement, because a yardstick must feel
//! the same noise. Ratios to the hub are the primary data; the set is the unit of every interval.

mod slices;
pub mod turnstile;

pub use slices::{LEAST_BLOCKS, Slices, WARM_BLOCKS};

use weighbridge_record::CaseId;

use crate::contract::{Caps, Prepared};
use crate::params::{CaseParams, Wait};

/// Parties of a set at most: partners cool each other's caches.
pub const MAX_PARTIES: usize = 3;

/// The yardstick of a case.
///
/// # Errors
/// Why the case cannot take turns with another one; it is then measured by itself.
pub fn hub_of(case: &Prepared) -> Result<CaseId, String> {
    let params = &case.params;
    let id = &params.id;
    if case.target.caps.has(Caps::HARNESS) || case.target.caps.has(Caps::VIRTUAL_TIME) {
        return Err("it exchanges nothing, so nothing that disturbs others disturbs it".into());
    }
    if params.axes.get("time").is_some_and(|time| time == "each")
        || params.axes.get("rate").is_some_and(|rate| rate != "default")
    {
        return Err("single operations are timed, and a pause between slices would be seen as a delay".into());
    }
    let hub = |pattern: &str, target: &str, bytes| CaseId::new(pattern, target, bytes, &id.placement);
    match id.pattern.as_str() {
        "roundtrip" | "pingpong" | "fan-out" if spins(params) => Ok(hub("pingpong", "atomic", 0)),
        "roundtrip" | "pingpong" | "fan-out" => Ok(hub("roundtrip", "pipe", 1)),
        "stream" if case.target.caps.has(Caps::LOSSY) => {
            Err("it may lose messages, so a slice has no known end".into())
        }
        "stream" => Ok(hub("stream", "pipe", 65536)),
        "solo" if case.target.caps.has(Caps::PAYLOAD) && id.payload_bytes > 0 => {
            Ok(hub("solo", "memcpy", 4096))
        }
        "solo" => Ok(hub("solo", "getppid", 0)),
        pattern => Err(format!("{pattern} has windows that its roles do not share with another case")),
    }
}

/// Do the roles of a case keep their CPUs while they wait?
fn spins(params: &CaseParams) -> bool {
    !params.same_cpu() && matches!(params.wait, Wait::Spin | Wait::SpinBlock | Wait::Yield)
}

/// xorshift64* (Vigna, 2016): what is drawn can be repeated from a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Puts items into random order (Fisher and Yates, 1938).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            // The high half: the low bits of this generator are its weakest.
            let other = ((u128::from(self.next()) * (last as u128 + 1)) >> 64) as usize;
            items.swap(last, other);
        }
    }
}
