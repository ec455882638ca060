//! Samples of a fixed length of time, for work that has no operations which could be counted off beforehand.
//!
//! The leading role takes whatever comes. A sample ends at the first look at the clock behind its time, and the next one
//! begins there, without a gap. The clock is looked at once in [`LOOK_CALLS`] system calls, so it costs less than one
//! part in a hundred of the cheapest of them.

use std::io;

use causeway_os::counters::ThreadCounters;

use super::Ctx;
use crate::shared::{Phase, Sample};

/// System calls between two looks at the clock.
const LOOK_CALLS: u64 = 64;
/// Shortest interval of roles that have a CPU each.
const ALONE_NS: u64 = 5_000_000;
/// Shortest interval of roles that share a CPU, or may: they take turns of some milliseconds.
const TURNS_NS: u64 = 20_000_000;
/// Most intervals of a run: the figures of all must fit into one report.
const MOST_INTERVALS: usize = 1000;
/// The warm-up ends after so many intervals even where not everything has been used once.
const LONGEST_WARM_UP: u32 = 20;

/// What the leading role does between two looks at the clock, and what it has done so far.
pub trait Flow {
    /// A piece of work; returns how many system calls it made, about.
    ///
    /// # Errors
    /// Whatever ends the run.
    fn step(&mut self) -> io::Result<u64>;

    /// Operations and bytes since the beginning.
    fn count(&self) -> (u64, u64);

    /// How many operations it takes until everything has been used once.
    fn warm_ops(&self) -> u64;

    /// An interval has ended, and the next one begun, at this time; before the first one, too.
    fn edge(&mut self, now_ns: u64);

    /// The others have been told to stop: takes what is still on its way, and checks that nothing is missing. The timed
    /// part had so many operations.
    ///
    /// # Errors
    /// Something is missing, or the kernel's.
    fn drain(&mut self, counted_ops: u64) -> io::Result<()>;
}

impl Ctx<'_> {
    /// Times intervals of a flow: a warm-up, one interval that is dropped, then as many as there shall be samples.
    ///
    /// # Errors
    /// That of the flow.
    pub fn lead_intervals(&mut self, flow: &mut impl Flow) -> io::Result<()> {
        self.barrier()?;
        let interval_ns = self.interval_ns();
        for interval in 0..LONGEST_WARM_UP {
            self.interval(flow, self.now_ns() + interval_ns)?;
            if interval > 0 && flow.count().0 >= flow.warm_ops() {
                break;
            }
        }
        self.shared.set_phase(Phase::Timed);
        self.begin_counting()?;
        let counted_from = flow.count();
        let mut began_ns = self.interval(flow, self.now_ns() + interval_ns)?;
        flow.edge(began_ns);
        let mut before = (flow.count(), ThreadCounters::read());
        let count = self.timing.samples.min(MOST_INTERVALS);
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let now_ns = self.interval(flow, began_ns + interval_ns)?;
            flow.edge(now_ns);
            let now = (flow.count(), ThreadCounters::read());
            taken.push(Sample {
                start_ns: began_ns,
                elapsed_ns: now_ns - began_ns,
                ops: now.0.0 - before.0.0,
                bytes: now.0.1 - before.0.1,
                preemptions: now.1.since(&before.1).involuntary_switches,
                extra: 0,
            });
            (began_ns, before) = (now_ns, now);
        }
        self.shared.set_phase(Phase::Over);
        self.count(before.0.0 - counted_from.0, before.0.1 - counted_from.1);
        self.end_counting()?;
        taken.into_iter().for_each(|sample| self.shared.push_sample(sample));
        flow.drain(self.counted.ops)?;
        self.shared.finish()
    }

    /// Works until the leading role has its last interval, then tells `done`. Counts what `ops` says once everything is
    /// over: what the leading role has counted, so that counts per operation of all roles can be added up.
    ///
    /// # Errors
    /// That of `work`.
    pub fn follow_intervals(
        &mut self,
        mut work: impl FnMut() -> io::Result<()>,
        done: impl FnOnce(),
        ops: impl FnOnce() -> u64,
    ) -> io::Result<()> {
        self.do_not_watch();
        self.barrier()?;
        loop {
            let phase = self.shared.phase();
            if phase >= Phase::Timed {
                self.begin_counting()?;
            }
            if phase == Phase::Over {
                break;
            }
            work()?;
        }
        self.end_counting()?;
        done();
        self.await_leader()?;
        self.counted.ops = ops();
        Ok(())
    }

    /// Length of the intervals of this run. None need be longer than all samples of the run may take together.
    pub fn interval_ns(&self) -> u64 {
        let least_ns = if self.has_cpus_alone() { ALONE_NS } else { TURNS_NS };
        self.timing.sample_ns.max(least_ns.min(self.timing.run_ns))
    }

    /// Steps until `end_ns` has passed; returns when that was seen.
    fn interval(&self, flow: &mut impl Flow, end_ns: u64) -> io::Result<u64> {
        loop {
            let mut calls = 0;
            while calls < LOOK_CALLS {
                calls += flow.step()?;
            }
            let now_ns = self.now_ns();
            if now_ns >= end_ns {
                return Ok(now_ns);
            }
        }
    }

    /// Has every role a CPU that no other role uses?
    fn has_cpus_alone(&self) -> bool {
        let mut cpus = self.params.cpus.clone();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.len() == self.roles
    }
}
