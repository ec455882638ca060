//! What passes over the control sockets: joining, and descriptors. Messages of the bus never do.
//!
//! One packet is one message: five words, then a text. A request is answered by one packet; `Disconnected` comes unasked. The first
//! packet of either end is a [`handshake`](causeway_os::handshake), which says what both have.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use causeway_os::handshake::{BYTES, Handshake, MAY_BE_IGNORED, OFFER_AT, Offer, REST, VERSION};
use causeway_os::{Context, socket};
use rustix::event::EventfdFlags;
use rustix::fs::OFlags;

use crate::error::{Error, Result};
use crate::shared::FORMATS;

const PACKET_BYTES: usize = 1024;
pub const FDS_MAX: usize = socket::FDS_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A handshake: its operation ([`JOIN`], [`OBSERVE`], [`AGREED`] or [`NO_FORMAT`]), and its offer in three words. No number of it is on
    /// the wire.
    Handshake = 0,
    /// A process of a release before the handshake joins. First word: its version.
    Join = 1,
    /// The outbox of a slot (first word) whose member has a number (second word).
    Outbox = 2,
    /// The doorbell of a slot, the same.
    Doorbell = 3,
    /// The member's own doorbell comes with this packet.
    SetDoorbell = 4,
    /// Descriptors for the receivers of a message that will be sent: its token, the number of its destination or 0, and the bytes of
    /// the message if the first descriptor is a file that holds it. Answered by `None`, or by `Refused` with a [`Refusal`].
    Stage = 5,
    /// The staged transfer of a member (first word its number) under a token (second word). Answered by `Descriptor` with the bytes of the
    /// message in the first descriptor or 0, or by `None`.
    Take = 6,
    /// A signal with a staged transfer is sent: its token, its position in the order log, and as text the slots of those that it is for
    /// ([`slots_text`]). Not answered.
    Sent = 7,
    /// To a member: slot, number, cursor, first place, with order log, directory, and the doorbell of the authority; as text the laggard
    /// deadline of the bus in milliseconds. To a monitor: zeros and the first two descriptors.
    Welcome = 16,
    /// The descriptor that was asked for.
    Descriptor = 17,
    /// There is none.
    None = 18,
    /// A request cannot be granted; the text says why.
    Refused = 19,
    /// The member was evicted; the text says why. The end of the connection follows.
    Disconnected = 20,
}

const KINDS: [Kind; 12] = {
    use Kind::*;
    [Join, Outbox, Doorbell, SetDoorbell, Stage, Take, Sent, Welcome, Descriptor, None, Refused, Disconnected]
};

const MAGIC: u32 = u32::from_le_bytes(*b"CWYB");
/// A process joins as a member, with its outbox.
pub const JOIN: u64 = 1;
/// A process joins as a monitor.
pub const OBSERVE: u64 = 2;
/// What follows has this format: the highest that both have.
pub const AGREED: u64 = 16;
/// There is none. The connection ends.
pub const NO_FORMAT: u64 = 17;
/// What this release has.
pub const OFFER: Offer = Offer::levels(FORMATS);

/// The first word of `Refused`: what the one who asked can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing.
    Final = 0,
    /// Ask again: places, descriptors or bytes may become free.
    Limit = 1,
    /// The destination is gone.
    NoDestination = 2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub kind: Kind,
    /// Numbers, by kind.
    pub words: [u64; 4],
    /// A sentence for people.
    pub text: String,
}

impl Packet {
    pub fn new(kind: Kind, words: [u64; 4]) -> Packet {
        Packet { kind, words, text: String::new() }
    }

    pub fn text(kind: Kind, text: impl Into<String>) -> Packet {
        Packet { text: text.into(), ..Packet::new(kind, [0; 4]) }
    }

    pub fn refused(why: Refusal, text: impl Into<String>) -> Packet {
        Packet { text: text.into(), ..Packet::new(Kind::Refused, [why as u64, 0, 0, 0]) }
    }

    /// A handshake of this operation.
    pub fn handshake(operation: u64, offer: Offer) -> Packet {
        let [min, max, compat, ro_compat, incompat] = offer.to_words().map(u64::from);
        Packet::new(Kind::Handshake, [operation, min | max << 32, compat | ro_compat << 32, incompat])
    }

    /// The offer of a handshake.
    pub fn offer(&self) -> Offer {
        let [_, levels, features, incompat] = self.words;
        let low_and_high = |word: u64| [word as u32, (word >> 32) as u32];
        let ([min, max], [compat, ro_compat]) = (low_and_high(levels), low_and_high(features));
        Offer { min, max, compat, ro_compat, incompat: incompat as u32 }
    }

    /// Whether this is a handshake of an operation that nobody has to know.
    pub fn may_be_ignored(&self) -> bool {
        self.kind == Kind::Handshake && self.words[0] >= u64::from(MAY_BE_IGNORED)
    }

    fn encode(&self) -> Vec<u8> {
        if self.kind == Kind::Handshake {
            let mut rest = [0; REST];
            rest[OFFER_AT..].copy_from_slice(&self.offer().to_words());
            let operation = self.words[0] as u32;
            return Handshake { magic: MAGIC, version: VERSION, operation, rest }.to_bytes().to_vec();
        }
        let mut bytes = (self.kind as u64).to_ne_bytes().to_vec();
        bytes.extend(self.words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(self.text.bytes().take(PACKET_BYTES - bytes.len()));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Packet> {
        if let Some(Handshake { magic: MAGIC, version: VERSION, operation, rest }) =
            bytes.get(..BYTES).and_then(Handshake::from_bytes)
        {
            let offer = Offer::from_words(*rest.last_chunk()?);
            return (bytes.len() == BYTES).then(|| Packet::handshake(u64::from(operation), offer));
        }
        let (words, text) = bytes.split_at_checked(40)?;
        let (words, _) = words.as_chunks::<8>();
        let word = |index: usize| u64::from_ne_bytes(words[index]);
        let kind = KINDS.into_iter().find(|known| *known as u64 == word(0))?;
        let words = [1, 2, 3, 4].map(word);
        Some(Packet { kind, words, text: String::from_utf8_lossy(text).into_owned() })
    }
}

/// A set of slots as the text of a packet: a hexadecimal digit for every four, the lowest bit for the lowest slot.
pub fn slots_text(slots: &[u16]) -> String {
    let digits = slots.iter().max().map_or(0, |highest| usize::from(*highest) / 4 + 1);
    let mut bits = vec![0u32; digits];
    for slot in slots {
        bits[usize::from(*slot) / 4] |= 1 << (slot % 4);
    }
    bits.into_iter().filter_map(|digit| char::from_digit(digit, 16)).collect()
}

/// The slots of such a text, up to the first character that is not a digit.
pub fn slots_of(text: &str) -> Vec<u16> {
    let digits = text.chars().map_while(|digit| digit.to_digit(16));
    let digits = (0u16..).step_by(4).zip(digits);
    let bits = digits.flat_map(|(first, digit)| (0..4).map(move |bit| (first + bit, digit >> bit & 1)));
    bits.filter(|(_, bit)| *bit == 1).map(|(slot, _)| slot).collect()
}

/// A doorbell: an eventfd that does not block.
pub fn new_doorbell() -> Result<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    Ok(rustix::event::eventfd(0, flags).context("make", || "a doorbell")?)
}

/// Can this be rung as a doorbell, by anybody and without waiting? That is an eventfd that does not block.
pub fn is_doorbell(fd: &OwnedFd) -> bool {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let does_not_block = rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
    does_not_block && std::fs::read_link(link).is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

pub fn send(socket: impl AsFd, packet: &Packet, fds: &[BorrowedFd<'_>]) -> Result<()> {
    Ok(socket::send_with_fds(socket, &packet.encode(), fds)?)
}

/// Receives a packet; `None` at the end of the connection. Fails also if nothing is there yet on a socket that does not
/// wait, and with [`Error::Refused`] for bytes that are not a packet.
pub fn receive(socket: impl AsFd) -> Result<Option<(Packet, Vec<OwnedFd>)>> {
    let (packet, fds) = receive_any(socket)?;
    Ok(packet?.map(|packet| (packet, fds)))
}

/// As [`receive`], for one who decides where descriptors are closed: those that came with what is no packet are beside its error.
pub fn receive_any(socket: impl AsFd) -> Result<(Result<Option<Packet>>, Vec<OwnedFd>)> {
    let mut bytes = [0; PACKET_BYTES];
    let (count, fds, cut) = socket::recv_part_with_fds(socket, &mut bytes, FDS_MAX)?;
    let packet = match cut {
        Some(cut) => Err(causeway_os::Error::new("receive", "a packet on the control socket", cut).into()),
        None if count == 0 => Ok(None),
        None => match Packet::decode(&bytes[..count]) {
            Some(packet) => Ok(Some(packet)),
            None => Err(Error::Refused("unknown packet on the control socket".into())),
        },
    };
    Ok((packet, fds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_crosses_a_socket_with_its_descriptors() {
        let (ours, theirs) = socket::seqpacket_pair().unwrap();
        for kind in KINDS {
            let packet = Packet { text: "why".into(), ..Packet::new(kind, [1, 2, 3, u64::MAX]) };
            send(&ours, &packet, &[ours.as_fd()]).unwrap();
            let (back, fds) = receive(&theirs).unwrap().unwrap();
            assert_eq!((back, fds.len()), (packet, 1));
        }
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }

    /// The fixture is what a release sent once.
    #[test]
    fn a_handshake_crosses_a_socket_and_has_the_bytes_of_the_stored_one() {
        let offer =
            Offer { min: 1, max: 2, compat: 0x0102_0304, ro_compat: 0x1112_1314, incompat: 0x2122_2324 };
        let packet = Packet::handshake(JOIN, offer);
        let stored = include_bytes!("../tests/fixtures/handshake");
        assert_eq!((packet.encode(), Packet::decode(stored)), (stored.to_vec(), Some(packet.clone())));
        assert_eq!((packet.offer(), packet.may_be_ignored()), (offer, false));
        assert!(
            Packet::handshake(64, offer).may_be_ignored() && !Packet::handshake(63, offer).may_be_ignored()
        );
        assert_eq!(Packet::decode(&[&stored[..], b"x"].concat()), None);
    }

    #[test]
    fn only_an_eventfd_that_does_not_block_is_a_doorbell() {
        use rustix::event::eventfd;
        assert!(is_doorbell(&new_doorbell().unwrap()));
        assert!(!is_doorbell(&eventfd(0, EventfdFlags::empty()).unwrap()));
        let flags = rustix::pipe::PipeFlags::NONBLOCK;
        assert!(!is_doorbell(&rustix::pipe::pipe_with(flags).unwrap().1));
    }

    #[test]
    fn the_largest_set_of_slots_fits_into_a_packet() {
        let all: Vec<u16> = (0..crate::shared::ring::SLOTS_MAX as u16).collect();
        let packet = Packet { text: slots_text(&all), ..Packet::new(Kind::Sent, [1; 4]) };
        assert_eq!(slots_of(&Packet::decode(&packet.encode()).unwrap().text), all);
    }
}

#[cfg(test)]
mod fuzz {
    use super::*;
    use causeway_os::handshake::Part;
    use causeway_testkit::fuzz;

    /// A packet is read as it was written, as far as it has room; a set of slots, too.
    #[test]
    fn bytes_are_one_packet_or_none() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/packet");
        fuzz::run(corpus, &["CWYB", "\0\0\0\0\0\0\0\0", "f", "0"], |input| {
            let packet = Packet::decode(input)?;
            let written = packet.encode();
            assert!(written.len() <= PACKET_BYTES && input.len() >= 40, "{packet:?}");
            let read = Packet::decode(&written).unwrap();
            assert_eq!((read.kind, read.words), (packet.kind, packet.words));
            assert!(read.text == packet.text || packet.text.len() > PACKET_BYTES - 40, "{packet:?}");
            let slots = slots_of(&packet.text);
            assert!(slots.is_sorted() && slots.len() <= 4 * packet.text.len(), "{slots:?}");
            assert_eq!(slots_of(&slots_text(&slots)), slots);
            let agreed = [Part::Writes, Part::Reads].map(|part| OFFER.agree(packet.offer(), part).is_ok());
            Some((packet.kind as u64, packet.may_be_ignored(), agreed, slots.len().min(9)))
        });
    }
}
