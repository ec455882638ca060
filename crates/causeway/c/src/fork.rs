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

/// A process, as a handle knows the one that made it.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    word: &'static AtomicU64,
    /// Never 0.
    pub number: u64,
}

impl Process {
    /// This process, for a handle that is made now.
    pub fn this() -> Result<Process, Failure> {
        // SAFETY: null, or a page that stays mapped and that `map` has made before it was stored (PAIR c-process).
        let word = match unsafe { WORD.load(Ordering::Acquire).as_ref() } {
            Some(word) => word,
            None => map()?,
        };
        let mut number = word.load(Ordering::Relaxed);
        if number == 0 {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            // Of two threads one is first, and both have its number.
            number = match word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => next,
                Err(theirs) => theirs,
            };
        }
        Ok(Process { word, number })
    }

    /// The number of the process that asks; 0 if that is a child which has made no handle.
    #[inline(always)]
    pub fn number_now(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }
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
    // PAIR c-process: Acquire in `this`. One thread's page stays; that of another, which lost, is 4 KiB that nobody uses.
    let first = WORD.compare_exchange(std::ptr::null_mut(), page, Ordering::Release, Ordering::Acquire);
    // SAFETY: as in `this`; zeroes are an atomic word.
    Ok(unsafe { &*first.err().unwrap_or(page) })
}
