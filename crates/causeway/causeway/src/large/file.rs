//! One memory file with a payload.
//!
//! A file that is used again begins with a page that holds which use this is, written by its publisher; the payload
//! follows. A file that is sealed holds the payload alone, and its length is that of the payload.
//!
//! # Safety
//!
//! Slices are made of two kinds of memory. A sealed file: no process can write it, the kernel sees to that, and the seals were
//! checked before it was mapped. A mapping for writing: it is written by the one value that owns it, and what other processes or
//! other mappings read meanwhile they load with instructions for which a concurrent change is a torn value.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use causeway_os::memory::{self, Access, Mapping, Seals, page_bytes};

use crate::error::{Error, Result};
use crate::reservation;
use causeway_os::memory::copy::copy_out;

/// Offset of the number of the present use.
const USE: usize = 0;

fn payload_offset() -> usize {
    page_bytes()
}

/// Length of a file for payloads of up to `payload_bytes` that is used again.
pub fn reused_file_bytes(payload_bytes: usize) -> u64 {
    payload_offset() as u64 + payload_bytes as u64
}

/// A file that is used again, as its publisher has it: the one mapping through which it can be written.
#[derive(Debug)]
pub struct WritableFile(Mapping);

impl WritableFile {
    /// Reserves the memory of a file that the server made, maps it, and seals it: from now on no process can map it for writing.
    pub fn new(fd: &OwnedFd, payload_bytes: usize) -> Result<WritableFile> {
        let bytes = reused_file_bytes(payload_bytes);
        let mapping = map_for_writing(fd, bytes)?;
        memory::add_seals(fd, Seals::SHRINK | Seals::GROW | Seals::FUTURE_WRITE | Seals::SEAL)?;
        Ok(WritableFile(mapping))
    }

    /// Begins another use. Who has begun to read an earlier one finds out.
    pub fn begin_use(&self, number: u64) {
        self.0.atomic_u64(USE).store(number, Ordering::Relaxed);
        fence(Ordering::SeqCst); // PAIR payload-reuse: before the references of subscribers are loaded
    }

    /// The first `length` bytes of the payload.
    pub fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        // SAFETY: inside the mapping (checked), and `self`, the one way to write it, is borrowed.
        unsafe { self.0.slice_mut(payload_offset(), length) }
    }

    pub fn bytes(&self, length: usize) -> &[u8] {
        // SAFETY: as above.
        unsafe { self.0.slice(payload_offset(), length) }
    }
}

/// A file that is used again, as a subscriber has it.
#[derive(Debug)]
pub struct ReusedFile(Mapping);

impl ReusedFile {
    /// Maps a file, if no process but its publisher can write it, and nobody can take its memory away.
    pub fn open(fd: &OwnedFd) -> Result<ReusedFile> {
        map_for_reading(fd, Seals::FUTURE_WRITE, payload_offset() + 1).map(ReusedFile)
    }

    pub fn payload_bytes_max(&self) -> usize {
        self.0.len() - payload_offset()
    }

    /// Whether this is the present use. To be called after the reference is announced, and again after reading.
    pub fn is_in_use(&self, number: u64) -> bool {
        fence(Ordering::SeqCst); // PAIR payload-reuse: after the reference was stored, or after the payload was loaded
        self.0.load_u64(USE).load(Ordering::Acquire) == number
    }

    /// Copies the first bytes of the payload. What changes meanwhile is torn.
    pub fn copy_to(&self, into: &mut [u8]) {
        assert!(into.len() <= self.payload_bytes_max());
        // SAFETY: inside the mapping (checked), which ends at a page and so at a multiple of 8; page-aligned.
        unsafe { copy_out(self.0.as_ptr().add(payload_offset()), into.as_mut_ptr(), into.len()) };
    }

    /// Loads the first `length` bytes of the payload in words of eight; zeroes fill the last one.
    pub fn for_each_word(&self, length: usize, mut each: impl FnMut(u64)) {
        assert!(length <= self.payload_bytes_max());
        for at in (0..length).step_by(8) {
            // SAFETY: aligned, and inside the mapping, which ends at a multiple of 8.
            let word = unsafe { AtomicU64::from_ptr(self.0.as_ptr().add(payload_offset() + at).cast()) };
            let mut bytes = word.load(Ordering::Relaxed).to_ne_bytes();
            if length - at < 8 {
                bytes[length - at..].fill(0);
            }
            each(u64::from_ne_bytes(bytes));
        }
    }

    /// The first `length` bytes of the payload.
    ///
    /// # Safety
    /// Nobody writes them while the slice lives.
    pub unsafe fn bytes(&self, length: usize) -> &[u8] {
        // SAFETY: the caller's promise; inside the mapping (checked).
        unsafe { self.0.slice(payload_offset(), length) }
    }
}

/// Memory for a payload that is written once and then sealed. For calls: its descriptor travels with a request or a reply
/// ([`Client::begin_with_descriptors`](crate::call::Client::begin_with_descriptors)), and the other side opens it with
/// [`SealedPayload::open`].
///
/// ```
/// use causeway::{SealedBuffer, SealedPayload};
///
/// let mut buffer = SealedBuffer::new(1 << 20)?;
/// buffer[..5].copy_from_slice(b"hello");
/// let descriptor = buffer.seal()?;
///
/// let payload = SealedPayload::open(&descriptor)?;
/// assert_eq!(&payload[..5], b"hello");
/// # Ok::<(), causeway::Error>(())
/// ```
#[derive(Debug)]
pub struct SealedBuffer {
    fd: OwnedFd,
    mapping: Mapping,
}

impl SealedBuffer {
    /// Memory of `bytes` bytes, all of which is reserved here.
    ///
    /// # Errors
    /// [`Error::Os`] without memory or descriptors; [`Error::Invalid`] for no bytes.
    pub fn new(bytes: usize) -> Result<SealedBuffer> {
        if bytes == 0 {
            return Err(Error::invalid("call", "a sealed payload has at least one byte"));
        }
        SealedBuffer::in_file(memory::memfd("causeway-payload", bytes as u64)?, bytes)
    }

    /// The same in a file that the server made.
    pub(super) fn in_file(fd: OwnedFd, bytes: usize) -> Result<SealedBuffer> {
        let mapping = map_for_writing(&fd, bytes as u64)?;
        Ok(SealedBuffer { fd, mapping })
    }

    /// Seals the payload: no process, this one included, can change it any more. Returns its descriptor.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel refuses, because it still writes to the memory (direct I/O).
    pub fn seal(self) -> Result<OwnedFd> {
        // A file with a mapping for writing cannot be sealed.
        drop(self.mapping);
        memory::add_seals(&self.fd, Seals::SHRINK | Seals::GROW | Seals::WRITE | Seals::SEAL)?;
        Ok(self.fd)
    }
}

impl Deref for SealedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `self` is the one way to write the mapping, and no other process has it before it is sealed.
        unsafe { self.mapping.slice(0, self.mapping.len()) }
    }
}

impl DerefMut for SealedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed.
        unsafe { self.mapping.slice_mut(0, self.mapping.len()) }
    }
}

/// A payload that no process can change: a mapped file whose seals were checked. It stays readable whatever happens to the process
/// that wrote it.
#[derive(Debug)]
pub struct SealedPayload(Mapping);

impl SealedPayload {
    /// Maps the payload of this descriptor, which need not stay open.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not a memory file that is sealed against writing and against changes of its length, and whose
    /// memory exists; [`Error::Os`] without memory.
    pub fn open(fd: &OwnedFd) -> Result<SealedPayload> {
        map_for_reading(fd, Seals::WRITE, 1).map(SealedPayload)
    }
}

impl Deref for SealedPayload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: sealed against writing, which was checked, so no process and no mapping can write these bytes.
        unsafe { self.0.slice(0, self.0.len()) }
    }
}

/// From this length on, a request for memory is compared with what there is: the kernel would give all of it and then kill processes.
/// Below, the comparison would cost as much as the request.
const CHECKED_BYTES: u64 = 16 << 20;

/// Fails if the machine does not have `bytes` available.
fn check_machine(bytes: u64) -> Result<()> {
    match reservation::machine_bytes("MemAvailable:") {
        Some(available) if available < bytes => Err(Error::os(
            "reserve",
            format!("{bytes} bytes of memory, of which the machine has {available} available"),
            rustix::io::Errno::NOMEM,
        )),
        _ => Ok(()),
    }
}

/// Reserves the memory of a file and maps it for writing, page by page.
fn map_for_writing(fd: &OwnedFd, bytes: u64) -> Result<Mapping> {
    if bytes >= CHECKED_BYTES {
        reservation::check(bytes)?;
        check_machine(bytes)?;
    }
    reservation::reserve(fd, bytes)?;
    let length = usize::try_from(bytes).map_err(|_| Error::invalid("call", format!("{bytes} bytes")))?;
    let mapping = Mapping::shared(fd, length, Access::ReadWrite)?;
    // A child with this mapping could write after the sender, and keep the kernel from sealing the file.
    mapping.dont_fork()?;
    mapping.prefault()?;
    Ok(mapping)
}

/// Checks the seals, the length and the memory of a file that another process made, and maps all of it.
fn map_for_reading(fd: &OwnedFd, against_writing: Seals, bytes_min: usize) -> Result<Mapping> {
    let invalid = |why: &str| Error::invalid("payload descriptor", why);
    let seals = memory::seals(fd).map_err(|_| invalid("it is not a memory file that can be sealed"))?;
    if !seals.contains(Seals::SHRINK | Seals::GROW) {
        return Err(invalid("its length is not sealed"));
    }
    if !seals.contains(against_writing) || !seals.contains(Seals::SEAL) {
        return Err(invalid("it is not sealed against writing"));
    }
    let stat = rustix::fs::fstat(fd).map_err(|error| causeway_os::Error::new("stat", "a payload", error))?;
    let bytes = usize::try_from(stat.st_size).map_err(|_| invalid("its length is negative"))?;
    if bytes < bytes_min || (stat.st_blocks as u64) * 512 < bytes as u64 {
        return Err(invalid("it is too short, or its memory does not exist"));
    }
    let mapping = Mapping::shared(fd, bytes, Access::ReadOnly)?;
    mapping.dont_fork()?;
    mapping.prefault()?;
    Ok(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(opened: Result<Mapping>) -> bool {
        matches!(opened, Err(Error::Invalid { what: "payload descriptor", .. }))
    }

    #[test]
    fn a_file_that_lacks_a_seal_or_its_memory_is_not_mapped() {
        let length = Seals::SHRINK | Seals::GROW;
        for (seals, kind) in [
            (Seals::empty(), Seals::WRITE),
            (length, Seals::WRITE),
            (length | Seals::WRITE, Seals::WRITE),
            (length | Seals::FUTURE_WRITE | Seals::SEAL, Seals::WRITE),
            (Seals::SHRINK | Seals::WRITE | Seals::SEAL, Seals::WRITE),
            (Seals::GROW | Seals::FUTURE_WRITE | Seals::SEAL, Seals::FUTURE_WRITE),
        ] {
            let fd = reservation::memory_file("payload", 8192).unwrap();
            if !seals.is_empty() {
                memory::add_seals(&fd, seals).unwrap();
            }
            assert!(is_refused(map_for_reading(&fd, kind, 1)), "{seals:?}");
        }
        let hollow = memory::memfd("payload", 8192).unwrap();
        memory::add_seals(&hollow, length | Seals::WRITE | Seals::SEAL).unwrap();
        assert!(is_refused(map_for_reading(&hollow, Seals::WRITE, 1)), "its memory does not exist");
        let (socket, _) = causeway_os::socket::stream_pair().unwrap();
        assert!(is_refused(map_for_reading(&socket, Seals::WRITE, 1)), "not a file");
    }

    #[test]
    fn a_sealed_payload_can_be_changed_in_no_way() {
        let fd = {
            let mut buffer = SealedBuffer::new(10_000).unwrap();
            buffer.fill(7);
            buffer.seal().unwrap()
        };
        assert!(Mapping::shared(&fd, 10_000, Access::ReadWrite).is_err());
        assert!(rustix::io::pwrite(&fd, &[1], 0).is_err());
        assert!(rustix::fs::ftruncate(&fd, 1).is_err() && rustix::fs::ftruncate(&fd, 20_000).is_err());
        let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&fd, hole, 0, 4096).is_err());
        let payload = SealedPayload::open(&fd).unwrap();
        assert!(payload.len() == 10_000 && payload.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn only_its_publisher_writes_a_file_that_is_used_again() {
        let fd = memory::memfd("payload", reused_file_bytes(100)).unwrap();
        let mut own = WritableFile::new(&fd, 100).unwrap();
        own.begin_use(1);
        own.bytes_mut(100).fill(3);
        assert!(Mapping::shared(&fd, 4096, Access::ReadWrite).is_err());
        assert!(rustix::io::pwrite(&fd, &[1], 0).is_err());
        let read = ReusedFile::open(&fd).unwrap();
        assert_eq!(read.payload_bytes_max(), 100);
        assert!(read.is_in_use(1) && !read.is_in_use(2));
        let (mut copy, mut words) = ([0; 99], 0);
        read.copy_to(&mut copy);
        read.for_each_word(99, |word| words += word.count_ones());
        assert!(copy == [3; 99] && words == 2 * 99);
        assert_eq!(own.bytes(4), [3; 4]);
    }
}
