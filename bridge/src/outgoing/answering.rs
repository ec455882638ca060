//! What a sender answers to a receiver that begins, or that lacks messages.

use std::ops::Range;
use std::time::Instant;

use causeway::{Error, Position};
use zenoh::Wait;
use zenoh::query::Query;

use super::{ANSWER_BYTES_MAX, ANSWERED_FOR, CROWDED, Long, Outgoing, PART_BYTES, SENT_BYTES_MAX, Way};
use crate::failure::Result;
use crate::keys::GroupKeys;
use crate::status::{Route, count};
use crate::wire::{Kind, Packet, Part, Stamp};

impl Outgoing {
    pub(super) fn answer(&mut self, query: &Query) -> Result<()> {
        let number = |name| query.parameters().get(name).and_then(|text| text.parse::<u64>().ok());
        let packet = query.payload().and_then(|payload| Packet::parse(&payload.to_bytes()));
        let Some(Packet::Hello { host, group, next }) = packet else {
            count(&self.route.counters.refused, 1);
            let _ = query.reply_err("not understood: this bridge speaks format 1").wait();
            return Ok(());
        };
        match (number("from"), number("to")) {
            (Some(from), Some(to)) => {
                let (now, part) = (Instant::now(), number("part").unwrap_or(0));
                if let Some(peer) = self.peers.get_mut(&host) {
                    peer.heard = now;
                    if part > peer.part {
                        peer.moved = now;
                    }
                    peer.part = part;
                }
                // A message that went alone found no space perhaps.
                self.alone_from = now + CROWDED;
                self.send_again(query, from, to, part);
            }
            _ => {
                if self.is_resting() {
                    // What was published meanwhile is sent to those who ask for it.
                    match self.group.report() {
                        Ok(report) => while self.read < report.messages && self.receive(Way::Nowhere)? {},
                        Err(Error::NoAnswer) => self.stood_still(),
                        Err(error) => return Err(error.into()),
                    }
                }
                self.welcome(query, host, group, next);
            }
        }
        Ok(())
    }

    /// A receiver begins, or begins again.
    fn welcome(&mut self, query: &Query, host: u64, group: u64, next: u64) {
        let own = self.stamp.group;
        let begin = match group {
            0 => self.next,
            of if of != own => self.entries.front().map_or(self.from, |entry| entry.from),
            _ if next <= self.next => next,
            _ => {
                count(&self.route.counters.refused, 1);
                let why = format!(
                    "host {host:016x} says that it has {next} messages, but there are {}; not believed",
                    self.next
                );
                self.route.fail(&why);
                let _ = query.reply_err(why).wait();
                return;
            }
        };
        let welcome = Packet::Welcome { host: self.net.id, group: own, begin, head: self.next };
        let _ = query.reply(self.keys.link(&self.net.host), welcome.to_bytes()).wait();
        self.insert(host, begin);
        self.peers_changed();
    }

    /// Sends what lies from one index up to before another, as far as it is still there, and says of the rest that it is lost. The
    /// receiver has `part` bytes of the first message if that is a long one.
    fn send_again(&mut self, query: &Query, from: u64, to: u64, part: u64) {
        let (mut at, to) = (from, to.min(self.next));
        let stamp = Stamp { is_awaited: false, ..self.stamp.clone() };
        let link = self.keys.link(&self.net.host);
        let (keys, route, until) = (&self.keys, &self.route, Instant::now() + ANSWERED_FOR);
        let mut answer = Answer { query, keys, route, link, stamp, bytes: 0, until };
        // Where messages begin that are not there any more, and how many they are.
        let mut lost: Option<(u64, u64)> = None;
        let lose = |lost: &mut Option<(u64, u64)>, begin, messages| {
            let (begin, before) = lost.unwrap_or((begin, 0));
            *lost = Some((begin, before + messages));
        };
        let mut is_whole = true;
        let first = self.entries.partition_point(|entry| entry.index < from);
        for entry in self.entries.iter().skip(first).take_while(|entry| entry.from < to).copied() {
            if answer.bytes > ANSWER_BYTES_MAX || Instant::now() > answer.until {
                is_whole = false;
                break;
            }
            // What is older than all entries; which of it crossed is not known.
            if entry.from > at {
                lose(&mut lost, at, entry.from - at);
                at = entry.from;
            }
            let payload = match self.long.take_if(|long| long.index == entry.index) {
                Some(Long { topic, payload, .. }) => Some((topic, payload)),
                None if entry.kind == Kind::Message => {
                    let again = self.subscriber.read_again(Position(entry.position)).ok().flatten();
                    again.map(|of| (of.topic, of.bytes.to_vec()))
                }
                None => None,
            };
            match (entry.kind, payload) {
                (Kind::Message, None) => lose(&mut lost, at, 1),
                (Kind::Lost, _) => lose(&mut lost, at, entry.index + 1 - at),
                (kind, payload) => {
                    answer.lost(lost.take(), at);
                    let (topic, payload) = payload.unwrap_or_default();
                    answer.stamp.topic = topic;
                    if payload.len() <= SENT_BYTES_MAX {
                        answer.say(kind, at..entry.index + 1, payload);
                    } else {
                        let there = if at == from { part } else { 0 };
                        is_whole = answer.parts(at..entry.index + 1, &payload, there);
                        self.long = Some(Long { index: entry.index, topic, payload });
                        if !is_whole {
                            break;
                        }
                    }
                }
            }
            at = entry.index + 1;
        }
        if is_whole && at < to.min(self.from) {
            lose(&mut lost, at, to.min(self.from) - at);
            at = to.min(self.from);
        }
        answer.lost(lost, at);
        if is_whole && at < to {
            answer.say(Kind::Nothing, at..to, Vec::new());
            at = to;
        }
        if from < at {
            answer.say(Kind::End, from..at, Vec::new());
        }
    }
}

/// An answer, as it is sent.
struct Answer<'a> {
    query: &'a Query,
    keys: &'a GroupKeys,
    route: &'a Route,
    link: String,
    /// Of what is sent next.
    stamp: Stamp,
    /// What was sent.
    bytes: usize,
    /// Nothing more is begun then.
    until: Instant,
}

impl Answer<'_> {
    /// Of these indices, all but the last of which do not cross.
    fn say(&mut self, kind: Kind, of: Range<u64>, payload: Vec<u8>) {
        (self.stamp.kind, self.stamp.from, self.stamp.index) = (kind, of.start, of.end - 1);
        self.bytes += payload.len() + 64;
        // Under the key that it had before: what a rule keeps back there is kept back here.
        let has_payload = kind == Kind::Message || kind == Kind::Part && !payload.is_empty();
        let key = if has_payload { self.keys.topic(self.stamp.topic) } else { self.link.clone() };
        count(&self.route.counters.resent, u64::from(kind == Kind::Message));
        let attachment = self.stamp.to_bytes(&payload);
        let _ = self.query.reply(key, payload).attachment(attachment).wait();
    }

    /// So many messages up to `end` are lost, from an index on.
    fn lost(&mut self, lost: Option<(u64, u64)>, end: u64) {
        if let Some((begin, messages)) = lost {
            self.say(Kind::Lost, begin..end, messages.to_le_bytes().into());
        }
    }

    /// Parts of a long message of which so many bytes are there, as far as there is space. Whether that is to its end.
    fn parts(&mut self, of: Range<u64>, payload: &[u8], there: u64) -> bool {
        let begin = payload.len().min(there as usize);
        let space = PART_BYTES.max(ANSWER_BYTES_MAX.saturating_sub(self.bytes));
        let end = payload.len().min(begin + space);
        let mut at = begin;
        while at < end && (at == begin || Instant::now() < self.until) {
            let next = end.min(at + PART_BYTES);
            self.part(&of, at, payload.len(), &payload[at..next]);
            at = next;
        }
        let is_whole = at == payload.len();
        if !is_whole {
            self.part(&of, at, payload.len(), &[]);
        }
        self.stamp.part = None;
        is_whole
    }

    fn part(&mut self, of: &Range<u64>, offset: usize, length: usize, part: &[u8]) {
        self.stamp.part = Some(Part { offset: offset as u64, length: length as u64 });
        self.say(Kind::Part, of.clone(), part.to_vec());
    }
}
