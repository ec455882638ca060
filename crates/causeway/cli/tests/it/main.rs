//! The command, as a shell user runs it.
#![allow(clippy::print_stderr, reason = "a test prints which release it compares")]

#[macro_use]
extern crate causeway_testkit;

mod bus;
mod command;
mod containers;
mod folder;
mod help;
mod releases;
mod support;
mod top;
