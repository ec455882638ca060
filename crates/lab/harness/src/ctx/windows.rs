//! Windows: one role sends without end, another times what it receives in windows that follow each other without a gap. Or one
//! window: what is sent once.

use std::io;
use std::thread;

use weighbridge_probe::counters::ThreadCounters;

use super::batches::{Plan, check};
use super::{Batch, Ctx, Expect, Tally, Work};
use crate::planner::Timing;
use crate::shared::{Phase, Planned, Sample, Shared};

impl Ctx<'_> {
    /// Receives an endless stream in chunks of `chunk_ops` messages, in windows of whole chunks that follow each other
    /// without a gap; the first window is dropped. Then drains what the sender still sends, unless the mechanism is
    /// `lossy`: there the sender goes on until this role is done, and what is still to come is not known. The role ends with
    /// [`Ctx::end_leading`].
    pub fn drain(
        &mut self,
        chunk_ops: u64,
        lossy: bool,
        mut work: impl Work,
        expect: impl Expect,
    ) -> io::Result<()> {
        if self.turnstile.is_some() {
            return self.drain_slices(chunk_ops, work, expect);
        }
        self.barrier()?;
        let mut chunks = 0;
        let mut receive = |count: u64| -> io::Result<(Batch, Tally)> {
            let batch = Batch { first: chunks * chunk_ops, ops: count * chunk_ops };
            chunks += count;
            work(batch).map(|tally| (batch, tally))
        };
        let timing = self.window_timing();
        let window_chunks = self.calibrate_window(timing.sample_ns, &mut receive)?;
        let mut began_ns = self.now_ns();
        self.warm_up(|cx| {
            std::hint::black_box(receive(window_chunks)?);
            let elapsed_ns = cx.now_ns() - began_ns;
            began_ns += elapsed_ns;
            Ok((elapsed_ns, window_chunks))
        })?;
        let mut windows = Vec::with_capacity(timing.samples + 1);
        self.shared.set_phase(Phase::Timed);
        self.begin_counting()?;
        windows.push((receive(window_chunks)?, ThreadCounters::default()));
        let mut began_ns = self.now_ns();
        let end_ns = began_ns + timing.run_ns;
        let mut counters = ThreadCounters::read();
        while windows.len() <= timing.samples {
            let received = receive(window_chunks)?;
            let now_ns = self.now_ns();
            // One reading a window: windows follow each other without a gap, so it cannot stand outside of them.
            let now_counters = ThreadCounters::read();
            let (elapsed_ns, spent) = (now_ns - began_ns, now_counters.since(&counters));
            let (ops, bytes, preemptions) = (received.0.ops, received.1.bytes, spent.involuntary_switches);
            // At once, for who looks at the run while it goes on; what is damaged ends it without a figure.
            let sample = Sample { start_ns: 0, elapsed_ns, ops, bytes, preemptions, extra: 0 };
            self.shared.push_sample(sample);
            windows.push((received, spent));
            counters = now_counters;
            if now_ns > end_ns && windows.len() > timing.least_samples {
                break;
            }
            began_ns = now_ns;
        }
        self.shared.set_phase(Phase::Over);
        for (index, ((batch, tally), spent)) in windows.into_iter().enumerate() {
            check(batch, tally, expect(batch))?;
            self.count_batch(batch.ops, tally);
            if index > 0 {
                self.count_sample(batch.ops, spent.cpu_ns, 0);
            }
        }
        self.end_counting()?;
        while !lossy && self.shared.feed_end() != Some(chunks) {
            let batch = Batch { first: chunks * chunk_ops, ops: chunk_ops };
            let tally = work(batch)?;
            check(batch, tally, expect(batch))?;
            chunks += 1;
        }
        // Where the sender cannot know that its last messages arrive, there is somebody to send them to.
        while lossy && self.shared.feed_end().is_none() {
            thread::yield_now();
        }
        Ok(())
    }

    /// Sends chunks of `chunk_ops` messages until the receiver has enough.
    ///
    /// Once it sees that, it publishes that exactly one more chunk comes, and sends that: so a receiver that has seen
    /// nothing published may safely wait for one more chunk. The role ends with [`Ctx::end_following`].
    pub fn feed(
        &mut self,
        chunk_ops: u64,
        lossy: bool,
        mut work: impl FnMut(Batch) -> io::Result<()>,
    ) -> io::Result<()> {
        self.do_not_watch();
        if self.turnstile.is_some() {
            return self.feed_slices(chunk_ops, work);
        }
        self.barrier()?;
        let mut chunks = 0;
        self.until_over(|| {
            work(Batch { first: chunks * chunk_ops, ops: chunk_ops })?;
            chunks += 1;
            Ok(chunk_ops)
        })?;
        if lossy {
            self.shared.set_feed_end(chunks);
        } else {
            self.shared.set_feed_end(chunks + 1);
            work(Batch { first: chunks * chunk_ops, ops: chunk_ops })?;
        }
        Ok(())
    }

    /// Receives `ops` messages that [`Ctx::feed_once`] sends: the time from the beginning of its sending to the last of them here is the
    /// one sample of the run. The role ends with [`Ctx::end_leading`].
    pub fn drain_once(&mut self, ops: u64, mut work: impl Work, expect: impl Expect) -> io::Result<()> {
        self.barrier()?;
        self.begin_counting()?;
        let before = ThreadCounters::read();
        let (batch, ready_ns) = (Batch { first: 0, ops }, self.now_ns());
        let tally = work(batch)?;
        let end_ns = self.now_ns();
        // What only pretends to receive may end before anything is sent.
        let start_ns = match self.shared.sends_from_ns() {
            1.. if tally.bytes > 0 => self.shared.sends_from_ns(),
            _ => ready_ns,
        };
        let elapsed_ns = end_ns - start_ns;
        let spent = ThreadCounters::read().since(&before);
        check(batch, tally, expect(batch))?;
        self.count_batch(ops, tally);
        self.count_sample(ops, spent.cpu_ns, 0);
        let (bytes, preemptions) = (tally.bytes, spent.involuntary_switches);
        self.shared.push_sample(Sample { start_ns, elapsed_ns, ops, bytes, preemptions, extra: 0 });
        self.end_counting()
    }

    /// The sender of [`Ctx::drain_once`]. The role ends with [`Ctx::end_following`].
    pub fn feed_once(&mut self, ops: u64, mut work: impl FnMut(Batch) -> io::Result<()>) -> io::Result<()> {
        self.do_not_watch();
        self.barrier()?;
        self.begin_counting()?;
        let before = ThreadCounters::read();
        self.shared.set_sends_from_ns(self.now_ns());
        work(Batch { first: 0, ops })?;
        self.count_sample(ops, ThreadCounters::read().since(&before).cpu_ns, 0);
        self.count(ops, 0);
        self.end_counting()
    }

    /// As [`Ctx::drain`], in slices: the sender sends exactly the chunks of a slice and then sleeps, so that the stream is
    /// empty when the turn goes to another party. It goes on beyond the timed part, so that the timed part ends while it
    /// still sends.
    fn drain_slices(&mut self, chunk_ops: u64, mut work: impl Work, expect: impl Expect) -> io::Result<()> {
        let mut plan = Plan::new(self, true);
        let mut current = plan.decide(self);
        self.shared.publish_batch(0, current);
        self.barrier()?;
        let (mut index, mut chunks, mut slice_began_ns) = (0, 0, 0);
        while let Planned::Batch { ops: count, counted, timed, parks } = current {
            let next =
                if index + 4 < Shared::max_batches() || !parks { plan.decide(self) } else { Planned::End };
            self.shared.publish_batch(index + 1, next);
            if parks {
                self.take_turn()?;
            }
            if counted {
                self.begin_counting()?;
            }
            if parks {
                slice_began_ns = self.now_ns();
                // Nothing stands between this and the first message: the receiver waits for a sender that has yet to wake up.
                self.shared.begin_slice(index)?;
            }
            index += 1;
            let batch = Batch { first: chunks * chunk_ops, ops: count * chunk_ops };
            let before = ThreadCounters::read();
            let start_ns = self.now_ns();
            let (tally, elapsed_ns) = self.sample(|| work(batch))?;
            let spent = ThreadCounters::read().since(&before);
            plan.learn(count, elapsed_ns);
            check(batch, tally, expect(batch))?;
            if counted {
                self.count_batch(batch.ops, tally);
            }
            if timed {
                let (ops, bytes, preemptions) = (batch.ops, tally.bytes, spent.involuntary_switches);
                // The sender may be ahead by all that it has sent since the slice began.
                self.count_sample(ops, spent.cpu_ns, start_ns - slice_began_ns);
                self.shared.push_sample(Sample { start_ns, elapsed_ns, ops, bytes, preemptions, extra: 0 });
            }
            chunks += count;
            current = next;
        }
        self.end_counting()
    }

    fn feed_slices(
        &mut self,
        chunk_ops: u64,
        mut work: impl FnMut(Batch) -> io::Result<()>,
    ) -> io::Result<()> {
        self.barrier()?;
        let mut chunks = 0;
        for index in 0.. {
            let Planned::Batch { ops: count, counted, timed, parks } = self.await_batch(index) else { break };
            if parks {
                self.pause_counting()?;
                self.shared.await_slice(index)?;
            }
            if counted {
                self.begin_counting()?;
            }
            let before = timed.then(ThreadCounters::read);
            work(Batch { first: chunks * chunk_ops, ops: count * chunk_ops })?;
            chunks += count;
            if let Some(before) = before {
                self.count_sample(count * chunk_ops, ThreadCounters::read().since(&before).cpu_ns, 0);
            }
            if counted {
                self.count(count * chunk_ops, 0);
            }
        }
        self.end_counting()
    }

    /// Ends that share a CPU take turns of some milliseconds each, so a window must hold many turns.
    fn window_timing(&self) -> Timing {
        if self.params.same_cpu() { self.timing_of_turns() } else { self.timing }
    }

    pub(super) fn timing_of_turns(&self) -> Timing {
        const TURNS: u64 = 12;
        Timing {
            sample_ns: self.timing.sample_ns * TURNS,
            samples: self.timing.least_samples,
            run_ns: self.timing.run_ns * TURNS,
            ..self.timing
        }
    }

    /// How many chunks fill a window, from the rate over the whole warm-up: on one CPU the receiver empties at one rate
    /// what the sender has filled at another, and a window must hold both.
    fn calibrate_window(
        &mut self,
        window_ns: u64,
        receive: &mut impl FnMut(u64) -> io::Result<(Batch, Tally)>,
    ) -> io::Result<u64> {
        let began_ns = self.now_ns();
        let (mut chunks, mut total) = (1, 0);
        loop {
            // The compiler would leave out a sum that is not used, and the warm-up would be one of unread messages.
            std::hint::black_box(receive(chunks)?);
            total += chunks;
            let elapsed_ns = (self.now_ns() - began_ns).max(1);
            let window = (total as f64 * window_ns as f64 / elapsed_ns as f64).ceil() as u64;
            if elapsed_ns >= window_ns / 2 {
                return Ok(window.max(1));
            }
            chunks = (window / 4).clamp(1, chunks * 16);
        }
    }
}
