//! epoll, in its three ways to tell.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::epoll::EventFlags;

use super::{Waiter, raw};
use crate::sys::{self, epoll::Set};

fn watch(ends: &[OwnedFd], how: EventFlags, max_events: usize) -> io::Result<Set> {
    Set::new(ends.iter().map(AsFd::as_fd), how, max_events)
}

/// `EPOLLET`, or plain epoll.
pub(in super::super) struct Epoll<const EDGE: bool>(Set);

impl Epoll<true> {
    pub(in super::super) fn edge(ends: &[OwnedFd], max_events: usize) -> io::Result<Self> {
        watch(ends, EventFlags::ET, max_events).map(Epoll)
    }
}

impl Epoll<false> {
    pub(in super::super) fn level(ends: &[OwnedFd], max_events: usize) -> io::Result<Self> {
        watch(ends, EventFlags::empty(), max_events).map(Epoll)
    }
}

impl<const EDGE: bool> Waiter for Epoll<EDGE> {
    const TELLS_ONCE: bool = EDGE;

    #[inline]
    fn wait_each(&mut self, each: &mut impl FnMut(usize) -> io::Result<()>) -> io::Result<usize> {
        let events = self.0.wait()?;
        for event in events {
            each(event.u64 as usize)?;
        }
        Ok(events.len())
    }
}

/// `EPOLLONESHOT`: a stream is armed again after each event.
pub(in super::super) struct Oneshot {
    set: Set,
    ends: Vec<RawFd>,
}

impl Oneshot {
    pub(in super::super) fn new(ends: &[OwnedFd], max_events: usize) -> io::Result<Oneshot> {
        Ok(Oneshot { set: watch(ends, EventFlags::ONESHOT, max_events)?, ends: raw(ends) })
    }
}

impl Waiter for Oneshot {
    // Arming tells of what was left unread.
    const TELLS_ONCE: bool = false;

    #[inline]
    fn wait_each(&mut self, each: &mut impl FnMut(usize) -> io::Result<()>) -> io::Result<usize> {
        let set = self.set.as_raw_fd();
        let events = self.set.wait()?;
        for event in events {
            let index = event.u64 as usize;
            each(index)?;
            let armed =
                libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLONESHOT) as u32, u64: index as u64 };
            sys::epoll_ctl(&set, libc::EPOLL_CTL_MOD, &self.ends[index], armed)?;
        }
        Ok(events.len())
    }
}
