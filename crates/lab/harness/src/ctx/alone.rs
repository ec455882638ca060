//! One role that measures by itself: the cost of its loop taken off, parts of its work timed apart, the rate of a copy.

use std::hint;
use std::io;

use super::{Ctx, Tally};
use crate::buffer::Buffer;
use crate::shared::Sample;

/// Above this an operation does not notice the loop around it.
const LOOP_MATTERS_BELOW_NS: f64 = 1000.0;

impl Ctx<'_> {
    /// Measures the loop around an operation that does nothing, in nanoseconds each time around. From then on that is taken
    /// off samples of short operations, and their values before that are kept as the series `raw_ns`.
    pub fn measure_loop(&mut self, mut nothing: impl FnMut(u64) -> io::Result<u64>) -> io::Result<()> {
        const OPS: u64 = 100_000;
        const TRIES: usize = 9;
        self.loop_ns = f64::INFINITY;
        for _ in 0..TRIES {
            let (_, elapsed_ns) = self.sample(|| nothing(hint::black_box(OPS)))?;
            self.loop_ns = self.loop_ns.min(elapsed_ns as f64 / OPS as f64);
        }
        Ok(())
    }

    /// What `ops` operations took without the loop around them.
    pub(super) fn without_loop(&self, ops: u64, elapsed_ns: u64) -> u64 {
        let raw_ns = elapsed_ns as f64 / ops.max(1) as f64;
        if raw_ns >= LOOP_MATTERS_BELOW_NS {
            return elapsed_ns;
        }
        elapsed_ns.saturating_sub((ops as f64 * self.loop_ns) as u64)
    }

    /// As [`Ctx::lead`], for a pattern of one role: no role follows.
    pub fn lead_alone(&mut self, mut work: impl FnMut(u64) -> io::Result<Tally>) -> io::Result<()> {
        self.lead(|batch| work(batch.ops), |_| None)?;
        let samples = self.samples();
        if samples.iter().any(|sample| sample.extra != sample.elapsed_ns) {
            let raw_ns = |sample: &Sample| sample.extra as f64 / sample.ops.max(1) as f64;
            let raw = samples.iter().map(raw_ns).collect();
            self.note_series("raw_ns", raw);
        }
        Ok(())
    }

    /// Times each of `parts`, done in turn, as often as there are samples: nanoseconds of one of the `ops` operations that a
    /// part does. A part lasts as long as it lasts, so two readings of the clock are in each figure.
    pub fn time_parts(
        &mut self,
        parts: usize,
        ops: u64,
        mut part: impl FnMut(usize) -> io::Result<()>,
    ) -> io::Result<Vec<Vec<f64>>> {
        const LEAST_OPS: u64 = 20_000;
        let rounds = (LEAST_OPS / ops.max(1)).max(1);
        let mut times = vec![Vec::new(); parts];
        for _ in 0..self.samples().len() {
            let mut sums = vec![0u64; parts];
            for _ in 0..rounds {
                for (index, sum) in sums.iter_mut().enumerate() {
                    *sum += self.sample(|| part(index))?.1;
                }
            }
            for (times, sum) in times.iter_mut().zip(sums) {
                times.push(sum as f64 / (rounds * ops) as f64);
            }
        }
        Ok(times)
    }

    /// How fast this role copies memory from one buffer to another, message by message: no mechanism that copies can be
    /// faster. Measured here and now, because on a shared machine the next minute has another speed.
    pub fn measure_copy_rate(&mut self) -> io::Result<()> {
        const ENOUGH_NS: u64 = 1_000_000;
        let len = self.params.payload_bytes.max(1);
        let (mut from, mut to) = (Buffer::new(len)?, Buffer::new(len)?);
        from.prefault()?;
        to.prefault()?;
        let mut best = 0.0f64;
        let mut copies = (1 << 16) / len as u64 + 1;
        loop {
            let ((), elapsed_ns) = self.sample(|| {
                for _ in 0..copies {
                    to.bytes_mut()[..len].copy_from_slice(hint::black_box(&from.bytes()[..len]));
                    hint::black_box(to.bytes_mut());
                }
                Ok(())
            })?;
            best = best.max(copies as f64 * len as f64 * 1e9 / elapsed_ns.max(1) as f64);
            if elapsed_ns >= ENOUGH_NS {
                break;
            }
            copies *= 4;
        }
        self.counted.copy_bytes_per_s = Some(best);
        Ok(())
    }
}
