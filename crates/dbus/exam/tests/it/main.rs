//! The exam, of buses that have one fault and of the brokers that are installed.
#![allow(clippy::print_stdout, reason = "a test says why it was skipped")]

mod faults;
mod native_faults;
mod real;
mod shim;
