//! Reading: entries in their order, and the messages that they refer to.

use std::sync::atomic::Ordering;

use super::{AUTHORITY, Descriptors, Port, Received};
use crate::error::{Error, Result};
use crate::shared::header::BusHeader;
use crate::shared::order::Statistic;
use crate::shared::outbox::Found;
use crate::shared::ring::{self, BROADCAST, Cell, Entry};

/// The cursor is published when it has advanced so far.
const CURSOR_EVERY: u64 = 64;
/// And when so many bytes were received.
const CURSOR_EVERY_BYTES: usize = 16 << 10;

impl Port {
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The place after the last entry of a slot, as far as this port has read.
    pub fn next_place(&self, slot: u16) -> u32 {
        self.places[usize::from(slot)].map_or(0, |place| place.wrapping_add(1))
    }

    /// Is there an entry that was not read yet, or another reason not to sleep?
    pub fn is_ready(&self) -> bool {
        !matches!(ring::look(&*self.order, self.cursor), Cell::Free(_))
            || self.order.broken().is_some()
            || self.is_evicted()
    }

    #[inline]
    pub fn has_entry(&self) -> bool {
        matches!(ring::look(&*self.order, self.cursor), Cell::Present(_))
    }

    /// Tells the others how far this member has read.
    #[inline]
    pub fn publish_cursor(&mut self) {
        // The place of one that was evicted may be another's by now.
        if self.published != self.cursor && !self.is_evicted() {
            self.publish_cursor_of_member();
        }
    }

    /// As [`Port::publish_cursor`], where this member was just found not to be evicted.
    fn publish_cursor_of_member(&mut self) {
        if self.published != self.cursor {
            self.order.cursor(self.slot).store(self.cursor, Ordering::Release); // PAIR order-limit
            (self.published, self.unpublished_bytes) = (self.cursor, 0);
        }
    }

    /// Is there an entry that was not read yet? Fails where [`Port::next`] would for a cell without one.
    #[inline]
    pub fn find_entry(&mut self, fds: &mut dyn Descriptors) -> Result<bool> {
        match ring::look(&*self.order, self.cursor) {
            Cell::Present(_) => Ok(true),
            cell => self.no_entry(fds, cell).map(|()| false),
        }
    }

    /// There is no entry at the cursor, but this cell.
    fn no_entry(&mut self, fds: &mut dyn Descriptors, cell: Cell) -> Result<()> {
        self.check()?;
        if let Cell::Foreign(word) = cell {
            return Err(self.broken(fds, Some(Entry::of(word).sender), self.cursor));
        }
        // Nobody can know when this member looks again.
        self.publish_cursor_of_member();
        Ok(())
    }

    /// Reads the next message that may concern this member into the place of one that has no descriptors any more; false when there is no further entry, and nothing is said of that
    /// place then. Fails if the bus is broken, this member was evicted, or a descriptor that is needed is out of reach.
    pub fn next(&mut self, fds: &mut dyn Descriptors, received: &mut Received) -> Result<bool> {
        loop {
            let position = self.cursor;
            let entry = match ring::look(&*self.order, position) {
                Cell::Present(entry) => entry,
                cell => return self.no_entry(fds, cell).map(|()| false),
            };
            let is_taken = self.take(fds, position, entry, received)?;
            self.cursor = position + 1;
            // What belongs to a signal is held for those that have not passed it.
            let mut must_hold = false;
            if is_taken {
                self.unpublished_bytes += received.bytes.len();
                must_hold = received.header.token != 0 && received.header.destination == 0;
            }
            let is_far =
                self.cursor - self.published >= CURSOR_EVERY || self.unpublished_bytes >= CURSOR_EVERY_BYTES;
            if is_far && !must_hold {
                self.publish_cursor();
            }
            if is_taken {
                self.order.count(self.slot, Statistic::Received, 1);
                return Ok(true);
            }
        }
    }

    /// Checks an entry, and reads what it refers to if that may concern this member.
    #[inline]
    fn take(
        &mut self,
        fds: &mut dyn Descriptors,
        position: u64,
        entry: Entry,
        received: &mut Received,
    ) -> Result<bool> {
        let Entry { sender: slot, destination, place } = entry;
        let slots = self.order.slots() as u16;
        if slot >= slots || destination >= slots && destination != BROADCAST {
            self.check()?;
            return Err(self.broken(fds, (slot < slots).then_some(slot), position));
        }
        let last = &mut self.places[usize::from(slot)];
        if last.is_some_and(|last| !entry.follows(last)) {
            self.check()?;
            return Err(self.broken(fds, Some(slot), position));
        }
        let before = last.replace(place);
        if !self.wants(entry) {
            return Ok(false);
        }
        let found = match self.open_outbox(fds, slot) {
            Ok(Some(outbox)) => outbox.read(place, &mut received.header, received.bytes.buffer()),
            Ok(None) => Found::Damaged("there is no such member"),
            Err(Error::AuthorityGone) => {
                // Nobody has the descriptor of the outbox any more: this message cannot be read, others can.
                self.order.count(self.slot, Statistic::Gone, 1);
                if destination == self.slot {
                    self.note_unread(slot);
                }
                return Ok(false);
            }
            Err(error) => {
                // Nothing was read: who tries again finds the entry as it was.
                self.places[usize::from(slot)] = before;
                return Err(error);
            }
        };
        match found {
            Found::Message if self.is_plausible(slot, destination, &received.header) => {
                (received.position, received.slot) = (position, slot);
                Ok(true)
            }
            // Its space was free, because it was not for this member, or the filter of this member did not ask for it.
            Found::Gone if destination != self.slot && !self.is_evicted() => {
                self.has_missed_bus |= slot == AUTHORITY;
                self.order.count(self.slot, Statistic::Gone, 1);
                Ok(false)
            }
            _ => {
                self.check()?;
                Err(self.broken(fds, Some(slot), position))
            }
        }
    }

    /// May the message of an entry concern this member?
    #[inline]
    fn wants(&self, Entry { sender, destination, .. }: Entry) -> bool {
        let is_wanted = if destination == BROADCAST {
            sender == AUTHORITY || self.wants_signals
        } else {
            destination == self.slot || self.wants_everything
        };
        is_wanted && !(self.skips_own && sender == self.slot)
    }

    /// Passes an own entry that this member need not read, if it has read all before it.
    #[inline]
    pub(super) fn pass_own(&mut self, position: u64, entry: Entry) {
        if position == self.cursor && !self.wants(entry) {
            self.places[usize::from(self.slot)] = Some(entry.place);
            self.cursor = position + 1;
        }
    }

    /// Does a header agree with the entry, and the sender with what the directory said when the outbox was opened?
    fn is_plausible(&self, slot: u16, destination: u16, header: &BusHeader) -> bool {
        let is_sender = slot == AUTHORITY || self.others[usize::from(slot)].id == header.sender;
        is_sender && (destination == BROADCAST) == (header.destination == 0) && header.is_possible()
    }
}
