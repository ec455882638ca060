//! The bytes of a connection over a Unix socket: authentication, messages out and in, descriptors with them.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use causeway_dbus_wire::sasl::{self, Next};
use causeway_os::process::wait_readable;
use causeway_os::socket::{FDS_MAX, recv_part_with_fds, send_with_fds};

use super::{Error, TIMEOUT};
use crate::wire::whole_message;

const CHUNK_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Socket {
    pub stream: UnixStream,
    received: Vec<u8>,
    /// Bytes of `received` that were handed out.
    used: usize,
}

impl Socket {
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
                    let said = String::from_utf8_lossy(&answer);
                    // Anything may listen on a socket.
                    let is_bus = said.starts_with("REJECTED") || said.starts_with("ERROR");
                    return Err(Error::Authentication(if is_bus {
                        said.into_owned()
                    } else {
                        no_bus(&said)
                    }));
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
        whole_message(self.unread()) != Ok(None)
    }

    /// Writes bytes, the descriptors with the first of them.
    pub fn write(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Error> {
        Ok(send_with_fds(&self.stream, bytes, fds).map_err(io::Error::from)?)
    }

    /// The next message. Descriptors that come meanwhile are put into `kept`, or closed.
    pub fn next(
        &mut self,
        deadline: Instant,
        kept: &mut Option<Vec<OwnedFd>>,
    ) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(bytes) = whole_message(self.unread()).map_err(Error::Protocol)? {
                let message = self.unread()[..bytes].to_vec();
                self.used += bytes;
                return Ok(Some(message));
            }
            if !self.fill(deadline, kept)? {
                return Ok(None);
            }
        }
    }

    fn line(&mut self) -> Result<Vec<u8>, Error> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some((line, bytes)) =
                sasl::line(self.unread()).map_err(|why| Error::Authentication(no_bus(why)))?
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
        // A read timeout of the socket would have the resolution of the kernel's timer tick, up to 10 ms.
        if !wait_readable(self.stream.as_fd(), Some(deadline)).map_err(io::Error::from)? {
            return Ok(false);
        }
        let start = self.received.len();
        self.received.resize(start + CHUNK_BYTES, 0);
        let got = recv_part_with_fds(&self.stream, &mut self.received[start..], FDS_MAX);
        self.received.truncate(start + got.as_ref().map_or(0, |(count, ..)| *count));
        match got {
            Ok((0, ..)) => Err(Error::Closed),
            Ok((_, descriptors, cut)) => match (kept, cut) {
                // The bytes are kept: the next message is where it would be.
                (Some(_), Some(cut)) => Err(io::Error::from(cut).into()),
                (Some(kept), None) => {
                    kept.extend(descriptors);
                    Ok(true)
                }
                // Those that are not wanted are closed here.
                (None, _) => Ok(true),
            },
            Err(error) if error.os().kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }
}

/// What is said of something that answers as no bus does.
fn no_bus(said: &str) -> String {
    format!("what answers is not a bus: {said}")
}
