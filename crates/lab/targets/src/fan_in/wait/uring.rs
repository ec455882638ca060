//! io_uring: a multishot poll for each stream, which tells of new data as edge-triggered epoll does. Data is then read
//! with `read(2)`, so that what differs from epoll is the waiting and nothing else.
//!
//! # Safety
//! A poll names a descriptor and no memory. The descriptors outlive the ring in a peer; one that did not would give an
//! error.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{OwnedFd, RawFd};

use io_uring::{IoUring, cqueue, opcode, types};

use super::{Waiter, raw};

const SUBMISSIONS: u32 = 1024;
/// The kernel's IORING_MAX_CQ_ENTRIES.
const MOST_COMPLETIONS: usize = 1 << 16;

pub(in super::super) struct Uring {
    ring: IoUring,
    ends: Vec<RawFd>,
    max_events: usize,
}

impl Uring {
    pub(in super::super) fn new(ends: &[OwnedFd], max_events: usize) -> io::Result<Uring> {
        let completions =
            (ends.len() * 2).next_power_of_two().clamp(SUBMISSIONS as usize * 2, MOST_COMPLETIONS);
        // One thread, which runs the completions when it waits and not whenever it happens to be in the kernel; Linux
        // before 6.1 does not know that.
        let ring = IoUring::builder()
            .setup_cqsize(completions as u32)
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(SUBMISSIONS)
            .or_else(|_| IoUring::builder().setup_cqsize(completions as u32).build(SUBMISSIONS))?;
        let mut uring = Uring { ring, ends: raw(ends), max_events };
        for index in 0..ends.len() {
            uring.arm(index)?;
        }
        uring.ring.submit()?;
        Ok(uring)
    }

    fn arm(&mut self, index: usize) -> io::Result<()> {
        let poll = opcode::PollAdd::new(types::Fd(self.ends[index]), libc::POLLIN as u32).multi(true);
        let entry = poll.build().user_data(index as u64);
        if self.ring.submission().is_full() {
            self.ring.submit()?;
        }
        // SAFETY: the entry names a descriptor and no memory.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)
    }
}

impl Waiter for Uring {
    const TELLS_ONCE: bool = true;

    #[inline]
    fn wait_each(&mut self, each: &mut impl FnMut(usize) -> io::Result<()>) -> io::Result<usize> {
        match self.ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            // Completions wait for room: they must be taken before more can be submitted.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
        }
        let mut count = 0;
        while count < self.max_events {
            let Some(completion) = self.ring.completion().next() else { break };
            let index = completion.user_data() as usize;
            if completion.result() < 0 {
                return Err(io::Error::from_raw_os_error(-completion.result()));
            }
            // The kernel ends a poll when there was no room for its completion.
            if !cqueue::more(completion.flags()) {
                self.arm(index)?;
            }
            count += 1;
            each(index)?;
        }
        Ok(count)
    }
}
