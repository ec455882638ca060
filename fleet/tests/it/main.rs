//! The store and its questions, from the outside.

mod claims;
mod document;
mod duckdb;
mod lakes;
mod push;
mod questions;
mod servers;
mod slurm;
mod starters;
mod support;
