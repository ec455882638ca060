//! The sections of the page, one file each.

pub mod cases;
pub mod distribution;
pub mod dots;
pub mod findings;
pub mod glossary;
pub mod latency;
pub mod machine;
pub mod per_op;
pub mod rates;
pub mod remarks;
pub mod scaling;
pub mod series;
pub mod skips;
pub mod suite;

mod over_size;
