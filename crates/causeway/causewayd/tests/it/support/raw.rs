//! A member by hand: it writes what it is told into its outbox and its control socket, also what no correct member writes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use causeway_bus::shared::header::BusHeader;
use causeway_bus::shared::order::OrderLog;
use causeway_bus::shared::outbox::Outbox;
use causeway_bus::shared::ring::{self, BROADCAST, Entry, Sleep};
use causeway_bus::shared::unique_name::unique_name;
use causeway_bus::wire::Header;
use causeway_os::memory::Access;
use causeway_os::socket;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::PATIENCE;

/// Kinds of packets, as the document numbers them.
pub const OUTBOX: u64 = 2;
pub const SET_DOORBELL: u64 = 4;
pub const STAGE: u64 = 5;
pub const TAKE: u64 = 6;
pub const SENT: u64 = 7;
pub const WELCOME: u64 = 16;
pub const DESCRIPTOR: u64 = 17;
pub const NONE: u64 = 18;
pub const REFUSED: u64 = 19;

pub struct Raw {
    pub socket: OwnedFd,
    pub slot: u16,
    pub id: u64,
    order: OrderLog,
    outbox: Outbox,
    /// That of the bus.
    pub doorbell: OwnedFd,
    end: u64,
}

/// A connection to the control socket that has not joined; nothing if the bus does not take it now.
pub fn connect(path: &Path) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).ok()?;
    Some(socket)
}

/// The bytes of a packet.
pub fn packet(words: [u64; 5], text: &[u8]) -> Vec<u8> {
    [words.map(u64::to_ne_bytes).as_flattened(), text].concat()
}

/// Sends a packet; false if the other end is gone.
pub fn tell(socket: &OwnedFd, words: [u64; 5], fds: &[BorrowedFd<'_>]) -> bool {
    socket::send_with_fds(socket, &packet(words, b""), fds).is_ok()
}

/// The bytes of a handshake: 1 joins as a member, 2 as a monitor. The offer is lowest and highest format, and features.
pub fn handshake(operation: u32, offer: [u32; 5]) -> Vec<u8> {
    let head = [u32::from_le_bytes(*b"CWYB"), 9, operation, 0, 0, 0, 0, 0, 0, 0, 0];
    head.iter().chain(&offer).flat_map(|word| word.to_le_bytes()).collect()
}

/// That of a member that has the format of the bus.
pub fn joining() -> Vec<u8> {
    handshake(1, [1, 1, 0, 0, 0])
}

/// Asks to join with an outbox that is right.
pub fn join(socket: &OwnedFd) -> bool {
    let outbox = Outbox::create(1 << 12).unwrap().0;
    socket::send_with_fds(socket, &joining(), &[outbox.as_fd()]).is_ok()
}

/// What the bus sends: words, text and descriptors.
pub struct Answer {
    pub words: [u64; 5],
    pub text: String,
    pub fds: Vec<OwnedFd>,
}

/// The next packet that the bus sends and that is not the handshake of a bus that agrees; nothing at the end of the connection.
pub fn answer(socket: &OwnedFd) -> Option<Answer> {
    assert!(causeway_os::process::poll(&[socket.as_fd()], Some(PATIENCE)).unwrap()[0], "no answer");
    let mut bytes = [0; 1024];
    let (count, fds) = socket::recv_with_fds(socket, &mut bytes, socket::FDS_MAX).ok()?;
    if bytes[..count] == handshake(16, [1, 1, 0, 0, 0]) {
        return answer(socket);
    }
    let word = |index: usize| u64::from_ne_bytes(*bytes[index * 8..].first_chunk().unwrap());
    let text = || String::from_utf8_lossy(&bytes[40..count]).into_owned();
    (count >= 40).then(|| Answer { words: std::array::from_fn(word), text: text(), fds })
}

impl Raw {
    pub fn join(path: &Path) -> Raw {
        let (fd, mut outbox) = Outbox::create(1 << 16).unwrap();
        let socket = connect(path).unwrap();
        socket::send_with_fds(&socket, &joining(), &[fd.as_fd()]).unwrap();
        let Answer { words, fds, .. } = answer(&socket).unwrap();
        let [order, _directory, doorbell] = <[OwnedFd; 3]>::try_from(fds).unwrap();
        outbox.begin_at(words[4] as u32);
        let order = OrderLog::open(&order, Access::ReadWrite).unwrap();
        let (slot, id, end) = (words[1] as u16, words[2], words[3]);
        Raw { socket, slot, id, order, outbox, doorbell, end }
    }

    pub fn name(&self) -> String {
        unique_name(self.id)
    }

    /// Says that it sleeps until its doorbell rings.
    pub fn sleep_on_doorbell(&self) {
        ring::arm(self.order.armed(self.slot), Sleep::Doorbell);
    }

    pub fn is_asleep(&self) -> bool {
        ring::asleep(self.order.armed(self.slot)).is_some()
    }

    /// Asks, and returns the answer; `None` if the connection has ended.
    pub fn ask(&self, words: [u64; 5], fds: &[BorrowedFd<'_>]) -> Option<Answer> {
        tell(&self.socket, words, fds).then(|| answer(&self.socket)).flatten()
    }

    /// The header that a correct member writes before a message without anything beside the log; 0 for a signal to all.
    pub fn header(&self, destination: u64, message: &[u8]) -> BusHeader {
        let header = Header::parse(message).unwrap();
        BusHeader {
            sender: self.id,
            destination,
            serial: header.serial,
            reply_serial: header.reply_serial.unwrap_or(0),
            message_bytes: message.len() as u32,
            body_offset: header.header_bytes as u32,
            kind: header.kind.number(),
            flags: header.flags,
            ..BusHeader::default()
        }
    }

    /// Sends what may be wild, to the member in a slot or to all, and wakes everybody.
    pub fn send(&mut self, header: BusHeader, slot: Option<u16>, inline: &[u8]) {
        let place = self.outbox.write(header, inline);
        let entry = Entry { sender: self.slot, destination: slot.unwrap_or(BROADCAST), place };
        ring::append(&self.order, &mut self.end, entry, || false).unwrap();
        self.outbox.advance(inline.len());
        ring::fence_after_append();
        for slot in 0..self.order.slots() as u16 {
            match ring::asleep(self.order.armed(slot)) {
                Some((value, Sleep::Futex)) => _ = self.order.wake_futex(slot, value),
                Some((value, Sleep::Doorbell)) => {
                    rustix::io::write(&self.doorbell, &1u64.to_ne_bytes()).unwrap();
                    ring::mark_awake(self.order.armed(slot), value);
                }
                None => {}
            }
        }
    }
}
