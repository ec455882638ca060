//! A completion put into the other end's io_uring.
//!
//! Each end makes its ring after exec, so its descriptor cannot come from the coordinator; and the kernel sends no io_uring
//! over sockets. The ends tell each other their process id and descriptor, and each takes a copy of the other's with
//! `pidfd_getfd`.
//!
//! # Safety
//! A submitted message refers to no memory. The descriptor that the other end has told is open, because that end keeps its
//! ring until it ends.
#![allow(unsafe_code)]

use std::os::fd::FromRawFd;
use std::process;

use io_uring::{IoUring, opcode, squeue, types};

use super::Signal;
use crate::page::Page;
use crate::prelude::*;
use crate::sys;

/// What stands in a completion that is a signal.
const SIGNAL: u64 = 1;

pub(super) struct UringMsg {
    ring: IoUring,
    theirs: OwnedFd,
}

impl Signal for UringMsg {
    const ID: &'static str = "uring-msg";
    const ABOUT: &'static str = "io_uring's MSG_RING: a post submits a message to the other ring, a wait waits for a completion in its own";
    const WAITS: &'static [Wait] = &[Wait::Uring];
    const PROPERTIES: Properties =
        // A copy of the ring of another takes the rights to trace it, and its number.
        Properties::of(&[Property::WithoutSharedMemory], Across::OneNamespace);

    fn fit(host: &Host, _params: &CaseParams) -> Result<(), Unsupported> {
        host.uring_refused.clone().map_or(Ok(()), |why| Err(Unsupported(why)))
    }

    fn attach(side: Side, mut resources: EndResources, _params: &CaseParams) -> io::Result<UringMsg> {
        let ring = IoUring::new(8)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::MsgRingData::CODE) {
            return Err(io::Error::other("this kernel's io_uring has no MSG_RING; it came with Linux 5.18"));
        }
        causeway_os::process::allow_tracing_by_any()?;
        let own = [u64::from(process::id()), ring.as_raw_fd() as u64];
        let page = Page::attach(&mut resources)?;
        let [pid, number] = page.exchange(side, own)?;
        let theirs = copy_of(pid as u32, number as i32).map_err(|error| {
            let why =
                format!("the other end's ring cannot be taken over: {error}; it needs the right to trace it");
            io::Error::new(error.kind(), why)
        })?;
        Ok(UringMsg { ring, theirs })
    }

    #[inline]
    fn post(&mut self) -> io::Result<()> {
        let entry = opcode::MsgRingData::new(types::Fd(self.theirs.as_raw_fd()), 0, SIGNAL, None)
            .build()
            .user_data(0)
            .flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: the entry refers to no memory.
        unsafe { self.ring.submission().push(&entry) }.expect("the queue is empty: every entry is submitted");
        self.ring.submit().map(drop)
    }

    #[inline]
    fn wait(&mut self) -> io::Result<()> {
        loop {
            if let Some(completion) = self.ring.completion().next() {
                return match (completion.user_data(), completion.result()) {
                    (SIGNAL, _) => Ok(()),
                    (_, error) => Err(io::Error::from_raw_os_error(-error)),
                };
            }
            match self.ring.submit_and_wait(1) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}

/// A descriptor of our own for descriptor `number` of process `pid`, which may be this one.
fn copy_of(pid: u32, number: i32) -> io::Result<OwnedFd> {
    if pid == process::id() {
        // SAFETY: another role of this process has told it, and keeps it open.
        return unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned();
    }
    let process = causeway_os::process::pidfd_open(pid)?;
    // SAFETY: three numbers.
    let copy = sys::check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(copy as i32) })
}
