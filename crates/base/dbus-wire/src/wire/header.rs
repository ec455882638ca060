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
