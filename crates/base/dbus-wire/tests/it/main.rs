//! Properties of the D-Bus wire format that other crates rely on.

#[macro_use]
extern crate causeway_testkit;

mod fuzz;
