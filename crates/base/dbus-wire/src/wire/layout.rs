//! Where the fields of a header lie in its message, so that neither it nor one like it needs to be parsed again.

use std::ops::Range;

use super::cursor::Cursor;
use super::{Checker, Endian, Header, Kind, MESSAGE_BYTES_MAX};

/// The field with the serial of the call that is answered.
const REPLY_SERIAL: u8 = 5;

/// Where the fields of a header begin.
const FIELDS_AT: usize = 16;

/// Where the texts of these fields are among [`Layout::texts`].
const PATH: usize = 0;
const INTERFACE: usize = 1;
const MEMBER: usize = 2;
const SENDER: usize = 5;
pub(super) const SIGNATURE: usize = 6;

/// The numbers of a header: what is asked of every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// What the message is.
    pub kind: Kind,
    /// Its flags.
    pub flags: u8,
    /// The sender's number of it.
    pub serial: u32,
    /// Bytes of its body.
    pub body_bytes: usize,
    /// The serial of the call that it answers.
    pub reply_serial: Option<u32>,
    /// How many file descriptors travel with it.
    pub unix_fds: u32,
}

/// Where the fields of a parsed header lie.
///
/// ```
/// use causeway_dbus_wire::wire::{Builder, Header, Layout};
///
/// let first = Builder::call("/", "Ping").destination("a.b").build(1)?;
/// let layout = Layout::of(&Header::parse(&first)?, &first);
/// let second = Builder::call("/", "Ping").destination("a.b").build(2)?;
/// assert!(layout.is_of(&first, &second));
/// assert_eq!(layout.header(&second), Header::parse(&second)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(super) endian: Endian,
    pub(super) kind: Kind,
    pub(super) header_bytes: u32,
    /// 0 without one.
    pub(super) reply_serial_at: u32,
    pub(super) unix_fds: u32,
    /// Offset and length of path, interface, member, name of the error, destination, sender, signature; offset 0 where there is none.
    pub(super) texts: [(u32, u32); 7],
}

/// The layout of no header, for a place where one is to come.
impl Default for Layout {
    fn default() -> Layout {
        Layout::empty(Endian::NATIVE, Kind::MethodCall, 0)
    }
}

impl Layout {
    /// The layout of a header that was parsed from `message`.
    pub fn of(header: &Header<'_>, message: &[u8]) -> Layout {
        let start = message.as_ptr() as usize;
        let range = |text: &str| {
            let at = (text.as_ptr() as usize).wrapping_sub(start);
            assert!(at < header.header_bytes, "the header is of other bytes");
            (at as u32, text.len() as u32)
        };
        let signature = Some(header.signature).filter(|signature| !signature.is_empty());
        let texts = [
            header.path,
            header.interface,
            header.member,
            header.error_name,
            header.destination,
            header.sender,
            signature,
        ];
        Layout {
            endian: header.endian,
            kind: header.kind,
            header_bytes: header.header_bytes as u32,
            reply_serial_at: Layout::reply_serial_in(header, message) as u32,
            unix_fds: header.unix_fds,
            texts: texts.map(|text| text.map_or((0, 0), range)),
        }
    }

    /// Where the serial of the answered call stands in a message with this header, 0 without one.
    pub(super) fn reply_serial_in(header: &Header<'_>, message: &[u8]) -> usize {
        if header.reply_serial.is_none() {
            return 0;
        }
        let field = fields(header, message).find(|(code, _)| *code == REPLY_SERIAL);
        // Behind code and type.
        field.map_or(0, |(_, at)| at.start + 4)
    }

    /// The layout of a header without texts, to be filled in while the header is written.
    pub(super) fn empty(endian: Endian, kind: Kind, unix_fds: u32) -> Layout {
        Layout { endian, kind, header_bytes: 0, reply_serial_at: 0, unix_fds, texts: [(0, 0); 7] }
    }

    /// Path, interface, member, name of the error, destination, sender and signature are 0 to 6.
    pub(super) fn set_text(&mut self, index: usize, at: usize, bytes: usize) {
        self.texts[index] = (at as u32, bytes as u32);
    }

    /// Bytes of the header, its padding included.
    #[inline]
    pub const fn header_bytes(&self) -> usize {
        self.header_bytes as usize
    }

    /// How many file descriptors travel with each message of this layout.
    #[inline]
    pub const fn unix_fds(&self) -> u32 {
        self.unix_fds
    }

    /// Has `message` a valid header that differs from that of `known`, from which this layout is, in its numbers at most?
    #[inline]
    pub fn is_of(&self, known: &[u8], message: &[u8]) -> bool {
        self.numbers_like(known, message).is_some()
    }

    /// The numbers of `message`, if [`Layout::is_of`].
    #[inline]
    pub fn numbers_like(&self, known: &[u8], message: &[u8]) -> Option<Numbers> {
        let (end, reply) = (self.header_bytes as usize, self.reply_serial_at as usize);
        let (known, message) = (known.get(..end)?, message.get(..end)?);
        let same = |from: usize, to: usize| known[from..to] == message[from..to];
        let is_alike =
            same(0, 4) && if reply == 0 { same(12, end) } else { same(12, reply) && same(reply + 4, end) };
        if !is_alike {
            return None;
        }
        // What the fields that are alike must be was checked with the known header.
        let numbers = self.numbers(message);
        let is_valid = numbers.serial != 0
            && numbers.reply_serial != Some(0)
            && (numbers.body_bytes == 0 || self.texts[SIGNATURE].0 != 0)
            && numbers.body_bytes <= MESSAGE_BYTES_MAX - end;
        is_valid.then_some(numbers)
    }

    /// The numbers of a message of this layout.
    #[inline]
    pub fn numbers(&self, message: &[u8]) -> Numbers {
        let number = |bytes: &[u8], at: usize| match bytes[at..].first_chunk() {
            Some(bytes) => self.endian.u32(*bytes),
            None => panic!("the message is not of this layout"),
        };
        let start: &[u8] = &message[..16];
        Numbers {
            kind: self.kind,
            flags: start[2],
            serial: number(start, 8),
            body_bytes: number(start, 4) as usize,
            reply_serial: (self.reply_serial_at > 0).then(|| number(message, self.reply_serial_at as usize)),
            unix_fds: self.unix_fds,
        }
    }

    #[inline]
    fn text<'a>(&self, index: usize, message: &'a [u8]) -> Option<&'a str> {
        let (at, length) = self.texts[index];
        if at == 0 {
            return None;
        }
        let bytes = &message[at as usize..(at + length) as usize];
        Some(std::str::from_utf8(bytes).expect("the header was parsed"))
    }

    /// The object path of a message of this layout, without the rest of its header.
    #[inline]
    pub fn path<'a>(&self, message: &'a [u8]) -> Option<&'a str> {
        self.text(PATH, message)
    }

    /// The signature of a message of this layout, empty without one.
    #[inline]
    pub fn signature<'a>(&self, message: &'a [u8]) -> &'a str {
        self.text(SIGNATURE, message).unwrap_or_default()
    }

    /// The interface of a message of this layout, without the rest of its header.
    #[inline]
    pub fn interface<'a>(&self, message: &'a [u8]) -> Option<&'a str> {
        self.text(INTERFACE, message)
    }

    /// The member of a message of this layout, without the rest of its header.
    #[inline]
    pub fn member<'a>(&self, message: &'a [u8]) -> Option<&'a str> {
        self.text(MEMBER, message)
    }

    /// The header of a message of this layout.
    pub fn header<'a>(&self, message: &'a [u8]) -> Header<'a> {
        // All fields at once, as most are ASCII with short lengths between them: that is one check instead of one for each text.
        let fields = std::str::from_utf8(&message[FIELDS_AT..self.header_bytes as usize]).ok();
        let text = |index: usize| match (fields, self.texts[index]) {
            (_, (0, _)) => None,
            (Some(fields), (at, bytes)) => fields.get(at as usize - FIELDS_AT..)?.get(..bytes as usize),
            (None, _) => self.text(index, message),
        };
        let Numbers { kind, flags, serial, body_bytes, reply_serial, unix_fds } = self.numbers(message);
        Header {
            endian: self.endian,
            kind,
            flags,
            serial,
            header_bytes: self.header_bytes as usize,
            body_bytes,
            path: text(PATH),
            interface: text(INTERFACE),
            member: text(MEMBER),
            error_name: text(3),
            reply_serial,
            destination: text(4),
            sender: text(SENDER),
            signature: text(SIGNATURE).unwrap_or(""),
            unix_fds,
        }
    }
}

/// The fields of a header that was parsed from `message`: the code of each, and where it lies.
pub(super) fn fields(header: &Header<'_>, message: &[u8]) -> impl Iterator<Item = (u8, Range<usize>)> {
    const PARSED: &str = "the header was parsed";
    let number = message[12..].first_chunk().expect(PARSED);
    let end = 16 + header.endian.u32(*number) as usize;
    let mut fields = Cursor::new(&message[..end], 16, header.endian);
    std::iter::from_fn(move || {
        if fields.at >= end {
            return None;
        }
        fields.align(8).expect(PARSED);
        let (start, code) = (fields.at, fields.u8().expect(PARSED));
        let types = fields.signature().expect(PARSED);
        let passed = match types {
            "s" | "o" => fields.text().map(drop),
            "u" => fields.u32().map(drop),
            "g" => fields.signature().map(drop),
            _ => Checker::check_value(&mut fields, types, 1),
        };
        passed.expect(PARSED);
        Some((code, start..fields.at))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Body, Builder};
    use super::*;

    /// Pairs of messages, of each kind and byte order, whose headers differ in their numbers alone.
    pub fn alike() -> Vec<[Vec<u8>; 2]> {
        let pairs = [Endian::Little, Endian::Big].map(|endian| {
            let body = |text| Body::in_order(endian).text(text);
            let call = Builder::call("/a/b", "M").interface("a.b").destination("c.d").sender(":1.99");
            let reply = |serial| Builder::reply(serial).sender(":1.12").destination(":1.3").unix_fds(3);
            let error = |serial, text| Builder::error(serial, "a.b").body(body(text));
            [
                [call.clone().body(body("")), call.body(body("x"))],
                [reply(9).body(body("")), reply(10).body(body("x"))],
                [error(1, "x"), error(u32::MAX, "long")],
            ]
        });
        let built = pairs.into_iter().flatten();
        built.map(|[first, second]| [first.build(5).unwrap(), second.build(6).unwrap()]).collect()
    }

    #[test]
    fn a_layout_finds_every_field_again() {
        for [first, second] in alike() {
            let layout = Layout::of(&Header::parse(&first).unwrap(), &first);
            assert!(layout.is_of(&first, &second));
            assert_eq!(layout.header(&first), Header::parse(&first).unwrap());
            let parsed = Header::parse(&second).unwrap();
            assert_eq!(layout.header(&second), parsed);
            let of_layout = [layout.path(&second), layout.interface(&second), layout.member(&second)];
            assert_eq!(of_layout, [parsed.path, parsed.interface, parsed.member]);
            assert_eq!(layout.signature(&second), parsed.signature);
            assert_eq!((layout.header_bytes(), layout.unix_fds()), (parsed.header_bytes, parsed.unix_fds));
        }
    }

    #[test]
    fn a_body_has_a_type_and_a_largest_size() {
        let taken = |message: Builder<'_>, body_bytes: usize| {
            let known = message.build(5).unwrap();
            let layout = Layout::of(&Header::parse(&known).unwrap(), &known);
            let mut other = known.clone();
            other[4..8].copy_from_slice(&(body_bytes as u32).to_ne_bytes());
            layout.is_of(&known, &other)
        };
        let typed = Builder::reply(9).body(Body::default().text("x"));
        let most = MESSAGE_BYTES_MAX - typed.build(1).unwrap().len() + 6;
        assert!(taken(typed.clone(), 0) && taken(typed.clone(), most) && !taken(typed, most + 1));
        assert!(taken(Builder::reply(9), 0) && !taken(Builder::reply(9), 1));
    }

    /// A message that the layout takes is one that is parsed, to the same header.
    #[test]
    fn no_message_is_taken_that_is_not_valid() {
        let known = Builder::reply(9).sender(":1.12").destination(":1.3").build(5).unwrap();
        let layout = Layout::of(&Header::parse(&known).unwrap(), &known);
        for at in 0..known.len() {
            for byte in [0, 1, 7, 0x80, 0xff] {
                let mut message = known.clone();
                message[at] = byte;
                if layout.is_of(&known, &message) {
                    assert_eq!(Header::parse(&message), Ok(layout.header(&message)), "{byte} at {at}");
                }
            }
        }
        assert!(!layout.is_of(&known, &known[..known.len() - 1]));
    }
}
