//! A writer: messages to its log, one after the other, as fast as there is room for them.

use std::io;

use causeway::Publisher;

use super::super::writer::SWITCHES_EVERY;
use super::Outbox;
use super::accounts::word;
use crate::mechanism::causeway::loan;
use crate::shared_counters::{Counter, SharedCounters};
use weighbridge_harness::contract::Facts;
use weighbridge_harness::ctx::{Ctx, Follower};
use weighbridge_harness::params::{CaseParams, Touch};
use weighbridge_harness::shared::Step;
use weighbridge_harness::touch;

/// Messages of each writer that are checked byte by byte before anything is timed.
pub(super) const VERIFIED: u64 = 4;

/// Most messages, and bytes, between two looks at whether the reader has enough.
const CHUNK: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;

/// The whole life of this role.
pub(super) fn drive(
    role: usize,
    outbox: Outbox,
    counters: &SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let Outbox { publisher, _group } = outbox;
    let mut writer = Writer {
        publisher,
        counters,
        role,
        len: params.payload_bytes,
        touch: params.touch,
        chunk: CHUNK.min(CHUNK_BYTES / params.payload_bytes.max(1)).max(1),
        chunks: 0,
        writes: 0,
        sum: 0,
    };
    cx.set_step(Step::Verify);
    for sequence in 0..VERIFIED {
        writer.send(sequence, Touch::All)?;
    }
    cx.follow_intervals(&mut writer)?;
    Ok(Facts::from([("payload_bytes_max".into(), writer.publisher.payload_bytes_max().to_string())]))
}

struct Writer<'a> {
    publisher: Publisher,
    counters: &'a SharedCounters,
    role: usize,
    len: usize,
    touch: Touch,
    /// Messages between two looks at whether the reader has enough.
    chunk: usize,
    chunks: u64,
    /// Messages after those that were verified, and the sum that a reader must take over them.
    writes: u64,
    sum: u64,
}

impl Follower for Writer<'_> {
    #[inline]
    fn step(&mut self) -> io::Result<()> {
        for _ in 0..self.chunk {
            self.write()?;
        }
        let (counters, role) = (self.counters, self.role);
        counters.set(role, Counter::Messages, self.writes);
        counters.set(role, Counter::Bytes, self.writes * self.len as u64);
        counters.set(role, Counter::Sum, self.sum);
        if self.chunks.is_multiple_of(SWITCHES_EVERY) {
            counters.set_switches(role);
        }
        self.chunks += 1;
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.counters.set_switches(self.role);
        Ok(())
    }
}

impl Writer<'_> {
    #[inline]
    fn write(&mut self) -> io::Result<()> {
        let word = self.send(VERIFIED + self.writes, self.touch)?;
        self.sum = self.sum.wrapping_add(touch::expected(self.len, word, self.touch));
        self.writes += 1;
        Ok(())
    }

    /// Sends the message with this number, and returns its word.
    #[inline]
    fn send(&mut self, sequence: u64, touch: Touch) -> io::Result<u64> {
        let word = word(self.role as u64 - 1, sequence);
        let mut room = loan(&mut self.publisher, self.len)?;
        touch::write(room.as_mut(), word, touch);
        room.commit()?;
        Ok(word)
    }
}
