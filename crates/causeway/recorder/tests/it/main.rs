//! The recorder, as a shell user runs it.

#[macro_use]
extern crate causeway_testkit;

mod bus;
mod full;
mod kill;
mod mistakes;
mod record;
mod replay;
mod replay_bus;
mod support;
mod verify;
