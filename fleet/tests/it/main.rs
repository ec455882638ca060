//! The store and its questions, from the outside.

#[macro_use]
extern crate causeway_testkit;

mod again;
mod azure;
mod claims;
mod document;
mod duckdb;
mod lakes;
mod page;
mod push;
mod questions;
mod servers;
mod slurm;
mod starters;
mod support;
