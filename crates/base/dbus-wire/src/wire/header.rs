//! The header of a message: sixteen fixed bytes and an array of fields.

use super::cursor::{Cursor, Endian};
use super::{ARRAY_BYTES_MAX, Checker, Fault, MESSAGE_BYTES_MAX, names};

/// The flag of a call whose caller wants no reply.
pub const FLAG_NO_REPLY_EXPECTED: u8 = 1;
/// The flag of a call that must not start its destination.
pub const FLAG_NO_AUTO_START: u8 = 2;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Asks an object for something.
    MethodCall,
    /// Answers a call.
    MethodReturn,
    /// Answers a call that failed.
    Error,
    /// Goes to the connections with a matching rule, or to one destination.
    Signal,
    /// A type that the specification leaves to the future; receivers ignore it.
    Other(u8),
}

impl Kind {
    /// The number in a message.
    #[inline]
    pub const fn number(self) -> u8 {
        match self {
            Kind::MethodCall => 1,
            Kind::MethodReturn => 2,
            Kind::Error => 3,
            Kind::Signal => 4,
            Kind::Other(number) => number,
        }
    }

    /// The word for it in match rules.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::MethodCall => "method_call",
            Kind::MethodReturn => "method_return",
            Kind::Error => "error",
            Kind::Signal => "signal",
            Kind::Other(_) => "other",
        }
    }

    const fn from_number(number: u8) -> Option<Kind> {
        Some(match number {
            0 => return None,
            1 => Kind::MethodCall,
            2 => Kind::MethodReturn,
            3 => Kind::Error,
            4 => Kind::Signal,
            other => Kind::Other(other),
        })
    }
}

/// The header of one message; text is borrowed from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Order of the bytes of all numbers.
    pub endian: Endian,
    /// What the message is.
    pub kind: Kind,
    /// Bits, of which three have a meaning: no reply expected, no auto-start, interactive authorisation.
    pub flags: u8,
    /// The sender's number of this message, never zero.
    pub serial: u32,
    /// Bytes of the header, its padding included.
    pub header_bytes: usize,
    /// Bytes of the body.
    pub body_bytes: usize,
    /// The object that is called or that signals.
    pub path: Option<&'a str>,
    /// The interface of the member.
    pub interface: Option<&'a str>,
    /// The method or signal.
    pub member: Option<&'a str>,
    /// The name of the error.
    pub error_name: Option<&'a str>,
    /// The serial of the call that this answers.
    pub reply_serial: Option<u32>,
    /// The connection that the message is for; without one a signal is a broadcast.
    pub destination: Option<&'a str>,
    /// The connection that sent it, filled in by the bus.
    pub sender: Option<&'a str>,
    /// The types of the body.
    pub signature: &'a str,
    /// How many file descriptors travel with it.
    pub unix_fds: u32,
}

/// The bytes of the message that starts here, header and body, from its first sixteen bytes. Fails with [`Fault::Cut`]
/// below sixteen bytes, with [`Fault::Invalid`] where no message starts, or one above the limits.
pub fn message_bytes(start: &[u8]) -> Result<usize, Fault> {
    fixed(start).map(|(header, _)| header.message_bytes())
}

/// The bytes of the header of the message that starts here, its padding included. Fails as [`message_bytes`].
pub fn header_bytes(start: &[u8]) -> Result<usize, Fault> {
    fixed(start).map(|(header, _)| header.header_bytes)
}

/// As [`message_bytes`], of a message that is there to its end; `None` as long as it is not.
pub fn whole_message(start: &[u8]) -> Result<Option<usize>, Fault> {
    match message_bytes(start) {
        Ok(bytes) => Ok(Some(bytes).filter(|bytes| *bytes <= start.len())),
        Err(Fault::Cut) => Ok(None),
        Err(fault) => Err(fault),
    }
}

impl<'a> Header<'a> {
    /// Kind, interface and member, or the name of the error: `method_call org.example.Garden.Water`.
    pub fn title(&self) -> String {
        let member = self.member.or(self.error_name).unwrap_or_default();
        let interface = self.interface.map(|interface| format!("{interface}."));
        format!("{} {}{member}", self.kind.word(), interface.unwrap_or_default()).trim_end().to_owned()
    }

    /// Reads the header at the start of these bytes. The body need not be there. Fails with [`Fault::Cut`] when the
    /// header is not complete, [`Fault::Invalid`] when it breaks the specification.
    pub fn parse(bytes: &'a [u8]) -> Result<Header<'a>, Fault> {
        let (mut header, fields_end) = fixed(bytes)?;
        let bytes = bytes.get(..header.header_bytes).ok_or(Fault::Cut)?;
        let mut fields = Cursor::new(&bytes[..fields_end], 16, header.endian);
        let mut seen = 0_u16;
        while fields.at < fields_end {
            fields.align(8)?;
            header.read_field(&mut fields, &mut seen)?;
        }
        if bytes[fields_end..].iter().any(|byte| *byte != 0) {
            return Err(Fault::Invalid("padding is not zero"));
        }
        header.check()?;
        Ok(header)
    }

    /// Bytes of the whole message.
    pub const fn message_bytes(&self) -> usize {
        self.header_bytes + self.body_bytes
    }

    /// Does the caller wait for an answer?
    pub fn expects_reply(&self) -> bool {
        self.kind == Kind::MethodCall && self.flags & FLAG_NO_REPLY_EXPECTED == 0
    }

    /// Is it for all connections with a matching rule?
    pub fn is_broadcast(&self) -> bool {
        self.kind == Kind::Signal && self.destination.is_none()
    }

    fn read_field(&mut self, fields: &mut Cursor<'a>, seen: &mut u16) -> Result<(), Fault> {
        let code = fields.u8()?;
        let types = fields.signature()?;
        let expected = match code {
            0 => return Err(Fault::Invalid("a header field has code 0")),
            1 => "o",
            2 | 3 | 4 | 6 | 7 => "s",
            5 | 9 => "u",
            8 => "g",
            // A field of the future: its value is skipped.
            _ => {
                return match super::signature::types(types).count() {
                    1 => Checker::check_value(fields, types, 1),
                    _ => Err(Fault::Invalid("a variant has not exactly one type")),
                };
            }
        };
        if types != expected {
            return Err(Fault::Invalid("a header field has the wrong type"));
        }
        if *seen & (1 << code) != 0 {
            return Err(Fault::Invalid("a header field is there twice"));
        }
        *seen |= 1 << code;
        match code {
            5 => self.reply_serial = Some(fields.u32()?),
            9 => self.unix_fds = fields.u32()?,
            8 => self.signature = fields.signature()?,
            _ => self.set_name(code, fields.text()?)?,
        }
        Ok(())
    }

    fn set_name(&mut self, code: u8, text: &'a str) -> Result<(), Fault> {
        let (place, is_valid, why): (_, fn(&str) -> bool, _) = match code {
            1 => (&mut self.path, names::is_path, "the path is not a valid object path"),
            2 => (&mut self.interface, names::is_interface, "the interface is not a valid interface name"),
            3 => (&mut self.member, names::is_member, "the member is not a valid member name"),
            4 => (&mut self.error_name, names::is_interface, "the error name is not valid"),
            6 => (&mut self.destination, names::is_bus_name, "the destination is not a valid bus name"),
            _ => (&mut self.sender, names::is_bus_name, "the sender is not a valid bus name"),
        };
        *place = Some(text);
        if is_valid(text) { Ok(()) } else { Err(Fault::Invalid(why)) }
    }

    /// Are the fields there that its type of message must have, and no value that is reserved? A parsed header has been
    /// checked. [`Fault::Invalid`] says why no bus would pass it on.
    pub fn check(&self) -> Result<(), Fault> {
        let is_complete = match self.kind {
            Kind::MethodCall => self.path.is_some() && self.member.is_some(),
            Kind::MethodReturn => self.reply_serial.is_some(),
            Kind::Error => self.reply_serial.is_some() && self.error_name.is_some(),
            Kind::Signal => self.path.is_some() && self.interface.is_some() && self.member.is_some(),
            Kind::Other(_) => true,
        };
        if !is_complete {
            return Err(Fault::Invalid("a header field that this type of message must have is missing"));
        }
        if self.reply_serial == Some(0) {
            return Err(Fault::Invalid("the reply serial is zero"));
        }
        if self.path == Some("/org/freedesktop/DBus/Local")
            || self.interface == Some("org.freedesktop.DBus.Local")
        {
            return Err(Fault::Invalid(
                "the path or interface is reserved for messages that never leave a process",
            ));
        }
        if self.signature.is_empty() && self.body_bytes > 0 {
            return Err(Fault::Invalid("there is a body but no signature"));
        }
        Ok(())
    }
}

/// The part of a header that has the same place in every message, and where its fields end.
fn fixed<'a>(bytes: &[u8]) -> Result<(Header<'a>, usize), Fault> {
    let Some((bytes, _)) = bytes.split_first_chunk::<16>() else { return Err(Fault::Cut) };
    let endian = Endian::from_mark(bytes[0]).ok_or(Fault::Invalid("the first byte names no byte order"))?;
    let kind = Kind::from_number(bytes[1]).ok_or(Fault::Invalid("the type of message is 0"))?;
    if bytes[3] != 1 {
        return Err(Fault::Invalid("the protocol version is not 1"));
    }
    let number = |at: usize| endian.u32([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let (body_bytes, serial, fields) = (number(4) as usize, number(8), number(12) as usize);
    if serial == 0 {
        return Err(Fault::Invalid("the serial is zero"));
    }
    if fields > ARRAY_BYTES_MAX {
        return Err(Fault::Invalid("the header fields are larger than 64 MiB"));
    }
    let fields_end = 16 + fields;
    let header_bytes = fields_end.next_multiple_of(8);
    if header_bytes.saturating_add(body_bytes) > MESSAGE_BYTES_MAX {
        return Err(Fault::Invalid("the message is larger than 128 MiB"));
    }
    let header = Header {
        endian,
        kind,
        flags: bytes[2],
        serial,
        header_bytes,
        body_bytes,
        path: None,
        interface: None,
        member: None,
        error_name: None,
        reply_serial: None,
        destination: None,
        sender: None,
        signature: "",
        unix_fds: 0,
    };
    Ok((header, fields_end))
}

#[cfg(test)]
mod tests {
    use super::super::{Body, Builder};
    use super::*;

    fn why(bytes: &[u8]) -> String {
        Header::parse(bytes).map_or_else(|fault| fault.to_string(), |header| panic!("{header:?}"))
    }

    fn message() -> Vec<u8> {
        let body = Body::in_order(Endian::Little).text("x");
        let message = Builder::error(9, "e.Err").path("/a/b").interface("i.Fac").member("Memb").unix_fds(2);
        message.destination(":1.22").sender(":1.11").body(body).build(7).unwrap()
    }

    #[test]
    fn sizes_are_known_from_sixteen_bytes() {
        let bytes = message();
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(header.message_bytes(), bytes.len());
        assert_eq!(header_bytes(&bytes[..16]), Ok(bytes.len() - 6));
        assert_eq!(message_bytes(&bytes[..16]), Ok(bytes.len()));
        assert_eq!(message_bytes(&bytes[..15]), Err(Fault::Cut));
        for (start, whole) in
            [(&bytes[..15], None), (&bytes[..bytes.len() - 1], None), (&bytes[..], Some(bytes.len()))]
        {
            assert_eq!(whole_message(start), Ok(whole));
        }
        assert_eq!(whole_message(&[0; 16]), Err(Fault::Invalid("the first byte names no byte order")));
        for cut in 0..header.header_bytes {
            assert_eq!(Header::parse(&bytes[..cut]), Err(Fault::Cut), "{cut}");
        }
    }

    #[test]
    fn sizes_have_limits() {
        let with = |at: usize, number: usize| {
            let mut bytes = message();
            bytes[at..at + 4].copy_from_slice(&(number as u32).to_le_bytes());
            message_bytes(&bytes).map_err(|fault| fault.to_string())
        };
        let header_bytes = message().len() - 6;
        let most = MESSAGE_BYTES_MAX - header_bytes;
        assert_eq!(with(4, most), Ok(MESSAGE_BYTES_MAX));
        assert_eq!(with(4, most + 1).unwrap_err(), "the message is larger than 128 MiB");
        assert_eq!(with(12, ARRAY_BYTES_MAX), Ok(16 + ARRAY_BYTES_MAX + 6));
        assert_eq!(with(12, ARRAY_BYTES_MAX + 1).unwrap_err(), "the header fields are larger than 64 MiB");
    }

    #[test]
    fn fixed_bytes_that_are_not_valid_are_named() {
        for (at, new, expected) in [
            (0, &b"L"[..], "the first byte names no byte order"),
            (1, &[0], "the type of message is 0"),
            (3, &[2], "the protocol version is not 1"),
            (8, &[0; 4], "the serial is zero"),
            // The code of the first field, which is the path, and its type.
            (16, &[0], "a header field has code 0"),
            (16, &[2], "a header field has the wrong type"),
            (18, b"s", "a header field has the wrong type"),
        ] {
            let mut bytes = message();
            bytes[at..at + new.len()].copy_from_slice(new);
            assert_eq!(why(&bytes), expected, "{at}");
        }
        let mut padded = Builder::signal("/", "a.B", "M").build(1).unwrap();
        let last = padded.len() - 1;
        padded[last] = 1;
        assert_eq!(why(&padded), "padding is not zero");
    }

    #[test]
    fn names_that_are_not_valid_are_named() {
        for (old, new, expected) in [
            ("/a/b", "xa/b", "the path is not a valid object path"),
            ("i.Fac", "i-Fac", "the interface is not a valid interface name"),
            ("Memb", "Me.b", "the member is not a valid member name"),
            ("e.Err", "e-Err", "the error name is not valid"),
            (":1.22", ":1+22", "the destination is not a valid bus name"),
            (":1.11", ":1+11", "the sender is not a valid bus name"),
        ] {
            let mut bytes = message();
            let at = bytes.windows(old.len()).position(|part| part == old.as_bytes()).unwrap();
            bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
            assert_eq!(why(&bytes), expected);
        }
    }

    #[test]
    fn a_field_is_there_once_and_those_of_the_future_are_skipped() {
        let bytes = message();
        let with_code = |text: &str, code: u8| {
            let mut bytes = bytes.clone();
            let at = bytes.windows(text.len()).position(|part| part == text.as_bytes()).unwrap();
            // In front of the text: its length, the type of the field, and the code.
            bytes[at - 8] = code;
            bytes
        };
        for (text, code) in [("Memb", 2), ("e.Err", 3), (":1.22", 4), (":1.11", 6)] {
            assert_eq!(why(&with_code(text, code)), "a header field is there twice", "{text}");
        }
        let unknown = with_code("Memb", 10);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(Header::parse(&unknown), Ok(Header { member: None, ..header }));
        let mut two_types =
            Builder::signal("/", "a.B", "Member_").body(Body::default().text("")).build(1).unwrap();
        let at = two_types.windows(7).position(|part| part == b"Member_").unwrap() - 8;
        two_types[at..at + 8].copy_from_slice(&[10, 2, b'y', b'y', 0, 0, 0, 0]);
        assert_eq!(why(&two_types), "a variant has not exactly one type");
    }

    #[test]
    fn every_kind_has_its_fields() {
        let new = Builder::new;
        let whole = [
            new(Kind::MethodCall).path("/").member("M"),
            new(Kind::MethodReturn).reply_serial(1),
            new(Kind::Error).reply_serial(1).error_name("a.E"),
            new(Kind::Signal).path("/").interface("a.B").member("M"),
            new(Kind::Other(5)),
        ];
        for message in &whole {
            assert!(Header::parse(&message.build(1).unwrap()).is_ok(), "{message:?}");
        }
        for message in [
            new(Kind::MethodCall).path("/").interface("a.B"),
            new(Kind::MethodCall).member("M").interface("a.B"),
            new(Kind::MethodReturn).destination(":1.2"),
            new(Kind::Error).reply_serial(1),
            new(Kind::Error).error_name("a.E"),
            new(Kind::Signal).path("/").interface("a.B"),
            new(Kind::Signal).path("/").member("M"),
            new(Kind::Signal).interface("a.B").member("M"),
        ] {
            let why = why(&message.build(1).unwrap());
            assert_eq!(why, "a header field that this type of message must have is missing", "{message:?}");
        }
        let reserved = "the path or interface is reserved for messages that never leave a process";
        for (message, expected) in [
            (Builder::reply(0), "the reply serial is zero"),
            (Builder::call("/org/freedesktop/DBus/Local", "M"), reserved),
            (Builder::signal("/", "org.freedesktop.DBus.Local", "M"), reserved),
            (
                Builder::call("/", "M").body(Body::marshalled(Endian::NATIVE, "", b"x")),
                "there is a body but no signature",
            ),
        ] {
            assert_eq!(why(&message.build(1).unwrap()), expected);
        }
    }

    #[test]
    fn a_header_says_what_its_message_is() {
        let call = || Builder::call("/", "M").interface("a.B");
        for (message, title, expects_reply, is_broadcast) in [
            (call(), "method_call a.B.M", true, false),
            (call().flags(FLAG_NO_AUTO_START), "method_call a.B.M", true, false),
            (call().flags(FLAG_NO_REPLY_EXPECTED), "method_call a.B.M", false, false),
            (Builder::call("/", "M"), "method_call M", true, false),
            (Builder::reply(1), "method_return", false, false),
            (Builder::error(1, "a.E"), "error a.E", false, false),
            (Builder::signal("/", "a.B", "M"), "signal a.B.M", false, true),
            (Builder::signal("/", "a.B", "M").destination(":1.2"), "signal a.B.M", false, false),
            (Builder::new(Kind::Other(9)), "other", false, false),
        ] {
            let bytes = message.build(1).unwrap();
            let header = Header::parse(&bytes).unwrap();
            assert_eq!(header.kind, message.kind());
            let found = (header.title(), header.expects_reply(), header.is_broadcast());
            assert_eq!(found, (title.to_owned(), expects_reply, is_broadcast));
        }
    }
}
