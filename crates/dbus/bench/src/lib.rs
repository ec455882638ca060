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
mod handed;
mod libraries;
mod native;
mod pair;
mod suites;

use weighbridge_lab::contract::Family;

pub use suites::SUITES;

/// What the laboratory is handed.
pub const FAMILIES: &[Family] = &[Family {
    targets: &[
        pair::target::<broker::DbusDaemon>(),
        pair::target::<broker::DbusBroker>(),
        pair::target::<broker::Busd>(),
        pair::target::<broker::Causewayd>(),
        native::pair::target(),
        fan_out::target::<broker::DbusDaemon>(),
        fan_out::target::<broker::DbusBroker>(),
        fan_out::target::<broker::Busd>(),
        fan_out::target::<broker::Causewayd>(),
        native::signals::target(),
        fan_in::target::<broker::DbusDaemon>(),
        fan_in::target::<broker::DbusBroker>(),
        fan_in::target::<broker::Busd>(),
        fan_in::target::<broker::Causewayd>(),
        native::fan_in::target(),
        driver::target::<broker::DbusDaemon>(),
        driver::target::<broker::DbusBroker>(),
        driver::target::<broker::Busd>(),
        driver::target::<broker::Causewayd>(),
        native::solo::target(),
    ],
    // A broker has no name in the file system and ends with the thread that started it. A bus of native members has one.
    cleanup: weighbridge_dbus_client::brokers::clean_up,
}];
