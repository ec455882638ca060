//! Which batches a party does in a set: it finds the length of a slice, then each slice is a lead-in that is not timed, a
//! timed batch and, where the roles of a stream run ahead of each other, a lead-out.
//!
//! Pure, as [`crate::planner`] is, and one batch ahead for the same reason.

use crate::planner::Calibration;
use crate::shared::Planned;

/// The share of a slice that is not timed before its timed part: the caches and the branch predictor are another party's.
const LEAD_IN: u64 = 10;
/// Slices of each party that are not samples, before those that are.
pub const WARM_BLOCKS: usize = 1;
/// A party whose slices are long makes fewer, but not fewer than this besides the warm ones.
pub const LEAST_BLOCKS: usize = weighbridge_stats::duet::FEWEST_BLOCKS;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Calibrating,
    LeadIn,
    Timed,
    LeadOut,
}

pub(crate) struct Slices {
    calibration: Calibration,
    stage: Stage,
    has_lead_out: bool,
    /// Operations of the timed part of a slice.
    ops: u64,
    slices: usize,
    is_first: bool,
}

impl Slices {
    /// Nothing is known yet. `has_lead_out` where what is timed must end before its sender does.
    pub(crate) fn new(slice_ns: u64, has_lead_out: bool) -> Slices {
        Slices {
            calibration: Calibration::new(slice_ns),
            stage: Stage::Calibrating,
            has_lead_out,
            ops: 0,
            slices: 0,
            is_first: true,
        }
    }

    /// What the next batch is, from the batches that have finished. `blocks` slices are made in all.
    pub(crate) fn decide(&mut self, blocks: usize) -> Planned {
        match self.stage {
            Stage::Calibrating => match self.calibration.next_ops() {
                Ok(ops) => {
                    let parks = std::mem::take(&mut self.is_first);
                    Planned::Batch { ops, counted: false, timed: false, parks }
                }
                Err(ops) => {
                    self.ops = ops;
                    self.begin_slice()
                }
            },
            Stage::LeadIn => {
                self.stage = Stage::Timed;
                self.slices += 1;
                self.batch(self.ops, self.slices > WARM_BLOCKS, false)
            }
            Stage::Timed if self.has_lead_out => {
                self.stage = Stage::LeadOut;
                self.batch(self.edge_ops(), false, false)
            }
            Stage::Timed | Stage::LeadOut if self.slices < blocks => self.begin_slice(),
            Stage::Timed | Stage::LeadOut => Planned::End,
        }
    }

    pub(crate) fn learn(&mut self, ops: u64, ns: u64) {
        self.calibration.learn(ops, ns);
    }

    /// Length of a slice, its untimed parts included, in nanoseconds; known once it is calibrated.
    pub(crate) fn slice_ns(&self) -> Option<u64> {
        let ns_per_op = self.calibration.ns_per_op()?;
        let edges = if self.has_lead_out { 2 } else { 1 };
        (self.ops > 0).then(|| ((self.ops + edges * self.edge_ops()) as f64 * ns_per_op) as u64)
    }

    fn begin_slice(&mut self) -> Planned {
        self.stage = Stage::LeadIn;
        self.batch(self.edge_ops(), false, true)
    }

    fn edge_ops(&self) -> u64 {
        (self.ops / LEAD_IN).max(1)
    }

    fn batch(&self, ops: u64, timed: bool, parks: bool) -> Planned {
        Planned::Batch {
            ops,
            counted: self.slices > WARM_BLOCKS || (self.slices == WARM_BLOCKS && parks),
            timed,
            parks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a party with operations of `op_ns`, with the lookahead of the real thing: its batches after calibration.
    fn play(op_ns: f64, has_lead_out: bool) -> Vec<(u64, bool, bool)> {
        let mut slices = Slices::new(2_000_000, has_lead_out);
        let mut batches = Vec::new();
        let mut current = slices.decide(10);
        while let Planned::Batch { ops, timed, parks, .. } = current {
            let next = slices.decide(10);
            slices.learn(ops, (ops as f64 * op_ns) as u64);
            batches.push((ops, timed, parks));
            current = next;
        }
        let first = batches.iter().skip(1).position(|batch| batch.2).unwrap() + 1;
        batches.split_off(first)
    }

    #[test]
    fn a_slice_is_a_tenth_that_is_not_timed_and_a_timed_part_of_the_wanted_length() {
        for op_ns in [1.0, 300.0, 5_000.0, 60_000.0, 50_000_000.0] {
            let batches = play(op_ns, false);
            assert_eq!(batches.len(), 20, "{op_ns} ns: ten slices of two batches");
            for slice in batches.chunks(2) {
                let [(lead_in, false, true), (ops, ..)] = *slice else { panic!("{op_ns} ns: {slice:?}") };
                assert_eq!(lead_in, (ops / 10).max(1));
                let slice_ns = ops as f64 * op_ns;
                let is_wanted = (1_000_000.0..=3_000_000.0).contains(&slice_ns);
                assert!(is_wanted || (ops == 1 && slice_ns > 3e6), "{op_ns} ns: a slice takes {slice_ns} ns");
            }
            assert_eq!(batches.iter().filter(|(_, timed, _)| *timed).count(), 10 - WARM_BLOCKS);
        }
    }

    #[test]
    fn a_stream_goes_on_after_its_timed_part() {
        for slice in play(1_000.0, true).chunks(3) {
            assert!(matches!(slice, [(_, false, true), (_, _, false), (_, false, false)]), "{slice:?}");
        }
    }
}
