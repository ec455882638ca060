//! The lines of an explanation: what a figure is made of, as the harness measured and `weighbridge_analysis::explain` solved it.

use serde::{Deserialize, Serialize};

use crate::CaseId;
use crate::run::{PerOp, SystemCalls};

/// One set of an explanation: cases that took turns with a hub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedSet {
    /// The hub; of dosed cases the case without a dose; absent where the case ran alone because its time is virtual.
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
    /// What the case costs beyond the mechanism to itself; absent in records that were written before the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond_self: Option<BeyondSelf>,
    /// Of `beyond_self`: `explained`, `not explained` or `not settled`; `self alone` where there is next to nothing of it. In records without
    /// `beyond_self`, of the whole cost.
    pub verdict: String,
    /// The cases from whose costs prices were fitted, never this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted_from: Vec<CaseId>,
    /// What was put into the case to try prices in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doses: Vec<Dose>,
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
    /// Why there is no price; then it and `ns` are 0, and what the part costs is in the others and in the unexplained part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_price: Option<String>,
    /// Count times price.
    pub ns: f64,
    /// Interval of `ns` at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// The dose ([`Dose::kind`]) that tried its price in the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dose: Option<String>,
    /// Why none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_tried: Option<String>,
}

/// The part of a cost that the mechanism to itself does not have: what is explained, and what a model that knows nothing would say of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BeyondSelf {
    /// The cost less that of the mechanism to itself (own work, its system calls and copies) and of the halts, in nanoseconds.
    pub ns: f64,
    /// Interval of `ns` at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// The unexplained part over `ns`; absent where `ns` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexplained_share: Option<f64>,
    /// Interval of `unexplained_share`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unexplained_share_ci95: Option<[f64; 2]>,
    /// What the null model says that `ns` is: the median of the other mechanisms in the same place. Absent with fewer than three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null_ns: Option<f64>,
    /// How good the model and the null model are in this place, over all mechanisms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<Skill>,
}

/// The model beside the null model, over the cases of a place, the mechanism that is predicted held out of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skill {
    /// The cases that were predicted.
    pub cases: u32,
    /// By how much the model misses `beyond_self` of a case, in nanoseconds: the median.
    pub model_off_ns: f64,
    /// The same of the null model.
    pub null_off_ns: f64,
    /// 1 less the ratio of the two: 1 misses nothing, 0 is no better than the null model, below 0 is worse.
    pub skill: f64,
    /// Interval of `skill` at 95 %, over sets; the cases are what they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
}

/// Something that was put into every operation of a case, and what the case cost more: a price as it is in the case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dose {
    /// What, in the word of the axis `dose`: `calls`.
    pub kind: String,
    /// The same in a sentence.
    pub about: String,
    /// The names of the parts whose prices it tries; together where there are several.
    pub parts: Vec<String>,
    /// The case that it was put into.
    pub case: CaseId,
    /// How many there were in an operation of each dosed case, both roles together.
    pub per_op: Vec<f64>,
    /// What the case costs more for each, in nanoseconds.
    pub slope_ns: f64,
    /// Interval of `slope_ns` at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// The slope by the first and by the second half of the sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope_of_halves_ns: Option<[f64; 2]>,
    /// The slope from each dose to the next larger one, the first from none.
    pub steps_ns: Vec<f64>,
    /// What one costs by the prices of the explanation; absent where they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_ns: Option<f64>,
    /// Interval of `price_ns` at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_ci95: Option<[f64; 2]>,
    /// `slope_ns` over `price_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope_over_price: Option<f64>,
    /// Interval of `slope_over_price` at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slope_over_price_ci95: Option<[f64; 2]>,
    /// `confirmed`, `not confirmed` or `not settled`; `not shown` where the counts of the dosed case do not show the dose; `no price` where there is
    /// none to be tried.
    pub verdict: String,
    /// Sets on which the slope rests.
    pub sets: u32,
    /// What else has to be said, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
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
    /// What it did cost where the same session measured that, in nanoseconds; where this is absent, `ns` is a prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_ns: Option<f64>,
    /// Interval of `measured_ns` at 95 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_ci95: Option<[f64; 2]>,
    /// `ns` over the present cost.
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
