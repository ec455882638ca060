//! The bytes of a connection over a Unix socket: authentication, messages out and in, descriptors with them.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::{Error, TIMEOUT};
use crate::wire::{Fault, message_bytes};

const CHUNK_BYTES: usize = 64 << 10;
/// Most descriptors of one message, by the limit of the kernel.
const MOST_FDS: usize = 253;
/// A line of the authentication protocol is short.
const MOST_LINE_BYTES: usize = 16 << 10;

/// A stream that is authenticated.
#[derive(Debug)]
pub(super) struct Socket {
    pub stream: UnixStream,
    received: Vec<u8>,
    /// Bytes of `received` that were handed out.
    used: usize,
}

impl Socket {
    /// Authenticates as this user.
    pub fn authenticated(stream: UnixStream) -> Result<Socket, Error> {
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut socket = Socket { stream, received: Vec::new(), used: 0 };
        let user = rustix::process::getuid().as_raw().to_string();
        let user: String = user.bytes().map(|digit| format!("{digit:02x}")).collect();
        let ok = socket.line(format!("\0AUTH EXTERNAL {user}\r\n").as_bytes())?;
        if !ok.starts_with("OK") {
            return Err(Error::Authentication(ok));
        }
        // Without descriptors, a monitor is not shown messages that carry some. A bus that cannot says so and goes on.
        socket.line(b"NEGOTIATE_UNIX_FD\r\n")?;
        socket.stream.write_all(b"BEGIN\r\n")?;
        Ok(socket)
    }

    /// What was read and not handed out.
    pub fn unread(&self) -> &[u8] {
        &self.received[self.used..]
    }

    /// Writes bytes, the descriptors with the first of them.
    pub fn write(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let mut rest = bytes;
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
        Ok(self.stream.write_all(rest)?)
    }

    /// The next message. Descriptors that come meanwhile are put into `kept`, or closed.
    pub fn next(
        &mut self,
        deadline: Instant,
        kept: &mut Option<Vec<OwnedFd>>,
    ) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let there = self.unread();
            match message_bytes(there) {
                Ok(bytes) if bytes <= there.len() => {
                    let message = there[..bytes].to_vec();
                    self.used += bytes;
                    return Ok(Some(message));
                }
                Ok(_) | Err(Fault::Cut) => {}
                Err(fault) => return Err(Error::Protocol(fault)),
            }
            if !self.fill(deadline, kept)? {
                return Ok(None);
            }
        }
    }

    /// Sends a line of the authentication protocol and reads the answer.
    fn line(&mut self, line: &[u8]) -> Result<String, Error> {
        self.stream.write_all(line)?;
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let there = self.unread();
            if let Some(end) = there.windows(2).position(|two| two == b"\r\n") {
                let answer = String::from_utf8_lossy(&there[..end]).into_owned();
                self.used += end + 2;
                return Ok(answer);
            }
            if there.len() > MOST_LINE_BYTES {
                return Err(Error::Authentication("it answers with a line that does not end".into()));
            }
            if !self.fill(deadline, &mut None)? {
                return Err(Error::TimedOut);
            }
        }
    }

    /// Reads more; false when the time is over.
    fn fill(&mut self, deadline: Instant, kept: &mut Option<Vec<OwnedFd>>) -> Result<bool, Error> {
        self.received.drain(..self.used);
        self.used = 0;
        let left = deadline.saturating_duration_since(Instant::now());
        // Zero would mean for ever.
        self.stream.set_read_timeout(Some(left.max(Duration::from_micros(1))))?;
        let start = self.received.len();
        self.received.resize(start + CHUNK_BYTES, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
        let mut descriptors = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut self.received[start..])];
        let got = recvmsg(&self.stream, &mut parts, &mut descriptors, RecvFlags::CMSG_CLOEXEC);
        // Dropping closes those that are not wanted.
        if let Some(kept) = kept {
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
