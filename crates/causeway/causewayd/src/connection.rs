//! One socket: bytes and descriptors in, messages out, and the other way round. It knows no names and no other connection.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use causeway_dbus_wire::sasl::{Progress, Server};
use causeway_dbus_wire::wire::{Checker, Fault, Header, KnownHeaders, header_bytes, message_bytes, stamped};
use causeway_os::heap;
use causeway_os::socket::FDS_MAX;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::descriptors::{Descriptors, close_socket};
use crate::end::End;
use crate::limit::Reached;
use crate::long::{CHECKED_STEPS, Long, TOO_LARGE};
use crate::message::{LONG_BYTES, Message, Output};
use crate::report::Traffic;

/// What is read at once unless the configuration says otherwise, so that no connection keeps the others waiting.
pub const READ_BYTES: usize = 64 << 10;
/// Of a long message, so often as much.
const LONG_READS: usize = 4;
/// Most bytes of a header, which is read at once: as many as those of a native member have at most.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Messages that one system call writes.
const PARTS_MAX: usize = 32;
/// System calls that write to one client before the others have had their turn.
const WRITES_MAX: usize = 8;
/// So many messages are freed before the heap is sorted: as many as one call of `flush` writes.
const FREED_MAX: usize = WRITES_MAX * PARTS_MAX;
/// Descriptors of messages that have not arrived whole.
const WAITING_FDS_MAX: usize = 2 * FDS_MAX;
/// An empty buffer of this size or more is given back.
const KEPT_BYTES: usize = 4 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub bytes: u64,
    pub descriptors: u64,
}

/// A valid message with its sender filled in.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// With its header, which names the true sender and has the length of what the client has written.
    Short(Header<'a>, Message),
    Long(Message),
}

/// Descriptors that have arrived, and since when some wait.
#[derive(Debug)]
struct Arrived {
    fds: Descriptors,
    since: Option<Instant>,
}

impl Arrived {
    /// Those of a message. If it was the last that has arrived, there must be no further ones.
    fn take_for(&mut self, header: &Header<'_>, is_last: bool) -> Result<Descriptors, End> {
        let wanted = header.unix_fds as usize;
        if wanted > self.fds.len() {
            return Err(End::Descriptors("a message announces more file descriptors than it came with"));
        }
        let descriptors = self.fds.take_first(wanted);
        if self.fds.is_empty() {
            self.since = None;
        } else if is_last {
            return Err(End::Descriptors("a message announces fewer file descriptors than it came with"));
        }
        Ok(descriptors)
    }
}

#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    uid: u32,
    /// Until it has begun.
    sasl: Option<Server>,
    passes_descriptors: bool,
    input: Vec<u8>,
    /// Bytes of `input` that were handed out.
    used: usize,
    /// What its messages get as their sender.
    name: Rc<str>,
    /// Headers that it has sent before.
    known: KnownHeaders,
    long: Option<Box<Long>>,
    /// How far the message is checked with which `input` goes on, if that has begun.
    half_checked: Option<Box<Checker>>,
    arrived: Arrived,
    most_message_bytes: usize,
    /// What waits, and since when.
    output: Output,
    /// Bytes of the first message of `output` that were written.
    sent: usize,
    /// Messages that were freed since the heap was last sorted.
    freed: usize,
    traffic: Traffic,
}

impl Connection {
    /// A connected socket that does not block, of a process of this user, whose messages have this sender. Messages above `most_message_bytes`
    /// end it.
    pub fn new(socket: OwnedFd, uid: u32, name: Rc<str>, most_message_bytes: usize) -> Connection {
        Connection {
            socket,
            uid,
            sasl: Some(Server::new(Some(uid))),
            passes_descriptors: false,
            input: Vec::new(),
            used: 0,
            name,
            known: KnownHeaders::default(),
            long: None,
            half_checked: None,
            arrived: Arrived { fds: Descriptors::of(Some(uid)), since: None },
            most_message_bytes,
            output: VecDeque::new(),
            sent: 0,
            freed: 0,
            traffic: Traffic::default(),
        }
    }

    /// Its messages have this sender from now on.
    pub fn set_name(&mut self, name: Rc<str>) {
        self.name = name;
        // These have the sender from before.
        self.known = KnownHeaders::default();
    }

    pub fn passes_descriptors(&self) -> bool {
        self.passes_descriptors
    }

    pub fn waiting_descriptors(&self) -> u64 {
        self.arrived.fds.len() as u64
    }

    pub fn descriptors_wait_since(&self) -> Option<Instant> {
        self.arrived.since
    }

    /// Must its descriptors wait until others are closed? Looks without taking anything: the kernel says that descriptors would come where there is
    /// no room for them.
    pub fn must_wait(&self, scratch: &mut [u8], closing: u64) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let look = |scratch| {
            let mut control = RecvAncillaryBuffer::default();
            rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(scratch)], &mut control, flags)
        };
        self.arrived.fds.are_closings_behind(closing)
            && look(scratch).is_ok_and(|seen| seen.flags.contains(ReturnFlags::CTRUNC))
    }

    /// Reads what is there, once, and answers lines of the authentication. True when the client has just begun.
    pub fn read(&mut self, scratch: &mut [u8], guid: &str, now: Instant) -> Result<bool, End> {
        for _ in 0..LONG_READS {
            let Some(missing) = self.long.as_ref().map(|long| long.missing()).filter(|missing| *missing > 0)
            else {
                break;
            };
            let most = missing.min(scratch.len());
            let count = self.receive(&mut scratch[..most], now)?;
            if let Some(long) = &mut self.long {
                long.append(&scratch[..count])?;
            }
            if count < most {
                return Ok(false);
            }
        }
        if self.long.is_some() {
            return Ok(false);
        }
        let count = self.receive(scratch, now)?;
        self.input.extend_from_slice(&scratch[..count]);
        self.authenticate(guid)
    }

    fn receive(&mut self, buffer: &mut [u8], now: Instant) -> Result<usize, End> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received =
            rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(buffer)], &mut control, flags);
        for item in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = item {
                self.arrived.fds.extend(fds);
            }
        }
        let message = match received {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(0),
            Err(_) => return Err(End::Closed),
            Ok(message) if message.bytes == 0 => return Err(End::Closed),
            Ok(message) => message,
        };
        if message.flags.contains(ReturnFlags::CTRUNC) {
            return Err(End::Descriptors("some of its file descriptors could not be received"));
        }
        if !self.arrived.fds.is_empty() {
            if !self.passes_descriptors && self.sasl.is_none() {
                return Err(End::Descriptors("it sent file descriptors without negotiating them"));
            }
            if self.arrived.fds.len() > WAITING_FDS_MAX {
                return Err(End::Descriptors("it sent more file descriptors than its messages announce"));
            }
            if self.arrived.fds.are_too_many_pending() {
                return Err(End::Descriptors("too many file descriptors of its user wait to be closed"));
            }
            self.arrived.since.get_or_insert(now);
        }
        Ok(message.bytes)
    }

    fn authenticate(&mut self, guid: &str) -> Result<bool, End> {
        let Some(sasl) = &mut self.sasl else { return Ok(false) };
        let mut answer = Vec::new();
        let has_begun = match sasl.advance(&mut self.input, guid, &mut answer) {
            Progress::Failed(why) => return Err(End::NotAuthenticated(why)),
            progress => matches!(progress, Progress::Begun),
        };
        let passes_descriptors = sasl.passes_descriptors();
        if !answer.is_empty() {
            // A few lines always fit, unless the client reads none of them.
            let sent = rustix::net::send(&self.socket, &answer, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            if sent != Ok(answer.len()) {
                return Err(End::NotAuthenticated("it does not read the answers"));
            }
        }
        if has_begun {
            self.passes_descriptors = passes_descriptors;
            self.sasl = None;
            if !self.arrived.fds.is_empty() && !passes_descriptors {
                return Err(End::Descriptors("it sent file descriptors without negotiating them"));
            }
        }
        Ok(has_begun)
    }

    fn unread(&self) -> &[u8] {
        &self.input[self.used..]
    }

    /// The next message that has arrived whole, once it is checked from its first byte to its last, which goes on a slice with each call.
    pub fn next_message(&mut self, checker: &mut Checker) -> Result<Option<Incoming<'_>>, End> {
        if self.sasl.is_some() {
            return Ok(None);
        }
        if self.long.is_none() {
            if self.unread().is_empty() {
                self.make_room();
                return Ok(None);
            }
            // One that is short has no long header either.
            let most = HEADER_BYTES_MAX.min(self.most_message_bytes);
            if !message_bytes(self.unread()).is_ok_and(|bytes| bytes <= most) {
                self.begin_long()?;
            }
        }
        if let Some(long) = &mut self.long {
            if long.missing() > 0 {
                self.make_room();
                return Ok(None);
            }
            if !long.check()? {
                return Ok(None);
            }
            let is_last = self.used == self.input.len();
            let header = long.header();
            let descriptors = self.arrived.take_for(&header, is_last)?;
            self.traffic.sent += 1;
            self.traffic.sent_bytes += header.message_bytes() as u64;
            return Ok(self.long.take().map(|long| Incoming::Long(long.into_message(descriptors))));
        }
        let bytes = match message_bytes(self.unread()) {
            Ok(bytes) if bytes <= self.unread().len() => bytes,
            Ok(_) | Err(Fault::Cut) => {
                self.make_room();
                return Ok(None);
            }
            Err(fault) => return Err(End::Invalid(fault)),
        };
        let start = self.used;
        let bytes = &self.input[start..start + bytes];
        let mut known = self.known.find(bytes);
        if known.is_none() {
            let parsed = Header::parse(bytes).map_err(End::Invalid)?;
            known = self.known.learn(&parsed, bytes, &self.name);
        }
        let mut header = match known {
            Some(index) => self.known.get(index).header(bytes),
            None => Header::parse(bytes).map_err(End::Invalid)?,
        };
        // Nothing is to be checked in a body that is not there.
        if !(header.body_bytes == 0 && header.signature.is_empty()) {
            let is_new = self.half_checked.is_none();
            let current = self.half_checked.as_deref_mut().unwrap_or(checker);
            if is_new {
                current.begin(&header);
            }
            let body = &bytes[header.header_bytes..];
            if !current.advance(body, CHECKED_STEPS).map_err(End::Invalid)? {
                if is_new {
                    self.half_checked = Some(Box::new(std::mem::take(checker)));
                }
                return Ok(None);
            }
            self.half_checked = None;
        }
        self.used += bytes.len();
        self.traffic.sent += 1;
        self.traffic.sent_bytes += bytes.len() as u64;
        let is_last = self.used == self.input.len();
        let descriptors = self.arrived.take_for(&header, is_last)?;
        let stamp = match known {
            Some(index) => self.known.get(index).stamp(bytes),
            None => stamped(bytes, &header, &self.name),
        };
        let stamp = stamp.ok_or(End::Invalid(TOO_LARGE))?;
        header.sender = Some(&self.name);
        Ok(Some(Incoming::Short(header, Message::new(stamp, descriptors))))
    }

    /// Checks the limits of the message that comes next. If it is a long one whose header is there, it goes into a file from here on.
    fn begin_long(&mut self) -> Result<(), End> {
        let start = self.unread();
        let (Ok(bytes), Ok(of_header)) = (message_bytes(start), header_bytes(start)) else { return Ok(()) };
        if bytes > self.most_message_bytes {
            let most = self.most_message_bytes as u64;
            return Err(End::Limit(Reached::by_message("max_message_size", "bytes", bytes as u64, most)));
        }
        if of_header > HEADER_BYTES_MAX {
            return Err(End::Invalid(Fault::Invalid(
                "its header has more than 64 KiB, the most on this bus",
            )));
        }
        if bytes > LONG_BYTES && start.len() >= of_header {
            let mut long = Long::begin(start, &self.name)?;
            let there = start.len().min(bytes);
            long.append(&start[of_header..there])?;
            self.used += there;
            self.long = Some(Box::new(long));
        }
        Ok(())
    }

    /// Is there a message that [`next_message`](Connection::next_message) returns or goes on to check, or the fault for which the connection
    /// must end?
    pub fn has_message(&self) -> bool {
        if let Some(long) = &self.long {
            return long.missing() == 0;
        }
        if self.unread().is_empty() {
            return false;
        }
        self.sasl.is_none()
            && match message_bytes(self.unread()) {
                Ok(bytes) => bytes <= self.unread().len() || bytes > self.most_message_bytes,
                Err(fault) => fault != Fault::Cut,
            }
    }

    /// Closes the socket, and the client sees this at once. What was not read of it may have descriptors whose closing waits.
    /// Returns what waited for it.
    pub fn close(self) -> Output {
        close_socket(self.uid, self.socket);
        self.output
    }

    fn make_room(&mut self) {
        if self.used == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..self.used);
        }
        self.used = 0;
        if self.input.is_empty() && self.input.capacity() > KEPT_BYTES {
            self.input = Vec::new();
        }
    }

    /// Bytes that have arrived of a message that is not complete.
    pub fn incomplete_bytes(&self) -> usize {
        self.unread().len() + self.long.as_ref().map_or(0, |long| long.arrived())
    }

    pub fn push(&mut self, message: Rc<Message>, now: Instant) {
        self.output.push_back((message, now));
    }

    /// What it has passed.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// How many messages wait, and since when the oldest does.
    pub fn queued(&self) -> (usize, Option<Instant>) {
        (self.output.len(), self.output.front().map(|(_, since)| *since))
    }

    /// Writes as much as the socket takes, and not for ever to a client that reads as fast.
    pub fn flush(&mut self) -> Result<Written, End> {
        let mut written = Written::default();
        for _ in 0..WRITES_MAX {
            if self.output.is_empty() {
                break;
            }
            let mut count = match self.send_some() {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => break,
                Err(Errno::TOOMANYREFS) => {
                    return Err(End::Descriptors("too many file descriptors of this user are in flight"));
                }
                Err(_) => return Err(End::Closed),
            };
            while let Some((first, _)) = self.output.front() {
                let rest = first.bytes().len() - self.sent;
                if count < rest {
                    self.sent += count;
                    break;
                }
                count -= rest;
                self.sent = 0;
                written.bytes += first.bytes().len() as u64;
                written.descriptors += first.descriptors.len() as u64;
                self.traffic.received += 1;
                self.traffic.received_bytes += first.bytes().len() as u64;
                self.output.pop_front();
                self.freed += 1;
            }
        }
        if self.output.is_empty() && self.output.capacity() > PARTS_MAX {
            self.output = VecDeque::new();
        }
        if self.freed >= FREED_MAX {
            self.freed = 0;
            heap::sort_freed();
        }
        Ok(written)
    }

    /// One system call. Descriptors go with the first byte of their message, and with no byte of another one before it.
    fn send_some(&self) -> rustix::io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if let Some((only, _)) = self.output.front()
            && self.output.len() == 1
            && (only.descriptors.is_empty() || self.sent > 0)
        {
            return rustix::net::send(&self.socket, &only.bytes()[self.sent..], flags);
        }
        let mut parts: [IoSlice<'_>; PARTS_MAX] = std::array::from_fn(|_| IoSlice::new(&[]));
        let mut count = 0;
        for (message, _) in self.output.iter().take(PARTS_MAX) {
            if count > 0 && !message.descriptors.is_empty() {
                break;
            }
            parts[count] = IoSlice::new(&message.bytes()[if count == 0 { self.sent } else { 0 }..]);
            count += 1;
        }
        let descriptors = match self.output.front() {
            Some((first, _)) if self.sent == 0 => first.descriptors.iter().map(AsFd::as_fd).collect(),
            _ => Vec::new(),
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let has_room = control.push(SendAncillaryMessage::ScmRights(&descriptors));
            assert!(has_room, "there is room for FDS_MAX descriptors");
        }
        rustix::net::sendmsg(&self.socket, &parts[..count], &mut control, flags)
    }

    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
