//! A mutex of one word: free, taken, or taken with somebody asleep (the third mutex of Drepper, "Futexes Are Tricky",
//! 2011). Without contention it never enters the kernel; there is no spinning.

use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use causeway_os::futex;

use super::Lock;
use crate::signal::page::{Page, Word};
use weighbridge_harness::params::Wait;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const WANTED: u32 = 2;

/// One word, slept on.
#[derive(Debug)]
pub struct FutexMutex(Word<AtomicU32>);

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
