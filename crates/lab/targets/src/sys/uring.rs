//! Reads through io_uring.
//!
//! # Safety
//! What a submitted entry points to is borrowed until its completion has come.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};

/// A ring with at most one entry under way.
pub(crate) struct Ring(Box<IoUring>);

impl Ring {
    /// A ring of the least size.
    ///
    /// # Errors
    /// The kernel refuses io_uring, or has none.
    pub(crate) fn new() -> io::Result<Ring> {
        Ok(Ring(Box::new(IoUring::new(8)?)))
    }

    /// A read submitted and waited for in one system call.
    #[inline]
    pub(crate) fn read(&mut self, fd: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
        let fd = types::Fd(fd.as_raw_fd());
        let entry = opcode::Read::new(fd, buffer.as_mut_ptr(), buffer.len() as u32).offset(u64::MAX).build();
        // SAFETY: pointer and length come from one slice, which is borrowed until the call returns.
        unsafe { self.complete(&entry) }
    }

    /// A `recv` submitted and waited for in one system call.
    #[inline]
    pub(crate) fn recv(
        &mut self,
        fd: &impl AsRawFd,
        buffer: &mut [u8],
        flags: libc::c_int,
    ) -> io::Result<usize> {
        let fd = types::Fd(fd.as_raw_fd());
        let entry = opcode::Recv::new(fd, buffer.as_mut_ptr(), buffer.len() as u32).flags(flags).build();
        // SAFETY: pointer and length come from one slice, which is borrowed until the call returns.
        unsafe { self.complete(&entry) }
    }

    /// Submits an entry and waits for its completion: one system call unless a signal interrupts it.
    ///
    /// # Safety
    /// What the entry points to lives and is not touched by others until this returns.
    #[inline]
    unsafe fn complete(&mut self, entry: &squeue::Entry) -> io::Result<usize> {
        let Ring(ring) = self;
        // SAFETY: the caller's promise.
        unsafe { ring.submission().push(entry) }.expect("the queue is empty: every entry is waited for");
        loop {
            match ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The entry may still be under way, and its memory must not be given back to the caller.
                Err(error) => panic!("io_uring does not wait: {error}"),
            }
            if let Some(completion) = ring.completion().next() {
                return match completion.result() {
                    count if count >= 0 => Ok(count as usize),
                    error => Err(io::Error::from_raw_os_error(-error)),
                };
            }
        }
    }
}
