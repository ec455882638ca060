//! Locks of one or two words in shared memory. And no lock at all.

use std::hint;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use causeway_os::futex;

use super::Lock;
use crate::page::{LINES, Page, Word};
use crate::prelude::*;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const WANTED: u32 = 2;

/// A mutex of one word: free, taken, or taken with somebody asleep (the third mutex of Drepper, "Futexes Are Tricky",
/// 2011). Without contention it never enters the kernel; there is no spinning.
pub(super) struct FutexMutex(Word<AtomicU32>);

impl Lock for FutexMutex {
    const ID: &'static str = "futex-mutex";
    const ABOUT: &'static str =
        "a mutex of one word in shared memory with three states, slept on with a futex";
    const WAIT: &'static [Wait] = &[Wait::Block];

    fn attach(page: &Page) -> FutexMutex {
        FutexMutex(page.word(0))
    }

    #[inline]
    fn lock(&mut self) -> io::Result<()> {
        // PAIR futex-mutex: the exchange in `unlock`
        if self.0.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok() {
            return Ok(());
        }
        // A role that has slept does not know whether others still sleep, and takes the lock as contended.
        while self.0.swap(WANTED, Acquire) != FREE {
            let _ = futex::wait(&self.0, WANTED, None)?;
        }
        Ok(())
    }

    #[inline]
    fn unlock(&mut self) -> io::Result<()> {
        // PAIR futex-mutex
        if self.0.swap(FREE, Release) == WANTED {
            futex::wake(&self.0, 1)?;
        }
        Ok(())
    }
}

/// Test and test-and-set: a role that finds the lock taken reads it, without writing, until it is free. There is no queue: the role whose
/// cache is nearest tends to win.
pub(super) struct SpinLock(Word<AtomicU32>);

impl Lock for SpinLock {
    const ID: &'static str = "spin-lock";
    const ABOUT: &'static str = "one word in shared memory: swapped to take it, only read while it is taken";
    const WAIT: &'static [Wait] = &[Wait::Spin];

    fn attach(page: &Page) -> SpinLock {
        SpinLock(page.word(0))
    }

    #[inline]
    fn lock(&mut self) -> io::Result<()> {
        // PAIR spin-lock: the store in `unlock`
        while self.0.swap(1, Acquire) != 0 {
            while self.0.load(Relaxed) != 0 {
                hint::spin_loop();
            }
        }
        Ok(())
    }

    #[inline]
    fn unlock(&mut self) -> io::Result<()> {
        self.0.store(0, Release); // PAIR spin-lock
        Ok(())
    }
}

/// Who comes takes a number and waits until it is called: strictly first come, first served.
pub(super) struct TicketLock {
    next: Word<AtomicU32>,
    served: Word<AtomicU32>,
}

impl Lock for TicketLock {
    const ID: &'static str = "ticket-lock";
    const ABOUT: &'static str = "two words in shared memory, on lines of their own: the next number to draw, and the one that is served";
    const WAIT: &'static [Wait] = &[Wait::Spin];

    fn attach(page: &Page) -> TicketLock {
        TicketLock { next: page.word(0), served: page.word(LINES) }
    }

    #[inline]
    fn lock(&mut self) -> io::Result<()> {
        let ticket = self.next.fetch_add(1, Relaxed);
        while self.served.load(Acquire) != ticket {
            // PAIR ticket-lock: the store in `unlock`
            hint::spin_loop();
        }
        Ok(())
    }

    #[inline]
    fn unlock(&mut self) -> io::Result<()> {
        // Only the holder writes it.
        let served = self.served.load(Relaxed);
        self.served.store(served.wrapping_add(1), Release); // PAIR ticket-lock
        Ok(())
    }
}

/// The harness itself: each role adds to a number of its own.
pub(super) struct Noop;

impl Lock for Noop {
    const ID: &'static str = "noop";
    const ABOUT: &'static str =
        "the harness itself: the loop without any lock, each role on a number of its own";
    const CAPS: Caps = Caps::HARNESS;
    const IN_SUITES: InSuites = InSuites::Never("the harness itself, which is compared with nothing");
    const WAIT: &'static [Wait] = &[Wait::Block];

    fn attach(_page: &Page) -> Noop {
        Noop
    }

    #[inline]
    fn lock(&mut self) -> io::Result<()> {
        hint::black_box(self);
        Ok(())
    }

    #[inline]
    fn unlock(&mut self) -> io::Result<()> {
        hint::black_box(self);
        Ok(())
    }
}
