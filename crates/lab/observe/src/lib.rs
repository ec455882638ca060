//! What the kernel does while a case runs: events counted, samples taken, and what it costs to look.
//!
//! Everything is read in runs of its own ([`Observer`]), which take turns with unobserved runs. The figure of an observed run is
//! no result of the case; its ratio to that of the unobserved run is the cost of looking. Events are opened for whole CPUs, because an event
//! that is attached to a process makes each of its context switches more expensive, and they count in the timed part only: the leading role
//! starts and stops them ([`EventSwitch`](weighbridge_probe::counters::EventSwitch)).
//!
//! [`probe`] says what can be used here, and what would allow the rest · `counters` counts · `sampling` takes samples, `symbols` gives
//! addresses names, `profile` sums up · [`difference`] compares two cases.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod counters;
pub mod difference;
mod observer;
mod owners;
pub mod probe;
mod profile;
mod rights;
mod rounds;
mod sampling;
mod symbols;

pub use observer::{Observed, Observer, Outcome, Settings, expected};
