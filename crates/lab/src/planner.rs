//! How many operations make a batch: calibration, one dropped batch, then samples.
//!
//! Pure. The followers must know of a batch before it begins, without a message and without a flag in the loop, so each
//! decision is made one batch ahead: what [`Planner::decide`] decides has not yet seen the batch that runs meanwhile.

use serde::{Deserialize, Serialize};

use crate::shared::Planned;

/// How long samples are, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Wanted length of a sample.
    pub sample_ns: u64,
    /// Wanted number of samples.
    pub samples: usize,
    /// A run of slow operations takes fewer samples, but not fewer than this.
    pub least_samples: usize,
    /// What the samples of a run may take together before their number is cut.
    pub run_ns: u64,
}

/// A batch grows by at most this factor from one look to the next.
const GROWTH: u64 = 64;

/// Finds how many operations take a wanted time, by batches that grow.
#[derive(Debug)]
pub struct Calibration {
    wanted_ns: u64,
    last: Option<(u64, u64)>,
    /// Was the batch before the last long enough already?
    was_long: bool,
}

impl Calibration {
    /// Nothing is known yet.
    pub fn new(wanted_ns: u64) -> Calibration {
        Calibration { wanted_ns, last: None, was_long: false }
    }

    /// Operations of the next batch, or the number that was searched for.
    ///
    /// # Errors
    /// The result of the search, which ends it.
    pub fn next_ops(&mut self) -> Result<u64, u64> {
        match self.last {
            None => Ok(1),
            Some((ops, ns)) if ns * 2 < self.wanted_ns => {
                self.was_long = false;
                Ok(self.scaled(ops, ns).clamp(ops, ops * GROWTH))
            }
            // Once may be an accident: roles that spin wait for the end of a time slice where they happen to share a CPU.
            Some((ops, ns)) if !self.was_long => {
                self.was_long = true;
                Ok(self.scaled(ops, ns).clamp(1, ops))
            }
            Some((ops, ns)) => Err(self.scaled(ops, ns).max(1)),
        }
    }

    /// A batch has taken so long.
    pub fn learn(&mut self, ops: u64, ns: u64) {
        self.last = Some((ops, ns.max(1)));
    }

    /// Nanoseconds of an operation, by the last batch.
    pub fn ns_per_op(&self) -> Option<f64> {
        self.last.map(|(ops, ns)| ns as f64 / ops.max(1) as f64)
    }

    fn scaled(&self, ops: u64, ns: u64) -> u64 {
        (u128::from(ops) * u128::from(self.wanted_ns) / u128::from(ns)) as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Calibrating,
    /// The first batch of the final size is not timed: it still pays for the change of size.
    Settling {
        ops: u64,
        samples: usize,
    },
    /// `left` samples are still to be planned, of `ops` operations each.
    Counting {
        ops: u64,
        left: usize,
    },
    Done,
}

/// Decides the batches of one run.
#[derive(Debug)]
pub struct Planner {
    timing: Timing,
    calibration: Calibration,
    stage: Stage,
}

impl Planner {
    /// Nothing is known yet.
    pub fn new(timing: Timing) -> Planner {
        Planner { timing, calibration: Calibration::new(timing.sample_ns), stage: Stage::Calibrating }
    }

    /// What the next batch is, from the batches that have finished.
    pub fn decide(&mut self) -> Planned {
        let batch = |ops, counted, timed| Planned::Batch { ops, counted, timed, parks: false };
        match self.stage {
            Stage::Calibrating => match self.calibration.next_ops() {
                Ok(ops) => batch(ops, false, false),
                Err(ops) => {
                    self.stage = Stage::Settling { ops, samples: self.samples(ops) };
                    self.decide()
                }
            },
            Stage::Settling { ops, samples } => {
                self.stage = Stage::Counting { ops, left: samples };
                batch(ops, true, false)
            }
            Stage::Counting { ops, left } if left > 0 => {
                self.stage = Stage::Counting { ops, left: left - 1 };
                batch(ops, true, true)
            }
            Stage::Counting { .. } | Stage::Done => {
                self.stage = Stage::Done;
                Planned::End
            }
        }
    }

    /// A batch has taken so long.
    pub fn learn(&mut self, ops: u64, ns: u64) {
        self.calibration.learn(ops, ns);
    }

    fn samples(&self, ops: u64) -> usize {
        let sample_ns = (self.calibration.ns_per_op().unwrap_or(1.0) * ops as f64).max(1.0);
        let affordable = (self.timing.run_ns as f64 / sample_ns) as usize;
        affordable.clamp(self.timing.least_samples, self.timing.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing =
        Timing { sample_ns: 5_000_000, samples: 20, least_samples: 5, run_ns: 200_000_000 };

    /// Plays a run of operations that take `op_ns` each, with the lookahead of the real thing.
    fn play(op_ns: f64) -> (Vec<(u64, bool)>, u64) {
        let mut planner = Planner::new(TIMING);
        let mut batches = Vec::new();
        let mut total_ns = 0;
        let mut current = planner.decide();
        while let Planned::Batch { ops, counted, .. } = current {
            let next = planner.decide();
            let ns = (ops as f64 * op_ns) as u64;
            planner.learn(ops, ns);
            total_ns += ns;
            batches.push((ops, counted));
            current = next;
        }
        (batches, total_ns)
    }

    #[test]
    fn samples_have_the_wanted_length_and_number_whatever_an_operation_costs() {
        for op_ns in [0.5, 2.0, 30.0, 5_000.0, 60_000.0, 2_000_000.0] {
            let (batches, total_ns) = play(op_ns);
            let counted: Vec<_> = batches.iter().filter(|(_, counted)| *counted).collect();
            assert_eq!(counted.len(), 21, "{op_ns} ns: twenty samples and one dropped batch");
            let sample_ns = counted[0].0 as f64 * op_ns;
            assert!(
                (2_000_000.0..=6_000_000.0).contains(&sample_ns),
                "{op_ns} ns: a sample takes {sample_ns} ns"
            );
            let calibration_ns = total_ns as f64 - 21.0 * sample_ns;
            assert!(calibration_ns < 25_000_000.0, "{op_ns} ns: calibration takes {calibration_ns} ns");
        }
    }

    #[test]
    fn a_single_slow_batch_does_not_end_the_calibration() {
        // Operations of 100 ns; one batch of each size takes a time slice of 4 ms besides.
        for slow in 0..6 {
            let mut planner = Planner::new(TIMING);
            let mut current = planner.decide();
            let mut index = 0;
            while let Planned::Batch { ops, counted, .. } = current {
                if counted {
                    assert!(ops > 10_000, "batch {slow} was slow, and samples have {ops} operations");
                    break;
                }
                let next = planner.decide();
                planner.learn(ops, ops * 100 + if index == slow { 4_000_000 } else { 0 });
                (current, index) = (next, index + 1);
            }
        }
    }

    #[test]
    fn slow_operations_get_fewer_samples_but_never_too_few() {
        let (batches, _) = play(20_000_000.0);
        assert_eq!(batches.iter().filter(|(_, counted)| *counted).count(), 11);
        let (batches, _) = play(1e9);
        assert_eq!(batches.iter().filter(|(_, counted)| *counted).count(), 6);
    }

    #[test]
    fn every_batch_of_a_run_that_counts_has_the_same_size() {
        let (batches, _) = play(123.0);
        let mut counted = batches.iter().filter(|(_, counted)| *counted).map(|(ops, _)| ops);
        let first = counted.next().unwrap();
        assert!(counted.all(|ops| ops == first));
    }
}
