//! At a rate: what the sender tells its receivers of when messages are due, and they it of how long after that they arrived.
//!
//! The sender does not wait for its receivers, as a source that has something to say does not: they have a batch when the next one
//! begins, and within it a message may be under way while the next is sent.

use weighbridge_harness::ctx::{LATE_NS, Noted, Pacer, Recorder, Schedule};

use super::VERIFIED;
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};

const SENDER: usize = 0;

/// The sender's side.
pub(super) struct Source<'a> {
    pacer: Pacer,
    counters: &'a SharedCounters,
    receivers: usize,
    arrived: Arrived,
    late_ns: Vec<f64>,
}

/// Messages that have arrived at some receiver, and how long after they were due, all together.
#[derive(Clone, Copy, Default)]
struct Arrived {
    messages: u64,
    ns: u64,
}

impl<'a> Source<'a> {
    pub(super) fn new(pacer: Pacer, counters: &'a SharedCounters, receivers: usize) -> Source<'a> {
        let (arrived, late_ns) = (Arrived::default(), Vec::with_capacity(1024));
        Source { pacer, counters, receivers, arrived, late_ns }
    }

    /// Each burst of a batch when it is due. The schedule is told before, so that who has a message knows it.
    pub(super) fn send(
        &mut self,
        batch: Batch,
        mut send: impl FnMut(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        self.counters.set(SENDER, Counter::DueFromNs, self.pacer.from_ns(batch.first));
        for turn in batch.sequences() {
            self.pacer.await_due(turn);
            send(turn)?;
        }
        Ok(())
    }

    /// After a batch of so many messages, which all receivers have: how long they took, each as long as it took to a receiver on average. What
    /// was late before the samples is forgotten.
    pub(super) fn note(&mut self, noted: Noted, messages: u64) -> u64 {
        let total = |counter| self.counters.total(1..=self.receivers, counter);
        let arrived = Arrived { messages: total(Counter::Messages), ns: total(Counter::LatencyNs) };
        let before = std::mem::replace(&mut self.arrived, arrived);
        let late_ns = self.pacer.take_late_ns();
        if noted.is_sample {
            self.late_ns.push(late_ns);
        } else {
            self.pacer.restart();
        }
        let each_ns = (arrived.ns - before.ns) as f64 / (arrived.messages - before.messages).max(1) as f64;
        (each_ns * messages as f64) as u64
    }

    pub(super) fn tell(self, cx: &mut Ctx<'_>) {
        cx.note_series(LATE_NS, self.late_ns);
    }
}

/// A receiver's side.
pub(super) struct Dues {
    schedule: Schedule,
    from_ns: u64,
    burst: u64,
    recorder: Recorder,
    arrived: Arrived,
}

impl Dues {
    /// None where the case has no rate.
    pub(super) fn new(cx: &Ctx<'_>, burst: u64) -> io::Result<Option<Dues>> {
        let Some(schedule) = Schedule::new(cx.params, 1) else { return Ok(None) };
        Ok(Some(Dues { schedule, from_ns: 0, burst, recorder: cx.recorder()?, arrived: Arrived::default() }))
    }

    /// A message has arrived. Where its sender has begun a new schedule, what was timed until then counts no more.
    #[inline]
    pub(super) fn arrived(&mut self, sequence: u64, counters: &SharedCounters) {
        let from_ns = counters.get(SENDER, Counter::DueFromNs);
        if from_ns != self.from_ns {
            self.from_ns = from_ns;
            self.recorder.forget();
        }
        self.recorder.arrived(self.schedule.due_ns(from_ns, (sequence - VERIFIED) / self.burst));
    }

    /// For the sender, before it is told that this receiver has a batch.
    pub(super) fn publish(&mut self, role: usize, counters: &SharedCounters) {
        let (ns, messages) = self.recorder.take_sum();
        self.arrived.messages += messages;
        self.arrived.ns += ns;
        counters.set(role, Counter::Messages, self.arrived.messages);
        counters.set(role, Counter::LatencyNs, self.arrived.ns);
    }

    pub(super) fn tell(&self, cx: &mut Ctx<'_>) {
        cx.note_latencies(&self.recorder);
    }
}
