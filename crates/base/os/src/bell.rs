//! Adding one to an eventfd of another process, without ever waiting.
//!
//! A write to an eventfd waits while its counter is full, unless the descriptor is one that does not block. That is a property of what
//! all who have the eventfd share: a process can take it away after it was looked at, at any time. No flag of a single write helps, as
//! eventfds know none. What never waits is the kernel's own addition when an asynchronous operation has ended (`IOCB_FLAG_RESFD` of
//! `io_submit`): so an empty read ends, and the kernel adds.
//!
//! # Safety
//! The kernel's structures are passed by pointers that live during the call, and it keeps none of them: the read has no bytes, and has
//! ended when `io_submit` returns.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// Ends of operations that the kernel keeps until they are fetched.
const EVENTS: usize = 64;

/// Source: `linux/aio_abi.h`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    /// Key and flags, in an order that depends on the machine; both are 0.
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_fd: u32,
}

const _: () = assert!(size_of::<Iocb>() == 64);

const PREAD: u16 = 0;
const FLAG_RESULT_FD: u32 = 1;

/// `struct io_event`.
type Event = [u64; 4];

/// What rings. It has a descriptor. Where the kernel has no asynchronous operations, or no place for them, it looks before it writes instead.
#[derive(Debug)]
pub struct Bell {
    operations: Option<Operations>,
}

impl Default for Bell {
    fn default() -> Bell {
        Bell { operations: Operations::new().ok() }
    }
}

#[derive(Debug)]
struct Operations {
    context: libc::c_ulong,
    empty: OwnedFd,
}

impl Bell {
    /// Adds one to an eventfd; what is full stays so. It does not wait, whatever other processes do with the eventfd.
    pub fn ring(&self, eventfd: BorrowedFd<'_>) {
        let rung = self.operations.as_ref().map(|operations| operations.ring(eventfd));
        if !matches!(rung, Some(Ok(()))) {
            ring_if_there_is_room(eventfd);
        }
    }
}

/// The second best: another process may fill it in between.
fn ring_if_there_is_room(eventfd: BorrowedFd<'_>) {
    let mut room = [PollFd::from_borrowed_fd(eventfd, PollFlags::OUT)];
    let none = rustix::time::Timespec::default();
    // One that others have filled beyond its end is in error, and poll tells that, too.
    if rustix::event::poll(&mut room, Some(&none)) == Ok(1) && room[0].revents().contains(PollFlags::OUT) {
        let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
    }
}

impl Operations {
    fn new() -> rustix::io::Result<Operations> {
        let empty = rustix::fs::memfd_create("empty", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes the context into the word, which lives during the call.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, EVENTS as libc::c_ulong, &raw mut context) };
        check(made).map(|_| Operations { context, empty })
    }

    fn ring(&self, eventfd: BorrowedFd<'_>) -> rustix::io::Result<()> {
        match self.submit(eventfd) {
            // The ends of earlier ones take all places.
            Err(Errno::AGAIN) => {
                self.fetch();
                self.submit(eventfd)
            }
            outcome => outcome,
        }
    }

    fn submit(&self, eventfd: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let number = |fd: BorrowedFd<'_>| fd.as_raw_fd().cast_unsigned();
        let (fd, result_fd) = (number(self.empty.as_fd()), number(eventfd));
        let mut read = Iocb { opcode: PREAD, fd, flags: FLAG_RESULT_FD, result_fd, ..Iocb::default() };
        let mut list = [&raw mut read];
        // SAFETY: the list has one pointer, to a structure of the kernel's form; both live during the call. The read has no bytes.
        let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1, list.as_mut_ptr()) };
        check(submitted).map(drop)
    }

    fn fetch(&self) {
        let mut events: [Event; EVENTS] = [Event::default(); EVENTS];
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes at most as many events as there are places for, which live during the call, as the time does.
        unsafe {
            let most = EVENTS as libc::c_long;
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0,
                most,
                events.as_mut_ptr(),
                &raw const none,
            );
        }
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        // SAFETY: the context is of this process, and nothing uses it from here on.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

fn check(returned: libc::c_long) -> rustix::io::Result<libc::c_long> {
    if returned < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(returned)
}

#[cfg(test)]
mod tests {
    use causeway_testkit::{Cause, skipped};
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn taken(fd: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(fd, &mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    /// More often than the kernel keeps ends of operations.
    #[test]
    fn each_ring_adds_one() {
        let (bell, fd) = (Bell::default(), eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        for _ in 0..3 * EVENTS {
            bell.ring(fd.as_fd());
        }
        assert_eq!(taken(&fd), 3 * EVENTS as u64);
        if bell.operations.is_none() {
            skipped(Cause::Kernel("asynchronous I/O"), "the second best was tested");
        }
    }

    /// A write would wait for ever. It is what asks first that does not ring, the second best.
    #[test]
    fn one_that_is_full_and_blocks_keeps_nobody_waiting() {
        let fd = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        Bell::default().ring(fd.as_fd());
        let second_best = Bell { operations: None };
        second_best.ring(fd.as_fd());
        assert!(taken(&fd) >= u64::MAX - 1);
        second_best.ring(fd.as_fd());
        assert_eq!(taken(&fd), 1);
    }

    #[test]
    fn what_is_no_eventfd_is_not_rung_by_the_kernel() {
        let (read, _write) = std::io::pipe().unwrap();
        match Operations::new() {
            Ok(operations) => assert!(operations.ring(read.as_fd()).is_err()),
            Err(error) => skipped(Cause::Kernel("asynchronous I/O"), error),
        }
    }
}
