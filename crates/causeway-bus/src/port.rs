//! One member's access to the bus: it sends and reads through shared memory. Connections and the authority are built on it.
//!
//! Nothing here waits. What stands in the way is returned as a value, and the caller decides how long to try.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use causeway_os::{clock, futex};
use weighbridge_dbus::wire::Header;

use crate::error::{Error, Result};
use crate::shared::directory::Directory;
use crate::shared::filter::SignalKeys;
use crate::shared::header::{BusHeader, HEADER_BYTES, INLINE};
use crate::shared::order::{Broken, OrderLog, Statistic};
use crate::shared::outbox::{ForeignOutbox, Found, Outbox};
use crate::shared::ring::{self, BROADCAST, Cell, Cells, Entry, NotAppended, Sleep};

/// Slot of the authority.
pub const AUTHORITY: u16 = 0;
/// Number of the authority.
pub const AUTHORITY_ID: u64 = 1;
/// A signal with more holders than this is held by all members.
const HOLDERS_MAX: usize = 64;
/// Entries that are looked at one by one before the hint is.
const MANY: u64 = 128;
/// The cursor is published when it has advanced so far.
const CURSOR_EVERY: u64 = 64;
/// And when so many bytes were received.
const CURSOR_EVERY_BYTES: usize = 16 << 10;

/// Where a port gets descriptors that it lacks.
pub trait Descriptors {
    /// The outbox of a member; `None` if it is gone.
    fn outbox(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>>;
    /// The doorbell of a member; `None` if it is gone or has none.
    fn doorbell(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>>;
}

/// For whom a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// All who want it.
    All,
    /// One peer.
    Peer {
        /// Its slot, or that of its carrier.
        slot: u16,
        /// Its number.
        id: u64,
    },
}

/// Why a message was not sent. Nothing of it can be seen by others then.
#[derive(Debug)]
pub enum NotSent {
    /// There is no space until this member has read.
    Full(u16),
    /// It will never be sent.
    Failed(Error),
}

impl From<Error> for NotSent {
    fn from(error: Error) -> NotSent {
        NotSent::Failed(error)
    }
}

/// A message that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Position in the order log.
    pub position: u64,
    /// Slot that carried it.
    pub slot: u16,
    /// What precedes it.
    pub header: BusHeader,
    /// The D-Bus message.
    pub bytes: Vec<u8>,
}

/// A message of this member that others may still have to read.
#[derive(Debug)]
struct Outstanding {
    /// Where the next message begins.
    end: u64,
    /// Its entry.
    entry: u64,
    /// Members that must pass the entry; the slots are in the queue of holders. `None` for all.
    holders: Option<usize>,
}

/// What a port knows of the member in a slot.
#[derive(Debug, Default)]
struct Other {
    id: u64,
    outbox: Option<ForeignOutbox>,
    doorbell: Option<OwnedFd>,
}

/// One member's access to the bus.
#[derive(Debug)]
pub struct Port {
    order: Arc<OrderLog>,
    directory: Arc<Directory>,
    outbox: Outbox,
    slot: u16,
    id: u64,
    cursor: u64,
    published: u64,
    unpublished_bytes: usize,
    /// From here on this member has not looked for the end.
    end: u64,
    outstanding: VecDeque<Outstanding>,
    holders: VecDeque<u16>,
    others: Vec<Other>,
    places: Vec<Option<u32>>,
    /// Does it want signals of members at all?
    pub wants_signals: bool,
    /// Does it want messages between others?
    pub wants_everything: bool,
    /// Does it know its own messages, so that it need not read them?
    pub skips_own: bool,
}

impl Port {
    /// The access of the member `id` in `slot`, which reads from `cursor` on.
    pub fn new(
        order: Arc<OrderLog>,
        directory: Arc<Directory>,
        outbox: Outbox,
        slot: u16,
        id: u64,
        cursor: u64,
    ) -> Port {
        let mut others = Vec::new();
        others.resize_with(order.slots(), Other::default);
        Port {
            places: vec![None; order.slots()],
            order,
            directory,
            outbox,
            slot,
            id,
            cursor,
            published: cursor,
            unpublished_bytes: 0,
            end: cursor,
            outstanding: VecDeque::new(),
            holders: VecDeque::new(),
            others,
            wants_signals: false,
            wants_everything: false,
            skips_own: false,
        }
    }

    /// The order log.
    pub fn order(&self) -> &Arc<OrderLog> {
        &self.order
    }

    /// The directory.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Own slot.
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Own number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Position of the next entry that it reads.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The place after the last entry of a slot, as far as this port has read.
    pub fn next_place(&self, slot: u16) -> u32 {
        self.places[usize::from(slot)].map_or(0, |place| place.wrapping_add(1))
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

    /// Was this member put out?
    pub fn is_evicted(&self) -> bool {
        !is_member(&self.order, &self.directory, self.slot, self.id)
    }

    fn out(&self) -> Error {
        Error::Disconnected("it did not read what others sent for longer than the bus allows".into())
    }

    /// Ends the bus because of an entry, and wakes all, so that they learn it.
    fn broken(&self, slot: Option<u16>, position: u64) -> Error {
        let first = self.order.set_broken(Broken { slot, position });
        for slot in self.directory.present().collect::<Vec<_>>() {
            if let Some((armed, Sleep::Futex)) = ring::asleep(self.order.armed(slot)) {
                let _ = futex::wake(self.order.armed(slot), u32::MAX);
                ring::mark_woken(self.order.armed(slot), armed);
            }
        }
        // It wakes those who sleep on doorbells.
        if let Some(doorbell) = &self.others[usize::from(AUTHORITY)].doorbell {
            let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        }
        self.describe(first)
    }

    fn describe(&self, broken: Broken) -> Error {
        let member = match broken.slot.map(|slot| (slot, self.directory.peer(slot))) {
            Some((_, Some(peer))) => format!(":1.{} (process {})", peer.id, peer.pid),
            Some((slot, None)) => format!("no member, in slot {slot},"),
            None => "no member".to_owned(),
        };
        Error::Broken { member, position: broken.position }
    }

    /// Fails if the bus is broken or this member was put out.
    pub fn check(&self) -> Result<()> {
        match self.order.broken() {
            Some(broken) => Err(self.describe(broken)),
            None if self.is_evicted() => Err(self.out()),
            None => Ok(()),
        }
    }

    /// The longest message that can be sent.
    pub fn longest_message(&self) -> usize {
        (self.outbox.capacity_bytes() / 4) as usize - HEADER_BYTES
    }

    /// Sends a D-Bus message whose header was parsed from its bytes, as `sender`. Wakes those it is for.
    pub fn send(
        &mut self,
        descriptors: &mut dyn Descriptors,
        to: To,
        sender: u64,
        header: &Header<'_>,
        message: &[u8],
    ) -> std::result::Result<u64, NotSent> {
        self.check()?;
        let most = self.longest_message();
        if message.len() > most {
            return Err(Error::TooLong { bytes: message.len(), most }.into());
        }
        self.make_space(Outbox::frame_bytes(message.len()))?;
        let keys = SignalKeys::new(sender, header, &message[header.header_bytes..]);
        let (destination, number) = match to {
            To::All => (BROADCAST, 0),
            To::Peer { slot, id } => (slot, id),
        };
        let place = self.outbox.write(
            BusHeader {
                sender,
                destination: number,
                serial: header.serial,
                reply_serial: header.reply_serial.unwrap_or(0),
                body_offset: header.header_bytes as u32,
                kind: header.kind.number(),
                flags: header.flags,
                form: INLINE,
                sent_ns: clock::now_ns(),
                hashes: keys.short_hashes(),
                ..BusHeader::default()
            },
            message,
        );
        self.order.sending(self.slot).store(1, Ordering::Release);
        let sent = self.append(Entry { sender: self.slot, destination, place });
        if let Ok(position) = sent {
            self.outbox.advance(message.len());
            ring::fence_after_append();
            let holders = match to {
                To::All => self.ring_listeners(descriptors, &keys),
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
    fn ring_listeners(&mut self, descriptors: &mut dyn Descriptors, keys: &SignalKeys<'_>) -> Option<usize> {
        let before = self.holders.len();
        let directory = Arc::clone(&self.directory);
        let mut is_held_by_all = false;
        for peer in directory.listeners() {
            if !directory.wants(peer, keys) {
                continue;
            }
            let slot = directory.carrier(peer);
            self.ring(descriptors, slot);
            if self.holders.len() - before < HOLDERS_MAX {
                self.holders.push_back(slot);
            } else {
                is_held_by_all = true;
            }
        }
        let count = self.holders.len() - before;
        if is_held_by_all {
            self.holders.truncate(before);
            return None;
        }
        Some(count)
    }

    /// Wakes those who sleep half a log behind, so that they skip what is not for them.
    fn ring_laggards(&mut self, descriptors: &mut dyn Descriptors, position: u64) {
        let behind = position.saturating_sub(self.order.capacity() / 4);
        for slot in self.directory.present().collect::<Vec<_>>() {
            if self.order.cursor(slot).load(Ordering::Relaxed) < behind {
                self.ring(descriptors, slot);
            }
        }
    }

    /// Wakes a member if it sleeps. Returns whether it did.
    pub fn ring(&mut self, descriptors: &mut dyn Descriptors, slot: u16) -> bool {
        let Some((value, how)) = ring::asleep(self.order.armed(slot)) else { return false };
        match how {
            Sleep::Futex => drop(futex::wake(self.order.armed(slot), u32::MAX)),
            Sleep::Doorbell => self.ring_doorbell(descriptors, slot),
        }
        ring::mark_woken(self.order.armed(slot), value)
    }

    fn ring_doorbell(&mut self, descriptors: &mut dyn Descriptors, slot: u16) {
        let other = self.other(slot);
        if other.doorbell.is_none() {
            let id = other.id;
            other.doorbell = descriptors.doorbell(slot, id).ok().flatten();
        }
        if let Some(doorbell) = &self.others[usize::from(slot)].doorbell {
            // A counter that is full has been rung.
            let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
        }
    }

    /// Remembers the doorbell of a member.
    pub fn set_doorbell(&mut self, slot: u16, doorbell: OwnedFd) {
        self.other(slot).doorbell = Some(doorbell);
    }

    /// What is known of the member that has the slot now.
    fn other(&mut self, slot: u16) -> &mut Other {
        let (id, _) = self.directory.id_and_state(slot);
        let other = &mut self.others[usize::from(slot)];
        if other.id != id {
            *other = Other { id, ..Other::default() };
        }
        other
    }

    /// Puts a member out: nobody waits for it any more, and the authority announces its end.
    pub fn evict(&mut self, descriptors: &mut dyn Descriptors, slot: u16) {
        let (id, _) = self.directory.id_and_state(slot);
        self.order.evicted(slot).store(id, Ordering::SeqCst);
        self.order.evictions().fetch_add(1, Ordering::SeqCst);
        self.ring(descriptors, slot);
        self.ring(descriptors, AUTHORITY);
    }

    /// Is there an entry that was not read yet, or another reason not to sleep?
    pub fn is_ready(&self) -> bool {
        !matches!(ring::look(&*self.order, self.cursor), Cell::Free(_))
            || self.order.broken().is_some()
            || self.is_evicted()
    }

    /// Tells the others how far this member has read.
    pub fn publish_cursor(&mut self) {
        if self.published != self.cursor {
            self.order.cursor(self.slot).store(self.cursor, Ordering::Release); // PAIR order-limit
            (self.published, self.unpublished_bytes) = (self.cursor, 0);
        }
    }

    /// The next message that may concern this member; `None` when there is no further entry.
    ///
    /// # Errors
    /// The bus is broken, this member was put out, or a descriptor that is needed is out of reach.
    pub fn next(&mut self, descriptors: &mut dyn Descriptors) -> Result<Option<Received>> {
        loop {
            let position = self.cursor;
            let entry = match ring::look(&*self.order, position) {
                Cell::Present(entry) => entry,
                Cell::Free(_) => {
                    self.check()?;
                    // Nobody can know when this member looks again.
                    self.publish_cursor();
                    return Ok(None);
                }
                Cell::Foreign(word) => {
                    self.check()?;
                    return Err(self.broken(Some(Entry::of(word).sender), position));
                }
            };
            let received = self.take(descriptors, position, entry)?;
            self.cursor = position + 1;
            if let Some(received) = &received {
                self.unpublished_bytes += received.bytes.len();
            }
            if self.cursor - self.published >= CURSOR_EVERY || self.unpublished_bytes >= CURSOR_EVERY_BYTES {
                self.publish_cursor();
            }
            if received.is_some() {
                self.order.count(self.slot, Statistic::Received, 1);
                return Ok(received);
            }
        }
    }

    /// Checks an entry, and reads what it refers to if that may concern this member.
    fn take(
        &mut self,
        descriptors: &mut dyn Descriptors,
        position: u64,
        entry: Entry,
    ) -> Result<Option<Received>> {
        let Entry { sender: slot, destination, place } = entry;
        let slots = self.order.slots() as u16;
        if slot >= slots || destination >= slots && destination != BROADCAST {
            self.check()?;
            return Err(self.broken((slot < slots).then_some(slot), position));
        }
        let last = &mut self.places[usize::from(slot)];
        if last.is_some_and(|last| !entry.follows(last)) {
            self.check()?;
            return Err(self.broken(Some(slot), position));
        }
        *last = Some(place);
        let is_signal = destination == BROADCAST;
        let is_wanted = match is_signal {
            true => slot == AUTHORITY || self.wants_signals,
            false => destination == self.slot || self.wants_everything,
        };
        if !is_wanted || self.skips_own && slot == self.slot {
            return Ok(None);
        }
        let found = match self.open_outbox(descriptors, slot) {
            Ok(Some(outbox)) => outbox.read(place),
            Ok(None) => Found::Damaged("there is no such member"),
            Err(Error::AuthorityGone) => {
                // Nobody has the descriptor of the outbox any more: this message cannot be read, others can.
                self.order.count(self.slot, Statistic::Gone, 1);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        match found {
            Found::Message(header, bytes) if self.is_plausible(slot, destination, &header) => {
                Ok(Some(Received { position, slot, header, bytes }))
            }
            // Its space was free, because it was not for this member, or the filter of this member did not ask for it.
            Found::Gone if destination != self.slot && !self.is_evicted() => {
                self.order.count(self.slot, Statistic::Gone, 1);
                Ok(None)
            }
            _ => {
                self.check()?;
                Err(self.broken(Some(slot), position))
            }
        }
    }

    /// Does a header agree with the entry, and the sender with the directory?
    fn is_plausible(&self, slot: u16, destination: u16, header: &BusHeader) -> bool {
        let is_sender = slot == AUTHORITY || self.directory.id_and_state(slot).0 == header.sender;
        is_sender && (destination == BROADCAST) == (header.destination == 0) && header.form == INLINE
    }

    fn open_outbox(
        &mut self,
        descriptors: &mut dyn Descriptors,
        slot: u16,
    ) -> Result<Option<&ForeignOutbox>> {
        let other = self.other(slot);
        if other.outbox.is_none() {
            let id = other.id;
            let Some(fd) = descriptors.outbox(slot, id)? else { return Ok(None) };
            self.others[usize::from(slot)].outbox = Some(ForeignOutbox::open(&fd)?);
        }
        Ok(self.others[usize::from(slot)].outbox.as_ref())
    }

    /// Remembers the own outbox for reading: signals come back to their sender if it wants them.
    pub fn set_own_outbox(&mut self, fd: &OwnedFd) -> Result<()> {
        let outbox = ForeignOutbox::open(fd)?;
        let slot = self.slot;
        self.other(slot).outbox = Some(outbox);
        Ok(())
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

/// Is this member on the bus, and was it not put out?
#[inline]
fn is_member(order: &OrderLog, directory: &Directory, slot: u16, id: u64) -> bool {
    directory.is_active(slot, id) && order.evicted(slot).load(Ordering::Relaxed) != id
}
