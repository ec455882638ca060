//! Who comes takes a number and waits until it is called: strictly first come, first served.

use std::hint;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::Lock;
use crate::signal::page::{LINES, Page, Word};
use weighbridge_harness::params::Wait;

/// The next number, and the one that is served.
#[derive(Debug)]
pub struct TicketLock {
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
