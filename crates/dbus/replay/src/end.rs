//! One connection of a replay: a socket that never blocks or a native member, and what it has sent and received.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use causeway_bus::ConnectionOptions;
use causeway_bus::client::{Bus, Error};
use causeway_dbus_wire::wire::{Body, Builder, Fault, Header, message_bytes};

const CHUNK_BYTES: usize = 64 << 10;

/// Connects to the bus at an address: as a native member with an outbox of so many bytes where it is a bus of those and this one may be
/// one, else by a socket.
pub fn open(address: &str, outbox_bytes: Option<u64>) -> Result<Bus, Error> {
    let Some(outbox_bytes) = outbox_bytes else { return Bus::connect(address) };
    Bus::open_with(address, ConnectionOptions { outbox_bytes, ..ConnectionOptions::default() })
}

/// Whether an item of an inbox is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Open,
    Arrived,
    /// It will not come.
    Lost,
}

#[derive(Debug, Default)]
pub struct End {
    /// The socket; nothing before it begins and after it has left.
    stream: Option<UnixStream>,
    /// The same of a native member.
    member: Option<Bus>,
    /// Its name on this bus; kept when it has left.
    pub unique: String,
    received: Vec<u8>,
    used: usize,
    out: Vec<u8>,
    written: usize,
    /// The serial of the message before the first of the plan.
    base: u32,
    /// The steps of the messages that were sent, by serial.
    sent: Vec<usize>,
    pub inbox: Vec<Settled>,
    /// Items at the front of the inbox that are settled.
    pub prefix: usize,
    /// Steps of its queue that are taken.
    pub taken: usize,
    pub is_leaving: bool,
    /// The serial of the last call, after which the bus has dispatched everything.
    pub closing: Option<u32>,
}

impl End {
    pub fn new(inbox: usize) -> End {
        End { inbox: vec![Settled::Open; inbox], ..End::default() }
    }

    /// From now on it is this connection.
    pub fn begin(&mut self, mut bus: Bus) -> Result<(), Error> {
        self.unique = bus.unique_name().to_owned();
        if bus.is_native() {
            bus.use_descriptor()?;
            self.base = bus.last_serial();
            self.member = Some(bus);
            return Ok(());
        }
        let (stream, unread, serial) = bus.into_parts()?;
        stream.set_nonblocking(true)?;
        (self.stream, self.received, self.base) = (Some(stream), unread, serial);
        Ok(())
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd).or_else(|| self.member.as_ref().map(AsFd::as_fd))
    }

    pub fn is_native(&self) -> bool {
        self.member.is_some()
    }

    /// Before its descriptor is waited for: false if there is something to read already.
    pub fn prepare_to_wait(&mut self) -> bool {
        self.member.as_mut().is_none_or(Bus::prepare_to_wait)
    }

    /// Bytes that the socket has not taken yet.
    pub fn backlog(&self) -> usize {
        self.out.len() - self.written
    }

    pub fn next_serial(&self) -> u32 {
        self.base + 1 + u32::try_from(self.sent.len()).expect("fewer messages than serials")
    }

    /// Puts the message of a step behind those that are to be written; a native member sends it. Its serial is the next one.
    pub fn post(&mut self, step: usize, message: &[u8]) -> Result<(), Error> {
        if let Some(member) = &mut self.member {
            let header = Header::parse(message).map_err(Error::Protocol)?;
            let body = Body::marshalled(header.endian, header.signature, &message[header.header_bytes..]);
            let serial = member.send(&Builder::like(&header).body(body))?;
            assert_eq!(serial, header.serial, "a member counts its messages as its end does");
        } else {
            self.out.extend_from_slice(message);
        }
        self.sent.push(step);
        Ok(())
    }

    /// The step of a message with this serial.
    pub fn step_of(&self, serial: u32) -> Option<usize> {
        let place = serial.checked_sub(self.base)?.checked_sub(1)?;
        self.sent.get(place as usize).copied().filter(|step| *step != usize::MAX)
    }

    /// The serial of a step that was sent.
    pub fn serial_of(&self, step: usize) -> Option<u32> {
        let place = self.sent.binary_search(&step).ok()?;
        Some(self.base + u32::try_from(place).ok()? + 1)
    }

    /// Writes what the socket takes.
    pub fn flush(&mut self) -> Result<(), Error> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while self.written < self.out.len() {
            match stream.write(&self.out[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Says that nothing more comes; the bus closes its end of a socket when it has seen that. A native member is gone at once, and
    /// the bus sees it later.
    pub fn leave(&mut self) -> Result<(), Error> {
        self.is_leaving = true;
        self.member = None;
        if let Some(stream) = &self.stream {
            stream.shutdown(std::net::Shutdown::Write)?;
        }
        Ok(())
    }

    /// Reads what is there. False when the bus has closed the connection.
    pub fn fill(&mut self) -> Result<bool, Error> {
        let Some(stream) = &mut self.stream else { return Ok(true) };
        self.received.drain(..self.used);
        self.used = 0;
        loop {
            let start = self.received.len();
            self.received.resize(start + CHUNK_BYTES, 0);
            let got = stream.read(&mut self.received[start..]);
            self.received.truncate(start + *got.as_ref().unwrap_or(&0));
            match got.map_err(|error| (error.kind(), error)) {
                Ok(0) | Err((ErrorKind::ConnectionReset, _)) => return Ok(false),
                Ok(CHUNK_BYTES) | Err((ErrorKind::Interrupted, _)) => {}
                Ok(_) | Err((ErrorKind::WouldBlock, _)) => return Ok(true),
                Err((_, error)) => return Err(error.into()),
            }
        }
    }

    pub fn close(&mut self) {
        self.stream = None;
    }

    /// The next whole message that was read.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if let Some(member) = &mut self.member {
            return member.receive(Duration::ZERO);
        }
        let there = &self.received[self.used..];
        match message_bytes(there) {
            Ok(bytes) if bytes <= there.len() => {
                let message = there[..bytes].to_vec();
                self.used += bytes;
                Ok(Some(message))
            }
            Ok(_) | Err(Fault::Cut) => Ok(None),
            Err(fault) => Err(Error::Protocol(fault)),
        }
    }

    /// An item of the inbox is settled. False if it was already.
    pub fn settle(&mut self, place: usize, how: Settled) -> bool {
        if self.inbox[place] != Settled::Open {
            return false;
        }
        self.inbox[place] = how;
        while self.inbox.get(self.prefix).is_some_and(|item| *item != Settled::Open) {
            self.prefix += 1;
        }
        true
    }
}
