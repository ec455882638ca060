//! What the authority reads from the order log, and what it appends to it.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;

use causeway_dbus_wire::wire::Header;
use rustix::io::{Errno, ReadWriteFlags};

use super::{Authority, PeerId};
use crate::content::Bytes;
use crate::error::{Error, Result};
use crate::port::{AUTHORITY, AUTHORITY_ID, NotSent, Outbound, Received, To, TransferRef};
use crate::shared::order::Statistic;
use crate::shared::ring::{self, Sleep};

/// A message of a member, as it stands in the order log.
#[derive(Debug)]
pub struct InboundMessage {
    /// Position in the order log.
    pub position: u64,
    /// Number of the sender.
    pub sender: PeerId,
    /// Number of the destination, that of the bus itself included; `None` for all who want it.
    pub to: Option<PeerId>,
    /// The D-Bus message; only its place and length were checked. A long one is mapped.
    pub bytes: Bytes,
    /// The descriptors that came with it, as many as it names.
    pub descriptors: Vec<OwnedFd>,
    /// Why something that belongs to it is not here; of a long message there is only the header then. Nothing where all is here.
    pub missing: Option<String>,
}

impl InboundMessage {
    /// Is it for the bus itself?
    pub fn is_for_bus(&self) -> bool {
        self.to == Some(AUTHORITY_ID)
    }
}

/// How far the authority was at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asleep {
    cursor: u64,
    received: u64,
    evictions: u64,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It stands at this position of the order log.
    At(u64),
    /// Not yet: there is no space before the log has been read further, by the authority itself or by a member. Try again after
    /// reading; this evicts a member that blocks others for longer than the laggard deadline.
    Full,
    /// Never: it, or of one that is staged its header, is longer than a quarter of the outbox.
    TooLong,
}

impl Authority {
    /// The position behind the last entry of the log, as of now.
    pub fn end(&mut self) -> u64 {
        self.port.find_end()
    }

    /// The next message of a member for the host, if its entry is before `end`. Nothing means that the log has been
    /// read that far. Fails if the bus is broken: it has ended, and all members get the same error.
    pub fn next(&mut self, end: u64) -> Result<Option<InboundMessage>> {
        if self.read_ahead.is_none() {
            if self.port.cursor() >= end {
                return Ok(None);
            }
            while self.read_ahead.is_none() {
                let mut received = Received::default();
                if !self.port.next(&mut self.fds, &mut received)? {
                    break;
                }
                self.read_ahead = self.complete(received);
            }
        }
        Ok(self.read_ahead.take_if(|inbound| inbound.position < end))
    }

    /// Bytes of the longest message that stands in the log; those of longer ones are in files.
    pub fn longest_message(&self) -> usize {
        self.port.longest_message()
    }

    /// Appends a message of a client, of a member or of the bus itself (sender `None`), whose sender is filled in, and wakes those
    /// it is for: `to`, or all who want it. The staged transfer is that of [`Authority::stage_for`] or [`Authority::stage_header_only`].
    pub fn append(
        &mut self,
        sender: Option<PeerId>,
        to: Option<PeerId>,
        bytes: &[u8],
        transfer: TransferRef,
    ) -> Result<Appended> {
        let header = Header::parse(bytes)?;
        let (sender, to) = (sender.unwrap_or(AUTHORITY_ID), self.address(to));
        let outbound = Outbound::new(to, sender, &header, bytes);
        let slot = match self.port.send(&mut self.fds, &outbound, transfer) {
            Ok(position) => {
                self.note_sent(transfer, &outbound, position);
                return Ok(Appended::At(position));
            }
            Err(NotSent::Failed(Error::TooLong { .. })) => return Ok(Appended::TooLong),
            Err(NotSent::Failed(error)) => return Err(error),
            Err(NotSent::Full(slot)) => slot,
        };
        if slot != AUTHORITY {
            self.port.wake_or_evict(&mut self.fds, slot, self.options.laggard_deadline);
        }
        Ok(Appended::Full)
    }

    /// Where the messages of a connection go, or of all.
    pub(super) fn address(&self, to: Option<PeerId>) -> To {
        let Some(id) = to else { return To::All };
        let connection = self.connections.get(&id).filter(|connection| connection.link.is_some());
        // The authority carries what is for clients, shown or not, and for the bus.
        To::Peer { slot: connection.map_or(AUTHORITY, |connection| connection.index), id }
    }

    /// Announces that this thread sleeps until the descriptor is readable; false if there is something to do instead.
    #[must_use]
    pub fn prepare_to_wait(&mut self) -> bool {
        self.count_woken();
        self.port.publish_cursor();
        self.asleep = self.progress();
        ring::arm(self.port.order().armed(AUTHORITY), Sleep::Doorbell);
        self.is_asleep = self.read_ahead.is_none() && !self.port.is_ready() && !self.has_evictions();
        if !self.is_asleep {
            ring::disarm(self.port.order().armed(AUTHORITY));
        }
        self.is_asleep
    }

    /// After sleeping: nobody needs to ring any more. [`Authority::dispatch`] finds out whether somebody has.
    pub fn wake_up(&mut self) {
        ring::disarm(self.port.order().armed(AUTHORITY));
    }

    /// Takes the rings of the doorbell, and counts the first after a sleep: the mark tells nothing, its member may be stopped.
    pub(super) fn take_rings(&mut self) {
        let was_rung = take_ring(&self.doorbell);
        if was_rung && std::mem::take(&mut self.is_asleep) {
            self.port.order().count(AUTHORITY, Statistic::Wakes, 1);
            self.was_woken = true;
        }
    }

    fn progress(&self) -> Asleep {
        let received = self.port.order().statistic(AUTHORITY, Statistic::Received);
        Asleep { cursor: self.port.cursor(), received, evictions: self.evictions }
    }

    /// Counts the last wake-up if it brought neither a message nor the end of a member.
    fn count_woken(&mut self) {
        let (before, now) = (self.asleep, self.progress());
        let was_woken = std::mem::take(&mut self.was_woken);
        if was_woken && (before.received, before.evictions) == (now.received, now.evictions) {
            self.port.count_idle_wake(before.cursor);
        }
    }
}

/// Takes what was rung, without waiting: members have this doorbell, and each of them can make it block, or take what another one rang.
fn take_ring(doorbell: &OwnedFd) -> bool {
    let mut count = [0; 8];
    let at_once = ReadWriteFlags::NOWAIT;
    match rustix::io::preadv2(doorbell, &mut [IoSliceMut::new(&mut count)], u64::MAX, at_once) {
        // Before Linux 5.8.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => rustix::io::read(doorbell, &mut count).is_ok(),
        outcome => outcome.is_ok(),
    }
}
