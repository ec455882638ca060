//! A member by hand: it writes what it is told into its outbox and its control socket, also what no correct member writes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use causeway_bus::shared::ABI;
use causeway_bus::shared::header::BusHeader;
use causeway_bus::shared::order::OrderLog;
use causeway_bus::shared::outbox::Outbox;
use causeway_bus::shared::ring::{self, BROADCAST, Entry, Sleep};
use causeway_bus::wire::Header;
use causeway_os::memory::Access;
use causeway_os::{futex, socket};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Kinds of packets, as the document numbers them.
pub const STAGE: u64 = 5;
pub const TAKE: u64 = 6;
pub const SENT: u64 = 7;
pub const DESCRIPTOR: u64 = 17;
pub const NONE: u64 = 18;
pub const REFUSED: u64 = 19;

pub struct Raw {
    pub socket: OwnedFd,
    pub slot: u16,
    pub id: u64,
    order: OrderLog,
    outbox: Outbox,
    doorbell: OwnedFd,
    end: u64,
}

/// A connection to the control socket that has not joined.
pub fn connect(path: &Path) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// Sends a packet; false if the other end is gone.
pub fn tell(socket: &OwnedFd, words: [u64; 5], fds: &[BorrowedFd<'_>]) -> bool {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    socket::send_with_fds(socket, &bytes, fds).is_ok()
}

impl Raw {
    pub fn join(path: &Path) -> Raw {
        let (fd, mut outbox) = Outbox::create(1 << 16).unwrap();
        let socket = connect(path);
        assert!(tell(&socket, [1, u64::from(ABI), 0, 0, 0], &[fd.as_fd()]));
        let (words, fds) = answer(&socket).unwrap();
        let [order, _directory, doorbell] = <[OwnedFd; 3]>::try_from(fds).unwrap();
        outbox.begin_at(words[4] as u32);
        let order = OrderLog::open(&order, Access::ReadWrite).unwrap();
        let (slot, id, end) = (words[1] as u16, words[2], words[3]);
        Raw { socket, slot, id, order, outbox, doorbell, end }
    }

    pub fn name(&self) -> String {
        format!(":1.{}", self.id)
    }

    /// Asks, and returns the answer; `None` if the connection has ended.
    pub fn ask(&self, words: [u64; 5], fds: &[BorrowedFd<'_>]) -> Option<([u64; 5], Vec<OwnedFd>)> {
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
            let armed = self.order.armed(slot);
            if let Some((value, how)) = ring::asleep(armed) {
                match how {
                    Sleep::Futex => drop(futex::wake(armed, u32::MAX)),
                    Sleep::Doorbell => drop(rustix::io::write(&self.doorbell, &1u64.to_ne_bytes())),
                }
                ring::mark_woken(armed, value);
            }
        }
    }
}

fn answer(socket: &OwnedFd) -> Option<([u64; 5], Vec<OwnedFd>)> {
    let mut bytes = [0; 1024];
    let (count, fds) = socket::recv_with_fds(socket, &mut bytes, socket::MAX_FDS).ok()?;
    let word = |index: usize| u64::from_ne_bytes(*bytes[index * 8..].first_chunk().unwrap());
    (count >= 40).then(|| (std::array::from_fn(word), fds))
}
