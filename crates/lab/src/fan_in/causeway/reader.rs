//! The reader: looks, takes what is there, and at the end accounts for every message that was written.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Instant;

use causeway_os::counters::ThreadCounters;

use super::super::reader::{COUNTED_OPS, Edge, LOST_AFTER, note};
use super::super::writer::{self, sum};
use super::super::writers;
use super::accounts::Accounts;
use super::logs::Logs;
use super::writer::VERIFIED;
use super::{Inbox, has_one_log, logs};
use crate::contract::Facts;
use crate::ctx::{Ctx, Flow};
use crate::mechanism::causeway::{FRAME_BYTES, capacity_bytes};
use crate::params::CaseParams;
use crate::shared::Step;
use crate::shared_counters::SharedCounters;

/// The whole life of this role.
pub(super) fn drive(
    inbox: Inbox,
    counters: &SharedCounters,
    params: &CaseParams,
    cx: &mut Ctx<'_>,
) -> io::Result<Facts> {
    let Inbox { subscribers, publishers, _groups } = inbox;
    let capacity_bytes = capacity_bytes(params);
    let mut reader = Reader {
        logs: Logs::new(subscribers, params)?,
        accounts: Accounts::new(publishers, has_one_log(params), params.payload_bytes, params.touch),
        looks: 0,
        empty: 0,
        warm_messages: (logs(params) * capacity_bytes / (params.payload_bytes + FRAME_BYTES)) as u64,
        counters,
        writers: writers(params),
        edges: Vec::with_capacity(1024),
    };
    cx.set_step(Step::Verify);
    reader.verify()?;
    cx.lead_intervals(&mut reader)?;
    note(&reader.edges, cx);
    let mut facts = reader.facts();
    facts.insert("logs".into(), logs(params).to_string());
    facts.insert("capacity_bytes".into(), capacity_bytes.to_string());
    facts.insert("interval_ms".into(), (cx.interval_ns() as f64 / 1e6).to_string());
    Ok(facts)
}

struct Reader<'a> {
    logs: Logs,
    accounts: Accounts,
    looks: u64,
    /// Looks that found nothing.
    empty: u64,
    warm_messages: u64,
    counters: &'a SharedCounters,
    writers: usize,
    edges: Vec<Edge>,
}

impl Flow for Reader<'_> {
    #[inline]
    fn step(&mut self) -> io::Result<u64> {
        self.logs.wait()?;
        let taken = self.take()?;
        self.looks += 1;
        self.empty += u64::from(taken == 0);
        Ok(1 + taken)
    }

    fn count(&self) -> (u64, u64) {
        (self.accounts.events, self.accounts.bytes)
    }

    /// Once round every log.
    fn warm_ops(&self) -> u64 {
        self.warm_messages
    }

    fn edge(&mut self, now_ns: u64) {
        let own = ThreadCounters::read();
        self.edges.push(Edge {
            now_ns,
            events: self.accounts.events,
            bytes: self.accounts.bytes,
            calls: self.looks,
            empty: self.empty,
            writes: self.of_writers(writer::WRITES),
            voluntary: own.voluntary_switches + self.of_writers(writer::VOLUNTARY),
            involuntary: own.involuntary_switches + self.of_writers(writer::INVOLUNTARY),
        });
    }

    fn drain(&mut self, counted_ops: u64) -> io::Result<()> {
        self.counters.word(0, COUNTED_OPS).store(counted_ops, Relaxed);
        let mut since = Instant::now();
        loop {
            // Before the look: what a writer has written before it said so is there to be read.
            let is_over =
                (1..=self.writers).all(|role| self.counters.word(role, writer::DONE).load(Acquire) != 0); // PAIR written
            let taken = self.take()?;
            if is_over && self.accounts.events >= self.of_writers(writer::WRITES) {
                return self.check();
            }
            if taken > 0 {
                since = Instant::now();
            } else if is_over && since.elapsed() > LOST_AFTER {
                return self.check();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

impl Reader<'_> {
    /// The first messages of every writer, while nothing else is under way.
    fn verify(&mut self) -> io::Result<()> {
        let mut left = VERIFIED * self.writers as u64;
        while left > 0 {
            self.logs.wait()?;
            let accounts = &mut self.accounts;
            left -= self.logs.take_each(&mut |seen| accounts.verify(seen))?;
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self) -> io::Result<u64> {
        let accounts = &mut self.accounts;
        self.logs.take_each(&mut |seen| accounts.take(seen))
    }

    fn of_writers(&self, word: usize) -> u64 {
        sum(self.counters, self.writers, word)
    }

    /// Nothing may be lost, nothing added, nothing changed.
    fn check(&self) -> io::Result<()> {
        for (index, read) in self.accounts.of_each_writer().iter().enumerate() {
            let written = VERIFIED + self.counters.word(index + 1, writer::WRITES).load(Relaxed);
            if *read != written {
                return Err(io::Error::other(format!(
                    "{read} messages of writer {} were read, but {written} written",
                    index + 1
                )));
            }
        }
        match self.of_writers(writer::SUM) {
            sum if sum == self.accounts.sum => Ok(()),
            sum => Err(io::Error::other(format!(
                "what was read has the sum {:#x}, what was written {sum:#x}",
                self.accounts.sum
            ))),
        }
    }

    /// What all roles did in the whole run, warm-up and drain included.
    fn facts(&self) -> Facts {
        let Accounts { events, bytes, .. } = &self.accounts;
        Facts::from([
            ("first_run_reads".into(), events.to_string()),
            ("first_run_writes".into(), self.of_writers(writer::WRITES).to_string()),
            ("first_run_bytes_written".into(), self.of_writers(writer::BYTES).to_string()),
            ("first_run_bytes_read".into(), bytes.to_string()),
            ("first_run_lost".into(), self.logs.lost().to_string()),
        ])
    }
}
