//! Hubs: the cases with which others took turns.

use serde::{Deserialize, Serialize};

use crate::CaseId;
use crate::earlier::EarlierSessions;

/// The cost of a case as a multiple of its hub's, from sets in which both took turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToHub {
    /// The hub.
    pub hub: CaseId,
    /// Cost of the case over cost of the hub: the median over the sets. Above 1 the case costs more, whatever its unit.
    pub median: f64,
    /// Its interval at 95 %, with the set as the unit, as the session stopped by it; absent below six sets.
    pub ci95: Option<[f64; 2]>,
    /// Number of sets.
    pub sets: u32,
}

/// A hub over the whole session: what the absolute figures of its cases are scaled by, and how steady the machine was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hub {
    /// The hub.
    pub case: CaseId,
    /// Unit of `median` and `range`: nanoseconds per operation, or per byte for a stream.
    pub unit: String,
    /// Median over the sets of the median of their slices.
    pub median: f64,
    /// The 5 % and 95 % quantile of all slices.
    pub range: [f64; 2],
    /// Number of sets.
    pub sets: u32,
    /// What slices of twice the length did to the ratios to it; absent where no case had sets of both lengths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubled_slices: Option<DoubledSlices>,
    /// Sets in which it took turns with other hubs; each pair of hubs stands once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meetings: Vec<HubMeeting>,
    /// Earlier sessions of the same machine, as the store of records knew them; absent where it knew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierSessions>,
}

/// Two hubs that took turns with each other, so that their cases can be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HubMeeting {
    /// The other hub.
    pub with: CaseId,
    /// Cost of this hub over cost of the other one: the trimmed mean over the sets.
    pub ratio: f64,
    /// Its interval at 95 %, with the set as the unit; absent below six sets.
    pub ci95: Option<[f64; 2]>,
    /// The ratio of each set, in the order of time.
    pub ratios: Vec<f64>,
}

/// A control: does a case cost the same where it is interrupted by its hub half as often?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DoubledSlices {
    /// Ratio to the hub with slices of twice the length over that with slices of the usual length, over all cases that had both.
    pub factor: f64,
    /// Its interval at 95 %, with the case as the unit; absent below six cases.
    pub ci95: Option<[f64; 2]>,
    /// Number of cases.
    pub cases: u32,
}
