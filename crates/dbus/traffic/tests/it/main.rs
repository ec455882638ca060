//! Captures from bytes to findings, and our parser against that of zbus.

#[macro_use]
extern crate causeway_testkit;

mod captures;
mod common;
mod oracle;
