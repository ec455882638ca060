//! The outbox: a ring in which one member writes its messages, and that all others map for reading.
//!
//! A message is published by its entry in the order log. Bytes below `floor` may have been overwritten: readers look after a
//! copy.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use causeway_os::memory::{Access, Mapping, add_seals};

use super::header::{BusHeader, HEADER_BYTES, INLINE};
use super::memory::invalid;
use super::ring::{self, PLACES};
use super::{FORMAT, memory};
use crate::error::{Error, Result};

/// First eight bytes of an outbox.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CSWYBOUT");
/// Bytes before the ring.
pub const PREFIX_BYTES: u64 = 4096;
/// Messages begin at multiples of this.
pub const GRANULE_BYTES: u64 = 64;
/// Sizes of the ring, as powers of two: 4 KiB to 1 GiB.
pub const CAPACITY_LOG2: std::ops::RangeInclusive<u32> = 12..=30;
/// Up to this size all pages are written once when an outbox is made. Else they would be as the messages come to them, and a reader would
/// fault at each: the kernel maps the neighbors of a page with it only where they were written before.
const PREFAULTED_BYTES_MAX: u64 = 1 << 20;
/// Offset of the floor.
pub const FLOOR: usize = 128;

/// A member's own outbox.
#[derive(Debug)]
pub struct Outbox {
    words: Mapping,
    ring: Mapping,
    capacity: u64,
    head: u64,
    floor: u64,
}

impl Outbox {
    /// A new outbox of a power of two from 4 KiB to 1 GiB, and the descriptor for others, who can only read it.
    pub fn create(capacity_bytes: u64) -> Result<(OwnedFd, Outbox)> {
        if !capacity_bytes.is_power_of_two() || !CAPACITY_LOG2.contains(&capacity_bytes.trailing_zeros()) {
            return Err(Error::Invalid(format!(
                "outbox size must be a power of two from 4 KiB to 1 GiB, not {capacity_bytes} bytes"
            )));
        }
        let fd = memory::create("causeway-outbox", PREFIX_BYTES + capacity_bytes)?;
        let words = memory::map(&fd, PREFIX_BYTES, Access::ReadWrite)?;
        let ring = Mapping::ring(&fd, PREFIX_BYTES, capacity_bytes as usize, Access::ReadWrite)?;
        ring.dont_fork()?;
        if capacity_bytes <= PREFAULTED_BYTES_MAX {
            ring.prefault()?;
        }
        words.atomic_u64(0).store(MAGIC, Ordering::Relaxed);
        let log2 = u64::from(capacity_bytes.trailing_zeros());
        words.atomic_u64(8).store(u64::from(FORMAT) | log2 << 32, Ordering::Relaxed);
        add_seals(&fd, memory::ONE_WRITER)?;
        Ok((fd, Outbox { words, ring, capacity: capacity_bytes, head: 0, floor: 0 }))
    }

    /// Begins at this place, where the member that had the slot before has ended. To be called before the first message.
    pub fn begin_at(&mut self, place: u32) {
        (self.head, self.floor) = (u64::from(place) * GRANULE_BYTES, u64::from(place) * GRANULE_BYTES);
        self.words.atomic_u64(FLOOR).store(self.floor, Ordering::Release);
    }

    /// Bytes of the ring.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity
    }

    /// Position of the next message.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Bytes of the ring that hold messages which may not be overwritten.
    pub fn used_bytes(&self) -> u64 {
        self.head - self.floor
    }

    /// Bytes of the ring that a message takes.
    pub fn frame_bytes(message_bytes: usize) -> u64 {
        (HEADER_BYTES as u64 + message_bytes as u64).next_multiple_of(GRANULE_BYTES)
    }

    /// Lets positions below `floor` be overwritten.
    pub fn raise_floor(&mut self, floor: u64) {
        debug_assert!(floor >= self.floor && floor <= self.head);
        self.floor = floor;
        ring::raise_floor(self.words.atomic_u64(FLOOR), floor);
    }

    /// Writes a message at the head, which stays where it is; returns the place for the entry. `header.position` is filled in, and
    /// `header.message_bytes` unless the message lies in a file: then these are its header's bytes.
    ///
    /// # Panics
    /// There is no space: see [`Outbox::used_bytes`].
    #[inline]
    pub fn write(&mut self, mut header: BusHeader, message: &[u8]) -> u32 {
        assert!(
            self.used_bytes() + Outbox::frame_bytes(message.len()) <= self.capacity,
            "space is checked first"
        );
        header.position = self.head;
        if header.form == INLINE {
            header.message_bytes = message.len() as u32;
        }
        let at = (self.head & (self.capacity - 1)) as usize;
        let words = self.ring.atomic_u64s(at, HEADER_BYTES / 8);
        words.iter().zip(header.words()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.ring.copy_in(at + HEADER_BYTES, message);
        place_of(self.head)
    }

    /// Moves the head behind a message that was written and has its entry.
    pub fn advance(&mut self, message_bytes: usize) {
        self.head += Outbox::frame_bytes(message_bytes);
    }
}

/// The place of a position, as an entry has it.
pub fn place_of(position: u64) -> u32 {
    (position / GRANULE_BYTES) as u32 & (PLACES - 1)
}

/// The outbox of another member, for reading.
#[derive(Debug)]
pub struct ForeignOutbox {
    words: Mapping,
    ring: Mapping,
    capacity: u64,
}

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A message, which was read.
    Message,
    /// It was overwritten: it was not for the reader, or the reader was late.
    Gone,
    /// No message, although nothing was overwritten: damage.
    Damaged(&'static str),
}

impl ForeignOutbox {
    /// Maps the outbox of another process, which must be sealed against changes by others, whole and of this version.
    pub fn open(fd: &OwnedFd) -> Result<ForeignOutbox> {
        const WHAT: &str = "outbox";
        let bytes = memory::checked_bytes(fd, WHAT, memory::ONE_WRITER)?;
        if bytes <= PREFIX_BYTES {
            return Err(invalid(WHAT, format!("it has {bytes} bytes")));
        }
        let (words, log2) = memory::open(fd, WHAT, MAGIC, PREFIX_BYTES, Access::ReadOnly)?;
        if !CAPACITY_LOG2.contains(&log2) || bytes != PREFIX_BYTES + (1 << log2) {
            return Err(invalid(WHAT, format!("it has {bytes} bytes but announces 2^{log2}")));
        }
        let capacity = 1u64 << log2;
        let ring = Mapping::ring(fd, PREFIX_BYTES, capacity as usize, Access::ReadOnly)?;
        ring.dont_fork()?;
        Ok(ForeignOutbox { words, ring, capacity })
    }

    /// Reads the message at a place into `header` and `message`, which are of no message if none is found. The bytes are input from another
    /// process: the length is checked, nothing else is.
    #[inline]
    pub fn read(&self, place: u32, header: &mut BusHeader, message: &mut Vec<u8>) -> Found {
        let at = self.load_header(place, header);
        let fits = u64::from(header.inline_bytes()) <= self.capacity - HEADER_BYTES as u64;
        let is_ours = place_of(header.position) == place;
        let bytes = if fits && is_ours { header.inline_bytes() as usize } else { 0 };
        self.ring.copy(at + HEADER_BYTES, bytes, message);
        if self.was_overwritten(place) {
            return Found::Gone;
        }
        if !is_ours {
            return Found::Damaged("no message at this place");
        }
        if !fits {
            return Found::Damaged("the message is longer than the outbox");
        }
        Found::Message
    }

    /// The header of the message at a place, if it is still there; not more of it is checked.
    pub fn header(&self, place: u32) -> Option<BusHeader> {
        let mut header = BusHeader::default();
        self.load_header(place, &mut header);
        (!self.was_overwritten(place) && place_of(header.position) == place).then_some(header)
    }

    /// Returns where in the ring it lies.
    #[inline]
    fn load_header(&self, place: u32, header: &mut BusHeader) -> usize {
        let at = ((u64::from(place) * GRANULE_BYTES) & (self.capacity - 1)) as usize;
        let mut words = [0; HEADER_BYTES / 8];
        words.iter_mut().zip(self.ring.load_u64s(at, HEADER_BYTES / 8)).for_each(|(copy, word)| *copy = word);
        *header = BusHeader::of(words);
        at
    }

    /// May what was read at a place before be of a later message? If so, a reader that was evicted finds that afterwards.
    #[inline]
    fn was_overwritten(&self, place: u32) -> bool {
        let floor = ring::floor_after_copy(|ordering| self.words.load_u64(FLOOR).load(ordering));
        // Its position in full follows from the floor: messages that are there lie less than a capacity above it.
        let behind = place.wrapping_sub(place_of(floor)) & (PLACES - 1);
        u64::from(behind) >= self.capacity / GRANULE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(capacity: u64) -> (Outbox, ForeignOutbox) {
        let (fd, outbox) = Outbox::create(capacity).unwrap();
        (outbox, ForeignOutbox::open(&fd).unwrap())
    }

    #[test]
    fn messages_come_back_across_the_end_of_the_ring() {
        let (mut outbox, foreign) = pair(4096);
        outbox.begin_at(PLACES - 70);
        for round in 0..200 {
            let message: Vec<u8> = (0..round * 7 % 900).map(|n| (n % 251) as u8).collect();
            outbox.raise_floor(outbox.head());
            let place = outbox.write(BusHeader { serial: round, ..BusHeader::default() }, &message);
            outbox.advance(message.len());
            let (mut header, mut back) = (BusHeader::default(), vec![7; 90]);
            assert_eq!(foreign.read(place, &mut header, &mut back), Found::Message, "round {round}");
            assert_eq!((header.serial, back), (round, message));
        }
    }

    #[test]
    fn what_was_overwritten_is_gone_and_not_damage() {
        let (mut outbox, foreign) = pair(4096);
        let first = outbox.write(BusHeader::default(), &[7; 100]);
        outbox.advance(100);
        outbox.raise_floor(outbox.head());
        let read = |place| foreign.read(place, &mut BusHeader::default(), &mut Vec::new());
        assert_eq!(read(first), Found::Gone);
        let wrong = outbox.write(BusHeader::default(), &[]) + 1;
        assert!(matches!(read(wrong), Found::Damaged(_)));
    }

    /// Page faults of this thread that needed no disk.
    fn minor_faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let (_, behind_name) = stat.rsplit_once(')').unwrap();
        behind_name.split_ascii_whitespace().nth(7).unwrap().parse().unwrap()
    }

    #[test]
    fn a_reader_does_not_fault_at_every_page_of_an_outbox() {
        const BYTES: u64 = 256 << 10;
        let (_outbox, foreign) = pair(BYTES);
        let pages = BYTES / 4096;
        let before = minor_faults();
        for page in 0..pages {
            foreign.header((page * 4096 / GRANULE_BYTES) as u32);
        }
        let faults = minor_faults() - before;
        assert!(faults <= pages / 2, "{faults} faults for {pages} pages");
    }

    #[test]
    fn an_outbox_that_its_owner_did_not_seal_is_refused() {
        let fd = memory::create("test", PREFIX_BYTES + 4096).unwrap();
        assert!(ForeignOutbox::open(&fd).unwrap_err().to_string().contains("seal"));
        add_seals(&fd, memory::ONE_WRITER).unwrap();
        assert!(ForeignOutbox::open(&fd).unwrap_err().to_string().contains("not of format 1"));
    }

    #[test]
    fn impossible_sizes_are_refused_with_the_possible_ones() {
        for bytes in [0, 4095, 5000, 1 << 31] {
            assert!(Outbox::create(bytes).unwrap_err().to_string().contains("power of two"));
        }
    }
}
