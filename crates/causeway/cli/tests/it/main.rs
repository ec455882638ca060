//! The command, as a shell user runs it.
#![allow(clippy::print_stderr, reason = "a test says there why it is skipped")]

mod bus;
mod command;
mod containers;
mod folder;
mod help;
mod releases;
mod support;
mod top;
