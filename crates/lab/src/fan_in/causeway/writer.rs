//! A writer: messages to its log, one after the other, as fast as there is room for them.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use causeway::Publisher;

use super::super::reader::COUNTED_OPS;
use super::super::writer::{BYTES, COUNTERS_EVERY, DONE, SUM, WRITES, publish_switches};
use super::Outbox;
use super::accounts::word;
use crate::contract::Facts;
use crate::ctx::Ctx;
use crate::mechanism::causeway::loan;
use crate::params::{CaseParams, Touch};
use crate::shared::Step;
use crate::shared_counters::SharedCounters;
use crate::touch;

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
    let mut writer =
        Writer { publisher, len: params.payload_bytes, index: role as u64 - 1, writes: 0, sum: 0 };
    cx.set_step(Step::Verify);
    for sequence in 0..VERIFIED {
        writer.send(sequence, Touch::All)?;
    }
    let chunk = CHUNK.min(CHUNK_BYTES / params.payload_bytes.max(1)).max(1);
    let mut chunks = 0u64;
    let work = || {
        for _ in 0..chunk {
            writer.write(params.touch)?;
        }
        writer.publish(counters, role);
        if chunks.is_multiple_of(COUNTERS_EVERY) {
            publish_switches(counters, role);
        }
        chunks += 1;
        Ok(())
    };
    let done = || {
        publish_switches(counters, role);
        counters.word(role, DONE).store(1, Release); // PAIR written
    };
    cx.follow_intervals(work, done, || counters.word(0, COUNTED_OPS).load(Acquire))?;
    Ok(Facts::from([("payload_bytes_max".into(), writer.publisher.payload_bytes_max().to_string())]))
}

struct Writer {
    publisher: Publisher,
    len: usize,
    index: u64,
    /// Messages after those that were verified, and the sum that a reader must take over them.
    writes: u64,
    sum: u64,
}

impl Writer {
    #[inline]
    fn write(&mut self, touch: Touch) -> io::Result<()> {
        let word = self.send(VERIFIED + self.writes, touch)?;
        self.sum = self.sum.wrapping_add(touch::expected(self.len, word, touch));
        self.writes += 1;
        Ok(())
    }

    /// Sends the message with this number, and returns its word.
    #[inline]
    fn send(&mut self, sequence: u64, touch: Touch) -> io::Result<u64> {
        let word = word(self.index, sequence);
        let mut room = loan(&mut self.publisher, self.len)?;
        touch::write(room.as_mut(), word, touch);
        room.commit()?;
        Ok(word)
    }

    /// Lets the reader know. Only [`DONE`] is waited for, so only that is ordered.
    fn publish(&self, counters: &SharedCounters, role: usize) {
        counters.word(role, WRITES).store(self.writes, Relaxed);
        counters.word(role, BYTES).store(self.writes * self.len as u64, Relaxed);
        counters.word(role, SUM).store(self.sum, Relaxed);
    }
}
