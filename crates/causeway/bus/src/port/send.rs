//! Sending: a message into the outbox, its entry into the order log, and those it is for awake.

use std::sync::atomic::Ordering;

use causeway_dbus_wire::wire::{Header, Layout, Numbers};
use causeway_os::clock;

use super::{AUTHORITY, Descriptors, NotSent, Port, To, TransferRef, is_member};
use crate::error::Error;
use crate::shared::directory::State;
use crate::shared::filter::SignalTexts;
use crate::shared::header::{BusHeader, HEADER_BYTES};
use crate::shared::outbox::Outbox;
use crate::shared::ring::{self, BROADCAST, Cell, Cells, Entry, NotAppended};

/// Members that may hold messages of this one, each counted for each message: a bound for large outboxes with many small signals.
const HOLDERS_MAX: usize = 1 << 20;

/// A message to be sent: its bytes, and what of its header the bus needs.
#[derive(Clone, Copy, Debug)]
pub struct Outbound<'a> {
    /// For whom it is.
    pub to: To,
    pub sender: u64,
    /// What decides who wants it, if it is for all.
    pub signal: Option<SignalTexts<'a>>,
    pub numbers: Numbers,
    pub header_bytes: usize,
    pub bytes: &'a [u8],
}

impl<'a> Outbound<'a> {
    pub fn new(to: To, sender: u64, header: &Header<'a>, bytes: &'a [u8]) -> Outbound<'a> {
        let Header { kind, flags, serial, header_bytes, body_bytes, reply_serial, unix_fds, .. } = *header;
        let numbers = Numbers { kind, flags, serial, body_bytes, reply_serial, unix_fds };
        let signal = (to == To::All).then(|| SignalTexts::new(sender, header, &bytes[header_bytes..]));
        Outbound { to, sender, signal, numbers, header_bytes, bytes }
    }

    /// A message of this layout. The texts of its header are not looked at unless it is for all.
    #[inline]
    pub fn of_layout(to: To, sender: u64, layout: &Layout, bytes: &'a [u8]) -> Outbound<'a> {
        let signal = match to {
            To::All => Some(SignalTexts::of_layout(sender, layout, bytes)),
            To::Peer { .. } => None,
        };
        let (numbers, header_bytes) = (layout.numbers(bytes), layout.header_bytes());
        Outbound { to, sender, signal, numbers, header_bytes, bytes }
    }
}

/// A message of this member that others may still have to read.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// Where the next message begins.
    end: u64,
    pub(super) entry: u64,
    pub(super) holders: Holders,
}

/// Members that must pass an entry before its message may be overwritten.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holders {
    One(u16),
    /// So many, whose slots are in the queue of holders.
    Queued(usize),
}

impl Port {
    /// The longest message that the outbox takes; longer ones go into a file ([`TransferRef`]).
    pub fn longest_message(&self) -> usize {
        (self.outbox.capacity_bytes() / 4) as usize - HEADER_BYTES
    }

    /// When the last message was sent, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn sent_ns(&self) -> u64 {
        self.sent_ns
    }

    pub fn find_end(&mut self) -> u64 {
        self.end = self.end.max(self.cursor);
        ring::skip_to_hint(&*self.order, &mut self.end);
        while let Cell::Present(_) = ring::look(&*self.order, self.end) {
            self.end += 1;
        }
        self.end
    }

    /// Sends a message, and wakes those it is for. What is staged must be with the authority already.
    pub fn send(
        &mut self,
        fds: &mut dyn Descriptors,
        message: &Outbound<'_>,
        transfer: TransferRef,
    ) -> std::result::Result<u64, NotSent> {
        // Whether this member was evicted is asked before its entry is exchanged.
        self.check_whole()?;
        let &Outbound { to, sender, ref signal, numbers, header_bytes, bytes } = message;
        let (most, inline) = (self.longest_message(), transfer.inline(header_bytes, bytes));
        if inline.len() > most {
            return Err(Error::TooLong { bytes: inline.len(), most }.into());
        }
        self.make_space(Outbox::frame_bytes(inline.len()))?;
        let (destination, number) = match to {
            To::All => (BROADCAST, 0),
            To::Peer { slot, id } => (slot, id),
        };
        let cached = signal.as_ref().map_or(0, |texts| self.subscribers.find(texts));
        self.sent_ns = clock::monotonic_ns();
        let place = self.outbox.write(
            BusHeader {
                sender,
                destination: number,
                serial: numbers.serial,
                reply_serial: numbers.reply_serial.unwrap_or(0),
                body_offset: header_bytes as u32,
                kind: numbers.kind.number(),
                flags: numbers.flags,
                form: transfer.form(),
                message_bytes: bytes.len() as u32,
                token: transfer.token,
                sent_ns: self.sent_ns,
                ..BusHeader::default()
            },
            inline,
        );
        self.order.sending(self.slot).store(1, Ordering::Release);
        let entry = Entry { sender: self.slot, destination, place };
        let sent = self.append(fds, entry);
        if let Ok(position) = sent {
            self.outbox.advance(inline.len());
            self.waits.end();
            ring::fence_after_append();
            let holders = match to {
                To::All => self.ring_subscribers(fds, cached),
                To::Peer { slot, .. } => {
                    self.ring(fds, slot);
                    if slot != AUTHORITY && self.directory.is_watched() {
                        self.ring(fds, AUTHORITY);
                        self.holders.extend([slot, AUTHORITY]);
                        Holders::Queued(2)
                    } else {
                        Holders::One(slot)
                    }
                }
            };
            self.outstanding.push_back(Outstanding { end: self.outbox.head(), entry: position, holders });
            if ring::is_one_in(position, self.order.capacity() / 2) {
                self.ring_laggards(fds, position);
            }
            self.pass_own(position, entry);
            self.order.count_sent(self.slot, bytes.len() as u64);
        }
        self.order.sending(self.slot).store(0, Ordering::Release);
        sent
    }

    fn append(&mut self, fds: &mut dyn Descriptors, entry: Entry) -> std::result::Result<u64, NotSent> {
        self.end = self.end.max(self.cursor);
        let mut has_raised = false;
        loop {
            let (order, directory, slot, id) = (&*self.order, &self.directory, self.slot, self.id);
            let is_out = || !is_member(order, directory, slot, id);
            match ring::append(order, &mut self.end, entry, is_out) {
                Ok(position) => return Ok(position),
                Err(NotAppended::Out) => return Err(self.evicted_error().into()),
                Err(NotAppended::Foreign { position, word }) => {
                    return Err(self.broken(fds, Some(Entry::of(word).sender), position).into());
                }
                Err(NotAppended::Full) => {
                    // One that was evicted must not press others.
                    self.check()?;
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

    /// Is there a member in this slot that was not evicted?
    pub(super) fn is_present(&self, slot: u16) -> bool {
        let (id, state) = self.directory.id_and_state(slot);
        state == State::Active && self.order.evicted(slot).load(Ordering::Relaxed) != id
    }

    /// Frees what has been passed, until `bytes` fit.
    fn make_space(&mut self, bytes: u64) -> std::result::Result<(), NotSent> {
        let capacity = self.outbox.capacity_bytes();
        if self.outbox.used_bytes() + bytes <= capacity / 2 && self.holders.len() <= HOLDERS_MAX / 2 {
            return Ok(());
        }
        let (mut blocked, mut passed) = (None, None);
        while let Some(front) = self.outstanding.front() {
            blocked = self.unpassed_holder(front);
            if blocked.is_some() {
                break;
            }
            passed = Some(front.end);
            if let Holders::Queued(count) = front.holders {
                self.holders.drain(..count);
            }
            self.outstanding.pop_front();
        }
        if let Some(floor) = passed {
            self.outbox.raise_floor(floor);
        }
        let is_full = self.outbox.used_bytes() + bytes > capacity || self.holders.len() > HOLDERS_MAX;
        match blocked.filter(|_| is_full) {
            Some(slot) => {
                self.check()?;
                Err(NotSent::Full(slot))
            }
            None => Ok(()),
        }
    }

    /// A member that must still pass the entry of the oldest message.
    fn unpassed_holder(&self, front: &Outstanding) -> Option<u16> {
        let must_pass = |slot: &u16| self.must_pass(*slot, front.entry);
        match front.holders {
            Holders::One(slot) => Some(slot).filter(must_pass),
            Holders::Queued(count) => self.holders.iter().take(count).copied().find(must_pass),
        }
    }

    /// Is the member in this slot there, and before this entry?
    pub(super) fn must_pass(&self, slot: u16, entry: u64) -> bool {
        let cursor = if slot == self.slot {
            self.cursor
        } else {
            self.order.cursor(slot).load(Ordering::Acquire) // PAIR order-limit
        };
        cursor <= entry && self.is_present(slot)
    }

    /// Wakes the members that a signal is for; returns who holds its space.
    #[inline(never)]
    fn ring_subscribers(&mut self, fds: &mut dyn Descriptors, signal: usize) -> Holders {
        let mut subscribers = std::mem::take(&mut self.subscribers);
        let slots = subscribers.slots(signal, &self.directory);
        self.ring_all(fds, slots);
        let holders = Holders::Queued(slots.len());
        self.holders.extend(slots);
        self.subscribers = subscribers;
        holders
    }
}
