//! Timing every operation by itself: how they are distributed, and what somebody waits who does not wait for them.
//!
//! In a closed loop the next operation begins when the last has ended, so a stall delays all that would have come during it
//! and is seen once: that is service time. In an open loop operations are due at a fixed rate, whatever happened to the one
//! before, and their time counts from when they were due (coordinated omission, as Gil Tene named what that avoids).

use std::cell::RefCell;
use std::hint;
use std::io;

use hdrhistogram::Histogram;
use weighbridge_record::Latencies;

use super::{Batch, Ctx, Expect, Noted, Operation, Tally, Time, advance_virtual_time, now_ns};
use crate::axis::{Axis, Values, choice};
use crate::params::CaseParams;

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

/// Is the loop open?
pub const RATE: Axis = Axis {
    name: "rate",
    default: "default",
    values: Values::Count,
    about: "requests a second that are due, whether or not the last was answered; each is timed from when it was due (open \
            loop). default: the next one follows the answer",
};

/// Smallest length of an operation, in readings of the clock: a shorter one cannot be told from the readings.
const CLOCK_READS: f64 = 20.0;
/// With `time=auto`, from this length on, in readings of the clock, each operation is timed: two readings are 0.5 % of it.
const NEXT_TO_NOTHING: f64 = 400.0;
/// Operations of a batch whose times are kept then: more than a slice of the longest has of the shortest.
const MOST_PENDING: usize = 4096;
/// The longest time that can be told; longer ones count as this, and the longest is kept apart.
const MOST_NS: u64 = 60_000_000_000;
const DIGITS: u8 = 2;

/// A clock beside every operation.
struct Stopwatch {
    time: Time,
    clock_read_ns: f64,
    /// Does the length of operations decide whether each is timed?
    is_auto: bool,
    /// Is each operation of the next batch timed?
    is_on: bool,
    /// Where that is decided by their length: times of this batch, kept if it becomes a sample. Little memory, so that it stays in the
    /// nearest cache.
    pending: Vec<u64>,
    has_samples: bool,
    /// Nanoseconds from one operation to the next, in an open loop.
    interval_ns: Option<f64>,
    /// When the first was due.
    began_ns: Option<u64>,
    histogram: Histogram<u64>,
    max_ns: u64,
    /// All that was timed in this batch.
    sum_ns: u64,
}

impl Stopwatch {
    fn new(params: &CaseParams, time: Time) -> io::Result<Stopwatch> {
        let mut histogram = Histogram::new_with_bounds(1, MOST_NS, DIGITS)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let unit = params.choice_if_declared().unwrap_or(TimedUnit::Each);
        let rate = params.number(RATE.name);
        // Writes to all of it, and to all of `pending`, so that no page of it is touched for the first time between two operations.
        histogram.reset();
        let mut pending = vec![u64::MAX; MOST_PENDING];
        pending.clear();
        Ok(Stopwatch {
            time,
            clock_read_ns: clock_read_ns(time),
            is_auto: unit == TimedUnit::Auto && rate.is_none() && time == Time::Raw,
            is_on: unit == TimedUnit::Each || rate.is_some(),
            pending,
            has_samples: false,
            interval_ns: rate.map(|per_s| 1e9 / per_s as f64),
            began_ns: None,
            histogram,
            max_ns: 0,
            sum_ns: 0,
        })
    }

    /// When operation number `sequence` begins to count: now, or when it was due. Does not return before that; it looks at the
    /// clock until then, because who sleeps is woken late, and that would be taken for the mechanism's.
    #[inline]
    fn begin(&mut self, sequence: u64) -> u64 {
        let now_ns = now_ns(self.time);
        let Some(interval_ns) = self.interval_ns else { return now_ns };
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        let due_ns = began_ns + (sequence as f64 * interval_ns) as u64;
        self.wait_until(due_ns);
        due_ns
    }

    #[inline]
    fn wait_until(&self, due_ns: u64) {
        if self.time == Time::Virtual {
            advance_virtual_time(due_ns.saturating_sub(now_ns(self.time)));
        }
        while now_ns(self.time) < due_ns {
            hint::spin_loop();
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
        self.sum_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        self.histogram.saturating_record(ns);
    }

    /// After a batch: what counts as its time. What came before the samples is forgotten.
    fn note(&mut self, noted: Noted) -> io::Result<u64> {
        let sum_ns = std::mem::take(&mut self.sum_ns);
        let each_ns = noted.elapsed_ns as f64 / noted.batch.ops.max(1) as f64;
        if self.is_auto {
            self.keep_pending(noted, each_ns);
            return Ok(noted.elapsed_ns);
        }
        if self.interval_ns.is_none() && noted.is_sample && each_ns < CLOCK_READS * self.clock_read_ns {
            return Err(io::Error::other(format!(
                "a round trip takes {each_ns:.0} ns and a reading of the clock {:.0} ns: timed one by one, round trips shorter \
                 than {CLOCK_READS} readings are not told from them; leave out time=each",
                self.clock_read_ns
            )));
        }
        if !noted.is_sample {
            self.histogram.reset();
            self.max_ns = 0;
        }
        Ok(if self.interval_ns.is_some() { sum_ns } else { noted.elapsed_ns })
    }

    /// Keeps the times of a sample. Before the first one it is decided whether operations are long enough.
    fn keep_pending(&mut self, noted: Noted, each_ns: f64) {
        if noted.is_sample {
            for ns in &self.pending {
                self.max_ns = self.max_ns.max(*ns);
                self.histogram.saturating_record(*ns);
            }
        }
        self.pending.clear();
        self.has_samples |= noted.is_sample;
        if !self.has_samples {
            self.is_on = each_ns >= NEXT_TO_NOTHING * self.clock_read_ns;
        }
    }

    fn latencies(&self) -> Option<Latencies> {
        self.is_on.then_some(())?;
        let recorded = self.histogram.iter_recorded().map(|step| {
            (self.histogram.median_equivalent(step.value_iterated_to()), step.count_since_last_iteration())
        });
        let Stopwatch { max_ns, clock_read_ns, .. } = *self;
        Some(Latencies { counts: recorded.collect(), max_ns, clock_read_ns })
    }
}

/// What one reading of the clock costs: the best of some tries.
fn clock_read_ns(time: Time) -> f64 {
    const READS: u32 = 1000;
    const TRIES: u32 = 5;
    let one_try = |_| {
        let began_ns = now_ns(time);
        for _ in 1..READS {
            hint::black_box(now_ns(time));
        }
        (now_ns(time) - began_ns) as f64 / f64::from(READS)
    };
    (0..TRIES).map(one_try).fold(f64::INFINITY, f64::min)
}

impl Ctx<'_> {
    /// May operations of this run be timed by themselves?
    pub fn times_each(&self) -> bool {
        self.params.choice_if_declared::<TimedUnit>().is_some_and(|unit| unit != TimedUnit::Batch)
            || self.has_rate()
    }

    /// Do operations of this run come at a rate of their own (open loop)?
    pub fn has_rate(&self) -> bool {
        self.params.number(RATE.name).is_some()
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
        self.counted.latencies = stopwatch.into_inner().latencies();
        Ok(())
    }
}
