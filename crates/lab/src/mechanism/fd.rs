//! What mechanisms over descriptors share: one system call a step, waiting in one place, and two transports.
//!
//! # Safety
//! The calls below take a pointer and a length from one slice that lives across the call, and a descriptor that the
//! endpoint owns. They go straight through `libc`, so that exactly the call that is named is measured.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use io_uring::{IoUring, opcode, types};
use rustix::event::epoll;

use super::copying::Transport;
use crate::contract::Facts;
use crate::link::{Link, Wait};

/// Ways to wait that every descriptor offers.
pub const WAITS: &[Wait] = &[Wait::Block, Wait::Poll, Wait::Epoll, Wait::Uring, Wait::Spin];

/// Waits for a descriptor and reads it, in the way that the case says.
pub struct Reader {
    fd: OwnedFd,
    way: Way,
}

enum Way {
    Block,
    Poll,
    Epoll(OwnedFd),
    Uring(Box<IoUring>),
    Spin,
}

impl Reader {
    /// Takes the descriptor over. Spinning makes it non-blocking.
    pub fn new(fd: OwnedFd, wait: Wait) -> io::Result<Reader> {
        let way = match wait {
            Wait::Block | Wait::SpinBlock | Wait::Yield => Way::Block,
            Wait::Poll => Way::Poll,
            Wait::Epoll => {
                let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                epoll::add(&set, &fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
                Way::Epoll(set)
            }
            Wait::Uring => Way::Uring(Box::new(IoUring::new(8)?)),
            Wait::Spin => {
                rustix::io::ioctl_fionbio(&fd, true)?;
                Way::Spin
            }
        };
        Ok(Reader { fd, way })
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// One read, after waiting. What `read`, `recv` and `mq_receive` do differently is in `call`.
    #[inline]
    fn wait_and(&mut self, mut call: impl FnMut(RawFd) -> isize) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        loop {
            match &mut self.way {
                Way::Block | Way::Spin | Way::Uring(_) => {}
                Way::Poll => poll_one(fd, libc::POLLIN)?,
                Way::Epoll(set) => {
                    let mut event = libc::epoll_event { events: 0, u64: 0 };
                    // SAFETY: `event` has room for the one event that is asked for.
                    check(unsafe { libc::epoll_wait(set.as_raw_fd(), &mut event, 1, -1) } as isize)?;
                }
            }
            match check(call(fd)) {
                Ok(count) => return Ok(count),
                Err(error) if is_transient(&error) => std::hint::spin_loop(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Some bytes of a byte stream, or one record.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Way::Uring(ring) = &mut self.way {
            let fd = types::Fd(self.fd.as_raw_fd());
            return read_by_uring(ring, fd, buffer);
        }
        // SAFETY: pointer and length come from one slice.
        self.wait_and(|fd| unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) })
    }

    /// One message of a POSIX queue. `buffer` must be as large as the queue's largest message.
    #[inline]
    pub fn receive_queued(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (pointer, len) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: pointer and length come from one slice; no priority is asked for.
        self.wait_and(|fd| unsafe { libc::mq_receive(fd, pointer, len, std::ptr::null_mut()) })
    }
}

fn read_by_uring(ring: &mut IoUring, fd: types::Fd, buffer: &mut [u8]) -> io::Result<usize> {
    let entry = opcode::Read::new(fd, buffer.as_mut_ptr(), buffer.len() as u32).offset(u64::MAX).build();
    // SAFETY: the buffer outlives the entry: this function waits for its completion.
    unsafe { ring.submission().push(&entry) }.expect("the queue is empty: every entry is waited for");
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        if let Some(completion) = ring.completion().next() {
            return match completion.result() {
                count if count >= 0 => Ok(count as usize),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
        }
    }
}

/// Waits until a descriptor is ready for `events`.
fn poll_one(fd: RawFd, events: libc::c_short) -> io::Result<()> {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry is passed and one is announced.
    check(unsafe { libc::poll(&mut entry, 1, -1) } as isize)?;
    Ok(())
}

/// A call's result: a count, or the error that the kernel left.
#[inline]
pub fn check(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Try again: nothing was there, or a signal came.
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Writes, waiting for room where the descriptor does not block by itself.
#[inline]
pub fn write_some(fd: RawFd, call: impl Fn() -> isize) -> io::Result<usize> {
    loop {
        match check(call()) {
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => poll_one(fd, libc::POLLOUT)?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What a gone peer looks like on a descriptor.
pub fn peer_gone() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed its end")
}

/// A byte stream: messages are counted bytes, read until they are whole.
pub struct ByteStream {
    reader: Reader,
    writer: OwnedFd,
    facts: Facts,
}

impl ByteStream {
    /// From a descriptor to read and one to write; they may be duplicates of one socket.
    pub fn new(read: OwnedFd, write: OwnedFd, link: &Link, facts: Facts) -> io::Result<ByteStream> {
        Ok(ByteStream { reader: Reader::new(read, link.wait)?, writer: write, facts })
    }
}

impl Transport for ByteStream {
    #[inline]
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        let fd = self.writer.as_raw_fd();
        while !message.is_empty() {
            // SAFETY: pointer and length come from one slice.
            let count =
                write_some(fd, || unsafe { libc::write(fd, message.as_ptr().cast(), message.len()) })?;
            message = &message[count..];
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..])? {
                0 => return Err(peer_gone()),
                count => filled += count,
            }
        }
        Ok(filled)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

/// A socket that keeps records: one call a message, either way.
pub struct Records {
    reader: Reader,
    writer: OwnedFd,
    facts: Facts,
}

impl Records {
    /// From a connected socket.
    pub fn new(socket: OwnedFd, link: &Link, facts: Facts) -> io::Result<Records> {
        let writer = socket.try_clone()?;
        Ok(Records { reader: Reader::new(socket, link.wait)?, writer, facts })
    }
}

impl Transport for Records {
    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let fd = self.writer.as_raw_fd();
        let (pointer, len) = (message.as_ptr().cast(), message.len());
        // SAFETY: pointer and length come from one slice.
        write_some(fd, || unsafe { libc::send(fd, pointer, len, libc::MSG_NOSIGNAL) })?;
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}
