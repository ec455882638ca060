//! The hub duet: a case and a yardstick measured by turns in slices of some milliseconds, so that both feel the same noise.
//!
//! A set is one start of fresh processes, about 0.3 s of slices. Within a set, neighboring slices form blocks in which each
//! party has one slice; the set's value is the median of the blocks' log ratios. **The set is the unit of every interval**;
//! slices of one set share processes, memory and noise.
//!
//! | question | function |
//! |---|---|
//! | how many times the hub's cost is the case's | [`to_hub`] |
//! | which of two cases costs less | [`through`] |
//! | what is the cost in nanoseconds | [`HubSession::absolute`] |
//! | how noisy was the session | [`hub_session`] |
//! | what is the best state, how much time is slow | [`States`] |
//! | does the partner disturb the case | [`doubled_slices`] |
//! | how long should a set be | [`best_blocks`] |

mod control;
mod length;
mod states;

pub use control::{DoubledSlices, doubled_slices};
pub use length::best_blocks;
pub use states::{HubSession, STATES_APART, States, hub_session, states};

use crate::evidence::Evidence;
use crate::interval::Interval;
use crate::order::median;

/// Fewest blocks that make a set's value.
pub const FEWEST_BLOCKS: usize = 5;

/// Who worked in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    /// The yardstick.
    Hub,
    /// The case with this index.
    Case(usize),
}

/// A slice of a set: some operations of one party.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// When the timed part began, in nanoseconds of a clock that all slices of the set share.
    pub start_ns: u64,
    /// How long the timed part took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Operations (of a stream, bytes) in the timed part.
    pub ops: u64,
    /// Whose they were.
    pub party: Party,
}

impl Slice {
    /// Nanoseconds per operation.
    ///
    /// # Panics
    /// If the slice has no operation.
    pub fn cost_ns(&self) -> f64 {
        assert!(self.ops > 0, "a slice without an operation: {self:?}");
        self.elapsed_ns.max(1) as f64 / self.ops as f64
    }
}

/// The log ratios of the costs of two parties, one for each block of neighboring slices, in order of time.
///
/// A block is a run of slices in which every party of the set has exactly one; the order inside is free, because it is drawn
/// at random. Where a slice is missing (a void one was dropped), one slice is skipped until neighbors form a block again.
///
/// # Panics
/// If a slice has no operation, or the slices are not in order of time.
pub fn block_log_ratios(slices: &[Slice], of: Party, against: Party) -> Vec<f64> {
    assert!(slices.is_sorted_by_key(|slice| slice.start_ns), "slices of a set must be in order of time");
    let mut parties: Vec<Party> = vec![];
    for slice in slices {
        if !parties.contains(&slice.party) {
            parties.push(slice.party);
        }
    }
    let cost =
        |block: &[Slice], party: Party| Some(block.iter().find(|slice| slice.party == party)?.cost_ns().ln());
    let is_block =
        |block: &[Slice]| parties.iter().all(|party| block.iter().any(|slice| slice.party == *party));
    let (mut rest, mut out) = (slices, vec![]);
    while let Some(block) = rest.get(..parties.len()).filter(|block| !block.is_empty()) {
        let complete = is_block(block);
        if complete && let Some((of, against)) = cost(block, of).zip(cost(block, against)) {
            out.push(of - against);
        }
        rest = &rest[if complete { block.len() } else { 1 }..];
    }
    out
}

/// The value of a set: the median of [`block_log_ratios`], `None` with fewer than [`FEWEST_BLOCKS`] blocks.
///
/// The median of ratios of neighbors, not the ratio of medians: the machine's state changes within a set, and only
/// neighbors share it.
pub fn set_log_ratio(slices: &[Slice], of: Party, against: Party) -> Option<f64> {
    let ratios = block_log_ratios(slices, of, against);
    (ratios.len() >= FEWEST_BLOCKS).then(|| median(&ratios))
}

/// A case against its hub.
#[derive(Clone, Debug, PartialEq)]
pub struct ToHub {
    /// Cost of the case over cost of the hub: [`Evidence`] over sets.
    pub ratio: f64,
    /// Its interval over sets at 95 %; `None` below three sets.
    pub interval: Option<Interval>,
    /// The sets' log ratios, in order of time.
    pub log_ratios: Vec<f64>,
}

/// Estimates the ratio of a case to its hub from the sets in which it was measured (each the slices of one set, in order of
/// time); sets without enough blocks are left out. `None` where no set is left.
pub fn to_hub<S: AsRef<[Slice]>>(sets: &[S], case: usize) -> Option<ToHub> {
    let of_set = |set: &S| set_log_ratio(set.as_ref(), Party::Case(case), Party::Hub);
    let log_ratios: Vec<f64> = sets.iter().filter_map(of_set).collect();
    let evidence = Evidence::paired(log_ratios.clone());
    Some(ToHub { ratio: evidence.ratio()?, interval: evidence.interval(0.95), log_ratios })
}

/// Evidence on the cost of `candidate` over that of `baseline`, each measured in sets of its own against a hub: the same one, or hubs that
/// met. Each of `meetings` holds the logarithms of the cost of the hub nearer to the candidate over that of the next one, one for each
/// set in which the two met.
pub fn through(candidate: &ToHub, meetings: &[Vec<f64>], baseline: &ToHub) -> Evidence {
    Evidence::chain(&candidate.log_ratios, meetings, &baseline.log_ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slices of 100 operations each with these costs, one after the other.
    pub(super) fn slices(costs: &[(Party, f64)]) -> Vec<Slice> {
        let mut start_ns = 0;
        let mut next = |&(party, cost): &(Party, f64)| {
            let elapsed_ns = (cost * 100.0) as u64;
            start_ns += elapsed_ns + 10;
            Slice { start_ns, elapsed_ns, ops: 100, party }
        };
        costs.iter().map(&mut next).collect()
    }

    const HUB: Party = Party::Hub;
    const A: Party = Party::Case(0);
    const B: Party = Party::Case(1);

    #[test]
    fn the_ratio_is_case_over_hub_whatever_the_order_in_the_block() {
        // The machine's state doubles the cost of both half way; the ratio stays 3.
        let set =
            slices(&[(HUB, 10.), (A, 30.), (A, 30.), (HUB, 10.), (HUB, 20.), (A, 60.), (A, 60.), (HUB, 20.)]);
        let ratios = block_log_ratios(&set, A, HUB);
        assert_eq!(ratios.len(), 4);
        assert!(ratios.iter().all(|log| (log - 3_f64.ln()).abs() < 1e-9), "{ratios:?}");
        assert!(block_log_ratios(&set, HUB, A).iter().all(|log| (log + 3_f64.ln()).abs() < 1e-9));
        assert_eq!(set_log_ratio(&set, A, HUB), None, "four blocks are too few");
    }

    #[test]
    fn a_missing_slice_costs_its_block_only() {
        let whole = [(HUB, 10.), (A, 20.), (HUB, 10.), (A, 20.), (A, 20.), (HUB, 10.), (HUB, 10.), (A, 20.)];
        for missing in 0..whole.len() {
            let mut costs = whole.to_vec();
            costs.remove(missing);
            let ratios = block_log_ratios(&slices(&costs), A, HUB);
            assert_eq!(ratios.len(), 3, "without slice {missing}: {ratios:?}");
            assert!(ratios.iter().all(|log| (log - 2_f64.ln()).abs() < 1e-9));
        }
        assert_eq!(block_log_ratios(&[], A, HUB), []);
        assert_eq!(block_log_ratios(&slices(&[(HUB, 1.0); 9]), A, HUB), []);
    }

    #[test]
    fn three_parties_compare_directly_and_through_the_hub() {
        let set = |noise: f64| {
            let block = [(B, 50.0 * noise), (HUB, 10.0 * noise), (A, 40.0 * noise)];
            slices(&block.repeat(6))
        };
        let sets: Vec<Vec<Slice>> = (0..8).map(|i| set(1.0 + 0.1 * f64::from(i))).collect();
        let direct = set_log_ratio(&sets[0], B, A).unwrap();
        assert!((direct.exp() - 1.25).abs() < 1e-3);
        let (a, b) = (to_hub(&sets, 0).unwrap(), to_hub(&sets, 1).unwrap());
        assert!((a.ratio - 4.0).abs() < 1e-2 && a.interval.unwrap().contains(4.0), "{a:?}");
        assert!((through(&b, &[], &a).ratio().unwrap() - 1.25).abs() < 1e-3);
        assert_eq!(to_hub(&sets, 7), None);
    }

    #[test]
    #[should_panic(expected = "order of time")]
    fn slices_out_of_order_are_a_bug() {
        let mut set = slices(&[(HUB, 10.), (A, 30.)]);
        set.swap(0, 1);
        block_log_ratios(&set, A, HUB);
    }
}
