//! The reader, which looks, takes what is there, and at the end accounts for every message; and a writer, which sends one message
//! after the other as fast as there is room for them, or when it is due.

use causeway::Publisher;

use super::super::arrivals::{Arrivals, Share};
use super::super::edges::{Edges, Reads, Sent};
use super::accounts::{Accounts, word};
use super::logs::Logs;
use super::{Inbox, Outbox, has_one_log, logs};
use crate::fan_in::writers;
use crate::mechanism::causeway::{FRAME_BYTES, capacity_bytes, loan};
use crate::prelude::*;
use crate::shared_counters::{Counter, SharedCounters};

/// Messages of each writer that are checked byte by byte before anything is timed.
const VERIFIED: u64 = 4;
/// Most messages, and bytes, between two looks at whether the reader has enough.
const CHUNK: usize = 64;
const CHUNK_BYTES: usize = 1 << 20;

pub(super) fn read(inbox: Inbox, counters: &SharedCounters, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    let Inbox { subscribers, publishers, _groups } = inbox;
    let capacity_bytes = capacity_bytes(params);
    let mut reader = Reader {
        logs: Logs::new(subscribers, params)?,
        accounts: Accounts::new(publishers, has_one_log(params), params.payload_bytes, params.touch),
        looks: 0,
        empty: 0,
        warm_messages: (logs(params) * capacity_bytes / (params.payload_bytes + FRAME_BYTES)) as u64,
        counters,
        edges: Edges::new(counters, params).with_machine(cx.interval_ns()),
        arrivals: Arrivals::new(cx, counters, 0)?,
    };
    cx.set_step(Step::Verify);
    reader.verify(VERIFIED * writers(params) as u64)?;
    cx.lead_intervals(&mut reader)?;
    reader.edges.tell(cx);
    if let Some(arrivals) = &reader.arrivals {
        arrivals.tell(cx);
    }
    let mut facts = reader.edges.facts(reader.accounts.events, reader.accounts.bytes, cx);
    facts.insert("first_run_lost".into(), reader.logs.lost().to_string());
    facts.insert("logs".into(), logs(params).to_string());
    facts.insert("capacity_bytes".into(), capacity_bytes.to_string());
    Ok(facts)
}

struct Reader<'a> {
    logs: Logs,
    accounts: Accounts,
    looks: u64,
    empty: u64,
    warm_messages: u64,
    counters: &'a SharedCounters,
    edges: Edges<'a>,
    /// At a rate.
    arrivals: Option<Arrivals<'a>>,
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
        if let Some(arrivals) = self.arrivals.as_mut().filter(|_| self.edges.is_empty()) {
            arrivals.begin();
        }
        let Accounts { events, bytes, .. } = self.accounts;
        self.edges.push(now_ns, Reads { events, bytes, calls: self.looks, empty: self.empty });
    }

    fn balance(&mut self) -> io::Result<Balance> {
        self.arrivals.iter_mut().for_each(Arrivals::end);
        self.take()?;
        Ok(self.edges.balance("messages", Counter::Messages, (self.accounts.events, self.accounts.sum)))
    }

    fn check(&self) -> io::Result<()> {
        for (writer, read) in (1..).zip(&self.accounts.next) {
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
    /// The first messages, while nothing else is under way.
    fn verify(&mut self, mut left: u64) -> io::Result<()> {
        while left > 0 {
            self.logs.wait()?;
            let accounts = &mut self.accounts;
            left -= self.logs.take_each(&mut |seen| accounts.verify(seen))?;
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self) -> io::Result<u64> {
        let (accounts, arrivals) = (&mut self.accounts, &mut self.arrivals);
        self.logs.take_each(&mut |seen| {
            let (writer, sequence) = accounts.take(seen)?;
            if let Some(arrivals) = arrivals {
                arrivals.arrived(writer, sequence - VERIFIED);
            }
            Ok(())
        })
    }
}

pub(super) fn write(outbox: Outbox, counters: &SharedCounters, cx: &mut Ctx<'_>) -> io::Result<Facts> {
    let params = cx.params;
    let Outbox { publisher, _group } = outbox;
    let mut writer = Writer {
        publisher,
        sent: Sent::new(counters, cx.role),
        writer: cx.role as u64 - 1,
        len: params.payload_bytes,
        touch: params.touch,
        share: Share::new(cx, counters),
        chunk: CHUNK.min(CHUNK_BYTES / params.payload_bytes.max(1)).max(1),
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
    /// Messages after those that were verified, and the sum that a reader must take over them.
    sent: Sent<'a>,
    writer: u64,
    len: usize,
    touch: Touch,
    /// At a rate.
    share: Option<Share<'a>>,
    chunk: usize,
}

impl Follower for Writer<'_> {
    #[inline]
    fn step(&mut self) -> io::Result<()> {
        // Who sleeps between two messages looks after each.
        let chunk = if self.share.is_some() { 1 } else { self.chunk };
        for _ in 0..chunk {
            if let Some(share) = &mut self.share {
                share.await_due(self.sent.messages);
            }
            let word = self.send(VERIFIED + self.sent.messages, self.touch)?;
            self.sent.sum = self.sent.sum.wrapping_add(touch::expected(self.len, word, self.touch));
            self.sent.messages += 1;
        }
        self.sent.publish(self.len);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.sent.publish_switches();
        Ok(())
    }
}

impl Writer<'_> {
    /// Sends the message with this number, and returns its word.
    #[inline]
    fn send(&mut self, sequence: u64, touch: Touch) -> io::Result<u64> {
        let word = word(self.writer, sequence);
        let mut room = loan(&mut self.publisher, self.len)?;
        touch::write(room.as_mut(), word, touch);
        room.commit()?;
        Ok(word)
    }
}
