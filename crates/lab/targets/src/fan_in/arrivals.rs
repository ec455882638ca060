//! At a rate: when each message was due, and how long after that it has arrived.
//!
//! A stream has no message that tells its number. But writers go round their streams in one order, so that the bytes that came through a
//! stream say which messages of its writer these were; a message has arrived with its last byte.

use weighbridge_harness::ctx::{Pacer, Recorder, Schedule};

use super::writers;
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};

/// The reader's side.
pub struct Arrivals<'a> {
    schedule: Schedule,
    counters: &'a SharedCounters,
    writers: usize,
    payload_bytes: u64,
    /// Bytes that came through each stream.
    bytes: Vec<u64>,
    recorder: Recorder,
    is_over: bool,
}

impl<'a> Arrivals<'a> {
    /// None where the case has no rate.
    pub fn new(
        cx: &Ctx<'_>,
        counters: &'a SharedCounters,
        streams: usize,
    ) -> io::Result<Option<Arrivals<'a>>> {
        let writers = writers(cx.params);
        let Some(schedule) = Schedule::new(cx.params, writers) else { return Ok(None) };
        Ok(Some(Arrivals {
            schedule,
            counters,
            writers,
            payload_bytes: cx.params.payload_bytes as u64,
            bytes: vec![0; streams],
            recorder: cx.recorder()?,
            is_over: false,
        }))
    }

    /// So many bytes came through a stream.
    #[inline]
    pub fn came(&mut self, stream: usize, bytes: usize) {
        let before = self.bytes[stream];
        self.bytes[stream] += bytes as u64;
        for round in before / self.payload_bytes..self.bytes[stream] / self.payload_bytes {
            let (writer, number) = sent(stream, round, (self.bytes.len(), self.writers));
            self.arrived(writer, number);
        }
    }

    /// Message `number` of a writer, both from 0. It was told when that was due before it was sent.
    #[inline]
    pub fn arrived(&mut self, writer: usize, number: u64) {
        if !self.is_over {
            let from_ns = self.counters.get(writer + 1, Counter::DueFromNs);
            self.recorder.arrived(self.schedule.due_ns(from_ns, number));
        }
    }

    /// The first sample begins.
    pub fn begin(&mut self) {
        self.recorder.forget();
    }

    /// What arrives from now on is in no sample.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Keeps what was timed.
    pub fn tell(&self, cx: &mut Ctx<'_>) {
        cx.note_latencies(&self.recorder);
    }
}

/// Which writer has sent the message that came through a stream after `round` others, and as which of its messages.
fn sent(stream: usize, round: u64, (streams, writers): (usize, usize)) -> (usize, u64) {
    let (writer, own) = (stream % writers, stream / writers);
    let streams_of_writer = (streams - writer).div_ceil(writers);
    (writer, round * streams_of_writer as u64 + own as u64)
}

/// A writer's side: its share of the rate.
pub struct Share<'a> {
    pacer: Pacer,
    counters: &'a SharedCounters,
    role: usize,
}

impl<'a> Share<'a> {
    /// None where the case has no rate.
    pub fn new(cx: &Ctx<'_>, counters: &'a SharedCounters) -> Option<Share<'a>> {
        let pacer = cx.pacer(cx.role - 1, writers(cx.params))?;
        Some(Share { pacer, counters, role: cx.role })
    }

    /// Sleeps until the message with this number is due, and says when the first one was.
    #[inline]
    pub fn await_due(&mut self, number: u64) {
        if number == 0 {
            self.counters.set(self.role, Counter::DueFromNs, self.pacer.from_ns(0));
        }
        self.pacer.await_due(number);
        self.counters.set(self.role, Counter::LateNs, self.pacer.late_ns());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fan_in::part;

    #[test]
    fn the_place_of_a_message_in_its_stream_tells_its_number_among_those_of_its_writer() {
        for (streams, writers) in [(1, 1), (7, 3), (5, 5), (8, 2), (2000, 1)] {
            for writer in 0..writers {
                let own: Vec<usize> = part(writer, writers, streams).collect();
                // As a writer goes round its streams.
                for number in 0..3 * own.len() {
                    let (stream, round) = (own[number % own.len()], (number / own.len()) as u64);
                    let found = sent(stream, round, (streams, writers));
                    assert_eq!(found, (writer, number as u64), "stream {stream}");
                }
            }
        }
    }
}
