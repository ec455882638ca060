//! Batches: the leading role times a number of operations that it has planned, and the others do the same number untimed.

use std::io;
use std::thread;

use causeway_os::counters::ThreadCounters;

use super::{Batch, Ctx, Noted, Tally};
use crate::planner::Planner;
use crate::shared::{Planned, Sample, Shared, Step};

impl Ctx<'_> {
    /// Times batches of `work` until there are enough samples, and publishes each batch to the followers before the
    /// batch in front of it begins. `expect` computes what each batch must have received.
    ///
    /// # Errors
    /// That of `work`, or a sentence if something else arrived than was sent.
    pub fn lead(
        &mut self,
        work: impl FnMut(Batch) -> io::Result<Tally>,
        expect: impl Fn(Batch) -> Option<Tally>,
    ) -> io::Result<()> {
        self.lead_noting(work, expect, |noted| Ok(noted.elapsed_ns))
    }

    /// As [`Ctx::lead`], and after each batch calls `note`, outside of what is timed, for the time that counts: in most cases
    /// that which has elapsed. The batches that became samples are the last ones.
    ///
    /// # Errors
    /// As [`Ctx::lead`].
    pub fn lead_noting(
        &mut self,
        mut work: impl FnMut(Batch) -> io::Result<Tally>,
        expect: impl Fn(Batch) -> Option<Tally>,
        mut note: impl FnMut(Noted) -> io::Result<u64>,
    ) -> io::Result<()> {
        let mut planner = Planner::new(self.timing);
        let mut current = planner.decide();
        self.shared.publish_batch(0, current);
        self.barrier()?;
        let (mut index, mut first, mut is_first_counted) = (0, 0, true);
        while let Planned::Batch { ops, counted } = current {
            index += 1;
            let next = if index + 1 < Shared::max_batches() { planner.decide() } else { Planned::End };
            self.shared.publish_batch(index, next);
            if counted {
                self.begin_counting()?;
            }
            let batch = Batch { first, ops };
            let before = ThreadCounters::read();
            let (tally, elapsed_ns) = self.sample(|| work(batch))?;
            let preemptions = ThreadCounters::read().since(&before).involuntary_switches;
            planner.learn(ops, elapsed_ns);
            check(batch, tally, expect(batch))?;
            let is_sample = counted && !is_first_counted;
            let counted_ns = note(Noted { batch, elapsed_ns, is_sample })?;
            if counted {
                self.count(ops, tally.bytes);
                if is_sample {
                    let sample = Sample {
                        elapsed_ns: self.without_loop(ops, counted_ns),
                        ops: ops * self.ops_each,
                        bytes: tally.bytes,
                        preemptions,
                        extra: counted_ns,
                    };
                    self.shared.push_sample(sample);
                }
                is_first_counted = false;
            }
            first += ops;
            current = next;
        }
        self.end_counting()?;
        self.shared.finish()
    }

    /// Does the batches that the leading role plans, untimed.
    ///
    /// # Errors
    /// As [`Ctx::lead`].
    pub fn follow(
        &mut self,
        mut work: impl FnMut(Batch) -> io::Result<Tally>,
        expect: impl Fn(Batch) -> Option<Tally>,
    ) -> io::Result<()> {
        self.do_not_watch();
        self.barrier()?;
        let mut first = 0;
        for index in 0.. {
            let planned = loop {
                if let Some(planned) = self.shared.batch_at(index) {
                    break planned;
                }
                thread::yield_now();
            };
            let Planned::Batch { ops, counted } = planned else { break };
            if counted {
                self.begin_counting()?;
            }
            let batch = Batch { first, ops };
            let tally = work(batch)?;
            check(batch, tally, expect(batch))?;
            if counted {
                self.count(ops, tally.bytes);
            }
            first += ops;
        }
        self.end_counting()?;
        self.await_leader()
    }

    /// For roles that have nothing to do because the mechanism exchanges nothing.
    ///
    /// # Errors
    /// The error of the system call that failed.
    pub fn follow_nothing(&mut self) -> io::Result<()> {
        self.barrier()?;
        self.set_step(Step::Report);
        self.shared.set_feed_end(0);
        self.shared.leave();
        self.await_leader()
    }
}

pub(super) fn check(batch: Batch, tally: Tally, expected: Option<Tally>) -> io::Result<()> {
    match expected {
        Some(expected) if expected != tally => Err(io::Error::other(format!(
            "messages {}…{} arrived damaged: {} bytes with sum {:#x}, sent were {} bytes with sum {:#x}",
            batch.first,
            batch.first + batch.ops,
            tally.bytes,
            tally.sum,
            expected.bytes,
            expected.sum
        ))),
        _ => Ok(()),
    }
}
