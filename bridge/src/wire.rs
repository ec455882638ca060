//! The bytes beside a message, and those of the packets between bridges: little-endian, each begins with the format and its kind, and
//! each may have more behind it than is described here. What is received is input from another machine: it is checked, and what is
//! not understood is counted and dropped.
//!
//! All begin with the format, their kind, two bytes, and a check: CRC-32 of the rest (with 0 in place of the check) and of the payload
//! beside them. Zenoh 1.10 needs that: where a session ends while a batch is being written, it cancels the write and writes what is
//! left in its queue behind the piece that got out (`write_loop` in `zenoh-transport`), so the other end may take parts of several
//! messages for one.
//!
//! A message of a group is known by the number of the group and its *index*: how many messages the group had before it. Both come
//! from the log, so neither the bridge of its host nor that of another one forgets them when it is started again.

use std::ops::Range;

/// The format of everything here. What has another one is not understood.
pub const FORMAT: u8 = 1;
/// Hosts that a message may have passed.
pub const HOPS_MAX: usize = 16;

/// What a record of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message.
    Message = 0,
    /// Messages that are not there any more; how many is the payload, eight bytes.
    Lost = 1,
    /// Nothing that crosses.
    Nothing = 2,
    /// The end of an answer: whatever of this part has not come is kept back on the way, and does not come.
    End = 3,
    /// Several messages of one topic in one: see [`Packed`].
    Pack = 4,
    /// A part of a message that is too long to go in one: see [`Part`]. Without a payload it says that all before it was sent.
    Part = 5,
}

/// Which part of its message a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Bytes of the message before it.
    pub offset: u64,
    /// Bytes of the message.
    pub length: u64,
}

/// The number by which a host is known in attachments: FNV-1a of its name, mixed so that all bits differ, never 0.
pub fn host_id(name: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    // Short names differ in few of its bits, and a mark has the upper ones.
    let mixed = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ mixed >> 32).max(1)
}

/// The mark that a message of another host gets in the log of this one: who finds it there knows that it came over a bridge, and
/// which it is. Never 0.
pub fn mark_of(origin: u64, index: u64) -> u64 {
    (origin >> 48).max(1) << 48 | (index & 0xffff_ffff_ffff)
}

/// What stands beside each message of a group: 40 bytes and more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// What it is.
    pub kind: Kind,
    /// The number of the group at its host.
    pub group: u64,
    /// This record covers the messages of the group from this index on: those before `index` do not cross.
    pub from: u64,
    /// The index of the message.
    pub index: u64,
    /// The topic; in the key, too, where there is one.
    pub topic: u32,
    /// The sender waits for an acknowledgement of this one.
    pub is_awaited: bool,
    /// The hosts that it has passed, its origin first.
    pub hops: Vec<u64>,
    /// Of [`Kind::Part`] alone, and always of it.
    pub part: Option<Part>,
}

impl Stamp {
    /// The attachment, beside this payload.
    pub fn to_bytes(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(40 + 8 * self.hops.len());
        bytes.extend([FORMAT, self.kind as u8, self.hops.len() as u8, 0, 0, 0, 0, 0]);
        let last = u64::from(self.is_awaited) << 32 | u64::from(self.topic);
        let part = self.part.iter().flat_map(|part| [part.offset, part.length]);
        let words = [self.group, self.from, self.index, last].into_iter().chain(self.hops.iter().copied());
        bytes.extend(words.chain(part).flat_map(u64::to_le_bytes));
        sealed(bytes, payload)
    }

    /// What an attachment says, if it is one, and the one beside this payload.
    pub fn parse<'a>(bytes: &[u8], payload: impl IntoIterator<Item = &'a [u8]>) -> Option<Stamp> {
        let ([kind, hops, _], mut bytes) = Bytes::of(bytes, payload)?;
        let kinds = [Kind::Message, Kind::Lost, Kind::Nothing, Kind::End, Kind::Pack, Kind::Part];
        let kind = *kinds.get(usize::from(kind))?;
        let [group, from, index] = [bytes.u64()?, bytes.u64()?, bytes.u64()?];
        let [topic, flags] = [bytes.u32()?, bytes.u32()?];
        let hops = usize::from(hops);
        if !(1..=HOPS_MAX).contains(&hops) || from > index || index >= u64::MAX / 2 {
            return None;
        }
        let hops = (0..hops).map(|_| bytes.u64()).collect::<Option<_>>()?;
        let part = match kind {
            Kind::Part => Some(Part { offset: bytes.u64()?, length: bytes.u64()? }),
            _ => None,
        };
        let is_awaited = flags & 1 != 0;
        Some(Stamp { kind, group, from, index, topic, is_awaited, hops, part })
    }

    /// The host where it was published.
    pub fn origin(&self) -> u64 {
        self.hops[0]
    }

    /// Whether it has passed this host before.
    pub fn has_passed(&self, host: u64) -> bool {
        self.hops.contains(&host)
    }

    /// How many messages are lost, as the record says, and no more than it covers.
    pub fn lost(&self, payload: &[u8]) -> u64 {
        let covered = self.index - self.from + 1;
        payload.try_into().map_or(covered, |count| u64::from_le_bytes(count).min(covered))
    }
}

/// A message in a pack: its header, and its payload behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    /// As in [`Stamp`].
    pub from: u64,
    /// As in [`Stamp`].
    pub index: u64,
    /// The message.
    pub payload: &'a [u8],
}

/// Bytes before each payload in a pack.
pub const PACKED_BYTES: usize = 8;

impl<'a> Packed<'a> {
    /// What stands before the payload in a pack.
    pub fn header(&self) -> [u8; PACKED_BYTES] {
        // A message that passes over more than that is not packed.
        let skipped = u32::try_from(self.index - self.from).unwrap_or(u32::MAX);
        (u64::from(skipped) << 32 | self.payload.len() as u64).to_le_bytes()
    }

    /// Appends it to a pack.
    pub fn append_to(&self, pack: &mut Vec<u8>) {
        pack.extend(self.header());
        pack.extend(self.payload);
    }

    /// The messages of a pack, which begins with this index. It ends where the bytes make no sense any more.
    pub fn all(pack: &'a [u8], mut from: u64) -> impl Iterator<Item = Packed<'a>> {
        let mut bytes = Bytes(pack);
        std::iter::from_fn(move || {
            let [length, skipped] = [bytes.u32()?, bytes.u32()?];
            let (payload, rest) = bytes.0.split_at_checked(length as usize)?;
            bytes.0 = rest;
            let index = from.checked_add(u64::from(skipped))?;
            let packed = Packed { from, index, payload };
            from = index + 1;
            Some(packed)
        })
    }
}

/// A packet between two bridges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Asks a sender where to begin. `group` and `next` are what the receiver has of it, 0 if nothing.
    Hello {
        /// The receiver.
        host: u64,
        /// Number of the group that it has messages of.
        group: u64,
        /// The index that it expects next.
        next: u64,
    },
    /// The answer.
    Welcome {
        /// The sender.
        host: u64,
        /// Number of the group that it reads.
        group: u64,
        /// The index with which the receiver begins.
        begin: u64,
        /// The index behind the last that was read.
        head: u64,
    },
    /// The receiver has everything below `next`, in the log of its group.
    Ack {
        /// The receiver.
        host: u64,
        /// Number of the sender's group.
        group: u64,
        /// The index that it expects next.
        next: u64,
    },
    /// How far a sender is.
    Beat {
        /// The sender.
        host: u64,
        /// Number of its group.
        group: u64,
        /// The index behind the last that was read.
        head: u64,
        /// Which of all processes that were the bridge of this host.
        incarnation: u64,
    },
}

impl Packet {
    /// Its bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let (kind, words) = match self {
            Packet::Hello { host, group, next } => (0, [host, group, next, 0]),
            Packet::Welcome { host, group, begin, head } => (1, [host, group, begin, head]),
            Packet::Ack { host, group, next } => (2, [host, group, next, 0]),
            Packet::Beat { host, group, head, incarnation } => (3, [host, group, head, incarnation]),
        };
        let mut bytes = vec![FORMAT, kind, 0, 0, 0, 0, 0, 0];
        bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
        sealed(bytes, &[])
    }

    /// The packet that these bytes are, if they are one.
    pub fn parse(bytes: &[u8]) -> Option<Packet> {
        let ([kind, ..], mut bytes) = Bytes::of(bytes, [])?;
        let [host, group, third, fourth] = [bytes.u64()?, bytes.u64()?, bytes.u64()?, bytes.u64()?];
        Some(match kind {
            0 => Packet::Hello { host, group, next: third },
            1 => Packet::Welcome { host, group, begin: third, head: fourth },
            2 => Packet::Ack { host, group, next: third },
            3 => Packet::Beat { host, group, head: third, incarnation: fourth },
            _ => return None,
        })
    }
}

/// What stands beside a signal of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalStamp {
    /// The host of the name.
    pub host: u64,
    /// Which process numbers them.
    pub incarnation: u32,
    /// How many signals of the name this process had sent before.
    pub number: u64,
    /// The object.
    pub path: String,
}

impl SignalStamp {
    /// The attachment, beside these arguments.
    pub fn to_bytes(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![FORMAT, 4];
        bytes.extend((self.path.len() as u16).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.host.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.incarnation.to_le_bytes());
        bytes.extend(self.path.as_bytes());
        sealed(bytes, payload)
    }

    /// What an attachment says, if it is one, and the one beside these arguments.
    pub fn parse<'a>(bytes: &[u8], payload: impl IntoIterator<Item = &'a [u8]>) -> Option<SignalStamp> {
        let ([kind, low, high], mut bytes) = Bytes::of(bytes, payload)?;
        let (host, number, incarnation) = (bytes.u64()?, bytes.u64()?, bytes.u32()?);
        let path = bytes.0.get(..usize::from(u16::from_le_bytes([low, high])))?;
        let path = std::str::from_utf8(path).ok()?.to_owned();
        (kind == 4 && number < u64::MAX / 2).then_some(SignalStamp { host, incarnation, number, path })
    }
}

/// What stands beside the arguments of a call or of its reply: the check alone.
pub fn check_of(payload: &[u8]) -> Vec<u8> {
    sealed(vec![FORMAT, 5, 0, 0, 0, 0, 0, 0], payload)
}

/// Whether these are the arguments beside which this attachment was sent.
pub fn is_checked<'a>(bytes: &[u8], payload: impl IntoIterator<Item = &'a [u8]>) -> bool {
    Bytes::of(bytes, payload).is_some_and(|([kind, ..], _)| kind == 5)
}

/// Where the check is.
const CHECK: Range<usize> = 4..8;

fn crc<'a>(bytes: &[u8], payload: impl IntoIterator<Item = &'a [u8]>) -> [u8; 4] {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..CHECK.start]);
    crc.update(&[0; 4]);
    crc.update(&bytes[CHECK.end..]);
    payload.into_iter().for_each(|piece| crc.update(piece));
    crc.finalize().to_le_bytes()
}

/// With its check.
fn sealed(mut bytes: Vec<u8>, payload: &[u8]) -> Vec<u8> {
    let check = crc(&bytes, [payload]);
    bytes[CHECK].copy_from_slice(&check);
    bytes
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Bytes of the format that is known here, beside this payload: what stands before the check, and what stands behind it.
    fn of<'p>(bytes: &'a [u8], payload: impl IntoIterator<Item = &'p [u8]>) -> Option<([u8; 3], Bytes<'a>)> {
        let (&[format, a, b, c, ref check @ ..], rest) = bytes.split_first_chunk::<8>()?;
        (format == FORMAT && *check == crc(bytes, payload)).then_some(([a, b, c], Bytes(rest)))
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp {
            kind: Kind::Message,
            group: 0x1112_1314_1516_1718,
            from: 5,
            index: 7,
            topic: 11,
            is_awaited: true,
            hops: vec![21, 22],
            part: None,
        }
    }

    /// What somebody else may have made: with a check that is right.
    fn parse(bytes: &[u8]) -> Option<Stamp> {
        let bytes = if bytes.len() < 8 { bytes.to_vec() } else { sealed(bytes.to_vec(), b"payload") };
        Stamp::parse(&bytes, [&b"pay"[..], b"load"])
    }

    #[test]
    fn an_attachment_comes_back_longer_ones_are_understood_and_shorter_ones_are_not() {
        let bytes = stamp().to_bytes(b"payload");
        assert_eq!(bytes.len(), 40 + 16);
        assert_eq!(parse(&bytes), Some(stamp()));
        assert_eq!(parse(&[&bytes[..], &[1, 2, 3]].concat()), Some(stamp()), "it grows at its end");
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn what_was_damaged_on_its_way_is_not_understood() {
        let bytes = stamp().to_bytes(b"payload");
        assert_eq!(Stamp::parse(&bytes, [&b"payload"[..]]), Some(stamp()));
        for other in [&b"payloae"[..], b"payloa", b"payload ", b""] {
            assert_eq!(Stamp::parse(&bytes, [other]), None, "{other:?}");
        }
        let packet = Packet::Ack { host: 1, group: 2, next: 3 }.to_bytes();
        let signal =
            SignalStamp { host: 1, incarnation: 2, number: 3, path: "/a".into() }.to_bytes(b"payload");
        let check = check_of(b"payload");
        assert!(is_checked(&check, [&b"payload"[..]]) && !is_checked(&check, [&b"payloae"[..]]));
        for (all, is_understood) in [
            (&bytes, (|bytes| Stamp::parse(bytes, [&b"payload"[..]]).is_some()) as fn(&[u8]) -> bool),
            (&packet, |bytes| Packet::parse(bytes).is_some()),
            (&signal, |bytes| SignalStamp::parse(bytes, [&b"payload"[..]]).is_some()),
            (&check, |bytes| is_checked(bytes, [&b"payload"[..]])),
        ] {
            assert!(is_understood(all));
            for bit in 0..all.len() * 8 {
                let mut damaged = all.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(!is_understood(&damaged), "bit {bit} of {all:?}");
            }
        }
    }

    #[test]
    fn a_part_says_which_behind_the_hosts() {
        let part = Some(Part { offset: 512, length: 1 << 40 });
        let of_a_part = Stamp { kind: Kind::Part, part, ..stamp() };
        let bytes = of_a_part.to_bytes(b"payload");
        assert_eq!((bytes[1], bytes.len()), (5, 40 + 16 + 16));
        assert_eq!(
            [56, 64].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())),
            [512, 1 << 40]
        );
        assert_eq!(parse(&[&bytes[..], &[1, 2, 3]].concat()), Some(of_a_part));
        assert_eq!(parse(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn nonsense_is_no_attachment() {
        let good = stamp().to_bytes(b"payload");
        // Another format, an unknown kind, no hop, too many; an index below its beginning, or beyond all that can be.
        for (at, value) in [(0, 2), (1, 9), (2, 0), (2, 200), (16, 8), (31, 0xff)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(parse(&bad), None, "byte {at}");
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let bytes = stamp().to_bytes(b"payload");
        assert_eq!(bytes[..4], [1, 0, 2, 0]);
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!([8, 16, 24].map(word), [0x1112_1314_1516_1718, 5, 7]);
        assert_eq!([32, 40, 48].map(word), [1 << 32 | 11, 21, 22]);
    }

    #[test]
    fn packets_come_back() {
        let (host, group) = (1, 2);
        for packet in [
            Packet::Hello { host, group, next: 3 },
            Packet::Welcome { host, group, begin: 3, head: 4 },
            Packet::Ack { host, group, next: 3 },
            Packet::Beat { host, group, head: 3, incarnation: 4 },
        ] {
            let bytes = packet.to_bytes();
            assert_eq!(Packet::parse(&sealed([&bytes[..], &[0; 9]].concat(), b"")), Some(packet));
            assert_eq!(Packet::parse(&bytes[..bytes.len() - 1]), None);
            assert_eq!(Packet::parse(&sealed([&[2], &bytes[1..]].concat(), b"")), None, "another format");
        }
    }

    #[test]
    fn the_attachment_of_a_signal_comes_back() {
        let stamp = SignalStamp { host: 1, incarnation: 2, number: 3, path: "/a/b".into() };
        let bytes = stamp.to_bytes(b"payload");
        let parse = |bytes: &[u8]| SignalStamp::parse(&sealed(bytes.to_vec(), b"payload"), [&b"payload"[..]]);
        assert_eq!(parse(&[&bytes[..], b"more"].concat()), Some(stamp));
        assert!((8..bytes.len()).all(|length| parse(&bytes[..length]).is_none()));
    }

    #[test]
    fn the_messages_of_a_pack_come_back_and_a_pack_that_is_cut_ends_there() {
        let of = |from, index, payload| Packed { from, index, payload };
        let all = [of(5, 5, &b"one"[..]), of(6, 9, b""), of(10, 10, b"three")];
        let mut pack = Vec::new();
        all.iter().for_each(|packed| packed.append_to(&mut pack));
        assert_eq!(pack.len(), 3 * PACKED_BYTES + 8);
        assert_eq!(Packed::all(&pack, 5).collect::<Vec<_>>(), all);
        for length in 0..pack.len() {
            let cut: Vec<_> = Packed::all(&pack[..length], 5).collect();
            assert!(cut.len() < 3 && cut[..] == all[..cut.len()], "{length}");
        }
    }

    #[test]
    fn a_mark_is_never_that_of_an_unmarked_message() {
        assert_ne!(mark_of(host_id("a"), 0), 0);
        assert_ne!(mark_of(1, 0), 0);
        assert_ne!(mark_of(host_id("a"), 5), mark_of(host_id("b"), 5));
        assert_eq!(mark_of(1, 5) & 0xffff_ffff_ffff, 5);
    }
}
