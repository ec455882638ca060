//! What the statistics promise, counted over thousands of simulated experiments whose truth is known.
//!
//! Every generator has a fixed seed, so a test passes or fails the same way everywhere. Bounds on counted rates leave
//! room for the chance in that many experiments, and say how much.

#![allow(
    clippy::print_stdout,
    reason = "the rates that were found are shown, not only that they are low enough"
)]

mod bisections;
mod changes;
mod comparisons;
mod correlated;
mod coverage;
mod duet;
mod intervals;
mod layouts;
mod many;
mod peers;
mod recorded;
mod regimes;
mod sequential;
mod sessions;
mod sets;
mod surely;
mod tails;
mod verdicts;
