//! What is asked.

use serde::Serialize;
use weighbridge_record::{CaseId, Property};

use super::choice::Demand;
use crate::units::{per_second, size};

/// What somebody wants to exchange, and what must hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Question {
    /// `roundtrip`, `stream` or `fan-out`.
    pub pattern: String,
    /// Where the processes run.
    pub placement: String,
    /// Bytes of a message.
    pub payload_bytes: u64,
    /// Receivers of each message; 1 between two ends.
    pub receivers: u64,
    /// Operations in a second.
    pub rate: f64,
    /// What the mechanism must have.
    pub demands: Vec<Property>,
    /// The largest share of one CPU that all processes may take together.
    pub cpu_budget: Option<f64>,
    /// The mechanisms among which the choice is; all where none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub among: Vec<String>,
}

impl Question {
    /// Is this mechanism asked about?
    pub fn admits(&self, mechanism: &str) -> bool {
        self.among.is_empty() || self.among.iter().any(|one| one == mechanism)
    }

    /// CPUs that there are.
    pub(super) fn cpus(&self) -> f64 {
        if self.placement == "same-cpu" { 1.0 } else { 2.0 }
    }

    /// What a choice must have, so far as properties tell it.
    pub(super) fn properties(&self) -> Vec<Demand> {
        self.demands.iter().copied().map(Demand::Has).collect()
    }

    /// All that a choice must have.
    pub(super) fn demands(&self) -> Vec<Demand> {
        let has = self.properties().into_iter();
        has.chain([Demand::Rate { per_s: self.rate, cpus: self.cpus() }])
            .chain(self.cpu_budget.map(Demand::Budget))
            .collect()
    }

    /// The same case with operations due at the rate.
    pub fn at_rate(&self, case: &CaseId) -> CaseId {
        case.clone().with("rate", &self.rate.round().max(1.0).to_string())
    }

    /// In one line: `500 B to 8 receivers, 20,000 a second, on two CPUs`.
    pub fn in_words(&self) -> String {
        let to = match (self.pattern.as_str(), self.receivers) {
            ("roundtrip", _) => "there and back".into(),
            (_, 1) => "one way".into(),
            (_, receivers) => format!("to {receivers} receivers"),
        };
        let at = if self.cpus() == 1.0 { "one CPU" } else { "two CPUs" };
        format!("{} {to}, {} a second, on {at}", size(self.payload_bytes), per_second(self.rate))
    }
}
