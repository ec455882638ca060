//! Writes messages: those that a small client sends, and those that tests and generators make.

use std::fmt;

use super::{Endian, Header, Kind, Layout, MAX_MESSAGE_BYTES, names, signature};

/// A message in the making. Names are checked when it is built.
///
/// ```
/// use weighbridge_dbus::wire::{Body, Builder, Header};
///
/// let call = Builder::call("/org/freedesktop/DBus", "AddMatch")
///     .interface("org.freedesktop.DBus")
///     .destination("org.freedesktop.DBus")
///     .body(Body::default().text("type='signal'"));
/// let bytes = call.build(7)?;
/// assert_eq!(Header::parse(&bytes)?.signature, "s");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    kind: Kind,
    flags: u8,
    path: Option<&'a str>,
    interface: Option<&'a str>,
    member: Option<&'a str>,
    error_name: Option<&'a str>,
    reply_serial: Option<u32>,
    destination: Option<&'a str>,
    sender: Option<&'a str>,
    unix_fds: u32,
    body: Body,
}

/// A message would be larger than 128 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes that it would have.
    pub bytes: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message of {} bytes is larger than 128 MiB", self.bytes)
    }
}

impl std::error::Error for TooLong {}

impl<'a> Builder<'a> {
    /// A message of any type, with nothing in it.
    #[inline]
    #[must_use]
    pub fn new(kind: Kind) -> Builder<'a> {
        Builder {
            kind,
            flags: 0,
            path: None,
            interface: None,
            member: None,
            error_name: None,
            reply_serial: None,
            destination: None,
            sender: None,
            unix_fds: 0,
            body: Body::default(),
        }
    }

    /// A message with all fields of another one but its sender, its signature and its descriptors.
    #[inline]
    #[must_use]
    pub fn like(header: &Header<'a>) -> Builder<'a> {
        Builder {
            flags: header.flags,
            path: header.path,
            interface: header.interface,
            member: header.member,
            error_name: header.error_name,
            reply_serial: header.reply_serial,
            destination: header.destination,
            ..Builder::new(header.kind)
        }
    }

    /// A method call.
    #[inline]
    #[must_use]
    pub fn call(path: &'a str, member: &'a str) -> Builder<'a> {
        Builder { path: Some(path), member: Some(member), ..Builder::new(Kind::MethodCall) }
    }

    /// A signal.
    #[inline]
    #[must_use]
    pub fn signal(path: &'a str, interface: &'a str, member: &'a str) -> Builder<'a> {
        Builder { path: Some(path), member: Some(member), ..Builder::new(Kind::Signal) }.interface(interface)
    }

    /// The answer to a call.
    #[inline]
    #[must_use]
    pub fn reply(reply_serial: u32) -> Builder<'a> {
        Builder { reply_serial: Some(reply_serial), ..Builder::new(Kind::MethodReturn) }
    }

    /// The answer to a call that failed.
    #[inline]
    #[must_use]
    pub fn error(reply_serial: u32, name: &'a str) -> Builder<'a> {
        Builder { reply_serial: Some(reply_serial), error_name: Some(name), ..Builder::new(Kind::Error) }
    }

    /// Its type.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Takes sender and destination from another message.
    pub(crate) fn addressed_like(self, other: &Builder<'a>) -> Builder<'a> {
        Builder { sender: other.sender, destination: other.destination, ..self }
    }

    /// Sets all flags.
    #[inline]
    #[must_use]
    pub fn flags(self, flags: u8) -> Builder<'a> {
        Builder { flags, ..self }
    }

    /// Sets the object.
    #[inline]
    #[must_use]
    pub fn path(self, path: &'a str) -> Builder<'a> {
        Builder { path: Some(path), ..self }
    }

    /// Sets the interface.
    #[inline]
    #[must_use]
    pub fn interface(self, interface: &'a str) -> Builder<'a> {
        Builder { interface: Some(interface), ..self }
    }

    /// Sets the method or signal.
    #[inline]
    #[must_use]
    pub fn member(self, member: &'a str) -> Builder<'a> {
        Builder { member: Some(member), ..self }
    }

    /// Sets the name of the error.
    #[inline]
    #[must_use]
    pub fn error_name(self, error_name: &'a str) -> Builder<'a> {
        Builder { error_name: Some(error_name), ..self }
    }

    /// Sets the serial of the call that this answers.
    #[inline]
    #[must_use]
    pub fn reply_serial(self, reply_serial: u32) -> Builder<'a> {
        Builder { reply_serial: Some(reply_serial), ..self }
    }

    /// Sets how many file descriptors travel with it.
    #[inline]
    #[must_use]
    pub fn unix_fds(self, unix_fds: u32) -> Builder<'a> {
        Builder { unix_fds, ..self }
    }

    /// Sets who gets it.
    #[inline]
    #[must_use]
    pub fn destination(self, destination: &'a str) -> Builder<'a> {
        Builder { destination: Some(destination), ..self }
    }

    /// Sets who sent it. On a bus, the bus does that.
    #[inline]
    #[must_use]
    pub fn sender(self, sender: &'a str) -> Builder<'a> {
        Builder { sender: Some(sender), ..self }
    }

    /// Sets the arguments. Their byte order becomes that of the message.
    #[inline]
    #[must_use]
    pub fn body(self, body: Body) -> Builder<'a> {
        Builder { body, ..self }
    }

    /// The bytes of the message.
    ///
    /// # Errors
    /// It is larger than the specification allows.
    ///
    /// # Panics
    /// The serial is zero or a name is not valid: names from elsewhere are checked with [`names`] first.
    pub fn build(&self, serial: u32) -> Result<Vec<u8>, TooLong> {
        self.check_names();
        let mut out = Vec::new();
        self.build_into(serial, &mut out)?;
        Ok(out)
    }

    /// Replaces what is in `out` by the bytes of the message; returns the layout of its header. Names are not checked, nor what fields
    /// must be there: the caller does that, with [`names`] and [`Header::check`].
    ///
    /// # Errors
    /// As [`Builder::build`].
    ///
    /// # Panics
    /// The serial is zero.
    pub fn build_into(&self, serial: u32, out: &mut Vec<u8>) -> Result<Layout, TooLong> {
        assert!(serial > 0, "a serial is never zero");
        let endian = self.body.endian;
        out.clear();
        out.reserve(self.bytes_at_most());
        let mut message = Body { bytes: std::mem::take(out), ..Body::in_order(endian) };
        let layout = self.push_header(serial, &mut message);
        let bytes = layout.header_bytes() + self.body.bytes.len();
        if bytes <= MAX_MESSAGE_BYTES {
            message.bytes.extend_from_slice(&self.body.bytes);
        }
        *out = message.bytes;
        if bytes > MAX_MESSAGE_BYTES {
            return Err(TooLong { bytes });
        }
        Ok(layout)
    }

    fn texts(&self) -> [(u8, u8, Option<&'a str>); 6] {
        [
            (1, b'o', self.path),
            (2, b's', self.interface),
            (3, b's', self.member),
            (4, b's', self.error_name),
            (6, b's', self.destination),
            (7, b's', self.sender),
        ]
    }

    /// Room for the message in any case: a field has at most 16 bytes beside its text.
    fn bytes_at_most(&self) -> usize {
        let texts = self.texts().into_iter().filter_map(|(.., text)| text).map(|text| text.len() + 16);
        16 + texts.sum::<usize>() + 32 + self.body.signature.len() + 16 + self.body.bytes.len()
    }

    fn push_header(&self, serial: u32, out: &mut Body) -> Layout {
        let endian = out.endian;
        out.bytes.extend([endian.mark(), self.kind.number(), self.flags, 1]);
        out.push_u32(u32::try_from(self.body.bytes.len()).unwrap_or(u32::MAX));
        out.push_u32(serial);
        out.push_u32(0);
        let mut layout = Layout::empty(endian, self.kind, self.unix_fds);
        for (index, (code, letter, text)) in self.texts().into_iter().enumerate() {
            if let Some(text) = text {
                out.push_field(code, letter);
                // Behind its length.
                layout.set_text(index, out.bytes.len() + 4, text.len());
                out.push_text(text);
            }
        }
        if let Some(reply_serial) = self.reply_serial {
            out.push_field(5, b'u');
            layout.set_reply_serial(out.bytes.len());
            out.push_u32(reply_serial);
        }
        if self.unix_fds > 0 {
            out.push_field(9, b'u');
            out.push_u32(self.unix_fds);
        }
        if !self.body.signature.is_empty() {
            out.push_field(8, b'g');
            layout.set_signature(out.bytes.len() + 1, self.body.signature.len());
            out.push_signature(&self.body.signature);
        }
        let fields = u32::try_from(out.bytes.len() - 16).unwrap_or(u32::MAX);
        out.bytes[12..16].copy_from_slice(&endian.bytes(fields));
        out.align(8);
        layout.set_header_bytes(out.bytes.len());
        layout
    }

    fn check_names(&self) {
        let is = |name: Option<&str>, is_valid: fn(&str) -> bool| name.is_none_or(is_valid);
        assert!(is(self.path, names::is_path), "{:?} is no object path", self.path);
        assert!(is(self.interface, names::is_interface), "{:?} is no interface", self.interface);
        assert!(is(self.member, names::is_member), "{:?} is no member", self.member);
        assert!(is(self.error_name, names::is_interface), "{:?} is no error name", self.error_name);
        assert!(is(self.destination, names::is_bus_name), "{:?} is no bus name", self.destination);
        assert!(is(self.sender, names::is_bus_name), "{:?} is no bus name", self.sender);
    }
}

/// Arguments, marshalled one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    endian: Endian,
    signature: String,
    bytes: Vec<u8>,
}

impl Default for Body {
    fn default() -> Body {
        Body::in_order(Endian::NATIVE)
    }
}

impl Body {
    /// No arguments yet, in this byte order.
    #[must_use]
    pub fn in_order(endian: Endian) -> Body {
        Body { endian, signature: String::new(), bytes: Vec::new() }
    }

    /// Bytes that were marshalled elsewhere, of this signature.
    ///
    /// # Panics
    /// The signature is not valid.
    #[must_use]
    pub fn marshalled(endian: Endian, signature: &str, bytes: &[u8]) -> Body {
        assert!(signature::check(signature).is_ok(), "{signature:?} is no signature");
        Body { endian, signature: signature.into(), bytes: bytes.into() }
    }

    /// Appends a string.
    #[must_use]
    pub fn text(mut self, text: &str) -> Body {
        self.signature.push('s');
        self.push_text(text);
        self
    }

    /// Appends an object path.
    ///
    /// # Panics
    /// It is none.
    #[must_use]
    pub fn object(mut self, path: &str) -> Body {
        assert!(names::is_path(path), "{path:?} is no object path");
        self.signature.push('o');
        self.push_text(path);
        self
    }

    /// Appends a number.
    #[must_use]
    pub fn u32(mut self, number: u32) -> Body {
        self.signature.push('u');
        self.push_u32(number);
        self
    }

    /// Appends a descriptor: its index among those that travel with the message.
    #[must_use]
    pub fn descriptor_index(mut self, index: u32) -> Body {
        self.signature.push('h');
        self.push_u32(index);
        self
    }

    /// Appends an array of strings.
    #[must_use]
    pub fn texts(mut self, texts: &[&str]) -> Body {
        self.signature.push_str("as");
        self.push_u32(0);
        let start = self.bytes.len();
        for text in texts {
            self.push_text(text);
        }
        let bytes = u32::try_from(self.bytes.len() - start).unwrap_or(u32::MAX);
        self.bytes[start - 4..start].copy_from_slice(&self.endian.bytes(bytes));
        self
    }

    /// Appends an array of bytes.
    #[must_use]
    pub fn blob(mut self, bytes: &[u8]) -> Body {
        self.signature.push_str("ay");
        self.bytes.reserve(bytes.len() + 8);
        self.push_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends a variant that holds a string.
    #[must_use]
    pub fn variant_text(mut self, text: &str) -> Body {
        self.signature.push('v');
        self.push_signature("s");
        self.push_text(text);
        self
    }

    fn align(&mut self, to: usize) {
        let padding = self.bytes.len().next_multiple_of(to) - self.bytes.len();
        self.bytes.extend_from_slice(&[0; 8][..padding]);
    }

    fn push_u32(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend_from_slice(&self.endian.bytes(number));
    }

    fn push_text(&mut self, text: &str) {
        self.bytes.reserve(text.len() + 8);
        self.push_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    fn push_signature(&mut self, signature: &str) {
        self.bytes.push(u8::try_from(signature.len()).unwrap_or(u8::MAX));
        self.bytes.extend_from_slice(signature.as_bytes());
        self.bytes.push(0);
    }

    fn push_field(&mut self, code: u8, letter: u8) {
        self.align(8);
        self.bytes.extend_from_slice(&[code, 1, letter, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_a_built_message_is_the_one_that_is_parsed_from_it() {
        let mut bytes = vec![7; 1000];
        for endian in [Endian::Little, Endian::Big] {
            let body = Body::in_order(endian).text("one").u32(2);
            for message in [
                Builder::call("/a/b", "M").interface("a.b").destination("c.d").sender(":1.7").flags(1),
                Builder::signal("/", "a.b", "M").body(body.clone()),
                Builder::reply(9).destination(":1.12").body(body.clone()).unix_fds(3),
                Builder::error(u32::MAX, "a.b").sender(":1.0"),
            ] {
                let layout = message.build_into(5, &mut bytes).unwrap();
                let header = Header::parse(&bytes).unwrap();
                assert_eq!(layout.header(&bytes), header);
                assert_eq!(layout, Layout::of(&header, &bytes));
                assert_eq!(message.build(5).unwrap(), bytes);
            }
        }
    }
}
