//! Sending: a message into the outbox, its entry into the order log, and those it is for awake.

use std::sync::atomic::Ordering;

use causeway_os::clock;
use weighbridge_dbus::wire::Header;

use super::{AUTHORITY, Descriptors, NotSent, Parcel, Port, To, is_member};
use crate::error::Error;
use crate::shared::filter::SignalTexts;
use crate::shared::header::{BusHeader, HEADER_BYTES};
use crate::shared::order::Statistic;
use crate::shared::outbox::Outbox;
use crate::shared::ring::{self, BROADCAST, Cell, Cells, Entry, NotAppended};

/// A signal with more holders than this is held by all members.
const HOLDERS_MAX: usize = 64;
/// Entries that are looked at one by one before the hint is.
const MANY: u64 = 128;

/// A message of this member that others may still have to read.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// Where the next message begins.
    end: u64,
    /// Its entry.
    entry: u64,
    /// Members that must pass the entry; the slots are in the queue of holders. `None` for all.
    holders: Option<usize>,
}

impl Port {
    /// The longest message that the outbox takes; longer ones go into a file ([`Parcel`]).
    pub fn longest_message(&self) -> usize {
        (self.outbox.capacity_bytes() / 4) as usize - HEADER_BYTES
    }

    /// When the last message was sent, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn sent_ns(&self) -> u64 {
        self.sent_ns
    }

    /// The end of the log, as of now.
    pub fn find_end(&mut self) -> u64 {
        self.end = self.end.max(self.cursor);
        ring::skip_to_hint(&*self.order, &mut self.end);
        while let Cell::Present(_) = ring::look(&*self.order, self.end) {
            self.end += 1;
        }
        self.end
    }

    /// Sends a D-Bus message whose header was parsed from its bytes, as `sender`. Wakes those it is for. What travels beside the log
    /// is where its receivers find it already.
    pub fn send(
        &mut self,
        descriptors: &mut dyn Descriptors,
        to: To,
        sender: u64,
        header: &Header<'_>,
        message: &[u8],
        parcel: Parcel,
    ) -> std::result::Result<u64, NotSent> {
        self.check()?;
        let (most, inline) = (self.longest_message(), parcel.inline(header, message));
        if inline.len() > most {
            return Err(Error::TooLong { bytes: inline.len(), most }.into());
        }
        self.make_space(Outbox::frame_bytes(inline.len()))?;
        let (destination, number) = match to {
            To::All => (BROADCAST, 0),
            To::Peer { slot, id } => (slot, id),
        };
        let (signal, hashes) = match to {
            To::All => {
                let texts = SignalTexts::new(sender, header, &message[header.header_bytes..]);
                self.wanting.find(&texts)
            }
            To::Peer { .. } => (0, [0; 4]),
        };
        self.sent_ns = clock::monotonic_ns();
        let place = self.outbox.write(
            BusHeader {
                sender,
                destination: number,
                serial: header.serial,
                reply_serial: header.reply_serial.unwrap_or(0),
                body_offset: header.header_bytes as u32,
                kind: header.kind.number(),
                flags: header.flags,
                form: parcel.form(),
                message_bytes: message.len() as u32,
                token: parcel.token,
                sent_ns: self.sent_ns,
                hashes,
                ..BusHeader::default()
            },
            inline,
        );
        self.order.sending(self.slot).store(1, Ordering::Release);
        let sent = self.append(Entry { sender: self.slot, destination, place });
        if let Ok(position) = sent {
            self.outbox.advance(inline.len());
            ring::fence_after_append();
            let holders = match to {
                To::All => self.ring_listeners(descriptors, signal),
                To::Peer { slot, .. } => {
                    self.ring(descriptors, slot);
                    self.holders.push_back(slot);
                    let is_watched = slot != AUTHORITY && self.directory.is_watched();
                    if is_watched {
                        self.ring(descriptors, AUTHORITY);
                        self.holders.push_back(AUTHORITY);
                    }
                    Some(1 + usize::from(is_watched))
                }
            };
            self.outstanding.push_back(Outstanding { end: self.outbox.head(), entry: position, holders });
            if position.is_multiple_of(self.order.capacity() / 2) {
                self.ring_laggards(descriptors, position);
            }
            self.order.count(self.slot, Statistic::Sent, 1);
            self.order.count(self.slot, Statistic::SentBytes, message.len() as u64);
        }
        self.order.sending(self.slot).store(0, Ordering::Release);
        sent
    }

    fn append(&mut self, entry: Entry) -> std::result::Result<u64, NotSent> {
        self.end = self.end.max(self.cursor);
        if let Cell::Present(_) = ring::look(&*self.order, self.end + MANY) {
            ring::skip_to_hint(&*self.order, &mut self.end);
        }
        let mut has_raised = false;
        loop {
            let (order, directory, slot, id) = (&*self.order, &self.directory, self.slot, self.id);
            let is_out = || !is_member(order, directory, slot, id);
            match ring::append(order, &mut self.end, entry, is_out) {
                Ok(position) => return Ok(position),
                Err(NotAppended::Out) => return Err(self.out().into()),
                Err(NotAppended::Foreign { position, word }) => {
                    return Err(self.broken(Some(Entry::of(word).sender), position).into());
                }
                Err(NotAppended::Full) => {
                    let (lowest, slot) = self.lowest_cursor();
                    if has_raised && lowest + self.order.capacity() <= self.end {
                        return Err(NotSent::Full(slot));
                    }
                    ring::raise_limit(&*self.order, lowest);
                    has_raised = true;
                }
            }
        }
    }

    /// The lowest cursor of all present members, and whose it is.
    pub fn lowest_cursor(&mut self) -> (u64, u16) {
        self.publish_cursor();
        let (mut lowest, mut whose) = (self.cursor, self.slot);
        for slot in self.directory.present() {
            let cursor = self.order.cursor(slot).load(Ordering::Acquire); // PAIR order-limit
            if cursor < lowest && self.is_present(slot) {
                (lowest, whose) = (cursor, slot);
            }
        }
        (lowest, whose)
    }

    /// Is there a member in this slot that has not been put out?
    fn is_present(&self, slot: u16) -> bool {
        let (id, _) = self.directory.id_and_state(slot);
        is_member(&self.order, &self.directory, slot, id)
    }

    /// Frees what has been passed, until `bytes` fit.
    fn make_space(&mut self, bytes: u64) -> std::result::Result<(), NotSent> {
        let capacity = self.outbox.capacity_bytes();
        if self.outbox.used_bytes() + bytes <= capacity / 2 {
            return Ok(());
        }
        let (mut blocked, mut passed) = (None, None);
        while let Some(front) = self.outstanding.front() {
            blocked = self.unpassed_holder(front);
            if blocked.is_some() {
                break;
            }
            passed = Some(front.end);
            let holders = front.holders.unwrap_or(0);
            self.holders.drain(..holders);
            self.outstanding.pop_front();
        }
        if let Some(floor) = passed {
            self.outbox.raise_floor(floor);
        }
        match blocked {
            Some(slot) if self.outbox.used_bytes() + bytes > capacity => Err(NotSent::Full(slot)),
            _ => Ok(()),
        }
    }

    /// A member that must still pass the entry of the oldest message.
    fn unpassed_holder(&self, front: &Outstanding) -> Option<u16> {
        let must_pass = |slot: u16| {
            let cursor = match slot == self.slot {
                true => self.cursor,
                false => self.order.cursor(slot).load(Ordering::Acquire), // PAIR order-limit
            };
            cursor <= front.entry && self.is_present(slot)
        };
        match front.holders {
            Some(count) => self.holders.iter().take(count).copied().find(|slot| must_pass(*slot)),
            None => self.directory.present().find(|slot| must_pass(*slot)),
        }
    }

    /// Wakes the members that a signal is for; returns how many hold its space.
    fn ring_listeners(&mut self, descriptors: &mut dyn Descriptors, signal: usize) -> Option<usize> {
        let mut wanting = std::mem::take(&mut self.wanting);
        let slots = wanting.slots(signal, &self.directory);
        for slot in slots {
            self.ring(descriptors, *slot);
        }
        let count = (slots.len() <= HOLDERS_MAX).then_some(slots.len());
        if count.is_some() {
            self.holders.extend(slots);
        }
        self.wanting = wanting;
        count
    }
}
