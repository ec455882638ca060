//! The bus across machines: groups, names, calls and signals of Causeway over Zenoh.
//!
//! A bridge is a process beside any `zenohd`, a member of the groups and of the bus of its host, and a client of the router. What
//! crosses has readable keys ([`keys`]) and an attachment that says where it comes from ([`wire`]). A group's messages are read by
//! [`outgoing`], which has them again in the log until all other ends have said that they have them, and published by [`incoming`],
//! which asks for what it lacks and passes nothing twice. Names, calls and signals are in [`bus`].
//!
//! The program is the product; the modules are public so that its tests can speak its protocol. `docs/bridge.md` says what is promised.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod args;
pub mod bell;
pub mod bus;
pub mod demo;
pub mod failure;
pub mod group;
pub mod incoming;
pub mod keys;
pub mod lists;
pub mod net;
pub mod outgoing;
pub mod run;
pub mod state;
pub mod status;
pub mod tls;
pub mod wire;
