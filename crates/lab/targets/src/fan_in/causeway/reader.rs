//! The reader: looks, takes what is there, and at the end accounts for every message that was written.

use std::io;

use weighbridge_probe::counters::ThreadCounters;

use super::super::reader::{Edge, note};
use super::super::writers;
use super::accounts::Accounts;
use super::logs::Logs;
use super::writer::VERIFIED;
use super::{Inbox, has_one_log, logs};
use crate::mechanism::causeway::{FRAME_BYTES, capacity_bytes};
use crate::shared_counters::{Counter, SharedCounters};
use weighbridge_harness::contract::Facts;
use weighbridge_harness::ctx::{Balance, Ctx, Leader};
use weighbridge_harness::params::CaseParams;
use weighbridge_harness::shared::Step;

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

impl Leader for Reader<'_> {
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
            writes: self.of_writers(Counter::Messages),
            voluntary: own.voluntary_switches + self.of_writers(Counter::VoluntarySwitches),
            involuntary: own.involuntary_switches + self.of_writers(Counter::InvoluntarySwitches),
        });
    }

    fn balance(&mut self) -> io::Result<Balance> {
        self.take()?;
        Ok(Balance {
            unit: "messages",
            sent: (self.of_writers(Counter::Messages), self.of_writers(Counter::Sum)),
            arrived: (self.accounts.events, self.accounts.sum),
        })
    }

    fn check(&self) -> io::Result<()> {
        for (writer, read) in (1..).zip(self.accounts.of_each_writer()) {
            let written = VERIFIED + self.counters.get(writer, Counter::Messages);
            if *read != written {
                return Err(io::Error::other(format!(
                    "{read} messages of writer {writer} were read, but {written} written"
                )));
            }
        }
        Ok(())
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

    fn of_writers(&self, counter: Counter) -> u64 {
        self.counters.total(1..=self.writers, counter)
    }

    /// What all roles did in the whole run, warm-up and drain included.
    fn facts(&self) -> Facts {
        let Accounts { events, bytes, .. } = &self.accounts;
        Facts::from([
            ("first_run_reads".into(), events.to_string()),
            ("first_run_writes".into(), self.of_writers(Counter::Messages).to_string()),
            ("first_run_bytes_written".into(), self.of_writers(Counter::Bytes).to_string()),
            ("first_run_bytes_read".into(), bytes.to_string()),
            ("first_run_lost".into(), self.logs.lost().to_string()),
        ])
    }
}
