//! Replays of captures over private brokers.

#[macro_use]
extern crate causeway_testkit;

#[path = "../../../traffic/tests/it/common/mod.rs"]
mod common;
mod replay;
mod trace;
