//! What the statistics promise: for every input, over thousands of simulated experiments, and beside published figures.

#[macro_use]
extern crate causeway_testkit;

mod properties;
mod published_errors;
mod simulation;
mod verdict_properties;
