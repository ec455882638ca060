//! The clock that a run is timed with: the machine's, or one that a mechanism advances itself.

use std::cell::Cell;

use causeway_os::clock;

/// Which clock a run is timed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// `CLOCK_MONOTONIC_RAW`.
    Raw,
    /// Advanced by the mechanism itself, with [`advance_virtual_time`].
    Virtual,
}

thread_local! {
    static VIRTUAL_NS: Cell<u64> = const { Cell::new(0) };
}

#[inline]
pub(super) fn now_ns(time: Time) -> u64 {
    match time {
        Time::Raw => clock::now_ns(),
        Time::Virtual => VIRTUAL_NS.with(Cell::get),
    }
}

/// For mechanisms with [`Caps::VIRTUAL_TIME`](crate::contract::Caps::VIRTUAL_TIME).
pub fn advance_virtual_time(ns: u64) {
    VIRTUAL_NS.with(|now| now.set(now.get() + ns));
}
