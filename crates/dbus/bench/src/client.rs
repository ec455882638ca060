//! One end of a bus as plain bytes on a socket: messages from a template, and messages read through a buffer.
//!
//! A message is one `send` of a header that was made beforehand, in which only numbers change, with the payload behind it in the same
//! memory. Reads take what is there, as the libraries of D-Bus do, so several messages may come with one call; a payload is
//! lent where it was read to.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Fault, Header, Kind, message_bytes};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{RecvFlags, SendFlags};
use weighbridge_harness::axis::{Axis, Values};
use weighbridge_harness::buffer::Buffer;
use weighbridge_harness::contract::{Facts, Unsupported};
use weighbridge_harness::params::{CaseParams, Wait};

/// The object, interface and member of every message.
pub const PATH: &str = "/org/weighbridge/Lab";
pub const INTERFACE: &str = "org.weighbridge.Lab";
pub const MEMBER: &str = "Carry";

pub const WAITS: &[Wait] = &[Wait::Block, Wait::Poll];

pub const READ_BYTES: Axis = Axis {
    name: "read-bytes",
    default: "default",
    values: Values::Bytes,
    about: "most bytes that a role takes in one read; default is 64 KiB, or a whole message where that is more; libdbus took 2048 in 2011",
};

/// Header, and what may stand in front of a message of another sender.
const HEADER_ROOM: usize = 4096;
const LEAST_BUFFER: usize = 64 << 10;
/// Largest payload: a message may have 32 MiB in dbus-daemon, unless its configuration says otherwise.
const MOST_PAYLOAD_BYTES: usize = (32 << 20) - HEADER_ROOM;

/// Can a message carry this payload?
pub fn fit(params: &CaseParams) -> Result<(), Unsupported> {
    let why = || {
        format!(
            "a message of D-Bus has at most 32 MiB in dbus-daemon (max_message_size), and so a payload {MOST_PAYLOAD_BYTES} bytes; use a \
             smaller size"
        )
    };
    if params.payload_bytes > MOST_PAYLOAD_BYTES { Err(Unsupported(why())) } else { Ok(()) }
}

/// The message that a role sends, over and over.
pub struct Outgoing {
    buffer: Buffer,
    /// Bytes in front of the payload: the header, and the length of the array.
    front: usize,
    /// Where the number of the answered call stands, in a reply.
    reply_serial_at: Option<usize>,
    serial: u32,
}

impl Outgoing {
    /// From a message with an empty array of bytes as its body.
    pub fn new(message: &Builder<'_>, payload_bytes: usize) -> io::Result<Outgoing> {
        const MARK: u32 = 0x7b5a_3c1e;
        let is_reply = !matches!(message.kind(), Kind::MethodCall | Kind::Signal);
        let message = message.clone().body(Body::default().blob(&[]));
        let message = if is_reply { message.reply_serial(MARK) } else { message };
        let front = message.build(1).map_err(io::Error::other)?;
        let mark = MARK.to_ne_bytes();
        let reply_serial_at = front.windows(4).position(|bytes| bytes == mark).filter(|_| is_reply);
        let mut buffer = Buffer::new(front.len() + payload_bytes)?;
        buffer.bytes_mut()[..front.len()].copy_from_slice(&front);
        Ok(Outgoing { buffer, front: front.len(), reply_serial_at, serial: 0 })
    }

    /// Where a payload of this length is written.
    #[inline]
    pub fn payload(&mut self, len: usize) -> &mut [u8] {
        &mut self.buffer.bytes_mut()[self.front..self.front + len]
    }

    /// Sends the message with the payload that was written last, as the answer to a call where it is a reply.
    #[inline]
    pub fn send(&mut self, socket: &OwnedFd, len: usize, answered: u32) -> io::Result<()> {
        self.serial = self.serial.checked_add(1).unwrap_or(1);
        let front = self.front;
        let array_bytes = (len as u32).to_ne_bytes();
        let bytes = self.buffer.bytes_mut();
        bytes[4..8].copy_from_slice(&(len as u32 + 4).to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.serial.to_ne_bytes());
        bytes[front - 4..front].copy_from_slice(&array_bytes);
        if let Some(at) = self.reply_serial_at {
            bytes[at..at + 4].copy_from_slice(&answered.to_ne_bytes());
        }
        send_all(socket, &bytes[..front + len])
    }

    pub fn prefault(&mut self) -> io::Result<()> {
        self.buffer.prefault()
    }
}

/// Sends a whole message, in one call where the socket takes it.
#[inline]
pub fn send_all(socket: &OwnedFd, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        let sent = rustix::io::retry_on_intr(|| rustix::net::send(socket, rest, SendFlags::NOSIGNAL))?;
        rest = &rest[sent..];
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its number, which a reply names.
    pub serial: u32,
    payload: Range<usize>,
}

/// Messages of one kind that come to a role, and the buffer that they are read into.
pub struct Incoming {
    kind: Kind,
    buffer: Buffer,
    most_read: usize,
    polls: bool,
    /// What was read and not released.
    there: Range<usize>,
    /// Of the message that was handed out last, which the next call releases.
    held: usize,
    /// The length of the header fields of a message that was looked at whole. One of the same kind with as many is of the same sender.
    known_fields: Option<u32>,
    takes_any_body: bool,
}

impl Incoming {
    /// For payloads of the size of the case.
    pub fn new(kind: Kind, params: &CaseParams) -> io::Result<Incoming> {
        let whole = (params.payload_bytes + HEADER_ROOM).max(LEAST_BUFFER);
        Ok(Incoming {
            kind,
            buffer: Buffer::new(whole)?,
            // Beside a native member there is no such axis.
            most_read: params
                .axes
                .get(READ_BYTES.name)
                .and_then(|bytes| bytes.parse().ok())
                .unwrap_or(usize::MAX),
            polls: params.wait == Wait::Poll,
            there: 0..0,
            held: 0,
            known_fields: None,
            takes_any_body: false,
        })
    }

    /// Replies of the broker itself, whose bodies are what the method says.
    pub fn of_broker(params: &CaseParams) -> io::Result<Incoming> {
        Ok(Incoming { takes_any_body: true, ..Incoming::new(Kind::MethodReturn, params)? })
    }

    /// The next message of its kind, waiting for it; the one before is released. Messages of the broker itself are passed over.
    #[inline]
    pub fn next(&mut self, socket: &OwnedFd) -> io::Result<Received> {
        loop {
            if let Some(message) = self.next_there()? {
                return Ok(message);
            }
            self.read(socket, true)?;
        }
    }

    /// The next message where it is there already; `None` where none is, without waiting.
    pub fn try_next(&mut self, socket: &OwnedFd) -> io::Result<Option<Received>> {
        loop {
            if let Some(message) = self.next_there()? {
                return Ok(Some(message));
            }
            if !self.read(socket, false)? {
                return Ok(None);
            }
        }
    }

    /// The next message among the bytes that were read.
    #[inline]
    fn next_there(&mut self) -> io::Result<Option<Received>> {
        self.there.start += std::mem::take(&mut self.held);
        loop {
            let bytes = &self.buffer.bytes()[self.there.clone()];
            let len = match message_bytes(bytes) {
                Ok(len) if len <= bytes.len() => len,
                Ok(len) if len > self.buffer.bytes().len() => {
                    return Err(io::Error::other(format!(
                        "a message of {len} bytes came, larger than any that is sent"
                    )));
                }
                Ok(_) | Err(Fault::Cut) => return Ok(None),
                Err(fault) => {
                    return Err(io::Error::other(format!("the broker sent an invalid message: {fault}")));
                }
            };
            let message = &bytes[..len];
            let number = |at: usize| u32::from_ne_bytes(message[at..at + 4].try_into().expect("four bytes"));
            let (serial, fields) = (number(8), number(12));
            if message[1] == self.kind.number() && (self.known_fields == Some(fields) || is_ours(message)?) {
                self.known_fields = Some(fields);
                let header_bytes = (16 + fields as usize).next_multiple_of(8);
                let start = self.there.start;
                self.held = len;
                // The length of the array, and its bytes to the end.
                let front = if self.takes_any_body { 0 } else { 4 };
                if front > 0
                    && (header_bytes + front > len
                        || number(header_bytes) as usize != len - header_bytes - front)
                {
                    return Err(io::Error::other("the body of a message is not an array of bytes"));
                }
                return Ok(Some(Received { serial, payload: start + header_bytes + front..start + len }));
            }
            if message[1] == Kind::Error.number() {
                return Err(io::Error::other(words_of(message)));
            }
            self.there.start += len;
        }
    }

    /// Reads more; `false` where nothing is there and it is not waited for.
    #[inline]
    fn read(&mut self, socket: &OwnedFd, waits: bool) -> io::Result<bool> {
        if self.there.is_empty() {
            self.there = 0..0;
        } else if self.needs_room() {
            let len = self.there.len();
            self.buffer.bytes_mut().copy_within(self.there.clone(), 0);
            self.there = 0..len;
        }
        if self.polls && waits {
            let mut entry = [PollFd::new(socket, PollFlags::IN)];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut entry, None))?;
        }
        let room = &mut self.buffer.bytes_mut()[self.there.end..];
        let most = room.len().min(self.most_read);
        let flags = if waits { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        match rustix::io::retry_on_intr(|| rustix::net::recv(socket, &mut room[..most], flags)) {
            // Not as a partner that is gone: nothing else has failed before.
            Ok((0, _)) => {
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the broker closed the connection"))
            }
            Ok((count, _)) => {
                self.there.end += count;
                Ok(true)
            }
            Err(rustix::io::Errno::AGAIN) if !waits => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Must what is there move to the front, so that the message which begins there has room?
    fn needs_room(&self) -> bool {
        let bytes = self.buffer.bytes();
        let end = message_bytes(&bytes[self.there.clone()]).map_or(HEADER_ROOM, |len| len);
        self.there.start + end > bytes.len()
    }

    /// The payload of the message that was handed out last.
    #[inline]
    pub fn payload(&self, message: &Received) -> &[u8] {
        &self.buffer.bytes()[message.payload.clone()]
    }

    /// The message that was handed out last, as it came.
    pub fn whole(&self) -> &[u8] {
        &self.buffer.bytes()[self.there.start..self.there.start + self.held]
    }

    pub fn prefault(&mut self) -> io::Result<()> {
        self.buffer.prefault()
    }
}

/// Is this a message of a role, and not one of the broker itself? Replies carry no name of what they answer.
#[cold]
fn is_ours(message: &[u8]) -> io::Result<bool> {
    let header = Header::parse(message)
        .map_err(|fault| io::Error::other(format!("the broker sent an invalid message: {fault}")))?;
    Ok(header.kind == Kind::MethodReturn || header.interface == Some(INTERFACE))
}

#[cold]
fn words_of(message: &[u8]) -> String {
    let Ok(header) = Header::parse(message) else { return "an error that cannot be read came".into() };
    let name = header.error_name.unwrap_or("an error without a name");
    match Args::new(&header, &message[header.header_bytes..]).next() {
        Some(Ok(Arg::Text(text))) => format!("the broker answered with {name}: {text}"),
        _ => format!("the broker answered with {name}"),
    }
}

/// Effective settings of a socket to a broker of this version.
pub fn facts(socket: &OwnedFd, version: &str) -> io::Result<Facts> {
    let sndbuf = rustix::net::sockopt::socket_send_buffer_size(socket.as_fd())?;
    let rcvbuf = rustix::net::sockopt::socket_recv_buffer_size(socket.as_fd())?;
    Ok(Facts::from([
        ("broker_version".into(), version.into()),
        ("sndbuf_bytes".into(), sndbuf.to_string()),
        ("rcvbuf_bytes".into(), rcvbuf.to_string()),
    ]))
}
