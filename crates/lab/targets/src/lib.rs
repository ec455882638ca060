//! Everything that is measured: mechanisms, signals, locks, operations, ways to reach and to hear many, and the suites that select from
//! them.
//!
//! What drives and judges them is [`weighbridge_harness`], which names none of them: a program hands them over with
//! [`register`]. A mechanism is added in one file of [`mechanism`] and one line of its list.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod all_to_all;
mod descriptors;
pub mod fan_in;
pub mod fan_out;
pub mod libraries;
pub mod lock;
mod many;
pub mod mechanism;
pub mod op;
pub mod own;
mod page;
mod place;
mod prelude;
pub mod properties;
pub mod shared_counters;
pub mod signal;
pub mod suites;
mod sys;

use std::sync::Once;

use weighbridge_harness::contract::Family;
use weighbridge_harness::{catalogue, plan};

/// Every family, in the order in which people read of them.
const FAMILIES: &[Family] = &[
    mechanism::FAMILY,
    signal::FAMILY,
    Family::of(lock::ALL),
    Family::of(op::ALL),
    Family::of(fan_in::ALL),
    Family::of(fan_out::ALL),
    Family::of(all_to_all::ALL),
    #[cfg(feature = "iceoryx2")]
    libraries::iceoryx2::FAMILY,
];

/// Hands families and suites to the harness. Every program that measures does so at its start, and so does each peer, which is the
/// same program; a second call does nothing.
pub fn register() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        catalogue::add(FAMILIES);
        plan::add(suites::ALL);
    });
}
