//! A log in memory that processes share.
//!
//! # Safety
//!
//! Words of shared memory are made into references to atomics of the layout in [`layout`](super::layout). Every bit
//! pattern is a valid value of them; the mappings outlive the references because they are borrowed from; offsets are
//! inside the mapping because its size was checked when it was made and positions are taken modulo the capacity.
//! The words of a read-only mapping are only loaded: they are private to this crate, which stores only through the claim of a
//! publisher, made with its own writable mapping.
//! Payload bytes of other processes are copied as [`copy`](causeway_os::memory::copy) says or loaded by atomics, a word each, never through
//! a Rust reference. The two slices of a frame in place are made where the caller promises that no process writes meanwhile.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_os::Context;
use causeway_os::memory::{self, Access, Mapping, Seals};

use super::layout::{ABI, CAPACITY_LOG2, LogHeader, MAGIC, NOT_BEGUN, PREFIX_BYTES, TAIL_OFFSET, Tail};
use super::memory::Memory;
use super::server;
use super::word::{FREE_KEY_MASK, GRANULE_BYTES, HEADER_BYTES};
use super::writer::{Claim, Kind, Writer};
use crate::error::{Error, Result};
use crate::reservation;
use causeway_os::memory::copy::{copy_in, copy_out};

/// Payload words in the cache line of the header.
pub const SHORT_WORDS: usize = ((GRANULE_BYTES - HEADER_BYTES) / 8) as usize;

/// The seals without which no process maps a log that it received.
const LOG_SEALS: [(Seals, &str); 4] = [
    (Seals::SHRINK, "F_SEAL_SHRINK"),
    (Seals::GROW, "F_SEAL_GROW"),
    (Seals::FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"),
    (Seals::SEAL, "F_SEAL_SEAL"),
];

/// The key of a group's logs: part of its random number.
fn key_of(group_id_low: u64) -> u32 {
    (group_id_low as u32 & FREE_KEY_MASK) | 1
}

/// The binary logarithm of a capacity that a log can have.
fn capacity_log2(bytes: u64) -> Option<u32> {
    bytes.checked_ilog2().filter(|log2| bytes.is_power_of_two() && CAPACITY_LOG2.contains(log2))
}

/// A mapped log: its first four pages once, its ring twice back to back, so that no frame is ever split.
#[derive(Debug)]
pub struct MappedLog {
    prefix: Mapping,
    ring: Mapping,
    capacity: u64,
    /// Masks a position to the offset of its granule in the ring.
    granule_mask: u64,
    lap_shift: u32,
    kind: Kind,
    key: u32,
    epoch: u64,
}

impl MappedLog {
    /// A new, unsealed log and its descriptor. All its memory is reserved. `/proc/PID/maps` shows `name`.
    pub fn create(name: &str, kind: Kind, capacity_bytes: u64) -> Result<(OwnedFd, MappedLog)> {
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
            .context("draw", || "the number of a group")?;
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| id[at + index]));
        let (fd, log) = MappedLog::create_epoch(name, kind, capacity_bytes, [half(0), half(8)], 0)?;
        log.begin(None, 0);
        Ok((fd, log))
    }

    /// As [`MappedLog::create`], for the log that will come after this one. Publishers may map it; it is used once it has begun.
    pub fn create_next(&self, name: &str, capacity_bytes: u64) -> Result<(OwnedFd, MappedLog)> {
        let group_id = self.header_page().group_id.each_ref().map(|half| half.load(Ordering::Relaxed));
        MappedLog::create_epoch(name, self.kind, capacity_bytes, group_id, self.epoch + 1)
    }

    fn create_epoch(
        name: &str,
        kind: Kind,
        capacity_bytes: u64,
        group_id: [u64; 2],
        epoch: u64,
    ) -> Result<(OwnedFd, MappedLog)> {
        let log2 = capacity_log2(capacity_bytes).ok_or_else(|| {
            Error::invalid(
                "capacity",
                format!("{capacity_bytes} bytes; use a power of two from 4 KiB to 1 GiB"),
            )
        })?;
        reservation::check(PREFIX_BYTES + capacity_bytes)?;
        let name = format!("causeway:{}", name.chars().take(50).collect::<String>());
        let fd = reservation::memory_file(&name, PREFIX_BYTES + capacity_bytes)?;
        let log = MappedLog::map(&fd, kind, capacity_bytes, Access::ReadWrite)?;
        log.prefix.prefault()?;
        log.ring.prefault()?;
        let header = log.header_page();
        let abi_and_kind = u64::from(ABI) | (u64::from(kind == Kind::Shared) << 32);
        header.abi_and_kind.store(abi_and_kind, Ordering::Relaxed);
        for (word, value) in header.group_id.iter().zip(group_id) {
            word.store(value, Ordering::Relaxed);
        }
        header.capacity_log2.store(u64::from(log2), Ordering::Relaxed);
        header.epoch.store(epoch, Ordering::Relaxed);
        header.start.store(NOT_BEGUN, Ordering::Relaxed);
        let log = MappedLog { key: key_of(group_id[0]), epoch, ..log };
        log.header_page().magic.store(MAGIC, Ordering::Release);
        memory::add_seals(&fd, Seals::SHRINK | Seals::GROW)?;
        Ok((fd, log))
    }

    /// Makes a new log the continuation of `previous`, which ends at `position`.
    pub fn begin(&self, previous: Option<&MappedLog>, position: u64) {
        let messages = server::begin(self, self.kind, previous, position);
        self.header_page().messages.store(messages, Ordering::Relaxed);
        self.header_page().start.store(position, Ordering::Release); // PAIR log-start
    }

    /// The first position of this log, and the number at which it counts messages; `None` until it has begun.
    pub fn start(&self) -> Option<(u64, u64)> {
        let start = self.header_page().start.load(Ordering::Acquire); // PAIR log-start
        let messages = self.header_page().messages.load(Ordering::Relaxed);
        (start != NOT_BEGUN).then_some((start, messages))
    }

    /// The half of the number of the group that guards nothing: the other one has the key of the free words.
    pub fn group_number(&self) -> u64 {
        self.header_page().group_id[1].load(Ordering::Relaxed)
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Seals a log: from now on no process can map it writable or change its length.
    pub fn seal(fd: &OwnedFd) -> Result<()> {
        Ok(memory::add_seals(fd, Seals::FUTURE_WRITE | Seals::SEAL)?)
    }

    /// Maps a log that another process sent. Reading requires all four seals; writing requires those that keep its length.
    ///
    /// # Errors
    /// A descriptor of the wrong type, seals or size, a log of another ABI, and impossible values in its header.
    pub fn open(fd: &OwnedFd, access: Access) -> Result<MappedLog> {
        let seals = memory::seals(fd)
            .map_err(|_| Error::invalid("log descriptor", "it is not a memory file that can be sealed"))?;
        let required = if access == Access::ReadOnly { 4 } else { 2 };
        for (seal, name) in &LOG_SEALS[..required] {
            if !seals.contains(*seal) {
                return Err(Error::invalid("log descriptor", format!("it lacks {name}")));
            }
        }
        let stat = rustix::fs::fstat(fd).map_err(|error| causeway_os::Error::new("stat", "a log", error))?;
        let size = stat.st_size;
        let capacity = u64::try_from(size).unwrap_or(0).saturating_sub(PREFIX_BYTES);
        let log2 = capacity_log2(capacity)
            .ok_or_else(|| Error::invalid("log descriptor", format!("no log has {size} bytes")))?;
        // Each look at a hole would make a page, at the charge of this process: without memory for it, that is the end.
        if i128::from(stat.st_blocks) * 512 < i128::from(size) {
            return Err(Error::invalid("log descriptor", "it has holes: its memory is not reserved"));
        }
        let log = MappedLog::map(fd, Kind::Single, capacity, access)?;
        let kind = log.check_header(log2, access)?;
        // Mapped page by page now, and not while messages wait.
        log.prefix.prefault()?;
        log.ring.prefault()?;
        let key = key_of(log.header_page().group_id[0].load(Ordering::Relaxed));
        let epoch = log.header_page().epoch.load(Ordering::Relaxed);
        Ok(MappedLog { kind, key, epoch, ..log })
    }

    fn map(fd: &OwnedFd, kind: Kind, capacity: u64, access: Access) -> Result<MappedLog> {
        let prefix = Mapping::shared(fd, PREFIX_BYTES as usize, access)?;
        let ring = Mapping::ring(fd, PREFIX_BYTES, capacity as usize, access)?;
        // A child that is forked from this process is not a member of the group.
        prefix.dont_fork()?;
        ring.dont_fork()?;
        let (granule_mask, lap_shift) = ((capacity - 1) & !(GRANULE_BYTES - 1), capacity.trailing_zeros());
        Ok(MappedLog { prefix, ring, capacity, granule_mask, lap_shift, kind, key: 1, epoch: 0 })
    }

    fn check_header(&self, capacity_log2: u32, access: Access) -> Result<Kind> {
        let header = self.header_page();
        let invalid = |what: String| Err(Error::invalid("log header", what));
        let magic = header.magic.load(Ordering::Acquire);
        if magic != MAGIC {
            return invalid(format!("it begins with {magic:#x}, so it is not a log"));
        }
        let abi_and_kind = header.abi_and_kind.load(Ordering::Relaxed);
        let (abi, kind) = (abi_and_kind as u32, abi_and_kind >> 32);
        if abi != ABI {
            return invalid(format!("ABI {abi}, and this program uses {ABI}"));
        }
        let stated = header.capacity_log2.load(Ordering::Relaxed);
        if stated != u64::from(capacity_log2) {
            return invalid(format!(
                "it states a capacity of 2^{stated} bytes in a file for 2^{capacity_log2}"
            ));
        }
        let start = header.start.load(Ordering::Acquire);
        let may_wait = access == Access::ReadWrite && start == NOT_BEGUN;
        if !may_wait && (start >= u64::MAX / 2 || !start.is_multiple_of(GRANULE_BYTES)) {
            return invalid(format!("it begins at position {start:#x}"));
        }
        match kind {
            0 => Ok(Kind::Single),
            1 => Ok(Kind::Shared),
            other => invalid(format!("unknown kind {other}")),
        }
    }

    fn header_page(&self) -> &LogHeader {
        // SAFETY: `prefix` has 16 KiB, is page-aligned, and the structure is made of atomics.
        unsafe { &*self.prefix.as_ptr().cast::<LogHeader>() }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Start of the payload of the frame at `position`.
    #[inline(always)]
    fn payload(&self, position: u64) -> *mut u8 {
        let offset = (position & self.granule_mask) + HEADER_BYTES;
        // SAFETY: the offset is below capacity + 32, and the ring is mapped twice.
        unsafe { self.ring.as_ptr().add(offset as usize) }
    }

    #[inline(always)]
    fn bounded(&self, length: usize) -> usize {
        length.min((self.capacity - HEADER_BYTES) as usize)
    }

    /// Writes the payload words in the cache line of the header, all of them, so without a branch.
    #[inline(always)]
    pub fn write_short(&self, position: u64, from: &[u64; SHORT_WORDS]) {
        assert!(self.ring.access() == Access::ReadWrite, "the mapping of a subscriber is read-only");
        let to = self.payload(position);
        for (index, word) in from.iter().enumerate() {
            // SAFETY: aligned, and inside the granule of the frame's header.
            let place = unsafe { AtomicU64::from_ptr(to.add(index * 8).cast()) };
            place.store(*word, Ordering::Relaxed);
        }
    }

    /// The payload bytes of a claimed frame, to be written in place.
    ///
    /// # Safety
    /// The caller holds the claim for `length` payload bytes at `position`, makes one such slice at a time, and drops
    /// it before it commits. Then no other process writes these bytes. A subscriber that was overtaken may read them meanwhile,
    /// through another mapping, and discards the copy.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the claim makes the caller their only writer")]
    pub unsafe fn claimed_bytes(&self, position: u64, length: usize) -> &mut [u8] {
        assert!(self.ring.access() == Access::ReadWrite && length <= (self.capacity / 4) as usize);
        // SAFETY: inside the doubled ring: offset < capacity + 32 and length <= capacity / 4. Alone: see above.
        unsafe { std::slice::from_raw_parts_mut(self.payload(position), length) }
    }

    /// The payload bytes of a complete frame, in place.
    ///
    /// # Safety
    /// No process writes these bytes while the slice lives: the publishers keep to the protocol, and this subscriber holds
    /// space and has not advanced past the frame.
    #[inline(always)]
    pub unsafe fn frame_bytes(&self, position: u64, length: usize) -> &[u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.payload(position), self.bounded(length)) }
    }
}

impl MappedLog {
    /// Loads the payload of a frame word by word; zeroes fill the last one. A word that is written meanwhile may be torn, the
    /// program stays defined.
    #[inline]
    pub fn for_each_word(&self, position: u64, length: usize, mut each: impl FnMut(u64)) {
        let (from, length) = (self.payload(position), self.bounded(length));
        let word_at = |at: usize| {
            // SAFETY: aligned: the ring and frames are, headers are a multiple of 8, and so is `at`. Inside the ring: it is
            // mapped twice, and `length`, rounded up to a multiple of 8, is at most the capacity less 32.
            unsafe { AtomicU64::from_ptr(from.add(at).cast()) }.load(Ordering::Relaxed)
        };
        let whole = length & !7;
        for at in (0..whole).step_by(8) {
            each(word_at(at));
        }
        if whole < length {
            let mut last = word_at(whole).to_ne_bytes();
            last[length - whole..].fill(0);
            each(u64::from_ne_bytes(last));
        }
    }
}

impl Writer<Arc<MappedLog>> {
    /// The payload of a frame that this publisher has claimed.
    #[inline]
    pub(crate) fn claimed_bytes(&self, claim: &Claim) -> &[u8] {
        // SAFETY: the claim came from this writer (there is one per `Publisher`, which keeps its claims to itself) and
        // was not committed, for that consumes it. The shared borrow of the writer keeps a mutable slice away.
        unsafe { self.memory().frame_bytes(claim.position, claim.payload_bytes as usize) }
    }

    /// The payload of a frame that this publisher has claimed, to be written.
    #[inline]
    pub(crate) fn claimed_bytes_mut(&mut self, claim: &Claim) -> &mut [u8] {
        // SAFETY: as above; the unique borrow of the writer makes this the only slice.
        unsafe { self.memory().claimed_bytes(claim.position, claim.payload_bytes as usize) }
    }
}

impl Memory for MappedLog {
    #[inline(always)]
    fn capacity_bytes(&self) -> u64 {
        self.capacity
    }

    #[inline(always)]
    fn lap_shift(&self) -> u32 {
        self.lap_shift
    }

    #[inline(always)]
    fn key(&self) -> u32 {
        self.key
    }

    #[inline(always)]
    fn tail(&self) -> &Tail {
        // SAFETY: `prefix` has 16 KiB, the offset is one page, `Tail` fits behind it (asserted) and is made of atomics.
        unsafe { &*self.prefix.as_ptr().add(TAIL_OFFSET as usize).cast::<Tail>() }
    }

    #[inline(always)]
    fn header(&self, position: u64) -> &AtomicU64 {
        let offset = position & self.granule_mask;
        // SAFETY: a multiple of 64 below the capacity.
        unsafe { &*self.ring.as_ptr().add(offset as usize).cast::<AtomicU64>() }
    }

    #[inline(always)]
    fn meta(&self, position: u64) -> &[AtomicU64; 3] {
        let offset = position & self.granule_mask;
        // SAFETY: a multiple of 64 below the capacity; 32 bytes from there on lie inside the granule.
        unsafe { &*self.ring.as_ptr().add(offset as usize + 8).cast::<[AtomicU64; 3]>() }
    }

    #[inline(always)]
    fn read_payload(&self, position: u64, into: &mut [u8]) {
        let length = self.bounded(into.len());
        // SAFETY: payloads begin at multiples of 32. Both ranges have `length` bytes, rounded up in the ring: it is mapped
        // twice, and `length` at most the capacity less 32. `into` is at least as long.
        unsafe { copy_out(self.payload(position), into.as_mut_ptr(), length) }
    }

    #[inline(always)]
    fn write_payload(&self, position: u64, from: &[u8]) {
        assert!(self.ring.access() == Access::ReadWrite, "the mapping of a subscriber is read-only");
        let length = self.bounded(from.len());
        // The payload in the cache line of the header is written last, just before the header: subscribers poll that line.
        let short = length.min((GRANULE_BYTES - HEADER_BYTES) as usize);
        // SAFETY: as above, the other way round; both parts lie inside both ranges. The first begins at a multiple of 8 or is
        // empty. A frame is a multiple of 64 bytes, so that what is rounded up is in it.
        unsafe {
            let (from, to) = (from.as_ptr(), self.payload(position));
            copy_in(from.add(short), to.add(short), length - short);
            copy_in(from, to, short);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_across_the_end_of_the_ring_reads_back_in_one_piece() {
        let (_fd, log) = MappedLog::create("test", Kind::Single, 4096).unwrap();
        for length in [0, 1, 7, 8, 31, 255, 256, 1000, 1024] {
            let payload: Vec<u8> = (0..length).map(|n| (n % 251) as u8 + 1).collect();
            let position = 3 * 4096 - 128;
            log.write_payload(position, &payload);
            let mut back = vec![0; length];
            log.read_payload(position, &mut back);
            assert_eq!(back, payload);
            // SAFETY: no other thread or process has this log.
            assert_eq!(unsafe { log.frame_bytes(position, length) }, payload);
        }
    }

    #[test]
    fn a_log_is_only_opened_for_reading_when_it_is_sealed_for_good() {
        let (fd, _log) = MappedLog::create("test", Kind::Shared, 4096).unwrap();
        let refused = MappedLog::open(&fd, Access::ReadOnly).unwrap_err().to_string();
        assert!(refused.contains("F_SEAL_FUTURE_WRITE"), "{refused}");
        assert_eq!(MappedLog::open(&fd, Access::ReadWrite).unwrap().kind(), Kind::Shared);
        MappedLog::seal(&fd).unwrap();
        assert_eq!(MappedLog::open(&fd, Access::ReadOnly).unwrap().kind(), Kind::Shared);
        MappedLog::open(&fd, Access::ReadWrite).unwrap_err();
    }

    #[test]
    fn a_header_with_impossible_values_is_refused() {
        type Damage = fn(&LogHeader);
        let damages: [(Damage, &str); 6] = [
            (|header| header.magic.store(0, Ordering::Relaxed), "not a log"),
            (|header| header.abi_and_kind.store(77, Ordering::Relaxed), "ABI 77"),
            (
                |header| header.abi_and_kind.store((9 << 32) | u64::from(ABI), Ordering::Relaxed),
                "unknown kind 9",
            ),
            (|header| header.capacity_log2.store(64, Ordering::Relaxed), "2^64"),
            (|header| header.start.store(65, Ordering::Relaxed), "0x41"),
            (|header| header.start.store(NOT_BEGUN, Ordering::Relaxed), "0xffff"),
        ];
        for (damage, expected) in damages {
            let (fd, log) = MappedLog::create("test", Kind::Single, 4096).unwrap();
            damage(log.header_page());
            MappedLog::seal(&fd).unwrap();
            let refused = MappedLog::open(&fd, Access::ReadOnly).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
