//! What the statistics promise: for every input, over thousands of simulated experiments, and beside published figures.

mod properties;
mod published_errors;
mod simulation;
mod verdict_properties;
