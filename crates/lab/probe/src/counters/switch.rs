//! Perf events that one process has opened, started and stopped by another one.
//!
//! # Safety
//!
//! The requests take no argument.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::ioctl::{self, NoArg, Opcode, opcode};

use causeway_os::{Context, Result};

/// Starts and stops perf events, each with a system call. Copies of it switch the same events.
#[derive(Clone, Debug)]
pub struct EventSwitch(Arc<[OwnedFd]>);

impl EventSwitch {
    /// Switches the events of these descriptors, which `perf_event_open` has returned.
    pub fn new(events: Vec<OwnedFd>) -> EventSwitch {
        EventSwitch(events.into())
    }

    /// To pass on to another process.
    pub fn fds(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(AsFd::as_fd)
    }

    /// Every event counts, or takes samples, from now on.
    pub fn on(&self) -> Result<()> {
        const ENABLE: Opcode = opcode::none(b'$', 0);
        // SAFETY: the request takes no argument; it is that of `linux/perf_event.h`.
        self.each(|fd| unsafe { ioctl::ioctl(fd, NoArg::<ENABLE>::new()) }).context("start", || "perf events")
    }

    /// No event counts from now on.
    pub fn off(&self) -> Result<()> {
        const DISABLE: Opcode = opcode::none(b'$', 1);
        // SAFETY: as above.
        self.each(|fd| unsafe { ioctl::ioctl(fd, NoArg::<DISABLE>::new()) }).context("stop", || "perf events")
    }

    fn each(&self, request: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<()>) -> rustix::io::Result<()> {
        self.fds().try_for_each(request)
    }
}
