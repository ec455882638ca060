//! Test and test-and-set: a role that finds the lock taken reads it, without writing, until it is free. There is no queue: the role whose cache
//! is nearest tends to win.

use std::hint;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Lock;
use crate::signal::page::{Page, Word};
use weighbridge_harness::params::Wait;

/// One word, spun on.
#[derive(Debug)]
pub struct SpinLock(Word<AtomicU32>);

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
