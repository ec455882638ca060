//! The bytes of a connection over a Unix socket: authentication, messages out and in, descriptors with them.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use causeway_dbus_wire::sasl::{self, Next};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::{Error, TIMEOUT};
use crate::wire::{Fault, message_bytes};

const CHUNK_BYTES: usize = 64 << 10;
/// Most descriptors of one message, by the limit of the kernel.
const MOST_FDS: usize = 253;

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
        let (mut client, first) = sasl::Client::new(rustix::process::getuid().as_raw());
        socket.stream.write_all(&first)?;
        loop {
            let answer = socket.line()?;
            match client.answer(&answer) {
                Next::Send(bytes) => socket.stream.write_all(bytes)?,
                Next::Begin(bytes) => {
                    socket.stream.write_all(bytes)?;
                    return Ok(socket);
                }
                Next::Rejected => {
                    return Err(Error::Authentication(String::from_utf8_lossy(&answer).into_owned()));
                }
            }
        }
    }

    /// What was read and not handed out.
    pub fn unread(&self) -> &[u8] {
        &self.received[self.used..]
    }

    /// Is there something to hand out, a message or what is not one?
    pub fn has_message(&self) -> bool {
        let there = self.unread();
        match message_bytes(there) {
            Ok(bytes) => bytes <= there.len(),
            Err(fault) => fault != Fault::Cut,
        }
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

    /// The next line of the authentication protocol.
    fn line(&mut self) -> Result<Vec<u8>, Error> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some((line, bytes)) =
                sasl::line(self.unread()).map_err(|why| Error::Authentication(why.into()))?
            {
                let line = line.to_vec();
                self.used += bytes;
                return Ok(line);
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
