//! The recorder, as a shell user runs it.
#![allow(clippy::print_stderr, reason = "a test says there why it is skipped")]

mod bus;
mod full;
mod kill;
mod mistakes;
mod record;
mod replay;
mod replay_bus;
mod support;
mod verify;
