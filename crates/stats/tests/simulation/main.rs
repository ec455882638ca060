//! What the statistics promise, counted over thousands of simulated experiments whose truth is known.
//!
//! Every generator has a fixed seed, so a test passes or fails the same way everywhere. Bounds on counted rates leave
//! room for the chance in that many experiments, and say how much.

mod comparisons;
mod coverage;
mod intervals;
mod peers;
mod regimes;
mod tails;
