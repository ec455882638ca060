//! How many operations make a batch: calibration, a warm-up where the run has one, one dropped batch, then samples.
//!
//! Pure. The followers must know of a batch before it begins, without a message and without a flag in the loop, so each
//! decision is made one batch ahead: what `Planner::decide` decides has not yet seen the batch that runs meanwhile.

use serde::{Deserialize, Serialize};
use weighbridge_stats::warm_up::{WarmUp, WarmUpState};

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
pub(crate) struct Calibration {
    wanted_ns: u64,
    last: Option<(u64, u64)>,
    /// Was the batch before the last long enough already?
    was_long: bool,
}

impl Calibration {
    pub(crate) fn new(wanted_ns: u64) -> Calibration {
        Calibration { wanted_ns, last: None, was_long: false }
    }

    /// Operations of the next batch, or the number that was searched for.
    pub(crate) fn next_ops(&mut self) -> Result<u64, u64> {
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

    pub(crate) fn learn(&mut self, ops: u64, ns: u64) {
        self.last = Some((ops, ns.max(1)));
    }

    /// Nanoseconds of an operation, by the last batch.
    pub(crate) fn ns_per_op(&self) -> Option<f64> {
        self.last.map(|(ops, ns)| ns as f64 / ops.max(1) as f64)
    }

    fn scaled(&self, ops: u64, ns: u64) -> u64 {
        (u128::from(ops) * u128::from(self.wanted_ns) / u128::from(ns)) as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Calibrating,
    /// Batches of the final size that are not timed, until they show no trend.
    Warming,
    /// The first batch of the final size is not timed: it still pays for the change of size.
    Settling,
    Counting,
}

/// What comes before the samples of a run.
#[derive(Clone, Debug)]
pub(crate) enum Before {
    OneBatch,
    /// Batches until they show no trend, and one more.
    WarmUp(Box<WarmUp>),
    Pauses,
}

/// The length of a burst after a pause: the transient that follows a pause is longer.
const BURST_NS: u64 = 1_000_000;
/// Most bursts of a run: the pauses take longer than they.
const MOST_BURSTS: usize = 12;

pub(crate) struct Planner {
    timing: Timing,
    calibration: Calibration,
    before: Before,
    warm_up_state: WarmUpState,
    /// So many of the next batches that are learned are of an earlier stage.
    unseen: u32,
    stage: Stage,
    /// Operations of a sample.
    ops: u64,
    /// Samples still to be planned.
    left: usize,
}

impl Planner {
    pub(crate) fn new(timing: Timing, before: Before) -> Planner {
        let timing = match before {
            Before::OneBatch | Before::WarmUp(_) => timing,
            Before::Pauses => Timing {
                sample_ns: timing.sample_ns.min(BURST_NS),
                samples: timing.samples.min(MOST_BURSTS.max(timing.least_samples)),
                ..timing
            },
        };
        Planner {
            timing,
            calibration: Calibration::new(timing.sample_ns),
            before,
            warm_up_state: WarmUpState::Warming,
            unseen: 0,
            stage: Stage::Calibrating,
            ops: 0,
            left: 0,
        }
    }

    /// The warm-up of the run, and how it ended, once it has.
    pub(crate) fn warm_up(&self) -> Option<(&WarmUp, WarmUpState)> {
        match &self.before {
            Before::WarmUp(warm_up) if self.warm_up_state != WarmUpState::Warming => {
                Some((warm_up, self.warm_up_state))
            }
            _ => None,
        }
    }

    pub(crate) fn decide(&mut self) -> Planned {
        let pauses = matches!(self.before, Before::Pauses);
        let batch = |ops, counted, timed| Planned::Batch { ops, counted, timed, parks: timed && pauses };
        match self.stage {
            Stage::Calibrating => match self.calibration.next_ops() {
                Ok(ops) => return batch(ops, false, false),
                Err(ops) => {
                    (self.ops, self.left) = (ops, self.samples(ops));
                    // One batch is on its way whose time is not yet known.
                    (self.stage, self.unseen) = match self.before {
                        Before::OneBatch => (Stage::Settling, 0),
                        Before::WarmUp(_) => (Stage::Warming, 1),
                        Before::Pauses => (Stage::Counting, 0),
                    };
                }
            },
            Stage::Warming if self.warm_up_state == WarmUpState::Warming => {
                return batch(self.ops, false, false);
            }
            Stage::Warming => self.stage = Stage::Settling,
            Stage::Settling => {
                self.stage = Stage::Counting;
                return batch(self.ops, true, false);
            }
            Stage::Counting if self.left == 0 => return Planned::End,
            Stage::Counting => {
                self.left -= 1;
                return batch(self.ops, true, true);
            }
        }
        self.decide()
    }

    pub(crate) fn learn(&mut self, ops: u64, ns: u64) {
        self.calibration.learn(ops, ns);
        if let (Stage::Warming, Before::WarmUp(warm_up), WarmUpState::Warming) =
            (self.stage, &mut self.before, self.warm_up_state)
        {
            match self.unseen {
                0 => self.warm_up_state = warm_up.push(ns, ops),
                _ => self.unseen -= 1,
            }
            // Found while others had the CPU, a size is far too small: so many batches would not fit into the plan.
            if ops == self.ops && ns * 4 < self.timing.sample_ns {
                self.ops = self.calibration.scaled(ops, ns.max(1)).clamp(ops, ops * GROWTH);
                self.left = self.samples(self.ops);
            }
        }
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

    /// Plays a run whose batch number `index` of `ops` operations takes `ns(index, ops)`, with the lookahead of the real thing: operations of
    /// each batch that counts, and the time of the others.
    fn play(ns: impl Fn(usize, u64) -> u64) -> (Vec<u64>, u64) {
        let mut planner = Planner::new(TIMING, Before::OneBatch);
        let (mut counting, mut others_ns, mut index) = (Vec::new(), 0, 0);
        let mut current = planner.decide();
        while let Planned::Batch { ops, counted, .. } = current {
            let next = planner.decide();
            planner.learn(ops, ns(index, ops));
            if counted {
                counting.push(ops);
            } else {
                others_ns += ns(index, ops);
            }
            (current, index) = (next, index + 1);
        }
        (counting, others_ns)
    }

    #[test]
    fn samples_have_the_wanted_length_and_number_whatever_an_operation_costs() {
        for (op_ns, samples) in [0.5, 2.0, 30.0, 123.0, 5_000.0, 60_000.0, 2_000_000.0]
            .map(|op_ns| (op_ns, 20))
            .into_iter()
            .chain([(20_000_000.0, 10), (1e9, 5)])
        {
            let (counting, calibration_ns) = play(|_, ops| (ops as f64 * op_ns) as u64);
            assert_eq!(counting.len(), samples + 1, "{op_ns} ns: one batch is dropped");
            assert!(counting.iter().all(|ops| *ops == counting[0]), "{op_ns} ns: {counting:?}");
            let sample_ns = counting[0] as f64 * op_ns;
            let is_wanted = (2_000_000.0..=6_000_000.0).contains(&sample_ns) && calibration_ns < 25_000_000;
            assert!(is_wanted || counting[0] == 1, "{op_ns} ns: {sample_ns} ns after {calibration_ns} ns");
        }
    }

    #[test]
    fn a_single_slow_batch_does_not_end_the_calibration() {
        // Operations of 100 ns; one batch of each size takes a time slice of 4 ms besides.
        for slow in 0..6 {
            let (counting, _) = play(|index, ops| ops * 100 + if index == slow { 4_000_000 } else { 0 });
            assert!(
                counting[0] > 10_000,
                "batch {slow} was slow, and samples have {} operations",
                counting[0]
            );
        }
    }

    /// Plays a run whose operations cost what `op_ns` says of the time since the beginning: cost of the operations of each sample,
    /// and the planner afterwards.
    fn play_warming(op_ns: impl Fn(u64) -> f64) -> (Vec<f64>, Planner) {
        let mut planner =
            Planner::new(TIMING, Before::WarmUp(Box::new(WarmUp::new(50_000_000, 250_000_000))));
        let (mut samples, mut now_ns) = (Vec::new(), 0);
        let mut current = planner.decide();
        while let Planned::Batch { ops, timed, .. } = current {
            let next = planner.decide();
            let each_ns = op_ns(now_ns);
            let ns = (ops as f64 * each_ns) as u64;
            planner.learn(ops, ns);
            now_ns += ns;
            if timed {
                samples.push(each_ns);
            }
            current = next;
        }
        (samples, planner)
    }

    #[test]
    fn samples_begin_when_the_trend_has_ended_or_the_longest_warm_up_is_over() {
        let (samples, planner) =
            play_warming(|now_ns| 40_000.0 * (1.0 - 0.25 * (-(now_ns as f64) / 10e6).exp()));
        let (warm_up, state) = planner.warm_up().unwrap();
        assert_eq!((samples.len(), state), (20, WarmUpState::Steady));
        assert!(samples[0] > 39_000.0, "{samples:?}, {warm_up:?}");
        assert!((100_000_000..250_000_000).contains(&warm_up.passed_ns()), "{warm_up:?}");

        let (samples, planner) = play_warming(|now_ns| 40_000.0 * (1.0 + now_ns as f64 / 1e8));
        let (warm_up, state) = planner.warm_up().unwrap();
        assert_eq!((samples.len(), state), (20, WarmUpState::StillTrending));
        assert!((250_000_000..270_000_000).contains(&warm_up.passed_ns()), "{warm_up:?}");
    }

    #[test]
    fn a_size_that_was_found_while_others_had_the_cpu_is_found_again_in_the_warm_up() {
        let (samples, planner) = play_warming(|now_ns| if now_ns < 20_000_000 { 1e6 } else { 100.0 });
        assert_eq!(samples.len(), 20);
        assert!((20_000..=60_000).contains(&planner.ops), "{} operations of 100 ns", planner.ops);
    }

    #[test]
    fn bursts_are_short_and_each_follows_a_pause() {
        let mut planner = Planner::new(TIMING, Before::Pauses);
        let (mut bursts, mut current) = (Vec::new(), planner.decide());
        while let Planned::Batch { ops, counted, timed, parks } = current {
            let next = planner.decide();
            planner.learn(ops, ops * 5_000);
            assert_eq!((counted, parks), (timed, timed));
            if timed {
                bursts.push(ops);
            }
            current = next;
        }
        assert_eq!(bursts.len(), MOST_BURSTS);
        assert!(bursts.iter().all(|ops| (100..=250).contains(ops)), "{bursts:?}");
    }
}
