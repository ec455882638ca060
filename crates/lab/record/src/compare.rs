//! The lines of a comparison of two sides: what each set gave, the verdict on each case, and what holds of all cases together.

use serde::{Deserialize, Serialize};

use crate::explain::MadeOf;
use crate::run::{CpuFrequency, PerOp, SliceSeries, SystemCalls};
use crate::{CaseId, Line};

/// One set of a comparison: fresh peers of both sides that took turns in slices, or ran one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedSet {
    /// The case as it was selected, before the settings of a side.
    pub case: CaseId,
    /// Index of the set inside its case, from 0.
    pub set: u32,
    /// Wanted length of a slice, in milliseconds; absent where the sides ran one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice_ms: Option<f64>,
    /// Side A.
    pub a: SideOfSet,
    /// Side B.
    pub b: SideOfSet,
    /// A second A, in those sets that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<SideOfSet>,
    /// Natural logarithm of the cost of B over that of A.
    pub log_ratio: f64,
    /// The same of the second A over A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_log_ratio: Option<f64>,
}

/// What one side gave in a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideOfSet {
    /// The case that ran: the selected one with the settings of the side.
    pub case: CaseId,
    /// The digest of the build from which its peers were started (64 bits of FNV-1a, as hexadecimal digits); absent where both sides are one
    /// build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Median of its samples, in the case's unit.
    pub value: f64,
    /// Its slices; absent where the sides ran one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<SliceSeries>,
    /// Counts per operation, all roles.
    pub per_op: PerOp,
    /// Remarks, as those of a run.
    pub flags: Vec<String>,
    /// Frequency of each measured CPU, where the kernel tells it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frequencies: Vec<CpuFrequency>,
}

/// What may be said of B against A in one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseVerdict {
    /// The case as it was selected.
    pub case: CaseId,
    /// What A is: its settings, its program, or its records.
    pub a: String,
    /// What B is.
    pub b: String,
    /// Cost of B over cost of A: above 1, B costs more, whatever the unit of the case. Absent where nothing was measured.
    pub ratio: Option<f64>,
    /// Interval of the ratio; absent where there are too few sets. Its confidence is at least 95 %, and higher where the
    /// comparison was looked at several times or was chosen from many.
    pub ci95: Option<[f64; 2]>,
    /// `equivalent`, `improved`, `regressed`, `changed shape`, `inconclusive` or `void`.
    pub verdict: String,
    /// Of a change: is all of the interval beyond the margin? Absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond_margin: Option<bool>,
    /// Sets on which it rests; of records, boots of the side that has fewer.
    pub sets: u32,
    /// Sets that gave no ratio.
    pub failed_sets: u32,
    /// Builds from which peers of A and of B were started, where they are different programs. The layout of the code is part of the ratio
    /// where a side has one build; where both or one have several, a pair of builds is the unit of the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builds: Option<[u32; 2]>,
    /// Of an inconclusive case: about how many sets would settle it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_by: Option<u32>,
    /// The margin that counted: the one asked for, or what A against itself shows where that is more.
    pub margin: f64,
    /// The least cost of B above that of A, as a share, that would be called regressed in eight of ten comparisons like this one; absent with
    /// too few sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_detectable_effect: Option<f64>,
    /// The share of starts in which B may be slow without having been seen often enough (95 %); absent where no sets were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_starts_not_excluded: Option<f64>,
    /// Two-sided p value of a ratio of 1, of this case alone and for all looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// A against itself in the same sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// Half-width of the interval that A against itself has with as many sets, as a share: 0.005 for ± 0.5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
    /// Of records: the ratio of the figures themselves, where `ratio` is one of ratios to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_ratio: Option<f64>,
    /// Unit of `a_value` and `b_value`.
    pub unit: String,
    /// Median over the sets of the figure of A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_value: Option<f64>,
    /// Median over the sets of the figure of B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_value: Option<f64>,
    /// Median over the sets of each count of A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_per_op: Option<PerOp>,
    /// Median over the sets of each count of B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_per_op: Option<PerOp>,
    /// What the roles of A called, counted in a run of its own; absent where that was not done or refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_system_calls: Option<SystemCalls>,
    /// The same of B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_system_calls: Option<SystemCalls>,
    /// Parts of the difference whose counts differ, where prices are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_of: Vec<MadeOf>,
    /// What else has to be said of this case, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A against itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Cost of the second A over that of the first.
    pub ratio: f64,
    /// Interval of the ratio at 95 %; absent below six pairs.
    pub ci95: Option<[f64; 2]>,
    /// Number of pairs.
    pub pairs: u32,
    /// Does it differ from 1 by more than chance, all cases considered? Then the verdict is void.
    pub has_moved: bool,
}

/// What holds of all cases of a comparison together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// The margin that was asked for: 0.02 for 2 %.
    pub margin: f64,
    /// Largest share of the claimed differences that may be chance, on average.
    pub fdr: f64,
    /// Cases with a ratio.
    pub cases: u32,
    /// Differences that are claimed.
    pub claimed: u32,
    /// How many of them are expected to be chance, at most.
    pub expected_by_chance: f64,
    /// Median over the cases of their resolution; absent where no case has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<f64>,
    /// Differences of the machines, boots or programs of both sides, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// What else has to be said before any verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl CaseVerdict {
    /// Is B worse, in size or in shape?
    pub fn is_regression(&self) -> bool {
        matches!(self.verdict.as_str(), "regressed" | "changed shape")
    }

    /// Is nothing said of the case?
    pub fn is_inconclusive(&self) -> bool {
        self.verdict == "inconclusive"
    }

    /// Did the control move?
    pub fn is_void(&self) -> bool {
        self.verdict == "void"
    }
}

impl From<CaseVerdict> for Line {
    fn from(verdict: CaseVerdict) -> Line {
        Line::Verdict(Box::new(verdict))
    }
}
