//! Replays of captures over private brokers.
#![allow(clippy::print_stdout, reason = "a test says why it was skipped")]

#[path = "../../../traffic/tests/it/common/mod.rs"]
mod common;
mod replay;
mod trace;
