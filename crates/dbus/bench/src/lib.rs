//! D-Bus brokers as targets of the laboratory: a run has a private broker of its own between its roles.
//!
//! The coordinator starts the broker ([`weighbridge_dbus_client::brokers`]), connects once for each role, adds the match rules, and hands each role
//! a socket that is authenticated and has said Hello. The broker ends with the run, whatever ends that. The roles write and read the bytes
//! of messages themselves (`client` module), so that the broker is measured and no library; a case may ask for a library in their place
//! (`libraries` module). What the broker does for each operation is
//! counted beside the roles, under the name `broker`.
//!
//! A bus of native members (`native` module) stands among the brokers: its roles share memory, and what is counted as `broker` is the process that
//! serves the bus.
//!
//! The program hands [`FAMILIES`] and [`SUITES`] to the laboratory at its start.

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

use weighbridge_lab::contract::Family;

use broker::target;

pub use suites::SUITES;

/// What the laboratory is handed.
pub const FAMILIES: &[Family] = &[Family {
    targets: &[
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
    ],
    // A broker has no name in the file system and ends with the thread that started it. A bus of native members has one.
    cleanup: weighbridge_dbus_client::brokers::clean_up,
}];
