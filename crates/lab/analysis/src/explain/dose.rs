//! Dose and response: what was put into a case, what the case cost more, and whether that is what the prices say.

use weighbridge_record::CaseId;

use crate::explain::measured::Costs;
use crate::explain::subject::{Direct, Fitted};
use crate::explain::verdict;

/// A case with so many more of something.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dosed {
    /// What, in one word.
    pub kind: &'static str,
    /// The same in a sentence.
    pub about: String,
    /// Names of the parts whose prices it tries.
    pub parts: Vec<&'static str>,
    /// The case without a dose.
    pub case: Option<CaseId>,
    /// How many there are in an operation of each dosed case, in ascending order.
    pub steps: Vec<(f64, CaseId)>,
    /// What one consists of, with measured prices.
    pub direct: Vec<Direct>,
    /// What one consists of, with fitted prices.
    pub fitted: Vec<Fitted>,
    /// Why the counts of the dosed case do not show the dose.
    pub not_shown: Option<String>,
    /// What has to be said of it.
    pub remarks: Vec<String>,
}

/// What a case costs more with a dose, for each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Response {
    pub(crate) slope_ns: f64,
    /// From each dose to the next larger one.
    pub(crate) steps_ns: Vec<f64>,
    /// By the prices of the explanation; no number where it has none.
    pub(crate) price_ns: f64,
}

impl Dosed {
    /// `price_ns` is what the prices say of one. `None` where a cost is missing.
    pub(crate) fn response(&self, costs: &Costs, price_ns: Option<f64>) -> Option<Response> {
        let none = (0.0, *costs.get(self.case.as_ref()?)?);
        let dosed = self.steps.iter().map(|(per_op, case)| Some((*per_op, *costs.get(case)?)));
        let points: Vec<(f64, f64)> = std::iter::once(Some(none)).chain(dosed).collect::<Option<_>>()?;
        if points.len() < 2 {
            return None;
        }
        let steps = points.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0));
        Some(Response {
            slope_ns: slope(&points),
            steps_ns: steps.collect(),
            price_ns: price_ns.unwrap_or(f64::NAN),
        })
    }

    /// What is found of the price. `ratio_ci95` is the interval of the slope over the price.
    pub(crate) fn verdict(&self, has_price: bool, ratio_ci95: Option<[f64; 2]>) -> &'static str {
        match (&self.not_shown, has_price) {
            (Some(_), _) => "not shown",
            (None, false) => "no price",
            (None, true) => verdict::of_price(ratio_ci95),
        }
    }
}

/// Of the line with the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let middle = |get: fn(&(f64, f64)) -> f64| points.iter().map(get).sum::<f64>() / count;
    let (x, y) = (middle(|point| point.0), middle(|point| point.1));
    let with = |get: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(|at| (at.0 - x) * get(at)).sum::<f64>();
    with(&|at| at.1 - y) / with(&|at| at.0 - x)
}
