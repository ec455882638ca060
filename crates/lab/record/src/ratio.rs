//! Figures compared with each other, and with those that others published.

use serde::{Deserialize, Serialize};

use crate::CaseId;

/// Two cases measured in the same rounds, as the ratio of their costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The case that is judged.
    pub case: CaseId,
    /// The case that it is compared with.
    pub baseline: CaseId,
    /// How many times faster `case` is than `baseline` (below 1: slower), median over pairs of the same round.
    pub speedup: f64,
    /// Sign-test interval of the ratio, at least 95 %; absent below six pairs.
    pub ci95: Option<[f64; 2]>,
    /// Number of pairs.
    pub pairs: u32,
}

/// How many times a figure of a baseline a case has, whatever the figure is: above 1 is more of it, not better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The case.
    pub case: CaseId,
    /// The case that it is compared with.
    pub baseline: CaseId,
    /// The record of the baseline, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_record: Option<String>,
    /// In what the machine of that record differs from this one; absent where it does not, and within one record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_machine: Option<String>,
    /// Which figure: `to_hub` (the cost as a multiple of the hub's, of two records), `value`, `messages_per_s`, `cpu_ns_per_message`, `cpu_ns_per_op`, `voluntary_switches_per_op`,
    /// `involuntary_switches_per_op`, `sender_ns_to_value` (of a fan-out, the sender's time of the case over the baseline's time until the last receiver has a
    /// message), or the name of a series.
    pub figure: String,
    /// The figure of the case, in the case's unit for `value`, else in the unit of the figure's name.
    pub here: f64,
    /// The figure of the baseline.
    pub there: f64,
    /// `here` over `there`: of an interleaved comparison the median over pairs of runs of one round, else the median of
    /// all quotients of runs.
    pub ratio: f64,
    /// Interval of the ratio, at least 95 %; absent where there are too few runs.
    pub ci95: Option<[f64; 2]>,
    /// Pairs of runs of one round; 0 where the comparison is not interleaved, because the baseline is of another record.
    pub pairs: u32,
}

/// The size at which two mechanisms cost the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossover {
    /// The first mechanism, at the smallest size that both have.
    pub first: CaseId,
    /// The second one, likewise.
    pub second: CaseId,
    /// Smallest and largest payload at which both were measured, in bytes.
    pub range_bytes: [u64; 2],
    /// Where the medians cross, the largest such size; absent where they do not.
    pub bytes: Option<f64>,
    /// The nearest measured sizes on both sides at which the intervals do not overlap.
    #[serde(default)]
    pub between_bytes: [Option<f64>; 2],
    /// Is the first one cheaper below that size, or at all sizes where there is none? Absent where they cost the same.
    pub first_is_cheaper_below: Option<bool>,
    /// How often the medians cross.
    pub crossings: u32,
}

/// A figure that others have published, beside ours. The machines differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// Our case.
    pub case: CaseId,
    /// Tool and year.
    pub source: String,
    /// What the source calls the figure.
    pub name: String,
    /// The unit of both figures.
    pub unit: String,
    /// The published figure.
    pub theirs: f64,
    /// Ours, in the same unit.
    pub ours: f64,
    /// `ours` over `theirs`.
    pub ratio: f64,
}
