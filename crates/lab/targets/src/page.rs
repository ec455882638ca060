//! Shared memory of a case with words and objects at fixed places: for signals and locks that live there, and for counters.
//!
//! # Safety
//! A word or object lies inside the mapping and is aligned (checked when its place is computed), and holds on to the
//! mapping. Words are only accessed atomically. What an object may be used for is said where it is used.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use causeway_os::futex;
use causeway_os::memory::{self, Access, Mapping};

use crate::prelude::*;

/// Two lines: the neighbor of a line is fetched with it on many CPUs.
pub const LINES: usize = 128;
const LEN: usize = 4096;

#[derive(Clone, Debug)]
pub struct Page(Arc<Mapping>);

impl Page {
    /// A page of zeros, arranged by `init`, and one set of resources for each of `roles` roles.
    pub fn create(roles: usize, init: impl FnOnce(&Page) -> io::Result<()>) -> io::Result<Vec<EndResources>> {
        let fd = memory::memfd("weighbridge-signal", LEN as u64)?;
        init(&Page::map(&fd)?)?;
        (0..roles).map(|_| Ok(EndResources::of([fd.try_clone()?]))).collect()
    }

    /// The same for the two ends of a signal.
    pub fn create_two(init: impl FnOnce(&Page) -> io::Result<()>) -> io::Result<[EndResources; 2]> {
        Ok(Page::create(2, init)?.try_into().expect("two were asked for"))
    }

    /// In a role: the page, touched.
    pub fn attach(resources: &mut EndResources) -> io::Result<Page> {
        let page = Page::map(&resources.take_fd())?;
        page.prefault()?;
        Ok(page)
    }

    fn map(fd: &OwnedFd) -> io::Result<Page> {
        Page::map_bytes(fd, LEN)
    }

    /// The first `len` bytes of a memory file, for those that need another size than a page.
    pub fn map_bytes(fd: impl AsFd, len: usize) -> io::Result<Page> {
        Ok(Page(Arc::new(Mapping::shared(fd.as_fd(), len, Access::ReadWrite)?)))
    }

    /// Touches all of it, so that nothing timed pays for that.
    pub fn prefault(&self) -> io::Result<()> {
        Ok(self.0.prefault()?)
    }

    /// A 32-bit word that is looked up each time.
    #[inline]
    pub fn u32_at(&self, offset: usize) -> &AtomicU32 {
        self.0.atomic_u32(offset)
    }

    /// A 64-bit word that is looked up each time.
    #[inline]
    pub fn u64_at(&self, offset: usize) -> &AtomicU64 {
        self.0.atomic_u64(offset)
    }

    /// The 32-bit word at a byte offset.
    pub fn word(&self, offset: usize) -> Word<AtomicU32> {
        Word { at: NonNull::from(self.0.atomic_u32(offset)), _page: self.clone() }
    }

    /// The 64-bit word at a byte offset.
    pub fn long(&self, offset: usize) -> Word<AtomicU64> {
        Word { at: NonNull::from(self.0.atomic_u64(offset)), _page: self.clone() }
    }

    /// Tells the other end two numbers, and waits for those that it tells: what only a role itself knows, such as its
    /// process id. Uses the last lines of the page.
    pub fn exchange(&self, side: Side, told: [u64; 2]) -> io::Result<[u64; 2]> {
        const NEAR: usize = LEN - 2 * LINES;
        const FAR: usize = LEN - LINES;
        let (mine, theirs) = if side == Side::Near { (NEAR, FAR) } else { (FAR, NEAR) };
        for (index, number) in told.into_iter().enumerate() {
            self.long(mine + 8 + index * 8).store(number, Relaxed);
        }
        let (has_told, has_been_told) = (self.word(mine), self.word(theirs));
        has_told.store(1, Release); // PAIR exchange
        futex::wake(&has_told, 1)?;
        while has_been_told.load(Acquire) == 0 {
            // PAIR exchange
            let _ = futex::wait(&has_been_told, 0, None)?;
        }
        Ok([8, 16].map(|offset| self.long(theirs + offset).load(Relaxed)))
    }

    /// Where an object of type `T` lies, two lines aligned.
    ///
    /// # Panics
    /// If it does not lie inside the page: a bug of the caller.
    pub fn object<T>(&self, offset: usize) -> *mut T {
        let is_inside = offset + size_of::<T>() <= self.0.len();
        assert!(offset.is_multiple_of(LINES) && is_inside && align_of::<T>() <= LINES);
        // SAFETY: the offset lies inside the mapping.
        unsafe { self.0.as_ptr().add(offset).cast() }
    }
}

/// A word of a page, without a check each time that it is used.
pub struct Word<T> {
    at: NonNull<T>,
    _page: Page,
}

impl<T> Deref for Word<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: made from a reference into the mapping that `_page` keeps; `T` is an atomic.
        unsafe { self.at.as_ref() }
    }
}
