//! How long single operations took: counts by length, in memory that was touched before.

use std::hint;
use std::io;

use hdrhistogram::Histogram;
use weighbridge_record::Latencies;

use super::{Ctx, Time, now_ns};

/// The longest time that can be told; longer ones count as this, and the longest is kept apart.
const MOST_NS: u64 = 60_000_000_000;
const DIGITS: u8 = 2;

/// Operations by how long they took.
#[derive(Debug)]
pub struct Recorder {
    time: Time,
    clock_read_ns: f64,
    histogram: Histogram<u64>,
    max_ns: u64,
    /// All that was recorded since this was last taken, and how many they were.
    sum: (u64, u64),
}

impl Recorder {
    /// Nothing recorded yet. Measures what one reading of the clock costs.
    pub(super) fn new(time: Time) -> io::Result<Recorder> {
        let mut histogram = Histogram::new_with_bounds(1, MOST_NS, DIGITS)
            .map_err(|error| io::Error::other(error.to_string()))?;
        // Writes to all of it, so that no page of it is touched for the first time between two operations.
        histogram.reset();
        Ok(Recorder { time, clock_read_ns: clock_read_ns(time), histogram, max_ns: 0, sum: (0, 0) })
    }

    /// One that took so long.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.sum = (self.sum.0 + ns, self.sum.1 + 1);
        self.max_ns = self.max_ns.max(ns);
        self.histogram.saturating_record(ns);
    }

    /// One that was due at this time and has arrived now. Nothing is there before it is due, unless another role has just begun to count
    /// from another time.
    #[inline]
    pub fn arrived(&mut self, due_ns: u64) {
        self.record(now_ns(self.time).saturating_sub(due_ns));
    }

    /// What came before the samples is no more known.
    pub fn forget(&mut self) {
        self.histogram.reset();
        self.max_ns = 0;
    }

    /// Nanoseconds and number of those that were recorded since this was last asked.
    pub fn take_sum(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.sum)
    }

    pub(super) fn clock_read_ns(&self) -> f64 {
        self.clock_read_ns
    }

    /// For the record.
    pub fn latencies(&self) -> Latencies {
        let recorded = self.histogram.iter_recorded().map(|step| {
            (self.histogram.median_equivalent(step.value_iterated_to()), step.count_since_last_iteration())
        });
        let Recorder { max_ns, clock_read_ns, .. } = *self;
        Latencies { counts: recorded.collect(), max_ns, clock_read_ns }
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
    /// Keeps how long single operations take that this role sees the end of.
    ///
    /// # Errors
    /// There is no memory.
    pub fn recorder(&self) -> io::Result<Recorder> {
        Recorder::new(self.time)
    }

    /// What single operations took, as this role saw it. After the timed part.
    pub fn note_latencies(&mut self, recorder: &Recorder) {
        self.counted.latencies = Some(recorder.latencies());
    }
}
