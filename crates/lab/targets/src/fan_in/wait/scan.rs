//! poll and select: the kernel looks at every stream in every call, and so does the caller.
//!
//! # Safety
//! The calls are given arrays of plain numbers that live across them and are as long as announced. A descriptor that is
//! put into an `fd_set` is below `FD_SETSIZE`, which is checked when the set is made.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr;

use super::{Waiter, raw};
use crate::fan_in::limits::SELECT_FDS;
use crate::sys;

pub(in super::super) struct Poll(Vec<libc::pollfd>);

impl Poll {
    pub(in super::super) fn new(ends: &[OwnedFd]) -> Poll {
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        Poll(raw(ends).into_iter().map(entry).collect())
    }
}

impl Waiter for Poll {
    #[inline]
    fn wait_each(&mut self, each: &mut impl FnMut(usize) -> io::Result<()>) -> io::Result<usize> {
        let count = sys::poll(&mut self.0)?;
        let mut left = count;
        for (index, entry) in self.0.iter().enumerate() {
            if left == 0 {
                break;
            }
            if entry.revents != 0 {
                left -= 1;
                each(index)?;
            }
        }
        Ok(count)
    }
}

pub(in super::super) struct Select {
    ends: Vec<RawFd>,
    all: libc::fd_set,
    above: RawFd,
}

impl Select {
    pub(in super::super) fn new(ends: &[OwnedFd]) -> io::Result<Select> {
        let ends = raw(ends);
        let above = ends.iter().max().map_or(0, |most| most + 1);
        if above as usize > SELECT_FDS {
            let why = format!("descriptor {} is not below FD_SETSIZE = {SELECT_FDS}", above - 1);
            return Err(io::Error::other(why));
        }
        // SAFETY: FD_ZERO initializes the whole set; each descriptor is below FD_SETSIZE.
        let all = unsafe {
            let mut all = MaybeUninit::<libc::fd_set>::uninit();
            libc::FD_ZERO(all.as_mut_ptr());
            for fd in &ends {
                libc::FD_SET(*fd, all.as_mut_ptr());
            }
            all.assume_init()
        };
        Ok(Select { ends, all, above })
    }
}

impl Waiter for Select {
    #[inline]
    fn wait_each(&mut self, each: &mut impl FnMut(usize) -> io::Result<()>) -> io::Result<usize> {
        let mut set = self.all;
        let null = ptr::null_mut();
        // SAFETY: the set is a copy of ours; the others are not given.
        let count = sys::ready(unsafe { libc::select(self.above, &mut set, null, null, ptr::null_mut()) })?;
        let mut left = count;
        for (index, fd) in self.ends.iter().enumerate() {
            if left == 0 {
                break;
            }
            // SAFETY: the descriptor is below FD_SETSIZE.
            if unsafe { libc::FD_ISSET(*fd, &set) } {
                left -= 1;
                each(index)?;
            }
        }
        Ok(count)
    }
}
