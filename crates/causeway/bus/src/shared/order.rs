//! The order log, mapped: constants, hot words, a line for each slot, and the ring of entries.
//!
//! All members map it for writing: they are processes of one user, who could stop each other anyway. What one of them
//! writes by mistake is found by those who read it, and ends the bus with an error ([`Broken`]).

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use causeway_os::futex;
use causeway_os::memory::{Access, LoadU64, Mapping, add_seals};

use super::memory::invalid;
use super::ring::{self, Cells, GROUP_SLOTS, SLOTS_MAX, Sleep, group_bit};
use super::{FORMAT, memory};
use crate::error::{Error, Result};

/// First eight bytes of an order log.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CSWYBORD");
/// Entries of an order log, as powers of two: 16 to 16 million.
pub const ENTRIES_LOG2: std::ops::RangeInclusive<u32> = 4..=24;
/// Offset of the hint.
pub const HINT: usize = 4096;
/// Offset of the limit.
pub const LIMIT: usize = 4096 + 128;
/// Offset of the number of evictions.
pub const EVICTIONS: usize = 4096 + 256;
/// Offset of [`Broken`].
pub const BROKEN: usize = 4096 + 384;
/// Offset of the first word of a group of members.
pub const GROUPS: usize = 8192;
/// Bytes from one word of a group to the next.
pub const GROUP_BYTES: usize = 64;
/// Offset of the first line.
pub const LINES: usize = 12288;
/// Bytes of a line.
pub const LINE_BYTES: usize = 256;

/// Offsets in the line of a member.
pub mod line {
    /// 4 bytes, in the low two bits 0 awake, 1 asleep on the word of its group, 2 asleep on the doorbell. Written by
    /// who sleeps and who wakes.
    pub const ARMED: usize = 0;
    /// 8 bytes: number of the member that was evicted because it did not read. Written by senders and the authority.
    pub const EVICTED: usize = 8;
    /// 8 bytes: it has taken all it wants before this position of the order log. From here on written by the member
    /// only.
    pub const CURSOR: usize = 64;
    /// 4 bytes: 1 while it appends an entry and wakes members.
    pub const SENDING: usize = 72;
    /// 8 bytes: number of the member whose reply it waits for, all ones for several, 0 for none.
    pub const WAITING_FOR: usize = 80;
    /// Nine words of 8 bytes for display only: messages received, messages sent, bytes sent, sleeps ended by a wake-up,
    /// of these for nothing, calls in flight, signals that were gone, sleeps ended to make space, messages whose
    /// descriptors or file were missing.
    pub const STATISTICS: usize = 128;
}

/// Which statistic of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their meaning is that of `Statistics`")]
pub enum Statistic {
    Received,
    Sent,
    SentBytes,
    Wakes,
    EmptyWakes,
    CallsOpen,
    Gone,
    SpaceWakes,
    Incomplete,
}

/// How many there are.
const STATISTICS: usize = Statistic::Incomplete as usize + 1;

/// The bus is broken: whose entry or message made no sense, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Slot that the entry names, if it names one.
    pub slot: Option<u16>,
    /// Low 40 bits of the position in the order log.
    pub position: u64,
}

impl Broken {
    fn word(self) -> u64 {
        1 << 63 | u64::from(self.slot.map_or(0, |slot| slot + 1)) << 40 | self.position & ((1 << 40) - 1)
    }

    fn of(word: u64) -> Option<Broken> {
        let slot = (word >> 40) as u16 & 0xfff;
        (word != 0).then(|| Broken { slot: slot.checked_sub(1), position: word & ((1 << 40) - 1) })
    }
}

/// An order log.
#[derive(Debug)]
pub struct OrderLog {
    memory: Mapping,
    entries: u64,
    slots: usize,
}

impl Cells for OrderLog {
    #[inline]
    fn capacity(&self) -> u64 {
        self.entries
    }
    #[inline]
    fn entry(&self, position: u64) -> &AtomicU64 {
        self.memory.atomic_u64(self.entry_offset(position))
    }
    #[inline]
    fn hint(&self) -> &AtomicU64 {
        self.memory.atomic_u64(HINT)
    }
    #[inline]
    fn limit(&self) -> &AtomicU64 {
        self.memory.atomic_u64(LIMIT)
    }
}

impl OrderLog {
    /// A new order log of a power of two from 16 to 2²⁴ entries and [`SLOTS_MAX`] slots at most, and the descriptor for
    /// members.
    pub fn create(entries: u64, slots: usize) -> Result<(OwnedFd, OrderLog)> {
        if !entries.is_power_of_two() || !ENTRIES_LOG2.contains(&entries.trailing_zeros()) {
            return Err(Error::Invalid(format!(
                "order log size must be a power of two from 16 to 16777216 entries, not {entries}"
            )));
        }
        if slots == 0 || slots > SLOTS_MAX {
            return Err(Error::Invalid(format!("a bus has from 1 to {SLOTS_MAX} members, not {slots}")));
        }
        let bytes = OrderLog::bytes(entries, slots);
        let fd = memory::create("causeway-order", bytes)?;
        let log = OrderLog { memory: memory::map(&fd, bytes, Access::ReadWrite)?, entries, slots };
        let word = |offset, value| log.memory.atomic_u64(offset).store(value, Ordering::Relaxed);
        word(0, MAGIC);
        word(8, u64::from(FORMAT) | u64::from(entries.trailing_zeros()) << 32);
        word(16, slots as u64);
        ring::raise_limit(&log, 0);
        add_seals(&fd, memory::LENGTH)?;
        Ok((fd, log))
    }

    /// Maps the order log of a bus. A monitor maps it for reading, and then must not call what writes. Fails if it is
    /// not sealed, its length and header disagree, or it is of another version.
    pub fn open(fd: &OwnedFd, access: Access) -> Result<OrderLog> {
        const WHAT: &str = "order log";
        let bytes = memory::checked_bytes(fd, WHAT, memory::LENGTH)?;
        if bytes < LINES as u64 {
            return Err(invalid(WHAT, format!("it has {bytes} bytes")));
        }
        let (memory, log2) = memory::open(fd, WHAT, MAGIC, bytes, access)?;
        let slots = memory.load_u64(16).load(Ordering::Relaxed);
        let is_possible = ENTRIES_LOG2.contains(&log2) && (1..=SLOTS_MAX as u64).contains(&slots);
        if !is_possible || bytes != OrderLog::bytes(1 << log2, slots as usize) {
            let why = format!("{bytes} bytes do not fit 2^{log2} entries and {slots} lines");
            return Err(invalid(WHAT, why));
        }
        Ok(OrderLog { memory, entries: 1 << log2, slots: slots as usize })
    }

    fn bytes(entries: u64, slots: usize) -> u64 {
        (LINES + slots * LINE_BYTES) as u64 + entries * 8
    }

    /// Slots of members.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The word at a position, for those who map the log for reading.
    pub fn load_entry(&self, position: u64) -> u64 {
        self.memory.load_u64(self.entry_offset(position)).load(Ordering::Acquire)
    }

    /// The hint, for the same.
    pub fn load_hint(&self) -> u64 {
        self.memory.load_u64(HINT).load(Ordering::Acquire)
    }

    #[inline]
    fn entry_offset(&self, position: u64) -> usize {
        LINES + self.slots * LINE_BYTES + (position & (self.entries - 1)) as usize * 8
    }

    #[inline]
    fn in_line(&self, slot: u16, offset: usize) -> usize {
        assert!(usize::from(slot) < self.slots, "slot {slot} of {}", self.slots);
        LINES + usize::from(slot) * LINE_BYTES + offset
    }

    /// The word on which a slot and the others of its group sleep.
    #[inline]
    pub fn group(&self, slot: u16) -> &AtomicU32 {
        assert!(usize::from(slot) < self.slots, "slot {slot} of {}", self.slots);
        self.memory.atomic_u32(GROUPS + usize::from(slot / GROUP_SLOTS) * GROUP_BYTES)
    }

    /// The armed word of a slot.
    #[inline]
    pub fn armed(&self, slot: u16) -> &AtomicU32 {
        self.memory.atomic_u32(self.in_line(slot, line::ARMED))
    }

    /// The number of the member of a slot that was evicted.
    #[inline]
    pub fn evicted(&self, slot: u16) -> &AtomicU64 {
        self.memory.atomic_u64(self.in_line(slot, line::EVICTED))
    }

    /// The cursor of a slot.
    #[inline]
    pub fn cursor(&self, slot: u16) -> &AtomicU64 {
        self.memory.atomic_u64(self.in_line(slot, line::CURSOR))
    }

    /// Whether the member of a slot is sending.
    #[inline]
    pub fn sending(&self, slot: u16) -> &AtomicU32 {
        self.memory.atomic_u32(self.in_line(slot, line::SENDING))
    }

    /// Whose reply the member of a slot waits for.
    #[inline]
    pub fn waiting_for(&self, slot: u16) -> &AtomicU64 {
        self.memory.atomic_u64(self.in_line(slot, line::WAITING_FOR))
    }

    /// How many members were evicted.
    pub fn evictions(&self) -> &AtomicU64 {
        self.memory.atomic_u64(EVICTIONS)
    }

    /// Adds to a statistic of an own line.
    #[inline]
    pub fn count(&self, slot: u16, which: Statistic, by: u64) {
        add(&self.own_statistics(slot)[which as usize], by);
    }

    /// Counts a message of an own line that was sent.
    #[inline]
    pub fn count_sent(&self, slot: u16, bytes: u64) {
        let statistics = self.own_statistics(slot);
        add(&statistics[Statistic::Sent as usize], 1);
        add(&statistics[Statistic::SentBytes as usize], bytes);
    }

    /// Shows in an own line how many calls are open, and whose end ends them.
    #[inline]
    pub fn show_calls(&self, slot: u16, waiting_for: u64, open: u64) {
        self.waiting_for(slot).store(waiting_for, Ordering::Release);
        self.own_statistics(slot)[Statistic::CallsOpen as usize].store(open, Ordering::Relaxed);
    }

    /// All statistics of an own line: they are inside the memory or not as a whole, which is checked once.
    #[inline]
    fn own_statistics(&self, slot: u16) -> &[AtomicU64] {
        self.memory.atomic_u64s(self.in_line(slot, line::STATISTICS), STATISTICS)
    }

    /// Any word of a line, for display.
    #[inline]
    pub fn load_in_line(&self, slot: u16, offset: usize) -> LoadU64<'_> {
        self.memory.load_u64(self.in_line(slot, offset))
    }

    /// A statistic of a slot.
    #[inline]
    pub fn statistic(&self, slot: u16, which: Statistic) -> u64 {
        self.load_in_line(slot, line::STATISTICS + which as usize * 8).load(Ordering::Relaxed)
    }

    /// Prepares the line of a slot for the next member, which begins at `cursor`.
    pub fn reset_line(&self, slot: u16, cursor: u64) {
        ring::disarm(self.armed(slot));
        self.evicted(slot).store(0, Ordering::Relaxed);
        self.sending(slot).store(0, Ordering::Relaxed);
        self.waiting_for(slot).store(0, Ordering::Relaxed);
        self.own_statistics(slot).iter().for_each(|statistic| statistic.store(0, Ordering::Relaxed));
        self.cursor(slot).store(cursor, Ordering::Release);
    }

    /// What made the bus end, if it is broken.
    #[inline]
    pub fn broken(&self) -> Option<Broken> {
        Broken::of(self.memory.load_u64(BROKEN).load(Ordering::Acquire))
    }

    /// Wakes the member in a slot from the sleep on its futex word that it has announced with this value; false if
    /// another has.
    #[inline]
    pub fn wake_futex(&self, slot: u16, value: u32) -> bool {
        let (group, bit) = (self.group(slot), group_bit(slot));
        ring::end_sleeps(group, || wake(group, bit), std::iter::once((self.armed(slot), value))) == 1
    }

    /// Wakes the member in a slot if it sleeps: on its futex word, or by `ring`, which returns whether it has the
    /// doorbell. False if the member did not sleep, another has woken it, or its doorbell is not known.
    pub fn end_sleep(&self, slot: u16, ring: impl FnOnce() -> bool) -> bool {
        match ring::asleep(self.armed(slot)) {
            Some((value, Sleep::Futex)) => self.wake_futex(slot, value),
            Some((value, Sleep::Doorbell)) => ring() && ring::mark_awake(self.armed(slot), value),
            None => false,
        }
    }

    /// Ends the bus, unless it is broken already; returns what broke it first. Who sleeps is to be woken then, and
    /// found by [`ring::asleep`].
    pub fn set_broken(&self, broken: Broken) -> Broken {
        let word = self.memory.atomic_u64(BROKEN);
        let exchange = word.compare_exchange(0, broken.word(), Ordering::AcqRel, Ordering::Acquire);
        ring::fence_after_append(); // PAIR bus-armed
        match exchange {
            Ok(_) => broken,
            Err(before) => Broken::of(before).unwrap_or(broken),
        }
    }
}

/// Adds to a word that no other thread writes.
#[inline]
fn add(word: &AtomicU64, by: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// Wakes the threads that sleep on the word of a group with one of these bits. It fails only where one sleeps there in
/// another way, which no correct member does.
#[inline]
pub fn wake(group: &AtomicU32, bits: u32) {
    let _ = futex::wake_bitset(group, u32::MAX, bits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_opens_with_what_it_was_made_with() {
        let (fd, log) = OrderLog::create(64, 3).unwrap();
        let again = OrderLog::open(&fd, Access::ReadOnly).unwrap();
        assert_eq!((again.entries, again.slots()), (64, 3));
        log.entry(65).store(5, Ordering::Relaxed);
        assert_eq!(again.load_entry(1), 5);
        log.count(2, Statistic::SpaceWakes, 3);
        assert_eq!(again.statistic(2, Statistic::SpaceWakes), 3);
    }

    #[test]
    fn a_new_member_begins_with_an_empty_line() {
        let (_fd, log) = OrderLog::create(64, 3).unwrap();
        for word in 0..9 {
            log.memory.atomic_u64(log.in_line(1, line::STATISTICS) + word * 8).store(7, Ordering::Relaxed);
        }
        log.reset_line(1, 5);
        for word in 0..9 {
            assert_eq!(log.load_in_line(1, line::STATISTICS + word * 8).load(Ordering::Relaxed), 0, "{word}");
        }
        assert_eq!(log.cursor(1).load(Ordering::Relaxed), 5);
    }

    #[test]
    fn a_log_with_impossible_numbers_is_refused() {
        for (offset, value) in [(0, 1), (8, 99), (8, u64::from(FORMAT) | 63 << 32), (16, 0), (16, 1 << 40)] {
            let (fd, log) = OrderLog::create(64, 3).unwrap();
            log.memory.atomic_u64(offset).store(value, Ordering::Relaxed);
            assert!(OrderLog::open(&fd, Access::ReadWrite).is_err(), "{value} at {offset}");
        }
        assert!(OrderLog::create(17, 3).is_err() && OrderLog::create(64, 0).is_err());
        assert!(OrderLog::create(64, SLOTS_MAX + 1).is_err());
    }

    #[test]
    fn the_first_reason_to_end_stays() {
        let (_fd, log) = OrderLog::create(64, 3).unwrap();
        assert_eq!(log.broken(), None);
        let first = Broken { slot: Some(0), position: 77 };
        assert_eq!(log.set_broken(first), first);
        assert_eq!(log.set_broken(Broken { slot: None, position: 1 }), first);
        assert_eq!(log.broken(), Some(first));
    }
}
