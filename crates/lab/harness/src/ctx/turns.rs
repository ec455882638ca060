//! Turns of roles that work for a time, and not for a number of operations that could be counted off: in the slice of its party
//! the leading role takes one sample, then tells the others to park, and gives the turn away once all of them sleep and nothing is on its
//! way.

use std::io;
use std::time::Duration;

use weighbridge_probe::counters::ThreadCounters;

use super::Ctx;
use super::concurrent::{CHUNKS, Chunks, Concurrent, Edge};
use super::fixed_time::{Follower, LATE_NS, LONGEST_WARM_UP, Leader};
use crate::duet::WARM_BLOCKS;
use crate::shared::{Pace, Phase, Progress, Sample};

/// The share of a slice that is not timed before its timed part: the roles wake up, and the caches are another party's.
const LEAD_IN: u64 = 10;

impl Ctx<'_> {
    /// Does this role belong to a party of a set? Then there is a gap in front of each of its samples.
    pub fn takes_turns(&self) -> bool {
        self.turnstile.is_some()
    }

    /// As [`Ctx::lead_intervals`], with an interval in each slice.
    pub(super) fn lead_interval_slices(&mut self, leader: &mut impl Leader) -> io::Result<()> {
        let slice_ns = self.wanted_slice_ns();
        self.barrier()?;
        self.take_turn()?;
        self.shared.begin_slice(0)?;
        self.limit_slices(slice_ns);
        let late_ns = self.now_ns() + LATE_NS;
        for _ in 0..LONGEST_WARM_UP {
            let now_ns = self.interval(leader, self.now_ns() + slice_ns)?;
            if leader.count().0 >= leader.warm_ops() || now_ns > late_ns {
                break;
            }
        }
        self.shared.set_phase(Phase::Parked);
        self.drain_turn(1, leader)?;
        let (mut slice, mut taken) = (0, Vec::with_capacity(self.slices()));
        while slice < self.slices() {
            self.shared.set_phase(Phase::Warm);
            self.take_turn()?;
            self.shared.begin_slice(1 + slice)?;
            self.interval(leader, self.now_ns() + slice_ns / LEAD_IN)?;
            let sample = self.interval_slice(leader, slice_ns, slice >= WARM_BLOCKS)?;
            taken.extend(sample);
            slice += 1;
            self.drain_turn(1 + slice, leader)?;
        }
        self.end_turns()?;
        self.shared.set_phase(Phase::Over);
        self.shared.begin_slice(1 + slice)?;
        self.end_counting()?;
        taken.into_iter().for_each(|sample| self.shared.push_sample(sample));
        self.end_intervals(leader)
    }

    /// One interval, after which the others park; a sample if it counts.
    fn interval_slice(
        &mut self,
        leader: &mut impl Leader,
        slice_ns: u64,
        counts: bool,
    ) -> io::Result<Option<Sample>> {
        if counts {
            self.shared.set_phase(Phase::Timed);
            self.begin_counting()?;
        }
        let (start_ns, before, counters) = (self.now_ns(), leader.count(), ThreadCounters::read());
        if counts {
            leader.edge(start_ns);
        }
        let now_ns = self.interval(leader, start_ns + slice_ns)?;
        let now = leader.count();
        let preemptions = ThreadCounters::read().since(&counters).involuntary_switches;
        if counts {
            leader.edge(now_ns);
        }
        self.shared.set_phase(Phase::Parked);
        if !counts {
            return Ok(None);
        }
        let (ops, bytes) = (now.0 - before.0, now.1 - before.1);
        self.count(ops, bytes);
        self.pause_counting()?;
        let elapsed_ns = now_ns - start_ns;
        Ok(Some(Sample { start_ns, elapsed_ns, ops, bytes, preemptions, extra: 0 }))
    }

    /// As [`Ctx::follow_intervals`], until the leading role has its last slice.
    pub(super) fn follow_interval_slices(&mut self, follower: &mut impl Follower) -> io::Result<()> {
        for turn in 0.. {
            self.shared.await_slice(turn)?;
            loop {
                match self.shared.phase() {
                    Phase::Over => return self.end_counting(),
                    Phase::Parked => break,
                    Phase::Timed => self.begin_counting()?,
                    Phase::Warm => {}
                }
                follower.step()?;
            }
            self.pause_counting()?;
            self.shared.park();
        }
        unreachable!("there is always a next turn")
    }

    /// As [`Ctx::concurrent`] in its leading role, with a window in each slice.
    pub(super) fn lead_concurrent_slices(
        &mut self,
        common: Concurrent,
        work: &mut impl Chunks,
    ) -> io::Result<Vec<u64>> {
        let slice_ns = self.wanted_slice_ns();
        self.barrier()?;
        self.take_turn()?;
        self.shared.begin_slice(0)?;
        self.limit_slices(slice_ns);
        let mut own = Progress::default();
        let ops = self.calibrate_chunk(slice_ns / CHUNKS, &mut own, work)?;
        self.shared.set_pace(Pace::Park);
        self.await_parked(1);
        // Room for every edge is there before the first: nothing is allocated between two chunks.
        let most = self.slices();
        let mut windows: Vec<[Edge; 2]> = (0..most).map(|_| [self.edge(), self.edge()]).collect();
        let mut lead_in = [self.edge(), self.edge()];
        let mut slice = 0;
        while slice < self.slices().min(most) {
            self.shared.set_pace(Pace::Go { ops, counted: false });
            self.take_turn()?;
            self.shared.begin_slice(1 + slice)?;
            self.look(&mut lead_in[0]);
            self.window(slice_ns / LEAD_IN, ops, &mut own, work, &mut lead_in)?;
            let counts = slice >= WARM_BLOCKS;
            if counts {
                self.shared.set_pace(Pace::Go { ops, counted: true });
                self.begin_counting()?;
            }
            let counted_from = own.ops;
            self.look(&mut windows[slice][0]);
            // What a role noted in an earlier turn is not a beginning of this one.
            let turn_ns = lead_in[0].at_ns;
            windows[slice][0].progress.iter_mut().filter(|of| of.at_ns < turn_ns).for_each(|of| of.at_ns = 0);
            self.window(slice_ns, ops, &mut own, work, &mut windows[slice])?;
            self.shared.set_pace(Pace::Park);
            if counts {
                self.count(own.ops - counted_from, 0);
                self.pause_counting()?;
            }
            slice += 1;
            self.await_parked(1 + slice);
        }
        self.end_turns()?;
        self.shared.set_pace(Pace::Stop);
        self.shared.begin_slice(1 + slice)?;
        self.end_counting()?;
        let counting = &windows[WARM_BLOCKS.min(slice)..slice];
        let rates: Vec<_> = counting.iter().map(|[then, now]| self.push_window(common, then, now)).collect();
        self.note_rates(common, &rates);
        self.end_concurrent()
    }

    /// As [`Ctx::concurrent`] in another role.
    pub(super) fn join_concurrent_slices(&mut self, work: &mut impl Chunks) -> io::Result<()> {
        let mut progress = Progress::default();
        for turn in 0.. {
            self.shared.await_slice(turn)?;
            loop {
                match self.shared.pace() {
                    Pace::Stop => return self.end_counting(),
                    Pace::Park => break,
                    Pace::Go { ops, counted } => {
                        if counted {
                            self.begin_counting()?;
                        }
                        let done = self.chunk(ops, &mut progress, work)?;
                        if counted {
                            self.count(done, 0);
                        }
                    }
                }
            }
            self.pause_counting()?;
            self.shared.park();
        }
        unreachable!("there is always a next turn")
    }

    fn wanted_slice_ns(&self) -> u64 {
        self.turnstile.as_ref().map_or(self.timing.sample_ns, |turnstile| turnstile.party().slice_ns)
    }

    /// Slices of this run; known after the first turn of every party.
    fn slices(&self) -> usize {
        self.turnstile.as_ref().map_or(0, |turnstile| turnstile.blocks())
    }

    /// In the first turn: no more slices than the time of the set holds.
    fn limit_slices(&self, slice_ns: u64) {
        if let Some(turnstile) = &self.turnstile {
            turnstile.limit_time(self.timing.run_ns, slice_ns);
        }
    }

    /// Sleeps until every other role has parked so many times.
    fn await_parked(&self, times: usize) {
        while (self.shared.parked() as usize) < (self.roles - 1) * times {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
