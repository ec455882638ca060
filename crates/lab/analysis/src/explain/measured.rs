//! What was measured: costs of cases as multiples of a hub's, set by set.

use std::collections::BTreeMap;

use weighbridge_record::CaseId;
use weighbridge_stats::Evidence;
use weighbridge_stats::order::median;
use weighbridge_stats::random::Random;
use weighbridge_stats::resample;

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

impl Group {
    /// The cost of each case, where its hub costs `hub_ns`, by these sets.
    fn add_to(&self, costs: &mut Costs, hub_ns: f64, sets: &[&Vec<f64>]) {
        for (index, case) in self.cases.iter().enumerate() {
            let logs: Vec<f64> = sets.iter().map(|set| set[index]).collect();
            costs.insert(case.clone(), hub_ns * Evidence::paired(logs).ratio().expect("a set at least"));
        }
    }
}

/// All sets of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Cases by the sets in which they were measured; no case is in two of them.
    pub groups: Vec<Group>,
    /// What each hub cost in each of its sets, of all groups that took turns with it, in nanoseconds.
    pub hub_sets_ns: BTreeMap<CaseId, Vec<f64>>,
    /// Dosed cases, which took turns with the same case without a dose: that is their hub.
    pub doses: Vec<Group>,
}

/// Nanoseconds of an operation of each case.
pub type Costs = BTreeMap<CaseId, f64>;

impl Measured {
    /// The costs: of each case the trimmed mean ([`Evidence`]) of its ratio to the hub, times the median of the hub's sets. Cases without a
    /// set have none.
    ///
    /// # Panics
    /// If a set has not a ratio for each case, or a hub has no set.
    pub fn costs(&self) -> Costs {
        let hub_ns = self.hub_sets_ns.iter().map(|(hub, sets)| (hub, median(sets))).collect();
        self.costs_of(&hub_ns, |sets| sets.iter().collect())
    }

    /// The costs where those of the dosed cases rest on the first or on the second half of their sets. Those of all others are as they are.
    ///
    /// # Panics
    /// As [`costs`](Measured::costs).
    pub(crate) fn costs_by_half(&self, costs: &Costs) -> [Costs; 2] {
        let of_half = |is_first: bool| {
            let mut costs = costs.clone();
            self.add_doses(&mut costs, |sets: &[Vec<f64>]| {
                let (first, second) = sets.split_at(sets.len() / 2);
                if is_first { first.iter().collect() } else { second.iter().collect() }
            });
            costs
        };
        [of_half(true), of_half(false)]
    }

    /// The costs that other sets of the same kind would have given. The sets of the hubs are drawn too: a case and its parts may have taken turns
    /// with different hubs, whose ratio is then as uncertain as both.
    ///
    /// # Panics
    /// As [`costs`](Measured::costs).
    pub fn drawn(&self, random: &mut Random) -> Costs {
        let mut drawn_ns =
            |sets: &[f64]| median(&random.drawn(sets).into_iter().copied().collect::<Vec<_>>());
        let hub_ns = self.hub_sets_ns.iter().map(|(hub, sets)| (hub, drawn_ns(sets))).collect();
        self.costs_of(&hub_ns, |sets| random.drawn(sets))
    }

    fn costs_of<'a>(
        &'a self,
        hub_ns: &BTreeMap<&CaseId, f64>,
        mut sets: impl FnMut(&'a [Vec<f64>]) -> Vec<&'a Vec<f64>>,
    ) -> Costs {
        let mut costs = Costs::new();
        for group in self.groups.iter().filter(|group| !group.sets.is_empty()) {
            let hub_ns = group.hub.as_ref().map_or(1.0, |hub| hub_ns[hub]);
            let sets = sets(&group.sets);
            group.add_to(&mut costs, hub_ns, &sets);
        }
        self.add_doses(&mut costs, sets);
        costs
    }

    fn add_doses<'a>(&'a self, costs: &mut Costs, mut sets: impl FnMut(&'a [Vec<f64>]) -> Vec<&'a Vec<f64>>) {
        for group in self.doses.iter().filter(|group| !group.sets.is_empty()) {
            let undosed_ns = group.hub.as_ref().map_or(Some(1.0), |case| costs.get(case).copied());
            let sets = sets(&group.sets);
            if let (Some(ns), false) = (undosed_ns, sets.is_empty()) {
                group.add_to(costs, ns, &sets);
            }
        }
    }

    /// How many sets a case has.
    pub fn sets_of(&self, case: &CaseId) -> usize {
        let group = self.groups.iter().chain(&self.doses).find(|group| group.cases.contains(case));
        group.map_or(0, |group| group.sets.len())
    }

    /// Has any case so many sets that something has an interval?
    pub(crate) fn has_intervals(&self) -> bool {
        self.groups.iter().chain(&self.doses).any(|group| group.sets.len() >= resample::FEWEST)
    }

    /// The fewest sets that any case has.
    pub fn fewest_sets(&self) -> usize {
        self.groups.iter().map(|group| group.sets.len()).filter(|sets| *sets > 0).min().unwrap_or(0)
    }
}
