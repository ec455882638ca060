//! D-Bus brokers as targets of the laboratory: a run has a private broker of its own between its roles.
//!
//! The coordinator starts the broker ([`weighbridge_dbus_client::brokers`]), connects once for each role, adds the match rules, and hands each role
//! a socket that is authenticated and has said Hello. The broker ends with the run, whatever ends that. The roles write and read the bytes
//! of messages themselves (`client` module), so that the broker is measured and no library; a case may ask for a library in their place
//! (`libraries` module). What the broker does for each operation is
//! counted as that of an auxiliary process, `broker`.
//!
//! A bus of native members (`native` module) stands among the brokers: its roles share memory, and what is counted as `broker` is the process that
//! serves the bus.
//!
//! The program hands them to the laboratory at its start with [`register`].

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

mod broker;
mod client;
mod credit;
mod driver;
mod fan_in;
mod fan_out;
mod handle;
mod libraries;
mod native;
mod pair;
mod suites;

use std::sync::Once;

use weighbridge_harness::contract::{Family, Target};
use weighbridge_harness::{catalogue, plan};

use broker::target;

pub use suites::SUITES;

/// Every target, in the order in which people read of them.
pub const ALL: &[Target] = &[
    target::<pair::Pair<broker::DbusDaemon>>(),
    target::<pair::Pair<broker::DbusBroker>>(),
    target::<pair::Pair<broker::Busd>>(),
    target::<pair::Pair<broker::Causewayd>>(),
    target::<native::pair::Pair>(),
    target::<fan_out::Signals<broker::DbusDaemon>>(),
    target::<fan_out::Signals<broker::DbusBroker>>(),
    target::<fan_out::Signals<broker::Busd>>(),
    target::<fan_out::Signals<broker::Causewayd>>(),
    target::<native::signals::Signals>(),
    target::<fan_in::FanIn<broker::DbusDaemon>>(),
    target::<fan_in::FanIn<broker::DbusBroker>>(),
    target::<fan_in::FanIn<broker::Busd>>(),
    target::<fan_in::FanIn<broker::Causewayd>>(),
    target::<native::fan_in::FanIn>(),
    target::<driver::Solo<broker::DbusDaemon>>(),
    target::<driver::Solo<broker::DbusBroker>>(),
    target::<driver::Solo<broker::Busd>>(),
    target::<driver::Solo<broker::Causewayd>>(),
    target::<native::solo::Solo>(),
];

/// Hands targets and suites to the laboratory, after its own. Every program that measures brokers does so at its start, and so does each peer;
/// a second call does nothing.
pub fn register() {
    // A broker has no name in the file system and ends with the thread that started it. A bus of native members has one.
    const FAMILY: Family = Family { cleanup: weighbridge_dbus_client::brokers::clean_up, ..Family::of(ALL) };
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        weighbridge_targets::register();
        catalogue::add(&[FAMILY]);
        plan::add(SUITES);
    });
}
