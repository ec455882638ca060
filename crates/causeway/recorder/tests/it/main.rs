//! The recorder, as a shell user runs it.
#![allow(clippy::print_stderr, reason = "a test says there why it is skipped")]

mod bus;
mod full;
mod kill;
mod record;
mod replay;
mod support;
mod verify;
