//! What a record is, what its findings say, and the output of other tools as lines of one.

#[macro_use]
extern crate causeway_testkit;

mod contests;
mod fields;
mod import;
mod laws;
