//! Monitoring of a bus, and notes of when messages were sent and arrived: what measuring adds to the client
//! ([`causeway_bus::client`]).

pub mod brokers;
mod monitor;
mod notes;

pub use causeway_bus::client::{Address, Bus as Connection, Error, native_path, session, system};
pub use monitor::{Monitoring, become_monitor, process_of, rules_and_processes};
pub use notes::{Note, Notes};
