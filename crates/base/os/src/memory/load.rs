//! Words that this process can look at and not change.
//!
//! A word of a mapping made for reading must not be an [`AtomicU32`]: safe code could store through it, and the kernel
//! answers that with SIGSEGV. Loads are fine there: the standard library promises that atomic loads of up to a pointer's
//! size work on read-only memory on the architectures that this crate is for.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::futex::{self, Outcome};

/// A 32-bit word that others may change at any time.
#[derive(Clone, Copy, Debug)]
pub struct LoadU32<'a>(pub(super) &'a AtomicU32);

/// A 64-bit word that others may change at any time.
#[derive(Clone, Copy, Debug)]
pub struct LoadU64<'a>(pub(super) &'a AtomicU64);

impl LoadU32<'_> {
    /// Loads the value that the word holds now.
    ///
    /// # Panics
    ///
    /// For an order that is none of a load, as [`AtomicU32::load`].
    #[inline]
    pub fn load(self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    /// As [`futex::wait`]: waiting needs no write access.
    ///
    /// # Errors
    ///
    /// As [`futex::wait`].
    #[inline]
    pub fn wait(self, expected: u32, timeout: Option<Duration>) -> io::Result<Outcome> {
        futex::wait(self.0, expected, timeout)
    }
}

/// The most words that [`wait_any`] waits for; more are left out.
pub const WAIT_ANY_MAX: usize = 127;

/// Sleeps until `own` or one of `words` is woken, while each of them holds the value beside it, at most for `timeout`
/// (`futex_waitv`, Linux 5.16). Waiting needs no write access.
///
/// # Errors
///
/// Errors of the kernel that are not an [`Outcome`]: `ENOSYS` before Linux 5.16.
pub fn wait_any(
    own: (&AtomicU32, u32),
    words: &[(LoadU32<'_>, u32)],
    timeout: Option<Duration>,
) -> io::Result<Outcome> {
    use rustix::thread::futex::{Wait, WaitFlags, WaitPtr, WaitvFlags, waitv};
    let waiter = |word: &AtomicU32, expected: u32| {
        let mut wait = Wait::new();
        wait.val = u64::from(expected);
        wait.uaddr = WaitPtr::new(word.as_ptr().cast());
        wait.flags = WaitFlags::SIZE_U32;
        wait
    };
    let mut waiters = vec![waiter(own.0, own.1)];
    waiters.extend(words.iter().take(WAIT_ANY_MAX).map(|(word, expected)| waiter(word.0, *expected)));
    // This system call takes the end of the wait, not its length. A time that does not fit is longer than any machine runs.
    let end = timeout.and_then(|timeout| {
        let timeout = Timespec::try_from(timeout).ok()?;
        clock_gettime(ClockId::Monotonic).checked_add(timeout)
    });
    futex::outcome(waitv(&waiters, WaitvFlags::empty(), end.as_ref(), ClockId::Monotonic).map(drop))
}

impl LoadU64<'_> {
    /// Loads the value that the word holds now.
    ///
    /// # Panics
    ///
    /// For an order that is none of a load, as [`AtomicU64::load`].
    #[inline]
    pub fn load(self, order: Ordering) -> u64 {
        self.0.load(order)
    }
}
