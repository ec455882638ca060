//! Tests of causewayd and of the buses that it serves: D-Bus clients at its socket, native members, processes that are killed.
//!
//! One that counts what its process holds runs in a process of its own: see `own_process!`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says there why it is skipped, and how it is repeated"
)]

#[macro_use]
mod support;

mod advice;
mod allocations;
#[cfg(feature = "zbus")]
mod asynchronous;
mod beyond;
mod blocking;
mod boundaries;
mod bus;
mod clocks;
mod compared;
mod day;
mod death;
mod divided;
#[cfg(feature = "zbus")]
mod examples;
#[cfg(target_arch = "x86_64")]
mod failing;
mod forked;
mod hostile;
mod introspection;
mod kill;
mod kill_call;
mod long;
mod members;
mod messages;
mod metrics;
mod native;
mod native_hostile;
mod operators;
mod owners;
mod program;
mod scarce;
mod services;
mod serving;
mod session;
mod stock;
mod systemd;
mod systemd_activation;
mod transfer;
mod transfer_death;
mod unique_names;
mod watching;
mod wild;
#[cfg(feature = "zbus")]
mod zbus;
