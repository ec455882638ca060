//! What measuring adds to a client of D-Bus ([`causeway_bus::client`]): private brokers, started for one purpose ([`brokers`]); monitoring
//! of a bus; notes of when messages were sent and arrived.

pub mod brokers;
mod monitor;
mod notes;

pub use monitor::{Monitoring, become_monitor, process_of, rules_and_processes};
pub use notes::{Note, Notes};
