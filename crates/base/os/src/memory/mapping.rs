//! A range of memory that belongs to its value: mapped when made, unmapped when dropped.
//!
//! It hands out atomics; everything else only to code that says why it may: bytes that others can change are no
//! `&[u8]`.
//!
//! # Safety
//! The promise relied on is ownership: `base .. base + len` was returned by `mmap` to this value and no other
//! unmaps it or maps over it until `drop`. Every access is checked against `len`. A mapping of a file is only made
//! inside the length that the file has at that moment; if the file is made shorter afterwards, access raises SIGBUS,
//! which ends the process and corrupts nothing. [`Seals::SHRINK`](super::Seals::SHRINK) excludes it.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::mm::{self, Advice, MapFlags, ProtFlags};

use super::copy::{copy_in, copy_out};
use super::load::{LoadU32, LoadU64};
use super::page_bytes;
use crate::error::{Context, Error, Result};

/// What a mapping may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only; the kernel answers a store with SIGSEGV.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

impl Access {
    fn protection(self) -> ProtFlags {
        match self {
            Access::ReadOnly => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// A mapped range of memory. Asked for words or bytes that are not all inside it, or for words not aligned, it panics.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
    /// `len`, or 0 if the mapping is for reading: one comparison tells where a word may be stored to.
    writable_len: usize,
}

// SAFETY: the range belongs to no thread; safe methods only hand out atomics and addresses.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives safe access to atomics only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file, shared with all who map it. Fails with `EPERM` where a seal and `EACCES`
    /// where the descriptor's mode forbids it, with `UnexpectedEof` when a regular file is shorter, with `EINVAL` for
    /// no bytes.
    pub fn shared(fd: impl AsFd, len: usize, access: Access) -> Result<Mapping> {
        Mapping::shared_at(fd, 0, len, access)
    }

    /// Maps `len` bytes of file `fd` from `offset` on, which is a multiple of the page size. Fails as
    /// [`Mapping::shared`], and `EINVAL` for an `offset` inside a page.
    pub fn shared_at(fd: impl AsFd, offset: u64, len: usize, access: Access) -> Result<Mapping> {
        Mapping::file(fd.as_fd(), offset, len, access, MapFlags::SHARED)
    }

    fn file(fd: BorrowedFd<'_>, offset: u64, len: usize, access: Access, flags: MapFlags) -> Result<Mapping> {
        check_length(fd, offset, len)?;
        // SAFETY: the kernel chooses the address, so nothing that exists is mapped over.
        let base = unsafe { mm::mmap(std::ptr::null_mut(), len, access.protection(), flags, fd, offset) }
            .context("map", || describe(len, access))?;
        Ok(Mapping::own(base, len, access))
    }

    /// Maps `len` zero bytes, at least one, that belong to this process alone, starting at a page boundary.
    pub fn anonymous(len: usize) -> Result<Mapping> {
        Mapping::private(len, Access::ReadWrite.protection())
    }

    /// Maps the same `len` bytes of file `fd`, from `offset` on, twice, back to back.
    ///
    /// What lies across the end of the first copy continues at the beginning, so a record never has to be split. `len`
    /// and `offset` are multiples of the page size; [`Mapping::len`] is twice `len`. Fails as [`Mapping::shared`], and
    /// `EINVAL` for a `len` or `offset` that is not a multiple of the page size.
    pub fn ring(fd: impl AsFd, offset: u64, len: usize, access: Access) -> Result<Mapping> {
        let fd = fd.as_fd();
        let on = || format!("{} twice", describe(len, access));
        let twice = len.checked_mul(2).ok_or(Errno::NOMEM).context("map", on)?;
        if len == 0 || !len.is_multiple_of(page_bytes()) {
            return Err(Error::new("map", on(), Errno::INVAL));
        }
        check_length(fd, offset, len)?;
        // One reservation for both copies: between two calls another thread could take the addresses after the first.
        let mut ring = Mapping::private(twice, ProtFlags::empty())?;
        ring.writable_len = writable_len(twice, access);
        for copy in 0..2 {
            // SAFETY: the fixed range is one half of the reservation that `ring` owns and that no other code has seen yet.
            unsafe {
                let at = ring.base.as_ptr().add(copy * len).cast::<c_void>();
                mm::mmap(at, len, access.protection(), MapFlags::SHARED | MapFlags::FIXED, fd, offset)
            }
            .context("map", on)?;
        }
        Ok(ring)
    }

    /// Maps the first `len` bytes of file `fd` for reading, as this process's own view of it. Unlike
    /// [`Mapping::shared`] this works before Linux 6.7 on files that are sealed against writing, too.
    ///
    /// What others write to a file without [`Seals::WRITE`](super::Seals::WRITE) may be seen here or not.
    pub fn view(fd: impl AsFd, len: usize) -> Result<Mapping> {
        Mapping::file(fd.as_fd(), 0, len, Access::ReadOnly, MapFlags::PRIVATE)
    }

    fn private(len: usize, protection: ProtFlags) -> Result<Mapping> {
        // SAFETY: the kernel chooses the address, so nothing that exists is mapped over.
        let base = unsafe { mm::mmap_anonymous(std::ptr::null_mut(), len, protection, MapFlags::PRIVATE) }
            .context("map", || format!("{len} private bytes"))?;
        Ok(Mapping::own(base, len, Access::ReadWrite))
    }

    fn own(base: *mut c_void, len: usize, access: Access) -> Mapping {
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address 0 unless asked to");
        Mapping { base, len, writable_len: writable_len(len, access) }
    }

    /// Address of the first byte; a multiple of the page size.
    pub fn as_ptr(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Bytes mapped; for a [`ring`](Mapping::ring) both copies.
    #[expect(clippy::len_without_is_empty, reason = "the kernel refuses an empty mapping")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// What this mapping may be used for.
    pub fn access(&self) -> Access {
        if self.writable_len > 0 { Access::ReadWrite } else { Access::ReadOnly }
    }

    /// Keeps all pages in memory (mlock). Fails with `ENOMEM` or `EPERM` beyond the `memlock` limit.
    pub fn lock(&self) -> Result<()> {
        // SAFETY: the range is ours; locking changes no byte of it.
        unsafe { mm::mlock(self.raw(), self.len) }.context("lock", || describe(self.len, self.access()))
    }

    /// Brings every page into this process's page tables now, so that no later access takes a fault: for writing
    /// where the mapping is writable, else for reading. The bytes do not change.
    pub fn prefault(&self) -> Result<()> {
        let advice = match self.access() {
            Access::ReadOnly => Advice::LinuxPopulateRead,
            Access::ReadWrite => Advice::LinuxPopulateWrite,
        };
        // SAFETY: populating changes no byte.
        match unsafe { mm::madvise(self.raw(), self.len, advice) } {
            // Linux before 5.14.
            Err(Errno::INVAL) => {
                self.touch_every_page();
                Ok(())
            }
            other => other.context("prefault", || describe(self.len, self.access())),
        }
    }

    /// What [`Mapping::prefault`] does where the kernel cannot.
    fn touch_every_page(&self) {
        for offset in (0..self.len).step_by(page_bytes()) {
            // SAFETY: `offset < len`, and a byte is always aligned; it is only accessed atomically here.
            let byte = unsafe { AtomicU8::from_ptr(self.base.as_ptr().add(offset)) };
            let mut value = byte.load(Ordering::Relaxed);
            if self.access() == Access::ReadOnly {
                continue;
            }
            // A compare-exchange with the value itself is a write to the processor; an addition of 0 compilers turn
            // into a load.
            while let Err(now) = byte.compare_exchange(value, value, Ordering::Relaxed, Ordering::Relaxed) {
                value = now;
            }
        }
    }

    /// Leaves this range out of processes forked from now on.
    pub fn dont_fork(&self) -> Result<()> {
        self.advise(Advice::LinuxDontFork)
    }

    fn advise(&self, advice: Advice) -> Result<()> {
        // SAFETY: the advices above change neither bytes nor protection of the range in this process.
        unsafe { mm::madvise(self.raw(), self.len, advice) }
            .context("advise the kernel on", || describe(self.len, self.access()))
    }

    /// The 32-bit word at byte `offset`, as an atomic that other processes may access at the same time.
    ///
    /// Sound because any bits are a valid value, because zero pages and file pages are initialized, and because other
    /// processes cannot cause undefined behavior by writing memory that is only read atomically. One promise stays
    /// with the caller: all sides use the same width for the same word.
    ///
    /// # Panics
    /// When the word does not lie inside the mapping, `offset` is not a multiple of 4, or the mapping is for reading: see
    /// [`Mapping::load_u32`].
    #[inline]
    #[track_caller]
    pub fn atomic_u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the word lies inside what can be written and is aligned (checked), and the mapping outlives the reference.
        unsafe { AtomicU32::from_ptr(self.word(offset, self.writable_len)) }
    }

    /// The 64-bit word at byte `offset`, as an atomic. The promise is that of [`Mapping::atomic_u32`].
    #[inline]
    #[track_caller]
    pub fn atomic_u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `atomic_u32`.
        unsafe { AtomicU64::from_ptr(self.word(offset, self.writable_len)) }
    }

    /// The 32-bit word at byte `offset`, to be looked at or waited for. Works whatever the mapping is for.
    #[inline]
    #[track_caller]
    pub fn load_u32(&self, offset: usize) -> LoadU32<'_> {
        // SAFETY: inside, aligned (checked) and alive as long as the reference. Nothing stores through it: `LoadU32` keeps
        // it to itself.
        LoadU32(unsafe { AtomicU32::from_ptr(self.word(offset, self.len)) })
    }

    /// The 64-bit word at byte `offset`, to be looked at. Works whatever the mapping is for.
    #[inline]
    #[track_caller]
    pub fn load_u64(&self, offset: usize) -> LoadU64<'_> {
        // SAFETY: as in `load_u32`.
        LoadU64(unsafe { AtomicU64::from_ptr(self.word(offset, self.len)) })
    }

    /// `count` 64-bit words from byte `offset` on, as atomics. The promise is that of [`Mapping::atomic_u32`].
    #[inline]
    #[track_caller]
    pub fn atomic_u64s(&self, offset: usize, count: usize) -> &[AtomicU64] {
        // SAFETY: the words lie inside what can be written and are aligned (checked), and the mapping outlives the reference.
        unsafe { self.words(offset, count, self.writable_len) }
    }

    /// The values of `count` 64-bit words from byte `offset` on, each loaded when it is asked for. Works whatever the
    /// mapping is for.
    #[inline]
    #[track_caller]
    pub fn load_u64s(&self, offset: usize, count: usize) -> impl Iterator<Item = u64> {
        // SAFETY: inside and aligned (checked), alive as long as the reference, and nothing stores through it here.
        unsafe { self.words(offset, count, self.len) }.iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// Replaces what is in `copy` by `bytes` bytes from `offset` on, loaded as words of 8 bytes, so torn between words
    /// at most.
    #[inline]
    #[track_caller]
    pub fn copy(&self, offset: usize, bytes: usize, copy: &mut Vec<u8>) {
        // SAFETY: inside and aligned (checked), alive as long as the reference, and nothing stores through it here.
        let words = unsafe { self.words(offset, bytes.div_ceil(8), self.len) };
        copy.clear();
        copy.reserve(bytes);
        // SAFETY: the words are valid for so many bytes, rounded up, and the vector has room for them, which the copy fills.
        unsafe {
            copy_out(words.as_ptr().cast_mut().cast(), copy.as_mut_ptr(), bytes);
            copy.set_len(bytes);
        }
    }

    /// Copies bytes to `offset`, a multiple of 8. Those behind them, up to a multiple of 8, become 0 or stay. No other
    /// thread may write there; if one does, what is there may be torn.
    #[inline]
    #[track_caller]
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let words = self.atomic_u64s(offset, bytes.len().div_ceil(8));
        // SAFETY: the words are mapped for writing and valid for so many bytes, rounded up.
        unsafe { copy_in(bytes.as_ptr(), words.as_ptr().cast_mut().cast(), bytes.len()) }
    }

    /// The words from byte `offset` on, inside the first `end` bytes: [`Mapping::len`], or less.
    ///
    /// # Safety
    /// Nothing stores through the reference if the mapping is for reading.
    #[inline]
    #[track_caller]
    unsafe fn words(&self, offset: usize, count: usize, end: usize) -> &[AtomicU64] {
        let first = if count == 0 { std::ptr::dangling_mut() } else { self.word(offset, end) };
        if count > end.saturating_sub(offset) / 8 {
            self.refuse(count, 8, offset, end);
        }
        // SAFETY: `count` aligned words lie inside the mapping, as checked above; others may change them, which atomics allow.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    /// The address of a word inside the first `end` bytes: [`Mapping::len`], or less.
    #[inline]
    #[track_caller]
    fn word<T>(&self, offset: usize, end: usize) -> *mut T {
        let size = const {
            assert!(size_of::<T>().is_power_of_two(), "words are aligned to their size");
            size_of::<T>()
        };
        // An aligned word that begins before the last multiple of its size ends before `end`.
        if offset >= end & !(size - 1) || !offset.is_multiple_of(size) {
            self.refuse(1, size, offset, end);
        }
        // SAFETY: `offset` is inside the mapping, as checked above.
        unsafe { self.base.as_ptr().add(offset) }.cast()
    }

    /// Says why there are no such words.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse(&self, count: usize, size: usize, offset: usize, end: usize) -> ! {
        assert!(end > 0, "a word of a mapping for reading can only be loaded");
        assert!(offset.is_multiple_of(size), "a word of {size} bytes at {offset} is not aligned");
        panic!("{count} words of {size} bytes at {offset} are outside a mapping of {} bytes", self.len)
    }

    /// `len` bytes from `offset` on, to be read.
    ///
    /// # Safety
    /// No process and no thread writes these bytes, under this address or another, while the slice exists.
    #[track_caller]
    pub unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        self.check_range(offset, len);
        // SAFETY: inside the mapping, and the caller promises that nothing writes to it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset), len) }
    }

    /// `len` bytes from `offset` on, to be written.
    ///
    /// # Safety
    /// No process and no thread reads or writes these bytes, under this address or another, while the slice exists.
    #[track_caller]
    #[expect(clippy::mut_from_ref, reason = "the caller promises to be alone")]
    pub unsafe fn slice_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        self.check_range(offset, len);
        assert_eq!(self.access(), Access::ReadWrite, "a read-only mapping cannot be written");
        // SAFETY: inside the mapping, writable, and the caller promises to be alone.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset), len) }
    }

    #[track_caller]
    fn check_range(&self, offset: usize, len: usize) {
        assert!(
            offset <= self.len && self.len - offset >= len,
            "{len} bytes at {offset} are outside a mapping of {} bytes",
            self.len
        );
    }

    fn raw(&self) -> *mut c_void {
        self.base.as_ptr().cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and references into it borrow from `self`. An error would mean that the range was
        // not ours; there is no caller to tell.
        let _ = unsafe { mm::munmap(self.raw(), self.len) };
    }
}

fn writable_len(len: usize, access: Access) -> usize {
    if access == Access::ReadWrite { len } else { 0 }
}

fn describe(len: usize, access: Access) -> String {
    let what_for = if access == Access::ReadWrite { "writing" } else { "reading" };
    format!("{len} shared bytes for {what_for}")
}

/// Refuses what would raise SIGBUS at the first access. Devices have no length to check.
fn check_length(fd: BorrowedFd<'_>, offset: u64, len: usize) -> Result<()> {
    let on = || format!("{len} bytes at {offset}");
    let stat = fstat(fd).context("map", on)?;
    let file_len = stat.st_size as u64;
    let inside = offset.checked_add(len as u64).is_some_and(|end| end <= file_len);
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && !inside {
        let why = io::Error::new(io::ErrorKind::UnexpectedEof, format!("the file has {file_len} bytes"));
        return Err(Error::new("map", on(), why));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
