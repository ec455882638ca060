//! Waiting for a word in shared memory to change, and waking the threads that wait.
//!
//! All calls are shared, never `FUTEX_PRIVATE_FLAG`: waiter and waker may be different processes that map the same
//! file at different addresses. Waiting needs no write access to the word.
//!
//! A wait may end for no reason that the caller can see: load the word again after every wait.

use std::io;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Wait, WaitFlags, WaitPtr, WaitvFlags};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::memory::LoadU32;

/// How a wait ended. All four are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// This thread was woken.
    Woken,
    /// The word did not hold the expected value; the thread did not sleep.
    Changed,
    /// The timeout has passed.
    TimedOut,
    /// A signal came.
    Interrupted,
}

/// Sleeps until woken if `word` holds `expected`, at most for `timeout`.
///
/// The kernel compares and goes to sleep in one step: a [`wake`] after a store that changed the word is never lost.
#[inline]
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) -> io::Result<Outcome> {
    // A timeout that does not fit is longer than any machine runs.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    outcome(futex::wait(word, Flags::empty(), expected, timeout.as_ref()))
}

impl LoadU32<'_> {
    /// As [`wait`], which needs no write access.
    #[inline]
    pub fn wait(self, expected: u32, timeout: Option<Duration>) -> io::Result<Outcome> {
        wait(self.0, expected, timeout)
    }
}

/// As [`wait`], woken also by a [`wake_bitset`] that has a bit in common with `bits`, which are not 0.
#[inline]
pub fn wait_bitset(
    word: &AtomicU32,
    expected: u32,
    timeout: Option<Duration>,
    bits: u32,
) -> io::Result<Outcome> {
    let bits = NonZeroU32::new(bits).ok_or(Errno::INVAL)?;
    outcome(futex::wait_bitset(word, Flags::empty(), expected, end_of(timeout).as_ref(), bits))
}

/// When a wait ends, for the system calls that take that and not its length. A time that does not fit is longer than any machine runs.
#[inline]
fn end_of(timeout: Option<Duration>) -> Option<Timespec> {
    timeout
        .and_then(|timeout| clock_gettime(ClockId::Monotonic).checked_add(Timespec::try_from(timeout).ok()?))
}

/// As [`wait_bitset`], at most until `end_ns`, in nanoseconds of `CLOCK_MONOTONIC`: no clock is read before the sleep.
#[inline]
pub fn wait_until(word: &AtomicU32, expected: u32, end_ns: Option<u64>, bits: u32) -> io::Result<Outcome> {
    let bits = NonZeroU32::new(bits).ok_or(Errno::INVAL)?;
    let end = end_ns
        .map(|end| Timespec { tv_sec: (end / 1_000_000_000) as i64, tv_nsec: (end % 1_000_000_000) as i64 });
    outcome(futex::wait_bitset(word, Flags::empty(), expected, end.as_ref(), bits))
}

/// Sleeps while `shared` and `private` hold these values, at most for `timeout`. A [`wake`] of `shared` ends it. No other
/// process can wake `private`, even one that maps it: the kernel compares it once, and queues this thread for this process
/// only.
///
/// So one word says that something has changed, in memory that others may read, and another is where the thread is
/// woken. Fails with `ENOSYS` before Linux 5.16.
#[inline]
pub fn wait_and_compare(
    (shared, expected): (&AtomicU32, u32),
    (private, unchanged): (&AtomicU32, u32),
    timeout: Option<Duration>,
) -> io::Result<Outcome> {
    // In this order: the kernel queues the thread on the first word before it compares the second.
    wait_all(
        &[waiter(shared, expected, WaitFlags::empty()), waiter(private, unchanged, WaitFlags::PRIVATE)],
        timeout,
    )
}

/// The most words that [`wait_any`] waits for; more are left out.
pub const WAIT_ANY_MAX: usize = 127;

/// Sleeps until `own` or one of `words` is woken, while each holds the value beside it, at most for `timeout`.
pub fn wait_any(
    (own, expected): (&AtomicU32, u32),
    words: &[(LoadU32<'_>, u32)],
    timeout: Option<Duration>,
) -> io::Result<Outcome> {
    let others = words.iter().take(WAIT_ANY_MAX).map(|(word, value)| (word.0, *value));
    let all = std::iter::once((own, expected)).chain(others);
    let waiters: Vec<Wait> = all.map(|(word, value)| waiter(word, value, WaitFlags::empty())).collect();
    wait_all(&waiters, timeout)
}

#[inline]
fn waiter(word: &AtomicU32, expected: u32, flags: WaitFlags) -> Wait {
    let mut waiter = Wait::new();
    waiter.val = u64::from(expected);
    waiter.uaddr = WaitPtr::new(word.as_ptr().cast());
    waiter.flags = WaitFlags::SIZE_U32 | flags;
    waiter
}

#[inline]
fn wait_all(waiters: &[Wait], timeout: Option<Duration>) -> io::Result<Outcome> {
    let end = end_of(timeout);
    outcome(futex::waitv(waiters, WaitvFlags::empty(), end.as_ref(), ClockId::Monotonic).map(drop))
}

#[inline]
fn outcome(result: rustix::io::Result<()>) -> io::Result<Outcome> {
    match result {
        Ok(()) => Ok(Outcome::Woken),
        Err(Errno::AGAIN) => Ok(Outcome::Changed),
        Err(Errno::TIMEDOUT) => Ok(Outcome::TimedOut),
        Err(Errno::INTR) => Ok(Outcome::Interrupted),
        Err(error) => Err(error.into()),
    }
}

/// Wakes up to `count` threads that wait on `word`; returns how many. Fails with `EINVAL` when a thread waits there in another
/// way (a priority-inheriting lock), which only a faulty or hostile peer does.
#[inline]
pub fn wake(word: &AtomicU32, count: u32) -> io::Result<u32> {
    let Some(count) = kernel_count(count) else { return Ok(0) };
    Ok(futex::wake(word, Flags::empty(), count)? as u32)
}

/// As [`wake`], of threads that wait with a bit in common with `bits`, which are not 0.
#[inline]
pub fn wake_bitset(word: &AtomicU32, count: u32, bits: u32) -> io::Result<u32> {
    let bits = NonZeroU32::new(bits).ok_or(Errno::INVAL)?;
    let Some(count) = kernel_count(count) else { return Ok(0) };
    Ok(futex::wake_bitset(word, Flags::empty(), count, bits)? as u32)
}

/// The count for the kernel, which takes a signed number and, asked to wake none or a negative number, wakes one.
#[inline]
fn kernel_count(count: u32) -> Option<u32> {
    (count > 0).then_some(count.min(i32::MAX as u32))
}

#[cfg(test)]
mod tests {
    use causeway_testkit::{Cause, skipped};

    use super::*;
    use crate::memory::{Access, Mapping, memfd};
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(20);

    /// Calls `wake` until it has woken `count` threads. Fails instead of hanging.
    fn wake_until(count: u32, mut wake: impl FnMut() -> io::Result<u32>) {
        let start = Instant::now();
        let mut woken = 0;
        while woken < count {
            woken += wake().unwrap();
            assert!(start.elapsed() < LONG, "{woken} of {count} woken");
            std::thread::yield_now();
        }
        assert_eq!(woken, count);
    }

    #[test]
    fn a_word_that_has_changed_is_not_waited_for() {
        let word = AtomicU32::new(5);
        assert_eq!(wait(&word, 4, None).unwrap(), Outcome::Changed);
        assert_eq!(wait_bitset(&word, 4, None, 1).unwrap(), Outcome::Changed);
    }

    #[test]
    fn a_wait_ends_with_its_timeout() {
        let word = AtomicU32::new(5);
        let short = Duration::from_millis(3);
        let start = Instant::now();
        assert_eq!(wait(&word, 5, Some(short)).unwrap(), Outcome::TimedOut);
        assert!(start.elapsed() >= short);
        let start = Instant::now();
        assert_eq!(wait_bitset(&word, 5, Some(short), u32::MAX).unwrap(), Outcome::TimedOut);
        assert!(start.elapsed() >= short);
        assert_eq!(wait(&word, 5, Some(Duration::ZERO)).unwrap(), Outcome::TimedOut);
        let end_ns = crate::clock::monotonic_ns() + short.as_nanos() as u64;
        assert_eq!(wait_until(&word, 5, Some(end_ns), 1).unwrap(), Outcome::TimedOut);
        assert!(crate::clock::monotonic_ns() >= end_ns);
        assert_eq!(wait_until(&word, 5, Some(1), 1).unwrap(), Outcome::TimedOut);
    }

    #[test]
    fn a_wake_crosses_from_one_mapping_of_a_file_to_another() {
        let fd = memfd("futex", 4096).unwrap();
        let ours = Mapping::shared(&fd, 4096, Access::ReadWrite).unwrap();
        let theirs = Mapping::shared(&fd, 4096, Access::ReadWrite).unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait(theirs.atomic_u32(64), 0, Some(LONG)).unwrap());
            wake_until(1, || wake(ours.atomic_u32(64), 1));
            assert_eq!(waiter.join().unwrap(), Outcome::Woken);
        });
    }

    #[test]
    fn a_word_that_is_only_compared_ends_a_wait_that_has_not_begun_and_wakes_no_thread() {
        let (queue, changes) = (AtomicU32::new(0), AtomicU32::new(7));
        let wait = |changes_expected| {
            wait_and_compare((&queue, 0), (&changes, changes_expected), Some(Duration::from_millis(1)))
        };
        match wait(7) {
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                return skipped(Cause::Kernel("futex_waitv"), error);
            }
            outcome => assert_eq!(outcome.unwrap(), Outcome::TimedOut),
        }
        assert_eq!(wait(6).unwrap(), Outcome::Changed);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| wait_and_compare((&queue, 0), (&changes, 7), Some(LONG)).unwrap());
            for _ in 0..100 {
                assert_eq!(wake(&changes, u32::MAX).unwrap(), 0, "queued where other processes reach it");
                std::thread::yield_now();
            }
            wake_until(1, || wake(&queue, u32::MAX));
            assert_eq!(waiter.join().unwrap(), Outcome::Woken);
        });
    }

    #[test]
    fn the_longest_timeout_is_not_an_error() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let plain = scope.spawn(|| wait(&word, 0, Some(Duration::MAX)).unwrap());
            let masked = scope.spawn(|| wait_bitset(&word, 0, Some(Duration::MAX), 1).unwrap());
            wake_until(2, || wake(&word, 2));
            assert_eq!((plain.join().unwrap(), masked.join().unwrap()), (Outcome::Woken, Outcome::Woken));
        });
    }

    #[test]
    fn all_threads_can_be_woken_and_none_too() {
        let word = AtomicU32::new(0);
        let asleep = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    asleep.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(wait(&word, 0, Some(LONG)).unwrap(), Outcome::Woken);
                });
            }
            while asleep.load(Ordering::SeqCst) < 3 {
                std::thread::yield_now();
            }
            // Waking none never wakes one, whether they sleep already or not.
            for _ in 0..100 {
                assert_eq!(wake(&word, 0).unwrap(), 0);
                assert_eq!(wake_bitset(&word, 0, 1).unwrap(), 0);
            }
            wake_until(3, || wake(&word, u32::MAX));
        });
    }

    #[test]
    fn a_bit_wakes_only_threads_that_wait_for_it() {
        let word = AtomicU32::new(0);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| wait_bitset(&word, 0, Some(LONG), 0b01).unwrap());
            let second = scope.spawn(|| wait_bitset(&word, 0, Some(LONG), 0b10).unwrap());
            wake_until(1, || wake_bitset(&word, u32::MAX, 0b10));
            assert_eq!(second.join().unwrap(), Outcome::Woken);
            assert!(!first.is_finished());
            wake_until(1, || wake_bitset(&word, 1, 0b01));
            assert_eq!(first.join().unwrap(), Outcome::Woken);
        });
        assert!(wait_bitset(&word, 0, None, 0).is_err());
        assert!(wake_bitset(&word, 1, 0).is_err());
    }
}
