//! What mechanisms over descriptors share: one system call a step, waiting in one place, and two transports.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll;

use super::copying::Transport;
use crate::sys::{self, uring::Ring};
use weighbridge_harness::contract::Facts;
use weighbridge_harness::params::{CaseParams, Wait};

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
    Uring(Ring),
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
            Wait::Uring => Way::Uring(Ring::new()?),
            Wait::Spin => {
                rustix::io::ioctl_fionbio(&fd, true)?;
                Way::Spin
            }
        };
        Ok(Reader { fd, way })
    }

    /// One call that takes something, after waiting for it. Only what `call` does differs from one kind of descriptor to
    /// the next. Not for io_uring, which makes no call.
    #[inline]
    pub fn wait_and(&mut self, mut call: impl FnMut(RawFd) -> io::Result<usize>) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        loop {
            match &mut self.way {
                Way::Block | Way::Spin | Way::Uring(_) => {}
                Way::Poll => poll_one(fd, libc::POLLIN)?,
                Way::Epoll(set) => {
                    let _ = sys::epoll_wait(set, &mut [libc::epoll_event { events: 0, u64: 0 }])?;
                }
            }
            match call(fd) {
                Ok(count) => return Ok(count),
                Err(error) if is_transient(&error) => std::hint::spin_loop(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Some bytes of a byte stream.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Way::Uring(ring) = &mut self.way {
            return ring.read(&self.fd, buffer);
        }
        self.wait_and(|fd| sys::read(&fd, buffer))
    }

    /// One message of a socket that keeps them apart, and its length, which may exceed that of `buffer`. An empty
    /// message needs a buffer of one byte: a socket that is asked for nothing gives nothing, without waiting.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Way::Uring(ring) = &mut self.way {
            return ring.recv(&self.fd, buffer, libc::MSG_TRUNC);
        }
        self.wait_and(|fd| sys::recv(&fd, buffer, libc::MSG_TRUNC))
    }
}

/// Waits until a descriptor is ready for `events`.
fn poll_one(fd: RawFd, events: libc::c_short) -> io::Result<()> {
    sys::poll(&mut [libc::pollfd { fd, events, revents: 0 }]).map(drop)
}

/// Try again: nothing was there, or a signal came.
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// What a gone peer looks like on a descriptor.
pub fn peer_gone() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed its end")
}

/// Writes to a descriptor, waiting for room. What spins, spins here too.
pub struct Writer {
    fd: OwnedFd,
    spins: bool,
}

impl Writer {
    /// Takes the descriptor over. Spinning makes it non-blocking.
    pub fn new(fd: OwnedFd, wait: Wait) -> io::Result<Writer> {
        let spins = wait == Wait::Spin;
        if spins {
            rustix::io::ioctl_fionbio(&fd, true)?;
        }
        Ok(Writer { fd, spins })
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Does the writer spin while there is no room?
    pub fn spins(&self) -> bool {
        self.spins
    }

    /// One call that gives something, again until there was room for at least some of it.
    #[inline]
    pub fn call(&self, call: impl Fn(RawFd) -> io::Result<usize>) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        loop {
            match call(fd) {
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !self.spins => {
                    poll_one(fd, libc::POLLOUT)?;
                }
                Err(error) if is_transient(&error) => std::hint::spin_loop(),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends one message of a socket that keeps them apart.
    #[inline]
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        self.call(|fd| sys::send(&fd, message)).map(drop)
    }
}

/// Reads settings of a descriptor back.
pub type ReadFacts = fn(BorrowedFd<'_>) -> io::Result<Facts>;

/// Fills a buffer from a byte stream.
#[inline]
pub fn read_exactly(reader: &mut Reader, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..])? {
            0 => return Err(peer_gone()),
            count => filled += count,
        }
    }
    Ok(filled)
}

/// A byte stream: messages are counted bytes, read until they are whole.
pub struct ByteStream {
    reader: Reader,
    writer: Writer,
    facts: ReadFacts,
}

impl ByteStream {
    /// From a descriptor to read and one to write; they may be duplicates of one socket. Facts are read of the second.
    pub fn new(
        read: OwnedFd,
        write: OwnedFd,
        params: &CaseParams,
        facts: ReadFacts,
    ) -> io::Result<ByteStream> {
        Ok(ByteStream {
            reader: Reader::new(read, params.wait)?,
            writer: Writer::new(write, params.wait)?,
            facts,
        })
    }

    /// From a connected socket.
    pub fn of_socket(socket: OwnedFd, params: &CaseParams, facts: ReadFacts) -> io::Result<ByteStream> {
        ByteStream::new(socket.try_clone()?, socket, params, facts)
    }
}

impl Transport for ByteStream {
    #[inline]
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        while !message.is_empty() {
            let count = self.writer.call(|fd| sys::write(&fd, message))?;
            message = &message[count..];
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_exactly(&mut self.reader, buffer)
    }

    fn facts(&self) -> io::Result<Facts> {
        (self.facts)(self.writer.fd())
    }
}

/// A socket that keeps messages apart: one call for each, either way.
pub struct Records {
    reader: Reader,
    writer: Writer,
    facts: ReadFacts,
}

impl Records {
    /// From a connected socket.
    pub fn new(socket: OwnedFd, params: &CaseParams, facts: ReadFacts) -> io::Result<Records> {
        Ok(Records {
            reader: Reader::new(socket.try_clone()?, params.wait)?,
            writer: Writer::new(socket, params.wait)?,
            facts,
        })
    }
}

impl Transport for Records {
    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.writer.send(message)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.reader.receive(buffer)? {
            // A closed socket looks like an empty message where one may come; the coordinator notices that the other end is gone.
            0 if buffer.len() > 1 => Err(peer_gone()),
            count if count > buffer.len() => Err(io::Error::other(format!(
                "a message of {count} bytes came where {} were expected",
                buffer.len()
            ))),
            count => Ok(count),
        }
    }

    fn least_buffer_bytes(&self) -> usize {
        1
    }

    fn facts(&self) -> io::Result<Facts> {
        (self.facts)(self.writer.fd())
    }
}
