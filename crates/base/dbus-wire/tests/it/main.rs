//! What others rely on of the bytes of D-Bus.

#[macro_use]
extern crate causeway_testkit;

mod fuzz;
