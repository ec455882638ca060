//! A case in terms of the model: which counts it has, and how each price is measured.

use std::collections::BTreeMap;

use weighbridge_record::{CaseId, PerOp, SystemCalls};

use crate::explain::dose::Dosed;
use crate::explain::measured::Costs;

/// A price as a sum of multiples of measured costs: a switch is a hop of `spin-yield` less a `sched_yield` alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Formula(pub Vec<(f64, CaseId)>);

impl Formula {
    /// The cost of one case.
    pub fn of(case: CaseId) -> Formula {
        Formula(vec![(1.0, case)])
    }

    /// So many times the cost of one case.
    pub fn times(times: f64, case: CaseId) -> Formula {
        Formula(vec![(times, case)])
    }

    /// Less so many times the cost of another case.
    #[must_use]
    pub fn less(mut self, times: f64, case: CaseId) -> Formula {
        self.0.push((-times, case));
        self
    }

    /// Was the price refused? Then it is a sum of nothing.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.is_empty()
    }

    /// In nanoseconds; `None` where a case has no cost.
    pub fn ns(&self, costs: &Costs) -> Option<f64> {
        self.0.iter().map(|(times, case)| Some(times * costs.get(case)?)).sum()
    }
}

/// A part whose price is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Direct {
    /// What it is.
    pub name: &'static str,
    /// What the price holds for, where it does not hold for all cases.
    pub of: Option<String>,
    /// How the price is measured, in one sentence.
    pub about: String,
    /// How many per operation.
    pub count: f64,
    /// What one costs.
    pub price: Formula,
}

/// A part whose price is fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// What it is.
    pub name: &'static str,
    /// How many per operation.
    pub count: Count,
}

/// How many there are of something whose price is fitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Count {
    /// So many per operation.
    Times(f64),
    /// This share of the nanoseconds of these parts, whose prices are measured.
    NsOf(&'static [&'static str], f64),
}

/// Buffers that a payload is in on its way: that of the sender, one between, that of the receiver.
const BUFFERS: f64 = 3.0;

/// The share of the work with a payload of which a process may find the data in its first-level cache when nothing else used it:
/// min(1, cache ÷ (3 × payload)). The rest is work on bytes that no such cache keeps, which cannot be colder after a switch.
pub fn kept_in_cache(payload_bytes: u64, cache_bytes: u64) -> f64 {
    (cache_bytes as f64 / (BUFFERS * payload_bytes.max(1) as f64)).min(1.0)
}

/// A case to be explained, or one from which prices are fitted.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The case.
    pub case: Option<CaseId>,
    /// Where prices are the same: placement and idle CPUs.
    pub place: String,
    /// Is an explanation asked for?
    pub is_asked: bool,
    /// Unit of an operation.
    pub unit: String,
    /// Parts with measured prices.
    pub direct: Vec<Direct>,
    /// Parts with fitted prices.
    pub fitted: Vec<Fitted>,
    /// `direct` with other payloads, for what-if questions.
    pub at_payload: BTreeMap<u64, Vec<Direct>>,
    /// Counts per operation.
    pub per_op: PerOp,
    /// System calls per operation, where they were counted.
    pub system_calls: Option<SystemCalls>,
    /// What was put into the case.
    pub doses: Vec<Dosed>,
    /// Why the prices of parts were not tried by a dose.
    pub not_tried: BTreeMap<&'static str, String>,
    /// What has to be said of the case.
    pub remarks: Vec<String>,
}

impl Subject {
    /// The case.
    ///
    /// # Panics
    /// If there is none.
    pub fn id(&self) -> &CaseId {
        self.case.as_ref().expect("a subject has a case")
    }

    /// Nanoseconds of all parts with measured prices; `None` where a price was not measured.
    pub(crate) fn direct_ns(&self, costs: &Costs) -> Option<f64> {
        total_ns(&self.direct, costs)
    }
}

impl Fitted {
    /// How many, where these are the costs; none of a part whose price was not measured.
    pub(crate) fn count(&self, subject: &Subject, costs: &Costs) -> f64 {
        match &self.count {
            Count::Times(times) => *times,
            Count::NsOf(names, share) => {
                let of = subject.direct.iter().filter(|part| names.contains(&part.name));
                let ns: f64 = of.filter_map(|part| Some(part.count * part.price.ns(costs)?)).sum();
                share * ns.max(0.0)
            }
        }
    }
}

pub(crate) fn total_ns(parts: &[Direct], costs: &Costs) -> Option<f64> {
    parts.iter().map(|part| Some(part.count * part.price.ns(costs)?)).sum()
}
