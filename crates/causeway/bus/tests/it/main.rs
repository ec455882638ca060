//! Tests of the crate alone. Those of a bus that serves are tests of causewayd.

#[cfg(not(loom))]
#[macro_use]
extern crate causeway_testkit;

#[cfg(not(loom))]
mod document;
#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod types;
