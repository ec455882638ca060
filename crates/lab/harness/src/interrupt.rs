//! Ctrl-C and SIGTERM as a descriptor, so that the one `poll` of the coordinator sees them too.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use causeway_os::process;

/// Has the user had enough?
#[derive(Debug)]
pub struct Interrupt {
    signals: OwnedFd,
    is_taken: Cell<bool>,
}

impl Interrupt {
    /// Takes SIGINT, SIGTERM and SIGHUP over. Call it before any thread is started.
    pub fn install() -> io::Result<Interrupt> {
        let signals = process::block_signals(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
        Ok(Interrupt { signals, is_taken: Cell::new(false) })
    }

    /// Readable once a signal has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }

    /// Takes the signal; from then on it has come.
    pub fn take(&self) -> io::Result<bool> {
        if !self.is_taken.get() && process::read_signal(&self.signals)?.is_some() {
            self.is_taken.set(true);
        }
        Ok(self.is_taken.get())
    }
}
