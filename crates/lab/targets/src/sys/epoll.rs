//! A set of descriptors in epoll, and room for the events of one wait.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use libc::epoll_event;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

pub(crate) struct Set {
    fd: OwnedFd,
    events: Vec<epoll_event>,
}

impl Set {
    /// Watches `fds`, each of which has its index for the data of its events. A wait returns at most `max_events`.
    ///
    /// # Errors
    /// The error of the system call that failed.
    pub(crate) fn new<'a>(
        fds: impl IntoIterator<Item = BorrowedFd<'a>>,
        how: EventFlags,
        max_events: usize,
    ) -> io::Result<Set> {
        let fd = epoll::create(CreateFlags::CLOEXEC)?;
        for (index, watched) in fds.into_iter().enumerate() {
            epoll::add(&fd, watched, EventData::new_u64(index as u64), EventFlags::IN | how)?;
        }
        Ok(Set { fd, events: vec![epoll_event { events: 0, u64: 0 }; max_events] })
    }

    /// One `epoll_wait(2)`: what is ready; nothing if a signal interrupted it.
    #[inline]
    pub(crate) fn wait(&mut self) -> io::Result<&[epoll_event]> {
        let count = super::epoll_wait(&self.fd, &mut self.events)?;
        Ok(&self.events[..count])
    }
}

impl AsRawFd for Set {
    #[inline]
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}
