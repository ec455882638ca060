//! How often wake filters are wrong. What starts peers has a program of its own, `brokers`.
#![allow(clippy::print_stdout, reason = "figures, with --nocapture")]

#[macro_use]
extern crate causeway_testkit;

mod wake_filter;
