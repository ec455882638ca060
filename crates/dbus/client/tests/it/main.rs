//! Private brokers, and the recipients that are computed against those that get the messages.
#![allow(clippy::print_stdout, reason = "a test says why it was skipped")]

mod recipients;
mod start;
