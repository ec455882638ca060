//! Timing every operation by itself: how they are distributed, and what somebody waits who does not wait for them.
//!
//! In a closed loop the next operation begins when the last has ended, so a stall delays all that would have come during it
//! and is seen once: that is service time. In an open loop operations are due at a fixed rate, whatever happened to the one
//! before, and their time counts from when they were due (coordinated omission, as Gil Tene named what that avoids).

use std::cell::RefCell;
use std::io;

use super::pace::{LATE_NS, Pacer};
use super::recorder::Recorder;
use super::{Batch, Ctx, Expect, Noted, Operation, Tally, Time, now_ns};
use crate::axis::choice;
use crate::params::CaseParams;
use crate::shared::MAX_SAMPLES;

choice! {
    /// What is timed.
    pub enum TimedUnit {
        /// Each operation by itself where that costs next to nothing, else a batch.
        Auto = "auto",
        /// A batch of operations.
        Batch = "batch",
        /// Each operation by itself.
        Each = "each",
    }
    axis "time", default Auto: "two readings of the clock for a batch, or for each round trip: then there are percentiles \
        (service time); auto: each where the readings take at most 0.5 % of a round trip, else batch"
}

/// Smallest length of an operation, in readings of the clock: a shorter one cannot be told from the readings.
const CLOCK_READS: f64 = 20.0;
/// With `time=auto`, from this length on, in readings of the clock, each operation is timed: two readings are 0.5 % of it.
const NEXT_TO_NOTHING: f64 = 400.0;
/// Operations of a batch whose times are kept then: more than a slice of the longest has of the shortest.
const MOST_PENDING: usize = 4096;

/// A clock beside every operation.
struct Stopwatch {
    time: Time,
    /// Does the length of operations decide whether each is timed?
    is_auto: bool,
    /// Is each operation of the next batch timed?
    is_on: bool,
    /// Where that is decided by their length: times of this batch, kept if it becomes a sample. Little memory, so that it stays in the
    /// nearest cache.
    pending: Vec<u64>,
    has_samples: bool,
    /// In an open loop: when operations are due.
    pacer: Option<Pacer>,
    /// How much later than due those of each sample began, on average.
    late_ns: Vec<f64>,
    recorder: Recorder,
}

impl Stopwatch {
    fn new(params: &CaseParams, time: Time) -> io::Result<Stopwatch> {
        let unit = params.choice_if_declared().unwrap_or(TimedUnit::Each);
        let pacer = Pacer::new(params, time, (0, 1));
        // Writes to all of it, so that no page of it is touched for the first time between two operations.
        let mut pending = vec![u64::MAX; MOST_PENDING];
        pending.clear();
        Ok(Stopwatch {
            time,
            is_auto: unit == TimedUnit::Auto && pacer.is_none() && time == Time::Raw,
            is_on: unit == TimedUnit::Each || pacer.is_some(),
            pending,
            has_samples: false,
            pacer,
            late_ns: Vec::with_capacity(MAX_SAMPLES),
            recorder: Recorder::new(time)?,
        })
    }

    /// When operation number `sequence` begins to count: now, or when it was due. Does not return before that.
    #[inline]
    fn begin(&mut self, sequence: u64) -> u64 {
        match &mut self.pacer {
            None => now_ns(self.time),
            Some(pacer) => pacer.await_due(sequence),
        }
    }

    #[inline]
    fn end(&mut self, began_ns: u64) {
        let ns = now_ns(self.time) - began_ns;
        if self.is_auto {
            if self.pending.len() < MOST_PENDING {
                self.pending.push(ns);
            }
            return;
        }
        self.recorder.record(ns);
    }

    /// After a batch: what counts as its time. What came before the samples is forgotten.
    fn note(&mut self, noted: Noted) -> io::Result<u64> {
        let (sum_ns, _) = self.recorder.take_sum();
        let each_ns = noted.elapsed_ns as f64 / noted.batch.ops.max(1) as f64;
        if self.is_auto {
            self.keep_pending(noted, each_ns);
            return Ok(noted.elapsed_ns);
        }
        let clock_read_ns = self.recorder.clock_read_ns();
        if self.pacer.is_none() && noted.is_sample && each_ns < CLOCK_READS * clock_read_ns {
            return Err(io::Error::other(format!(
                "a round trip takes {:.1} times as long as a reading of the clock: timed one by one, round trips shorter than \
                 {CLOCK_READS} readings are not told from them; leave out time=each",
                each_ns / clock_read_ns
            )));
        }
        if !noted.is_sample {
            self.recorder.forget();
        }
        let Some(pacer) = &mut self.pacer else { return Ok(noted.elapsed_ns) };
        let late_ns = pacer.take_late_ns();
        if noted.is_sample {
            self.late_ns.push(late_ns);
        } else {
            pacer.restart();
        }
        Ok(sum_ns)
    }

    /// Keeps the times of a sample. Before the first one it is decided whether operations are long enough.
    fn keep_pending(&mut self, noted: Noted, each_ns: f64) {
        if noted.is_sample {
            self.pending.iter().for_each(|ns| self.recorder.record(*ns));
        }
        self.pending.clear();
        self.has_samples |= noted.is_sample;
        if !self.has_samples {
            self.is_on = each_ns >= NEXT_TO_NOTHING * self.recorder.clock_read_ns();
        }
    }
}

impl Ctx<'_> {
    /// May operations of this run be timed by themselves?
    pub fn times_each(&self) -> bool {
        self.params.choice_if_declared::<TimedUnit>().is_some_and(|unit| unit != TimedUnit::Batch)
            || self.has_rate()
    }

    /// As [`Ctx::lead_batches`], with each operation timed by itself, or as many as the case says: `operation` is one.
    pub fn lead_each(&mut self, operation: impl Operation, expect: impl Expect) -> io::Result<()> {
        self.lead_each_noting(operation, expect, |_| Ok(()))
    }

    /// As [`Ctx::lead_each`], and calls `also` after each batch, outside of what is timed.
    pub fn lead_each_noting(
        &mut self,
        mut operation: impl Operation,
        expect: impl Expect,
        mut also: impl FnMut(Noted) -> io::Result<()>,
    ) -> io::Result<()> {
        let stopwatch = RefCell::new(Stopwatch::new(self.params, self.time)?);
        let work = |batch: Batch| {
            let mut stopwatch = stopwatch.borrow_mut();
            if !stopwatch.is_on {
                return operation.repeat(batch);
            }
            let from = operation.position();
            let mut tally = Tally::default();
            for sequence in batch.sequences() {
                let began_ns = stopwatch.begin(sequence);
                operation.operate(sequence, &mut tally)?;
                stopwatch.end(began_ns);
            }
            tally.came_on = operation.position() - from;
            Ok(tally)
        };
        let note = |noted| {
            also(noted)?;
            stopwatch.borrow_mut().note(noted)
        };
        self.lead_batches(work, expect, note)?;
        let Stopwatch { is_on, pacer, late_ns, recorder, .. } = stopwatch.into_inner();
        if is_on {
            self.note_latencies(&recorder);
        }
        if pacer.is_some() {
            self.note_series(LATE_NS, late_ns);
        }
        Ok(())
    }
}
