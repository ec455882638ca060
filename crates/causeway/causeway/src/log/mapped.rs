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
use causeway_os::handshake::Offer;
use causeway_os::memory::{self, Access, Mapping, Seals};

use super::form::Form;
use super::layout::{
    CAPACITY_LOG2, HEADER_PAGE_BYTES, LogHeader, MAGIC, NOT_BEGUN, PREFIX_BYTES, PREFIX_BYTES_MAX, Tail,
};
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

fn header_of(mapping: &Mapping) -> &LogHeader {
    assert!(mapping.len() as u64 >= HEADER_PAGE_BYTES, "a page of constants");
    // SAFETY: a page (asserted), aligned as one, and the structure is made of atomics.
    unsafe { &*mapping.as_ptr().cast::<LogHeader>() }
}

/// A mapped log: its constants and its words once, its ring twice back to back, so that no frame is ever split.
#[derive(Debug)]
pub struct MappedLog {
    header: Mapping,
    /// Begins with [`Tail`], wherever that lies in the file.
    words: Mapping,
    ring: Mapping,
    capacity: u64,
    /// Masks a position to the offset of its granule in the ring.
    granule_mask: u64,
    lap_shift: u32,
    kind: Kind,
    key: u32,
    epoch: u64,
    level: u32,
}

impl MappedLog {
    /// A new, unsealed log of this format and its descriptor. All its memory is reserved. `/proc/PID/maps` shows `name`.
    pub fn create(name: &str, kind: Kind, capacity_bytes: u64, level: u32) -> Result<(OwnedFd, MappedLog)> {
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
            .context("draw", || "the number of a group")?;
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| id[at + index]));
        let form = Form::new(kind, level);
        let (fd, log) = MappedLog::create_epoch(name, form, capacity_bytes, [half(0), half(8)], 0)?;
        log.begin(None, 0);
        Ok((fd, log))
    }

    /// As [`MappedLog::create`], for the log that will come after this one. Publishers may map it; it is used once it has begun.
    pub fn create_next(&self, name: &str, capacity_bytes: u64, level: u32) -> Result<(OwnedFd, MappedLog)> {
        let group_id = self.header_page().group_id.each_ref().map(|half| half.load(Ordering::Relaxed));
        let form = Form::new(self.kind, level);
        MappedLog::create_epoch(name, form, capacity_bytes, group_id, self.epoch + 1)
    }

    fn create_epoch(
        name: &str,
        form: Form,
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
        let bytes = form.places.ring + capacity_bytes;
        reservation::check(bytes)?;
        let name = format!("causeway:{}", name.chars().take(50).collect::<String>());
        let fd = reservation::memory_file(&name, bytes)?;
        let header = MappedLog::map_header(&fd, Access::ReadWrite)?;
        let log = MappedLog::map(&fd, header, form, capacity_bytes, Access::ReadWrite)?;
        log.prefault()?;
        let header = log.header_page();
        let level_and_kind = u64::from(form.level) | (u64::from(form.kind == Kind::Shared) << 32);
        header.level_and_kind.store(level_and_kind, Ordering::Relaxed);
        if form.level > 1 {
            header.tail_offset.store(form.places.tail, Ordering::Relaxed);
            header.ring_offset.store(form.places.ring, Ordering::Relaxed);
        }
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

    /// Its format.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Seals a log: from now on no process can map it writable or change its length.
    pub fn seal(fd: &OwnedFd) -> Result<()> {
        Ok(memory::add_seals(fd, Seals::FUTURE_WRITE | Seals::SEAL)?)
    }

    /// Maps a log that another process sent. Reading requires all four seals; writing requires those that keep its length.
    ///
    /// # Errors
    /// A descriptor of the wrong type, seals or size, a log of a format that is not in `own`, and impossible values in its header.
    pub fn open(fd: &OwnedFd, access: Access, own: Offer) -> Result<MappedLog> {
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
        let no_log = || Error::invalid("log descriptor", format!("no log has {size} bytes"));
        let sizes = PREFIX_BYTES + 1..=PREFIX_BYTES_MAX + (1 << CAPACITY_LOG2.end());
        let bytes = u64::try_from(size).ok().filter(|size| sizes.contains(size)).ok_or_else(no_log)?;
        if !bytes.is_multiple_of(HEADER_PAGE_BYTES) {
            return Err(no_log());
        }
        // Each look at a hole would make a page, at the charge of this process: without memory for it, that is the end.
        if i128::from(stat.st_blocks) * 512 < i128::from(size) {
            return Err(Error::invalid("log descriptor", "it has holes: its memory is not reserved"));
        }
        let header = MappedLog::map_header(fd, access)?;
        let form = Form::read(header_of(&header), own, access)?;
        let capacity = bytes.saturating_sub(form.places.ring);
        let log2 = capacity_log2(capacity).ok_or_else(no_log)?;
        let log = MappedLog::map(fd, header, form, capacity, access)?;
        log.check_header(log2, access)?;
        // Mapped page by page now, and not while messages wait.
        log.prefault()?;
        let key = key_of(log.header_page().group_id[0].load(Ordering::Relaxed));
        let epoch = log.header_page().epoch.load(Ordering::Relaxed);
        Ok(MappedLog { key, epoch, ..log })
    }

    fn map_header(fd: &OwnedFd, access: Access) -> Result<Mapping> {
        let header = Mapping::shared(fd, HEADER_PAGE_BYTES as usize, access)?;
        // A child that is forked from this process is not a member of the group.
        header.dont_fork()?;
        Ok(header)
    }

    /// Maps the rest of a log, of which the places are possible.
    fn map(fd: &OwnedFd, header: Mapping, form: Form, capacity: u64, access: Access) -> Result<MappedLog> {
        let Form { kind, level, places } = form;
        assert!(places.are_possible(), "{places:?}");
        let words = Mapping::shared_at(fd, places.tail, (places.ring - places.tail) as usize, access)?;
        let ring = Mapping::ring(fd, places.ring, capacity as usize, access)?;
        words.dont_fork()?;
        ring.dont_fork()?;
        let (granule_mask, lap_shift) = ((capacity - 1) & !(GRANULE_BYTES - 1), capacity.trailing_zeros());
        Ok(MappedLog {
            header,
            words,
            ring,
            capacity,
            granule_mask,
            lap_shift,
            kind,
            key: 1,
            epoch: 0,
            level,
        })
    }

    fn prefault(&self) -> Result<()> {
        [&self.header, &self.words, &self.ring].into_iter().try_for_each(Mapping::prefault)?;
        Ok(())
    }

    fn check_header(&self, capacity_log2: u32, access: Access) -> Result<()> {
        let header = self.header_page();
        let invalid = |what: String| Err(Error::invalid("log header", what));
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
        Ok(())
    }

    fn header_page(&self) -> &LogHeader {
        header_of(&self.header)
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
        // SAFETY: `words` is page-aligned and has space for `Tail` (asserted when it was mapped), which is made of atomics.
        unsafe { &*self.words.as_ptr().cast::<Tail>() }
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
mod tests;
