//! Which process this is. The kernel wipes one page in each child (MADV_WIPEONFORK), however it was forked, so that a
//! look at a word is enough where `getpid` would be a system call for each message.
//!
//! # Safety
//! The page is mapped once, is never unmapped, and is accessed as one atomic word only.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

use crate::error::Failure;

/// The word of this process. A child has its copy of the pointer, and a page of zeroes.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// Numbers of processes: a child goes on where its parent was.
static LAST: AtomicU64 = AtomicU64::new(0);

const PAGE_BYTES: usize = 4096;

/// The number of this process, for a handle that is made now.
pub fn current() -> Result<u64, Failure> {
    let word = match word() {
        Some(word) => word,
        None => map()?,
    };
    let number = word.load(Ordering::Relaxed);
    if number != 0 {
        return Ok(number);
    }
    let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    // Of two threads one is first, and both have its number.
    Ok(match word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => next,
        Err(theirs) => theirs,
    })
}

/// Was this number that of this process?
#[inline(always)]
pub fn is(number: u64) -> bool {
    word().is_some_and(|word| word.load(Ordering::Relaxed) == number)
}

#[inline(always)]
fn word() -> Option<&'static AtomicU64> {
    // SAFETY: null, or a page that stays mapped and that `map` has made before it was stored.
    unsafe { WORD.load(Ordering::Acquire).as_ref() } // PAIR c-process
}

#[cold]
fn map() -> Result<&'static AtomicU64, Failure> {
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let page = unsafe {
        let page = mmap_anonymous(
            std::ptr::null_mut(),
            PAGE_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )?;
        madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork)?;
        page.cast::<AtomicU64>()
    };
    // PAIR c-process: Acquire in `word`. One thread's page stays; that of another, which lost, is 4 KiB that nobody uses.
    let first = WORD.compare_exchange(std::ptr::null_mut(), page, Ordering::Release, Ordering::Acquire);
    // SAFETY: as in `word`; zeroes are an atomic word.
    Ok(unsafe { &*first.err().unwrap_or(page) })
}
