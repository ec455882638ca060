//! What a port knows of the other members: their outboxes and doorbells.

use std::os::fd::OwnedFd;

use super::{AUTHORITY, Descriptors, Port};
use crate::error::Result;
use crate::shared::header::BusHeader;
use crate::shared::outbox::ForeignOutbox;
use crate::shared::ring::Entry;

/// What a port knows of the member in a slot.
#[derive(Debug, Default)]
pub(super) struct Other {
    pub(super) id: u64,
    pub(super) outbox: Option<ForeignOutbox>,
    pub(super) doorbell: Option<OwnedFd>,
    /// It lacks the outbox of this member, and nobody has the descriptor any more.
    cannot_read_us: bool,
    /// The same the other way round, and noted in `unread`.
    is_noted: bool,
}

impl Port {
    /// What is known of the member that has the slot now.
    #[inline]
    pub(super) fn other(&mut self, slot: u16) -> &mut Other {
        let id = self.directory.id(slot);
        let other = &mut self.others[usize::from(slot)];
        if other.id != id {
            *other = Other { id, ..Other::default() };
        }
        other
    }

    /// The outbox of the member that has the slot now; `None` if there is none.
    #[inline]
    pub(super) fn open_outbox(
        &mut self,
        fds: &mut dyn Descriptors,
        slot: u16,
    ) -> Result<Option<&ForeignOutbox>> {
        if self.other(slot).outbox.is_none() {
            self.fetch_outbox(fds, slot)?;
        }
        Ok(self.others[usize::from(slot)].outbox.as_ref())
    }

    #[cold]
    fn fetch_outbox(&mut self, fds: &mut dyn Descriptors, slot: u16) -> Result<()> {
        let other = &mut self.others[usize::from(slot)];
        if let Some(fd) = fds.outbox(slot, other.id)? {
            other.outbox = Some(ForeignOutbox::open(&fd)?);
        }
        Ok(())
    }

    /// The header of the message that an entry refers to, if it is still there.
    pub fn header_of(&mut self, fds: &mut dyn Descriptors, entry: Entry) -> Option<BusHeader> {
        if usize::from(entry.sender) >= self.order.slots() {
            return None;
        }
        self.open_outbox(fds, entry.sender).ok()??.header(entry.place)
    }

    /// Remembers the own outbox for reading: signals come back to their sender if it wants them.
    pub fn set_own_outbox(&mut self, fd: &OwnedFd) -> Result<()> {
        self.set_outbox(self.slot, ForeignOutbox::open(fd)?);
        Ok(())
    }

    /// Remembers the outbox of the member that has the slot now.
    pub fn set_outbox(&mut self, slot: u16, outbox: ForeignOutbox) {
        self.other(slot).outbox = Some(outbox);
    }

    pub fn set_doorbell(&mut self, slot: u16, doorbell: OwnedFd) {
        self.other(slot).doorbell = Some(doorbell);
    }

    /// Can messages pass both ways between this member and the one in a slot, also without the authority? False as well where the other
    /// one lacks the outbox of this member and has not said so yet: it says so when a message comes.
    pub fn exchanges_with(&self, slot: u16, id: u64) -> bool {
        let other = &self.others[usize::from(slot)];
        other.id == id && other.outbox.is_some() && !other.cannot_read_us
    }

    /// The member with this number cannot read what this one sends.
    pub fn note_cannot_read_us(&mut self, id: u64) {
        if let Some(other) = self.others.iter_mut().find(|other| other.id == id) {
            other.cannot_read_us = true;
        }
    }

    /// A message for this member was skipped, because nobody has the descriptor of its sender's outbox any more.
    pub(super) fn note_unread(&mut self, slot: u16) {
        let other = self.other(slot);
        // Once: what the other one says of it would not be read either, and two that cannot read each other would go on for ever.
        if slot != AUTHORITY && !std::mem::replace(&mut other.is_noted, true) {
            let id = other.id;
            self.unread.push(id);
        }
    }

    /// The number of a member that is to be told that this one cannot read its messages; each comes once.
    pub fn take_unread(&mut self) -> Option<u64> {
        self.unread.pop()
    }

    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Lets go of what is known of a member that has left, whose messages before this have been read.
    pub fn forget_member(&mut self, id: u64) {
        if let Some(other) = self.others.iter_mut().find(|other| other.id == id) {
            *other = Other::default();
        }
    }

    /// Lets go of what is known of the member in a slot.
    pub fn forget(&mut self, slot: u16) {
        self.others[usize::from(slot)] = Other::default();
    }
}
