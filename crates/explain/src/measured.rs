//! What was measured: costs of cases as multiples of a hub's, set by set.

use std::collections::BTreeMap;

use weighbridge_record::CaseId;
use weighbridge_stats::resample::Resampler;
use weighbridge_stats::signed_rank::hodges_lehmann;

/// Cases that were measured in the same sets.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// With what they took turns; nothing where the ratios are nanoseconds.
    pub hub: Option<CaseId>,
    /// The cases.
    pub cases: Vec<CaseId>,
    /// For each set the logarithm of the cost of each case over that of the hub.
    pub sets: Vec<Vec<f64>>,
}

/// All sets of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Cases by the sets in which they were measured; no case is in two of them.
    pub groups: Vec<Group>,
    /// What each hub cost over the whole session, in nanoseconds.
    pub hub_ns: BTreeMap<CaseId, f64>,
}

/// Nanoseconds of an operation of each case.
pub type Costs = BTreeMap<CaseId, f64>;

impl Measured {
    /// The costs: of each case the Hodges–Lehmann estimate of its ratio to the hub, times the hub's cost. Cases without a set have none.
    ///
    /// # Panics
    /// If a set has not a ratio for each case, or a hub has no cost.
    pub fn costs(&self) -> Costs {
        self.costs_of(|sets| sets.iter().collect())
    }

    /// The costs that other sets of the same kind would have given.
    ///
    /// # Panics
    /// As [`costs`](Measured::costs).
    pub fn drawn(&self, random: &mut Resampler) -> Costs {
        self.costs_of(|sets| random.drawn(sets))
    }

    fn costs_of<'a>(&'a self, mut sets: impl FnMut(&'a [Vec<f64>]) -> Vec<&'a Vec<f64>>) -> Costs {
        let mut costs = Costs::new();
        for group in self.groups.iter().filter(|group| !group.sets.is_empty()) {
            let hub_ns = group.hub.as_ref().map_or(1.0, |hub| self.hub_ns[hub]);
            let sets = sets(&group.sets);
            for (index, case) in group.cases.iter().enumerate() {
                let logs: Vec<f64> = sets.iter().map(|set| set[index]).collect();
                costs.insert(case.clone(), hub_ns * hodges_lehmann(&logs).exp());
            }
        }
        costs
    }

    /// How many sets a case has.
    pub fn sets_of(&self, case: &CaseId) -> usize {
        let group = self.groups.iter().find(|group| group.cases.contains(case));
        group.map_or(0, |group| group.sets.len())
    }

    /// The fewest sets that any case has.
    pub fn fewest_sets(&self) -> usize {
        self.groups.iter().map(|group| group.sets.len()).filter(|sets| *sets > 0).min().unwrap_or(0)
    }
}
