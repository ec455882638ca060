//! One connection to a bus, or to a program that speaks like one.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Header, Kind, message_bytes};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::{Address, Error, Notes};

/// For authentication and for writing. A bus that takes longer is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(25);
const CHUNK_BYTES: usize = 64 << 10;
/// Most descriptors of one message, by the limit of the kernel.
const MOST_FDS: usize = 253;
/// A line of the authentication protocol is short.
const MOST_LINE_BYTES: usize = 16 << 10;

/// A connection that is authenticated. Descriptors that arrive are closed, unless [`keep_descriptors`](Connection::keep_descriptors) was called.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
    /// Bytes of `received` that were handed out.
    used: usize,
    /// Messages that came while a reply was awaited.
    kept: VecDeque<Vec<u8>>,
    last_serial: u32,
    unique_name: String,
    /// Those that arrived, where they are kept.
    descriptors: Option<Vec<OwnedFd>>,
    /// Where messages are noted, if they are.
    notes: Option<Notes>,
}

impl Connection {
    /// Connects to the first address of a list that answers, authenticates as this user, and says Hello.
    ///
    /// # Errors
    /// No address can be used, or the bus does not accept the connection.
    pub fn open(addresses: &str) -> Result<Connection, Error> {
        let mut failed = None;
        for address in Address::list(addresses)? {
            match address.connect() {
                Ok(stream) => {
                    let mut connection = Connection::authenticated(stream)?;
                    let hello = driver_call("Hello", Body::default());
                    let reply = connection.call(&hello, PATIENCE)?;
                    connection.unique_name = first_text(&reply).unwrap_or_default().into();
                    return Ok(connection);
                }
                Err(source) => failed = Some(Error::Connect { address: addresses.into(), source }),
            }
        }
        Err(failed.expect("a list of addresses is not empty"))
    }

    /// Authenticates on a stream. Nothing is said to the driver: the other end may be no bus.
    ///
    /// # Errors
    /// The other end does not accept this user, or not in time.
    pub fn authenticated(stream: UnixStream) -> Result<Connection, Error> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = Connection {
            stream,
            received: Vec::new(),
            used: 0,
            kept: VecDeque::new(),
            last_serial: 0,
            unique_name: String::new(),
            descriptors: None,
            notes: None,
        };
        let user = rustix::process::getuid().as_raw().to_string();
        let user: String = user.bytes().map(|digit| format!("{digit:02x}")).collect();
        let ok = connection.line(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
        if !ok.starts_with("OK") {
            return Err(Error::Authentication(ok));
        }
        // Without descriptors, a monitor is not shown messages that carry some. A bus that cannot says so and goes on.
        connection.line(b"NEGOTIATE_UNIX_FD\r\n")?;
        connection.stream.write_all(b"BEGIN\r\n")?;
        Ok(connection)
    }

    /// Gives up the connection for its socket: with what was read from it and not handed out yet, message by message as far as they
    /// are whole, and the serial that was used last.
    #[must_use]
    pub fn into_parts(self) -> (UnixStream, Vec<u8>, u32) {
        let mut unread: Vec<u8> = self.kept.into_iter().flatten().collect();
        unread.extend_from_slice(&self.received[self.used..]);
        (self.stream, unread, self.last_serial)
    }

    /// This connection's name on the bus; empty where there is no bus.
    #[must_use]
    pub fn unique_name(&self) -> &str {
        &self.unique_name
    }

    /// Sends a message and returns its serial.
    ///
    /// # Errors
    /// It cannot be written, or is too long.
    pub fn send(&mut self, message: &Builder<'_>) -> Result<u32, Error> {
        self.send_with_fds(message, &[])
    }

    /// Sends a message with copies of descriptors, whose number the message says itself, and returns its serial.
    ///
    /// # Errors
    /// As [`send`](Connection::send), and where the kernel does not pass the descriptors on.
    pub fn send_with_fds(&mut self, message: &Builder<'_>, fds: &[BorrowedFd<'_>]) -> Result<u32, Error> {
        self.last_serial = self.last_serial.checked_add(1).unwrap_or(1);
        let bytes = message.build(self.last_serial).map_err(|long| Error::Io(io::Error::other(long)))?;
        let since = Instant::now();
        let mut rest = bytes.as_slice();
        if !fds.is_empty() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(fds)) {
                return Err(Error::Io(rustix::io::Errno::TOOMANYREFS.into()));
            }
            let parts = [IoSlice::new(rest)];
            let sent = rustix::io::retry_on_intr(|| {
                sendmsg(&self.stream, &parts, &mut control, SendFlags::NOSIGNAL)
            });
            rest = &rest[sent.map_err(io::Error::from)?..];
        }
        self.stream.write_all(rest)?;
        self.note(true, &bytes, since);
        Ok(self.last_serial)
    }

    /// The serial that the next message gets.
    #[must_use]
    pub fn next_serial(&self) -> u32 {
        self.last_serial.checked_add(1).unwrap_or(1)
    }

    /// From now on descriptors that arrive are kept for [`take_descriptors`](Connection::take_descriptors).
    pub fn keep_descriptors(&mut self) {
        self.descriptors.get_or_insert_default();
    }

    /// The descriptors that arrived since the last call, in order.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        self.descriptors.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let since = Instant::now();
        self.stream.write_all(bytes)?;
        self.note(true, bytes, since);
        Ok(())
    }

    /// From now on each message that is sent or arrives is noted, one that is kept for later when it arrives.
    pub fn note_messages(&mut self, notes: Notes) {
        self.notes = Some(notes);
    }

    fn note(&self, is_sent: bool, bytes: &[u8], since: Instant) {
        if let Some(notes) = &self.notes {
            notes.add(&self.unique_name, is_sent, bytes, since);
        }
    }

    /// Calls and waits for the reply. Other messages that come meanwhile are kept for [`receive`](Connection::receive).
    ///
    /// # Errors
    /// The reply is an error or does not come in time.
    pub fn call(&mut self, message: &Builder<'_>, patience: Duration) -> Result<Vec<u8>, Error> {
        self.call_with_fds(message, &[], patience)
    }

    /// Calls with copies of descriptors and waits for the reply, in the manner of [`call`](Connection::call).
    ///
    /// # Errors
    /// As [`call`](Connection::call) and [`send_with_fds`](Connection::send_with_fds).
    pub fn call_with_fds(
        &mut self,
        message: &Builder<'_>,
        fds: &[BorrowedFd<'_>],
        patience: Duration,
    ) -> Result<Vec<u8>, Error> {
        let deadline = Instant::now() + patience;
        let serial = self.send_with_fds(message, fds)?;
        loop {
            let Some(bytes) = self.next(deadline)? else { return Err(Error::TimedOut) };
            let header = Header::parse(&bytes).map_err(Error::Protocol)?;
            if header.reply_serial != Some(serial) {
                self.kept.push_back(bytes);
                continue;
            }
            if header.kind == Kind::Error {
                let name = header.error_name.unwrap_or_default().into();
                return Err(Error::Refused { name, message: first_text(&bytes).unwrap_or_default().into() });
            }
            return Ok(bytes);
        }
    }

    /// Calls a method of the driver and waits for the reply.
    ///
    /// # Errors
    /// As [`call`](Connection::call).
    pub fn ask_driver(&mut self, member: &str, body: Body) -> Result<Vec<u8>, Error> {
        self.call(&driver_call(member, body), PATIENCE)
    }

    /// The next message, or nothing if none comes within `patience`. Zero looks without waiting.
    ///
    /// # Errors
    /// The bus closed the connection, or sent what is no message.
    pub fn receive(&mut self, patience: Duration) -> Result<Option<Vec<u8>>, Error> {
        match self.kept.pop_front() {
            Some(kept) => Ok(Some(kept)),
            None => self.next(Instant::now() + patience),
        }
    }

    /// Is a message there already, read from the socket or kept?
    #[must_use]
    pub fn has_buffered(&self) -> bool {
        !self.kept.is_empty() || self.buffered().is_some_and(|bytes| bytes <= self.received.len() - self.used)
    }

    /// The socket itself, for a program that goes on with bytes of its own. It waits without a limit then.
    ///
    /// # Errors
    /// Something was received that nobody has taken: it would be lost.
    pub fn into_stream(self) -> Result<UnixStream, Error> {
        if !self.kept.is_empty() || self.used < self.received.len() {
            return Err(Error::Io(io::Error::other("messages were received that are not taken yet")));
        }
        self.stream.set_read_timeout(None)?;
        self.stream.set_write_timeout(None)?;
        Ok(self.stream)
    }

    fn buffered(&self) -> Option<usize> {
        message_bytes(&self.received[self.used..]).ok()
    }

    fn next(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, Error> {
        let since = Instant::now();
        loop {
            let there = &self.received[self.used..];
            match message_bytes(there) {
                Ok(bytes) if bytes <= there.len() => {
                    let message = there[..bytes].to_vec();
                    self.used += bytes;
                    self.note(false, &message, since);
                    return Ok(Some(message));
                }
                Ok(_) | Err(causeway_dbus_wire::wire::Fault::Cut) => {}
                Err(fault) => return Err(Error::Protocol(fault)),
            }
            if !self.fill(deadline)? {
                return Ok(None);
            }
        }
    }

    /// Sends a line of the authentication protocol and reads the answer.
    fn line(&mut self, line: &[u8]) -> Result<String, Error> {
        self.stream.write_all(line)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let there = &self.received[self.used..];
            if let Some(end) = there.windows(2).position(|two| two == b"\r\n") {
                let answer = String::from_utf8_lossy(&there[..end]).into_owned();
                self.used += end + 2;
                return Ok(answer);
            }
            if there.len() > MOST_LINE_BYTES {
                return Err(Error::Authentication("it answers with a line that does not end".into()));
            }
            if !self.fill(deadline)? {
                return Err(Error::TimedOut);
            }
        }
    }

    /// Reads more; false when the time is over.
    fn fill(&mut self, deadline: Instant) -> Result<bool, Error> {
        self.received.drain(..self.used);
        self.used = 0;
        let patience = deadline.saturating_duration_since(Instant::now());
        // Zero would mean for ever.
        self.stream.set_read_timeout(Some(patience.max(Duration::from_micros(1))))?;
        let start = self.received.len();
        self.received.resize(start + CHUNK_BYTES, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut descriptors = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut self.received[start..])];
        let got = recvmsg(&self.stream, &mut parts, &mut descriptors, RecvFlags::CMSG_CLOEXEC);
        // Dropping closes those that are not wanted.
        if let Some(kept) = &mut self.descriptors {
            for item in descriptors.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = item {
                    kept.extend(fds);
                }
            }
        }
        drop(descriptors);
        let count = got.as_ref().map_or(0, |got| got.bytes);
        self.received.truncate(start + count);
        match got {
            Ok(_) if count == 0 => Err(Error::Closed),
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::AGAIN) => Ok(false),
            Err(rustix::io::Errno::INTR) => Ok(Instant::now() < deadline),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

pub(crate) fn driver_call(member: &str, body: Body) -> Builder<'_> {
    let driver = causeway_dbus_wire::driver::DRIVER;
    Builder::call("/org/freedesktop/DBus", member).interface(driver).destination(driver).body(body)
}

/// The first argument of a message, if it is a string.
fn first_text(bytes: &[u8]) -> Option<&str> {
    let header = Header::parse(bytes).ok()?;
    match Args::new(&header, &bytes[header.header_bytes..]).next() {
        Some(Ok(Arg::Text(text))) => Some(text),
        _ => None,
    }
}
