//! What a sender answers to a receiver that begins, or that lacks messages.

use std::time::Instant;

use causeway::Position;
use zenoh::Wait;
use zenoh::query::Query;

use super::{ANSWER_BYTES_MAX, CROWDED, Outgoing, PART_BYTES, Peer, SENT_BYTES_MAX, Way};
use crate::failure::Result;
use crate::status::count;
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
                let now = Instant::now();
                if let Some(peer) = self.peers.get_mut(&host) {
                    peer.heard = now;
                }
                // A message that went alone found no space perhaps.
                self.alone_from = now + CROWDED;
                self.send_again(query, from, to, number("part").unwrap_or(0));
            }
            _ => {
                if self.is_resting() {
                    // What was published meanwhile is sent to those who ask for it.
                    let head = self.group.report()?.messages;
                    while self.read < head && self.receive(Way::Nowhere)? {}
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
        self.peers.insert(host, Peer { acked: begin, heard: Instant::now() });
        self.peers_changed();
    }

    /// Sends what lies from one index up to before another, as far as it is still there, and says of the rest that it is lost. The
    /// receiver has `part` bytes of the first message if that is a long one.
    fn send_again(&mut self, query: &Query, from: u64, to: u64, part: u64) {
        let (mut at, to, mut bytes) = (from, to.min(self.next), 0);
        let mut stamp = Stamp { is_awaited: false, ..self.stamp.clone() };
        let (route, keys, link) = (&self.route, &self.keys, self.keys.link(&self.net.host));
        let reply = |stamp: &Stamp, payload: Vec<u8>| {
            // Under the key that it had before: what a rule keeps back there is kept back here.
            let is_message = stamp.kind == Kind::Message;
            let is_part = stamp.kind == Kind::Part && !payload.is_empty();
            let key = if is_message || is_part { keys.topic(stamp.topic) } else { link.clone() };
            count(&route.counters.resent, u64::from(is_message));
            let _ = query.reply(key, payload).attachment(stamp.to_bytes()).wait();
        };
        // Where messages begin that are not there any more, and how many they are.
        let mut lost: Option<(u64, u64)> = None;
        let lose = |lost: &mut Option<(u64, u64)>, begin, messages| {
            let (begin, before) = lost.unwrap_or((begin, 0));
            *lost = Some((begin, before + messages));
        };
        let mut is_whole = true;
        let first = self.entries.partition_point(|entry| entry.index < from);
        for entry in self.entries.iter().skip(first).take_while(|entry| entry.from < to).copied() {
            if bytes > ANSWER_BYTES_MAX {
                is_whole = false;
                break;
            }
            // What is older than all entries; which of it crossed is not known.
            if entry.from > at {
                lose(&mut lost, at, entry.from - at);
                at = entry.from;
            }
            let payload = match self.long.take_if(|(of, _)| of.index == entry.index) {
                Some((of, payload)) => {
                    (stamp.publisher, stamp.sequence, stamp.topic) = (of.publisher, of.sequence, of.topic);
                    Some(payload)
                }
                None if entry.kind == Kind::Message => {
                    self.subscriber.read_again(Position(entry.position)).ok().flatten().map(|message| {
                        (stamp.publisher, stamp.sequence, stamp.topic) =
                            (message.publisher, message.sequence, message.topic);
                        message.bytes.to_vec()
                    })
                }
                None => None,
            };
            match (entry.kind, &payload) {
                (Kind::Message, None) => lose(&mut lost, at, 1),
                (Kind::Lost, _) => lose(&mut lost, at, entry.index + 1 - at),
                _ => {
                    if let Some((begin, messages)) = lost.take() {
                        (stamp.kind, stamp.from, stamp.index) = (Kind::Lost, begin, at - 1);
                        reply(&stamp, messages.to_le_bytes().into());
                    }
                    (stamp.kind, stamp.from, stamp.index, stamp.position) =
                        (entry.kind, at, entry.index, entry.position);
                    let payload = payload.unwrap_or_default();
                    if payload.len() <= SENT_BYTES_MAX {
                        bytes += payload.len() + 64;
                        reply(&stamp, payload);
                    } else {
                        let (begin, length) = (if at == from { part as usize } else { 0 }, payload.len());
                        let begin = begin.min(length);
                        let end = length.min(begin + PART_BYTES.max(ANSWER_BYTES_MAX.saturating_sub(bytes)));
                        let of = |offset| Some(Part { offset: offset as u64, length: length as u64 });
                        stamp.kind = Kind::Part;
                        for offset in (begin..end).step_by(PART_BYTES) {
                            stamp.part = of(offset);
                            reply(&stamp, payload[offset..end.min(offset + PART_BYTES)].to_vec());
                        }
                        if end < length {
                            stamp.part = of(end);
                            reply(&stamp, Vec::new());
                        }
                        stamp.part = None;
                        bytes += end - begin;
                        self.long = Some((stamp.clone(), payload));
                        if end < length {
                            is_whole = false;
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
        if let Some((begin, messages)) = lost {
            (stamp.kind, stamp.from, stamp.index) = (Kind::Lost, begin, at - 1);
            reply(&stamp, messages.to_le_bytes().into());
        }
        if is_whole && at < to {
            (stamp.kind, stamp.from, stamp.index) = (Kind::Nothing, at, to - 1);
            reply(&stamp, Vec::new());
            at = to;
        }
        if from < at {
            (stamp.kind, stamp.from, stamp.index) = (Kind::End, from, at - 1);
            reply(&stamp, Vec::new());
        }
    }
}
