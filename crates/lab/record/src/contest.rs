//! The lines on cases that differ only in the mechanism: which order of them is sure.

use serde::{Deserialize, Serialize};

use crate::CaseId;

/// Cases of one pattern, payload, placement and setting that differ in the mechanism, compared with each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// Lowest cost first, by their estimates; two at least.
    pub contestants: Vec<Contestant>,
    /// Which orders are sure, all of them together at `confidence`; empty where none is.
    pub sure: Vec<SureOrder>,
    /// The confidence at which everything in this line holds simultaneously.
    pub confidence: f64,
}

/// One case of a contest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contestant {
    /// The case.
    pub case: CaseId,
    /// Index of its tier, from 0: all of a tier are surely ahead of all of the next one.
    pub tier: u32,
    /// Is no other contestant surely better?
    pub may_be_best: bool,
    /// Its cost over that of the first contestant.
    pub times_first: f64,
    /// Simultaneous interval of `times_first`; absent of the first one and where there are too few sets.
    pub interval: Option<[f64; 2]>,
    /// Sets or runs on which it rests.
    pub sets: u32,
}

/// "All of `ahead` surely cost less than all of `behind`."
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SureOrder {
    /// Lowest cost first.
    pub ahead: Vec<CaseId>,
    /// Lowest cost first.
    pub behind: Vec<CaseId>,
}

/// All contests of a record, judged together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Contests of the record.
    pub contests: u32,
    /// Contests in which some order is claimed.
    pub claimed: u32,
    /// Largest share of the claimed ones that may say something wrong, on average.
    pub fdr: f64,
    /// How many of the claimed ones are expected to say something by chance, at most.
    pub expected_by_chance: f64,
}
