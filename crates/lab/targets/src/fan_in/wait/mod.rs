//! Ways to learn which streams have data.

mod scan;
mod uring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::epoll::EventFlags;

use crate::sys::{self, epoll::Set};
pub(super) use scan::{Poll, Select};
pub(super) use uring::Uring;

pub(super) trait Waiter {
    /// Tells of new data only, not of what was left unread.
    const TELLS_ONCE: bool = false;
    /// Reads of its streams block.
    const BLOCKS: bool = false;

    /// One wait: calls `each` with the index of every stream that is ready, and returns how many there were.
    fn wait_each(&mut self, each: &mut impl FnMut(usize) -> io::Result<()>) -> io::Result<usize>;
}

/// No wait at all: one stream after the other, each read blocking until it has data.
pub(super) struct Cyclic {
    next: usize,
    streams: usize,
}

impl Cyclic {
    pub(super) fn new(ends: &[OwnedFd]) -> Cyclic {
        Cyclic { next: 0, streams: ends.len() }
    }
}

impl Waiter for Cyclic {
    const BLOCKS: bool = true;

    #[inline]
    fn wait_each(&mut self, each: &mut impl FnMut(usize) -> io::Result<()>) -> io::Result<usize> {
        each(self.next)?;
        self.next = if self.next + 1 == self.streams { 0 } else { self.next + 1 };
        Ok(1)
    }
}

/// epoll, edge-triggered (`EPOLLET`) or plain.
pub(super) struct Epoll<const EDGE: bool>(Set);

impl<const EDGE: bool> Epoll<EDGE> {
    pub(super) fn new(ends: &[OwnedFd], max_events: usize) -> io::Result<Self> {
        watch(ends, if EDGE { EventFlags::ET } else { EventFlags::empty() }, max_events).map(Epoll)
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

/// `EPOLLONESHOT`: a stream is armed again after each event, and that tells of what was left unread.
pub(super) struct Oneshot {
    set: Set,
    ends: Vec<RawFd>,
}

impl Oneshot {
    pub(super) fn new(ends: &[OwnedFd], max_events: usize) -> io::Result<Oneshot> {
        Ok(Oneshot { set: watch(ends, EventFlags::ONESHOT, max_events)?, ends: raw(ends) })
    }
}

impl Waiter for Oneshot {
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

fn watch(ends: &[OwnedFd], how: EventFlags, max_events: usize) -> io::Result<Set> {
    Set::new(ends.iter().map(AsFd::as_fd), how, max_events)
}

fn raw(ends: &[OwnedFd]) -> Vec<RawFd> {
    ends.iter().map(AsRawFd::as_raw_fd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_testkit::{Cause, skipped};
    use rustix::pipe::pipe;

    /// Writes to some of five pipes, and looks whether exactly those are told of: all at once, or at most two in a wait.
    fn tells_of_what_is_ready<W: Waiter>(at_once: bool, new: impl Fn(&[OwnedFd]) -> W) {
        let (reads, writes): (Vec<_>, Vec<_>) = (0..5).map(|_| pipe().unwrap()).unzip();
        let mut waiter = new(&reads);
        for written in [vec![3], vec![0, 4], vec![0, 1, 2, 3, 4], vec![2]] {
            for index in &written {
                rustix::io::write(&writes[*index], b"x").unwrap();
            }
            let mut told = Vec::new();
            while told.len() < written.len() {
                let each = &mut |index: usize| {
                    assert_eq!(rustix::io::read(&reads[index], &mut [0u8; 8])?, 1);
                    told.push(index);
                    Ok(())
                };
                let count = waiter.wait_each(each).unwrap();
                assert!(if at_once { count == written.len() } else { count <= 2 }, "{count}");
            }
            told.sort_unstable();
            assert_eq!(told, written);
        }
    }

    #[test]
    fn every_way_to_wait_tells_of_what_is_ready_again_and_again() {
        tells_of_what_is_ready(false, |ends| Epoll::<true>::new(ends, 2).unwrap());
        tells_of_what_is_ready(false, |ends| Epoll::<false>::new(ends, 2).unwrap());
        tells_of_what_is_ready(false, |ends| Oneshot::new(ends, 2).unwrap());
        tells_of_what_is_ready(true, Poll::new);
        tells_of_what_is_ready(true, |ends| Select::new(ends).unwrap());
    }

    #[test]
    fn multishot_polls_tell_of_what_is_ready() {
        match io_uring::IoUring::new(2) {
            Ok(_) => tells_of_what_is_ready(false, |ends| Uring::new(ends, 2).unwrap()),
            Err(error) => skipped(Cause::Kernel("io_uring"), error),
        }
    }

    #[test]
    fn without_a_wait_streams_are_taken_in_turn() {
        let (reads, _writes): (Vec<_>, Vec<_>) = (0..3).map(|_| pipe().unwrap()).unzip();
        let (mut cyclic, mut told) = (Cyclic::new(&reads), Vec::new());
        for _ in 0..7 {
            let each = &mut |index| {
                told.push(index);
                Ok(())
            };
            assert_eq!(cyclic.wait_each(each).unwrap(), 1);
        }
        assert_eq!(told, [0, 1, 2, 0, 1, 2, 0]);
    }
}
