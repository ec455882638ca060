//! Ways to learn which streams have data.

mod epoll;
mod scan;
mod uring;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

pub(super) use epoll::{Epoll, Oneshot};
pub(super) use scan::{Poll, Select};
pub(super) use uring::Uring;

/// Waits for streams.
pub(super) trait Waiter {
    /// Tells of new data only, not of what was left unread.
    const TELLS_ONCE: bool;
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
    const TELLS_ONCE: bool = false;
    const BLOCKS: bool = true;

    #[inline]
    fn wait_each(&mut self, each: &mut impl FnMut(usize) -> io::Result<()>) -> io::Result<usize> {
        each(self.next)?;
        self.next = if self.next + 1 == self.streams { 0 } else { self.next + 1 };
        Ok(1)
    }
}

fn raw(ends: &[OwnedFd]) -> Vec<RawFd> {
    ends.iter().map(AsRawFd::as_raw_fd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    /// Writes to some of five pipes, and looks whether exactly those are told of.
    fn tells_of_what_is_ready<W: Waiter>(new: impl Fn(&[OwnedFd]) -> W) {
        let (reads, writes): (Vec<_>, Vec<_>) = (0..5).map(|_| pipe().unwrap()).unzip();
        let mut waiter = new(&reads);
        for written in [vec![3], vec![0, 4], vec![0, 1, 2, 3, 4], vec![2]] {
            for index in &written {
                rustix::io::write(&writes[*index], b"x").unwrap();
            }
            let mut told = Vec::new();
            while told.len() < written.len() {
                let count = waiter
                    .wait_each(&mut |index| {
                        assert_eq!(rustix::io::read(&reads[index], &mut [0u8; 8])?, 1);
                        told.push(index);
                        Ok(())
                    })
                    .unwrap();
                assert!(count <= 2, "at most two events were asked for where that can be asked");
            }
            told.sort_unstable();
            assert_eq!(told, written);
        }
    }

    /// For the ways that tell of all at once.
    fn tells_of_all<W: Waiter>(new: impl Fn(&[OwnedFd]) -> W) {
        let (reads, writes): (Vec<_>, Vec<_>) = (0..5).map(|_| pipe().unwrap()).unzip();
        let mut waiter = new(&reads);
        for written in [vec![3], vec![0, 4], vec![0, 1, 2, 3, 4], vec![2]] {
            for index in &written {
                rustix::io::write(&writes[*index], b"x").unwrap();
            }
            let mut told = Vec::new();
            let count = waiter
                .wait_each(&mut |index| {
                    assert_eq!(rustix::io::read(&reads[index], &mut [0u8; 8])?, 1);
                    told.push(index);
                    Ok(())
                })
                .unwrap();
            assert_eq!((count, &told), (written.len(), &written));
        }
    }

    #[test]
    fn edge_triggered_epoll_tells_of_what_is_ready() {
        tells_of_what_is_ready(|ends| Epoll::edge(ends, 2).unwrap());
    }

    #[test]
    fn level_triggered_epoll_tells_of_what_is_ready() {
        tells_of_what_is_ready(|ends| Epoll::level(ends, 2).unwrap());
    }

    #[test]
    fn oneshot_epoll_tells_of_what_is_ready_again_and_again() {
        tells_of_what_is_ready(|ends| Oneshot::new(ends, 2).unwrap());
    }

    #[test]
    #[allow(clippy::print_stderr)]
    fn multishot_polls_tell_of_what_is_ready() {
        match io_uring::IoUring::new(2) {
            Ok(_) => tells_of_what_is_ready(|ends| Uring::new(ends, 2).unwrap()),
            Err(error) => eprintln!("skipped: no io_uring here: {error}"),
        }
    }

    #[test]
    fn poll_and_select_tell_of_all_that_is_ready() {
        tells_of_all(Poll::new);
        tells_of_all(|ends| Select::new(ends).unwrap());
    }

    #[test]
    fn without_a_wait_streams_are_taken_in_turn() {
        let (reads, _writes): (Vec<_>, Vec<_>) = (0..3).map(|_| pipe().unwrap()).unzip();
        let mut cyclic = Cyclic::new(&reads);
        let mut told = Vec::new();
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
