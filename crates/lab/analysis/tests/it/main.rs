//! Explanations of simulated costs, and time lines of traces whose truth is known.

#[macro_use]
extern crate causeway_testkit;

mod explain;
mod prices;
mod timeline;
