//! Batches: the leading role times a number of operations that it has planned, and the others do the same number untimed.

use std::io;
use std::thread;
use std::time::Duration;

use weighbridge_probe::counters::ThreadCounters;
use weighbridge_probe::window_marks;

use super::warm_up::{Discarded, warm_up};
use super::{Batch, Ctx, Expect, Noted, Tally, Work};
use crate::duet::Slices;
use crate::duet::turnstile::Turnstile;
use crate::planner::{Before, Planner};
use crate::shared::{Planned, Sample, Shared, Step};

impl Ctx<'_> {
    /// Times batches of `work` until there are enough samples, and publishes each batch to the followers before the
    /// batch in front of it begins. `expect` computes what each batch must have received.
    pub fn lead(&mut self, work: impl Work, expect: impl Expect) -> io::Result<()> {
        self.lead_noting(work, expect, |noted| Ok(noted.elapsed_ns))
    }

    /// As [`Ctx::lead`], and after each batch calls `note`, outside of what is timed, for the time that counts: in most cases
    /// that which has elapsed. The batches that became samples are the last ones.
    pub fn lead_noting(
        &mut self,
        work: impl Work,
        expect: impl Expect,
        note: impl FnMut(Noted) -> io::Result<u64>,
    ) -> io::Result<()> {
        self.lead_batches(work, expect, note)?;
        self.end_leading()
    }

    /// As [`Ctx::lead_noting`], but the role keeps the attention of all others until it calls [`Ctx::end_leading`]: what it does
    /// until then is neither counted nor seen by another party of a set.
    pub fn lead_batches(
        &mut self,
        mut work: impl Work,
        expect: impl Expect,
        mut note: impl FnMut(Noted) -> io::Result<u64>,
    ) -> io::Result<()> {
        let mut plan = Plan::new(self, false);
        let mut current = plan.decide(self);
        self.shared.publish_batch(0, current);
        self.barrier()?;
        let (mut index, mut first) = (0, 0);
        // When the batch before ended, and what of it the other roles may have taken for their part of the next one.
        let (mut ended_ns, mut tail_ns) = (0, 0);
        while let Planned::Batch { ops, counted, timed, parks } = current {
            let next = if index + 2 < Shared::max_batches() { plan.decide(self) } else { Planned::End };
            self.shared.publish_batch(index + 1, next);
            if parks && self.turnstile.is_none() {
                self.pause()?;
            } else if parks {
                self.take_turn()?;
            }
            if counted {
                self.begin_counting()?;
            }
            if parks {
                // The other roles wake up here. Nothing may stand between this and a burst.
                self.shared.begin_slice(index)?;
            }
            index += 1;
            let batch = Batch { first, ops };
            let begin_ns = self.now_ns();
            let before = ThreadCounters::read();
            let start_ns = self.now_ns();
            if timed {
                window_marks::window_begins();
            }
            let (tally, elapsed_ns) = self.sample(|| work(batch))?;
            if timed {
                window_marks::window_ends();
            }
            let spent = ThreadCounters::read().since(&before);
            let read_ns = self.now_ns();
            plan.learn(ops, elapsed_ns);
            check(batch, tally, expect(batch))?;
            let counted_ns = note(Noted { batch, elapsed_ns, is_sample: timed })?;
            if counted {
                self.count_batch(ops, tally);
            }
            if timed {
                // Nothing goes before a batch that parks: the other roles sleep until it begins.
                let gap_ns = if parks { start_ns - begin_ns } else { start_ns - ended_ns + tail_ns };
                // Interrupts between the readings and the sample count as CPU time in it; with other programs about they take milliseconds.
                let beside_ns = read_ns.saturating_sub(start_ns + elapsed_ns);
                self.count_sample(ops, spent.cpu_ns, gap_ns + beside_ns);
                self.count_paced(ops, (start_ns, start_ns + elapsed_ns));
                self.shared.push_sample(Sample {
                    start_ns,
                    elapsed_ns: self.without_loop(ops, counted_ns),
                    ops: ops * self.ops_each,
                    bytes: tally.bytes,
                    preemptions: spent.involuntary_switches,
                    extra: counted_ns,
                });
            }
            ended_ns = start_ns + elapsed_ns;
            // The others are done with a batch by an operation earlier, or by more where this role was preempted at its end.
            tail_ns = match spent.involuntary_switches {
                _ if timed => 0,
                0 => elapsed_ns / ops.max(1),
                _ => elapsed_ns,
            };
            first += ops;
            current = next;
        }
        self.end_counting()?;
        if let Plan::Alone(planner) = &plan {
            self.counted.warm_up = planner.warm_up().map(|(warm_up, state)| Discarded::of(warm_up, state));
        }
        Ok(())
    }

    /// In a leading role whose samples are taken: lets the other roles end, and other parties of a set go on.
    pub fn end_leading(&mut self) -> io::Result<()> {
        self.end_turns()?;
        self.shared.finish()
    }

    /// Does the batches that the leading role plans, untimed.
    pub fn follow(&mut self, work: impl Work, expect: impl Expect) -> io::Result<()> {
        self.follow_batches(work, expect)?;
        self.end_following()
    }

    /// In a role that follows: sleeps until the leading role has called [`Ctx::end_leading`], which it does once it has read its counters: a role
    /// that reported before would wake the coordinator in the timed part.
    pub fn end_following(&mut self) -> io::Result<()> {
        self.shared.await_finish()
    }

    /// As [`Ctx::follow`], without waiting at its end: the role calls [`Ctx::end_following`] when it has done what comes after
    /// the batches.
    pub fn follow_batches(&mut self, mut work: impl Work, expect: impl Expect) -> io::Result<()> {
        self.do_not_watch();
        self.barrier()?;
        let mut first = 0;
        for index in 0.. {
            let Planned::Batch { ops, counted, timed, parks } = self.await_batch(index) else { break };
            if parks && !self.is_cold() {
                self.pause_counting()?;
                self.shared.await_slice(index)?;
            }
            if counted {
                self.begin_counting()?;
            }
            if parks && self.is_cold() {
                self.shared.await_slice(index)?;
            }
            let batch = Batch { first, ops };
            let before = ThreadCounters::read();
            let tally = work(batch)?;
            if timed {
                self.count_sample(ops, ThreadCounters::read().since(&before).cpu_ns, 0);
            }
            check(batch, tally, expect(batch))?;
            if counted {
                self.count_batch(ops, tally);
            }
            first += ops;
        }
        self.end_counting()
    }

    /// What the leading role has planned; it is one batch ahead, so this hardly ever waits.
    pub(super) fn await_batch(&self, index: usize) -> Planned {
        loop {
            if let Some(planned) = self.shared.batch_at(index) {
                return planned;
            }
            thread::yield_now();
        }
    }

    /// For a role that takes no part in any operation, and sleeps in `until` to the end of the run: what it does meanwhile is counted, for
    /// as many operations as those of the leading role. Returns how many that planned in all.
    pub fn stand_by(&mut self, until: impl FnOnce() -> io::Result<()>) -> io::Result<u64> {
        self.do_not_watch();
        self.barrier()?;
        self.begin_counting()?;
        until()?;
        let mut planned = 0;
        for index in 0.. {
            let Planned::Batch { ops, counted, .. } = self.await_batch(index) else { break };
            planned += ops;
            if counted {
                self.count(ops, 0);
            }
        }
        self.end_counting()?;
        self.end_following()?;
        Ok(planned)
    }

    /// For roles that have nothing to do because the mechanism exchanges nothing.
    pub fn follow_nothing(&mut self) -> io::Result<()> {
        self.barrier()?;
        self.set_step(Step::Report);
        self.shared.set_feed_end(0);
        self.shared.leave();
        self.end_following()
    }
}

/// What decides the batches of a leading role: its run alone, or a set of parties that take turns.
pub(super) enum Plan {
    Alone(Planner),
    InTurn(Slices),
}

/// What comes before the samples of a run alone.
fn before(cx: &Ctx<'_>) -> Before {
    if cx.is_cold() {
        Before::Pauses
    } else if cx.warms_up() {
        Before::WarmUp(Box::new(warm_up(cx.timing)))
    } else {
        Before::OneBatch
    }
}

impl Plan {
    pub(super) fn new(cx: &Ctx<'_>, has_lead_out: bool) -> Plan {
        match &cx.turnstile {
            None if cx.has_rate() => Plan::Alone(Planner::new(cx.timing_at_rate(), before(cx))),
            None => Plan::Alone(Planner::new(cx.timing, before(cx))),
            Some(turnstile) => Plan::InTurn(Slices::new(turnstile.party().slice_ns, has_lead_out)),
        }
    }

    pub(super) fn decide(&mut self, cx: &Ctx<'_>) -> Planned {
        match (self, &cx.turnstile) {
            (Plan::Alone(planner), _) => planner.decide(),
            (Plan::InTurn(slices), Some(turnstile)) => {
                let was_known = slices.slice_ns().is_some();
                let planned = slices.decide(turnstile.blocks());
                if let Some(slice_ns) = slices.slice_ns().filter(|_| !was_known) {
                    turnstile.limit_time(cx.timing.run_ns, slice_ns);
                }
                planned
            }
            (Plan::InTurn(_), None) => unreachable!("slices are planned where there is a turnstile"),
        }
    }

    pub(super) fn learn(&mut self, ops: u64, ns: u64) {
        match self {
            Plan::Alone(planner) => planner.learn(ops, ns),
            Plan::InTurn(slices) => slices.learn(ops, ns),
        }
    }
}

impl Ctx<'_> {
    /// In a leading role: sleeps until its party has the next turn. The other roles sleep until
    /// [`begin_slice`](Shared::begin_slice).
    pub(super) fn take_turn(&mut self) -> io::Result<()> {
        self.pause_counting()?;
        self.turnstile.as_mut().map_or(Ok(()), Turnstile::next_turn)
    }

    /// In a leading role that has its CPUs to itself: sleeps for so long that they have nothing left of its work.
    fn pause(&mut self) -> io::Result<()> {
        const PAUSE: Duration = Duration::from_millis(20);
        // What a sleep leaves behind belongs to the burst, so counting goes on over it.
        self.begin_counting()?;
        thread::sleep(PAUSE);
        Ok(())
    }

    /// In a leading role: this party needs no further turns.
    pub(super) fn end_turns(&mut self) -> io::Result<()> {
        self.turnstile.as_mut().map_or(Ok(()), Turnstile::finish)
    }
}

pub(super) fn check(batch: Batch, tally: Tally, expected: Option<Tally>) -> io::Result<()> {
    match expected {
        Some(expected) if !tally.is_of(expected) => {
            let std::ops::Range { start, end } = batch.sequences();
            let [arrived, sent] =
                [tally, expected].map(|of| format!("{} bytes with sum {:#x}", of.bytes, of.sum));
            let why = format!("messages {start}…{end} arrived damaged: {arrived}, sent were {sent}");
            Err(io::Error::other(why))
        }
        _ => Ok(()),
    }
}
