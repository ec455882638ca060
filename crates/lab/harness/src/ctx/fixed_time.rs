//! Samples of a fixed length of time, for work that has no operations which could be counted off beforehand.
//!
//! The leading role takes whatever comes. A sample ends at the first look at the clock behind its time, and the next one
//! begins there, without a gap. The clock is looked at once in [`LOOK_CALLS`] system calls (at a rate after each wait), so it costs less than one
//! part in a hundred of the cheapest of them.

use std::collections::BTreeSet;
use std::io;

use weighbridge_probe::counters::ThreadCounters;
use weighbridge_probe::window_marks;

use super::{Balance, Ctx};
use crate::shared::{MAX_SAMPLES, Phase, Sample};

/// System calls between two looks at the clock.
const LOOK_CALLS: u64 = 64;
/// Shortest interval of roles that have a CPU each.
const ALONE_NS: u64 = 5_000_000;
/// Shortest interval of roles that share a CPU, or may: they take turns of some milliseconds.
const TURNS_NS: u64 = 20_000_000;
/// Number of intervals after which the warm-up ends even where not everything has been used once.
pub(super) const LONGEST_WARM_UP: u32 = 20;
/// So much later than intervals should be over, a warm-up ends, and a run ends with the fewest samples that are enough: among
/// hundreds of roles on one CPU the leading one may look at the clock once in a second.
pub(super) const LATE_NS: u64 = 4_000_000_000;

/// What the leading role does between two looks at the clock, and what it has done so far.
pub trait Leader {
    /// A piece of work; returns how many system calls it made, about.
    fn step(&mut self) -> io::Result<u64>;

    /// Operations and bytes since the beginning.
    fn count(&self) -> (u64, u64);

    /// How many operations it takes until everything has been used once.
    fn warm_ops(&self) -> u64;

    /// An interval has ended, and the next one begun, at this time; before the first one, too.
    fn edge(&mut self, now_ns: u64);

    /// The followers have been told to stop: takes what has arrived meanwhile, and says what was sent and has arrived so far.
    fn balance(&mut self) -> io::Result<Balance>;

    /// The followers have been told to sleep until the next slice: takes what has arrived meanwhile without waiting for more, as
    /// [`balance`](Leader::balance), but so that work can go on.
    fn catch_up(&mut self) -> io::Result<Balance> {
        self.balance()
    }

    /// Once as much has arrived as was sent: checks beyond that and the sum.
    fn check(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What a role does until the leading one has its last interval.
pub trait Follower {
    /// A piece of work, and a note of how far it is where the leading role reads that.
    fn step(&mut self) -> io::Result<()>;

    /// The leading role has its last interval: finishes, and publishes what was done in all.
    fn end(&mut self) -> io::Result<()>;
}

impl Ctx<'_> {
    /// Times intervals: a warm-up, one interval that is dropped, then as many as there shall be samples.
    pub fn lead_intervals(&mut self, leader: &mut impl Leader) -> io::Result<()> {
        if self.takes_turns() {
            return self.lead_interval_slices(leader);
        }
        self.barrier()?;
        let interval_ns = self.interval_ns();
        let late_ns = self.now_ns() + LATE_NS;
        for interval in 0..LONGEST_WARM_UP {
            let now_ns = self.interval(leader, self.now_ns() + interval_ns)?;
            if interval > 0 && (leader.count().0 >= leader.warm_ops() || now_ns > late_ns) {
                break;
            }
        }
        self.warm_up(|cx| {
            let (began_ns, before) = (cx.now_ns(), leader.count().0);
            let now_ns = cx.interval(leader, began_ns + interval_ns)?;
            Ok((now_ns - began_ns, leader.count().0 - before))
        })?;
        self.shared.set_phase(Phase::Timed);
        self.begin_counting()?;
        let counted_from = leader.count();
        let mut began_ns = self.interval(leader, self.now_ns() + interval_ns)?;
        leader.edge(began_ns);
        let mut before = (leader.count(), ThreadCounters::read());
        let count = self.timing.samples.min(MAX_SAMPLES);
        let late_ns = began_ns + count as u64 * interval_ns + LATE_NS;
        let mut taken = 0;
        while taken < count && (began_ns < late_ns || taken < self.timing.least_samples) {
            window_marks::window_begins();
            let now_ns = self.interval(leader, began_ns + interval_ns)?;
            window_marks::window_ends();
            leader.edge(now_ns);
            let now = (leader.count(), ThreadCounters::read());
            let (ops, bytes) = (now.0.0 - before.0.0, now.0.1 - before.0.1);
            // A read may have returned several messages.
            let messages = bytes.checked_div(self.params.payload_bytes as u64).unwrap_or(ops);
            self.count_paced(messages, (began_ns, now_ns));
            // At once, for who looks at the run while it goes on.
            self.shared.push_sample(Sample {
                start_ns: began_ns,
                elapsed_ns: now_ns - began_ns,
                ops,
                bytes,
                preemptions: now.1.since(&before.1).involuntary_switches,
                extra: 0,
            });
            taken += 1;
            (began_ns, before) = (now_ns, now);
        }
        self.shared.set_phase(Phase::Over);
        self.count(before.0.0 - counted_from.0, before.0.1 - counted_from.1);
        self.end_counting()?;
        self.end_intervals(leader)
    }

    /// Lets the others know what was counted, and ends with them.
    pub(super) fn end_intervals(&mut self, leader: &mut impl Leader) -> io::Result<()> {
        self.shared.set_counted_ops(self.counted.ops);
        self.drain_until_balanced(leader)?;
        self.shared.finish()
    }

    /// Works until the leading role has its last interval, and waits until that has counted everything. Then the operations of
    /// this role are those that the leading one has counted, so that counts per operation of all roles can be added up.
    pub fn follow_intervals(&mut self, follower: &mut impl Follower) -> io::Result<()> {
        self.do_not_watch();
        self.barrier()?;
        if self.takes_turns() {
            self.follow_interval_slices(follower)?
        } else {
            self.until_over(|| follower.step().map(|()| 0))?
        }
        follower.end()?;
        self.shared.leave();
        self.end_following()?;
        self.counted.ops = self.shared.counted_ops();
        Ok(())
    }

    /// Length of the intervals of this run. None need be longer than all samples of the run may take together.
    pub fn interval_ns(&self) -> u64 {
        let least_ns = if self.has_cpus_alone() { ALONE_NS } else { TURNS_NS };
        self.timing.sample_ns.max(least_ns.min(self.timing.run_ns))
    }

    /// Steps until `end_ns` has passed; returns when that was seen.
    pub(super) fn interval(&self, leader: &mut impl Leader, end_ns: u64) -> io::Result<u64> {
        // A call that waits for a message which is not yet due is as long as it takes.
        let look_calls = if self.has_rate() { 1 } else { LOOK_CALLS };
        loop {
            let mut calls = 0;
            while calls < look_calls {
                calls += leader.step()?;
            }
            let now_ns = self.now_ns();
            if now_ns >= end_ns {
                return Ok(now_ns);
            }
        }
    }

    /// Has every role a CPU that no other role uses?
    fn has_cpus_alone(&self) -> bool {
        let cpus: BTreeSet<u32> = self.params.cpus.iter().copied().collect();
        cpus.len() == self.roles
    }
}
