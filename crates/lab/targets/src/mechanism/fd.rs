//! What mechanisms over descriptors share: one system call a step, waiting in one place, and two transports.

use rustix::event::epoll;

use weighbridge_record::laws::MOVED_BY;

use super::copying::Transport;
use super::metadata::Metadata;
use crate::prelude::*;
use crate::sys::{self, uring::Ring};

/// Ways to wait that every descriptor offers.
pub(crate) const WAITS: &[Wait] = &[Wait::Block, Wait::Poll, Wait::Epoll, Wait::Uring, Wait::Spin];

/// Waits for a descriptor and reads it, in the way that the case says.
pub(crate) struct Reader {
    fd: OwnedFd,
    way: Way,
}

enum Way {
    Block,
    Poll,
    Epoll(OwnedFd),
    Uring(Ring),
    Spin,
    /// In another way, and with what the kernel tells of each message.
    Asking(Box<(Way, Metadata)>),
}

impl Reader {
    /// Takes the descriptor over. Spinning makes it non-blocking.
    pub(crate) fn new(fd: OwnedFd, wait: Wait) -> io::Result<Reader> {
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
    pub(crate) fn wait_and(&mut self, call: impl FnMut(RawFd) -> io::Result<usize>) -> io::Result<usize> {
        self.way.wait_and(self.fd.as_raw_fd(), call)
    }

    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Reader { fd, way } = self;
        match way {
            Way::Uring(ring) => ring.read(fd, buffer),
            Way::Asking(asking) => asking.0.wait_and(fd.as_raw_fd(), |fd| asking.1.receive(fd, buffer, 0)),
            way => way.wait_and(fd.as_raw_fd(), |fd| sys::read(&fd, buffer)),
        }
    }

    /// One message of a socket that keeps them apart, and its length, which may exceed that of `buffer`. An empty
    /// message needs a buffer of one byte: a socket that is asked for nothing gives nothing, without waiting.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const WHOLE: libc::c_int = libc::MSG_TRUNC;
        let Reader { fd, way } = self;
        match way {
            Way::Uring(ring) => ring.recv(fd, buffer, WHOLE),
            Way::Asking(asking) => {
                asking.0.wait_and(fd.as_raw_fd(), |fd| asking.1.receive(fd, buffer, WHOLE))
            }
            way => way.wait_and(fd.as_raw_fd(), |fd| sys::recv(&fd, buffer, WHOLE)),
        }
    }
}

impl Way {
    #[inline]
    fn wait_and(&mut self, fd: RawFd, mut call: impl FnMut(RawFd) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match self {
                Way::Block | Way::Spin | Way::Uring(_) | Way::Asking(_) => {}
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
}

/// Waits until a descriptor is ready for `events`.
fn poll_one(fd: RawFd, events: libc::c_short) -> io::Result<()> {
    sys::poll(&mut [libc::pollfd { fd, events, revents: 0 }]).map(drop)
}

/// Try again: nothing was there, or a signal came.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

pub(crate) fn peer_gone() -> io::Error {
    sys::end_of_stream("the peer closed its end")
}

/// Writes to a descriptor, waiting for room. What spins, spins here too.
pub(crate) struct Writer {
    fd: OwnedFd,
    spins: bool,
}

impl Writer {
    /// Takes the descriptor over. Spinning makes it non-blocking.
    pub(crate) fn new(fd: OwnedFd, wait: Wait) -> io::Result<Writer> {
        let spins = wait == Wait::Spin;
        if spins {
            rustix::io::ioctl_fionbio(&fd, true)?;
        }
        Ok(Writer { fd, spins })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn spins(&self) -> bool {
        self.spins
    }

    /// One call that gives something, again until there was room for at least some of it.
    #[inline]
    pub(crate) fn call(&self, call: impl Fn(RawFd) -> io::Result<usize>) -> io::Result<usize> {
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
    pub(crate) fn send(&self, message: &[u8]) -> io::Result<()> {
        self.call(|fd| sys::send(&fd, message)).map(drop)
    }
}

/// A descriptor to read, and one to write; they may be duplicates of one socket.
pub(crate) struct Line {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
}

impl Line {
    /// The next two descriptors of an end, reading first.
    pub(crate) fn take(resources: &mut EndResources, wait: Wait) -> io::Result<Line> {
        let (read, write) = (resources.take_fd(), resources.take_fd());
        Ok(Line { reader: Reader::new(read, wait)?, writer: Writer::new(write, wait)? })
    }

    /// The next descriptor of an end, which is a connected socket.
    pub(crate) fn take_socket(resources: &mut EndResources, wait: Wait) -> io::Result<Line> {
        let socket = resources.take_fd();
        Ok(Line { reader: Reader::new(socket.try_clone()?, wait)?, writer: Writer::new(socket, wait)? })
    }

    /// The same of a case whose receivers may ask for metadata.
    pub(super) fn take_socket_asking(resources: &mut EndResources, params: &CaseParams) -> io::Result<Line> {
        let mut line = Line::take_socket(resources, params.wait)?;
        if let Some(metadata) = Metadata::of(params) {
            let way = std::mem::replace(&mut line.reader.way, Way::Block);
            line.reader.way = Way::Asking(Box::new((way, metadata)));
        }
        Ok(line)
    }
}

/// Reads settings of a descriptor back, of the writing one where there are two.
pub(super) type ReadFacts = fn(BorrowedFd<'_>) -> io::Result<Facts>;

/// A descriptor for each end.
pub(super) fn one_each((near, far): (OwnedFd, OwnedFd)) -> [EndResources; 2] {
    [EndResources::of([near]), EndResources::of([far])]
}

/// Memory that both ends share, and what each has of its own.
pub(super) fn sharing(memory: OwnedFd, [near, far]: [EndResources; 2]) -> io::Result<[EndResources; 2]> {
    let with = |memory, own: EndResources| EndResources::of(std::iter::once(memory).chain(own.fds));
    Ok([with(memory.try_clone()?, near), with(memory, far)])
}

#[inline]
pub(super) fn read_exactly(reader: &mut Reader, buffer: &mut [u8]) -> io::Result<usize> {
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
pub(super) struct ByteStream {
    pub(super) line: Line,
    pub(super) facts: ReadFacts,
    /// What the kernel has counted for the descriptor, where it counts.
    pub(super) figures: Option<ReadFigures>,
}

/// Reads what the kernel has counted for a descriptor.
pub(super) type ReadFigures = fn(BorrowedFd<'_>) -> io::Result<Figures>;

impl Transport for ByteStream {
    #[inline]
    fn send(&mut self, mut message: &[u8]) -> io::Result<()> {
        while !message.is_empty() {
            let count = self.line.writer.call(|fd| sys::write(&fd, message))?;
            message = &message[count..];
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read_exactly(&mut self.line.reader, buffer)
    }

    fn figures(&self) -> io::Result<Figures> {
        self.figures.map_or(Ok(Figures::new()), |read| read(self.line.writer.fd()))
    }

    fn facts(&self) -> io::Result<Facts> {
        let mut facts = (self.facts)(self.line.writer.fd())?;
        // The kernel counts these bytes and calls for each role, unless io_uring makes them or they are calls of sockets.
        if !matches!(self.line.reader.way, Way::Uring(_) | Way::Asking(_)) {
            facts.insert(MOVED_BY.into(), "read and write".into());
        }
        Ok(facts)
    }
}

/// A socket that keeps messages apart: one call for each, either way.
pub(super) struct Records {
    pub(super) line: Line,
    pub(super) facts: ReadFacts,
}

impl Transport for Records {
    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.line.writer.send(message)
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.line.reader.receive(buffer)? {
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
        (self.facts)(self.line.writer.fd())
    }
}
