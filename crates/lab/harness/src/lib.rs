//! Mechanisms, patterns, and the processes that measure them.
//!
//! The way of a case through this crate: [`plan`] makes a list of case ids · [`catalogue::prepare`] checks each against this
//! machine · [`session`] orders their runs and decides when a case has enough · [`coordinator`] makes one run by starting
//! [`peer`]s · a peer attaches its end of a [mechanism](contract::Mechanism) and drives a [`pattern`] with it · [`summary`] turns what came back
//! into lines of the record.
//!
//! Tables and pages are made in `weighbridge-report`, statistics in `weighbridge-stats`.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod allocator;
pub mod axis;
pub mod buffer;
mod calls;
pub mod catalogue;
pub mod compare;
pub mod conditions;
pub mod contract;
pub mod control;
pub mod coordinator;
pub mod counter_check;
pub mod crossover;
pub mod ctx;
pub mod digest;
mod dose;
pub mod duet;
pub mod explain;
pub mod host;
pub mod hub;
mod idle;
pub mod interrupt;
pub mod machine;
pub mod marks;
pub mod params;
pub mod pattern;
pub mod peer;
pub mod placement;
pub mod plan;
pub mod planner;
mod registry;
mod rounds;
pub mod session;
mod set;
pub mod shared;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod touch;
