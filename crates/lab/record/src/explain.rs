//! The lines of an explanation: what a figure is made of, as the harness measured and `weighbridge_analysis::explain` solved it.

use serde::{Deserialize, Serialize};

use crate::CaseId;
use crate::run::{PerOp, SystemCalls};

/// One set of an explanation: cases that took turns with a hub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedSet {
    /// The hub; absent where the case ran alone because its time is virtual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub: Option<CaseId>,
    /// The cases, one or two.
    pub cases: Vec<CaseId>,
    /// Natural logarithm of the cost of each case over that of the hub; without a hub, over one nanosecond.
    pub log_ratios: Vec<f64>,
}

/// What one of something costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// What has the price, in the words of the parts of an explanation: `system calls`, `switches`.
    pub name: String,
    /// What the price holds for, where it is not the same for all cases: `pipe, 4096 bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Placement, with `idle=busy` where the CPUs did not halt.
    pub place: String,
    /// How it was measured, in one sentence.
    pub about: String,
    /// Nanoseconds of one.
    pub ns: f64,
    /// Interval at 95 %; absent with too few sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// The cases from whose costs it was fitted; empty where it was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted_from: Vec<CaseId>,
}

/// What the cost of a case is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The case.
    pub case: CaseId,
    /// Unit of an operation: `ns/roundtrip`.
    pub unit: String,
    /// Cost of an operation, in nanoseconds.
    pub ns: f64,
    /// Interval of the cost at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// Count times price, part by part; with `unexplained` they add up to the cost.
    pub parts: Vec<ExplainedPart>,
    /// The cost less all parts, in nanoseconds; negative where the parts come to more.
    pub unexplained_ns: f64,
    /// Interval of `unexplained_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexplained_ns_ci95: Option<[f64; 2]>,
    /// The unexplained part over the cost.
    pub unexplained_share: f64,
    /// Interval of `unexplained_share`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexplained_share_ci95: Option<[f64; 2]>,
    /// All parts over the cost; absent in records that were written before the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts_over_cost: Option<f64>,
    /// `explained`, `not explained` or `not settled`.
    pub verdict: String,
    /// The cases from whose costs prices were fitted, never this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted_from: Vec<CaseId>,
    /// What the case would cost otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<WhatIf>,
    /// Sets on which the cost rests.
    pub sets: u32,
    /// Counts per operation of all roles together.
    pub per_op: PerOp,
    /// What the roles called; absent where that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_calls: Option<SystemCalls>,
    /// What else has to be said, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// One part of a cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedPart {
    /// What it is: the name of a price.
    pub name: String,
    /// How many per operation.
    pub count: f64,
    /// Nanoseconds of one.
    pub price_ns: f64,
    /// Was the price fitted from other cases, and not measured?
    pub is_fitted: bool,
    /// Count times price.
    pub ns: f64,
    /// Interval of `ns` at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
}

/// What a case would cost if something were otherwise, by the same prices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WhatIf {
    /// What is otherwise, as it was typed: `switches-1`.
    pub change: String,
    /// What the case would cost, in nanoseconds.
    pub ns: f64,
    /// Interval of `ns` at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// That cost over the present one.
    pub factor: f64,
    /// Interval of `factor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor_ci95: Option<[f64; 2]>,
    /// What the answer leaves out, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A part of the difference between two sides of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MadeOf {
    /// The name of a price.
    pub name: String,
    /// How many per operation of A.
    pub a_count: f64,
    /// How many per operation of B.
    pub b_count: f64,
    /// Nanoseconds that B has more because of it: difference of the counts times the price.
    pub ns: f64,
    /// Interval of `ns` at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
}
