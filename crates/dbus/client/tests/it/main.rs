//! Private brokers, and the recipients that are computed against those that get the messages.

#[macro_use]
extern crate causeway_testkit;

mod recipients;
mod start;
