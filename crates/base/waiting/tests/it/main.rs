//! The tests of this crate that need more than one file.

#[macro_use]
extern crate causeway_testkit;

mod machine;
mod polling;
