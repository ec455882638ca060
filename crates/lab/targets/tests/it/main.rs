//! What the documents say of the sources of the laboratory, where the compiler cannot hold it.

#[macro_use]
extern crate causeway_testkit;

mod invariants;
