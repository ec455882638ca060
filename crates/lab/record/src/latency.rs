//! What single operations took, in cases that time each of them.

use serde::{Deserialize, Serialize};

/// What single operations of a run took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// Nanoseconds, ascending, with the number of operations that took so long, to within 1 %.
    pub counts: Vec<(u64, u64)>,
    /// The longest, in nanoseconds, to the nanosecond.
    pub max_ns: u64,
    /// What one reading of the clock costs; one is in each figure.
    pub clock_read_ns: f64,
}

/// A percentile of what single operations of a case took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// 0.99 for the 99th.
    pub p: f64,
    /// Nanoseconds: the median over the runs, or of all observations where single runs have too few.
    pub ns: f64,
    /// At least 95 %: over the runs, or binomial over all observations.
    #[serde(default)]
    pub ci95: Option<[f64; 2]>,
    /// Are all observations taken as one lot?
    pub pooled: bool,
}

/// How single operations of a case are distributed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Those for which there are at least ten observations beyond.
    pub percentiles: Vec<Percentile>,
    /// Operations timed, in all runs.
    pub observations: u64,
    /// The longest of all, in nanoseconds.
    pub max_ns: u64,
}
