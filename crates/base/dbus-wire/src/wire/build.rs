//! Writes messages: those that a small client sends, and those that tests and generators make.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use crate::driver::{DRIVER, DRIVER_PATH};

use super::layout::SIGNATURE;
use super::{Endian, Header, Kind, Layout, MESSAGE_BYTES_MAX, names, signature};

/// A message in the making. Names are checked when it is built.
///
/// ```
/// use causeway_dbus_wire::wire::{Body, Builder, Header};
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
#[must_use]
pub struct Builder<'a> {
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) path: Option<&'a str>,
    interface: Option<&'a str>,
    pub(super) member: Option<&'a str>,
    error_name: Option<&'a str>,
    pub(super) reply_serial: Option<u32>,
    pub(super) destination: Option<&'a str>,
    sender: Option<&'a str>,
    pub(super) unix_fds: u32,
    pub(super) body: Body,
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

thread_local! {
    /// The memory of the arguments that this thread has recycled last.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// More bytes than the arguments of a usual message have are given back to the allocator.
const SPARE_BYTES: usize = 4096;

/// Memory for the next arguments, if this thread has recycled any.
#[inline]
pub(super) fn spare_bytes() -> Vec<u8> {
    SPARE.try_with(Cell::take).unwrap_or_default()
}

impl<'a> Builder<'a> {
    /// Ends a message that was built: its arguments leave their memory to the next ones of this thread.
    #[inline]
    pub fn recycle(self) {
        let mut bytes = self.body.bytes;
        if (1..=SPARE_BYTES).contains(&bytes.capacity()) {
            bytes.clear();
            // At the end of a thread there is no place for it any more.
            let _ = SPARE.try_with(|spare| spare.set(bytes));
        }
    }

    /// A message of any type, with nothing in it.
    #[inline]
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
    pub fn call(path: &'a str, member: &'a str) -> Builder<'a> {
        Builder { path: Some(path), member: Some(member), ..Builder::new(Kind::MethodCall) }
    }

    /// A method call of the bus itself.
    pub fn of_driver(member: &'a str) -> Builder<'a> {
        Builder::call(DRIVER_PATH, member).interface(DRIVER).destination(DRIVER)
    }

    /// A signal.
    #[inline]
    pub fn signal(path: &'a str, interface: &'a str, member: &'a str) -> Builder<'a> {
        Builder { path: Some(path), member: Some(member), ..Builder::new(Kind::Signal) }.interface(interface)
    }

    /// The answer to a call.
    #[inline]
    pub fn reply(reply_serial: u32) -> Builder<'a> {
        Builder { reply_serial: Some(reply_serial), ..Builder::new(Kind::MethodReturn) }
    }

    /// The answer to a call that failed.
    #[inline]
    pub fn error(reply_serial: u32, name: &'a str) -> Builder<'a> {
        Builder { reply_serial: Some(reply_serial), error_name: Some(name), ..Builder::new(Kind::Error) }
    }

    /// Its type.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Takes sender and destination from another message.
    pub fn addressed_like(self, other: &Builder<'a>) -> Builder<'a> {
        Builder { sender: other.sender, destination: other.destination, ..self }
    }

    /// Sets all flags.
    #[inline]
    pub fn flags(self, flags: u8) -> Builder<'a> {
        Builder { flags, ..self }
    }

    /// Sets the object.
    #[inline]
    pub fn path(self, path: &'a str) -> Builder<'a> {
        Builder { path: Some(path), ..self }
    }

    /// Sets the interface.
    #[inline]
    pub fn interface(self, interface: &'a str) -> Builder<'a> {
        Builder { interface: Some(interface), ..self }
    }

    /// Sets the method or signal.
    #[inline]
    pub fn member(self, member: &'a str) -> Builder<'a> {
        Builder { member: Some(member), ..self }
    }

    /// Sets the name of the error.
    #[inline]
    pub fn error_name(self, error_name: &'a str) -> Builder<'a> {
        Builder { error_name: Some(error_name), ..self }
    }

    /// Sets the serial of the call that this answers.
    #[inline]
    pub fn reply_serial(self, reply_serial: u32) -> Builder<'a> {
        Builder { reply_serial: Some(reply_serial), ..self }
    }

    /// Sets how many file descriptors travel with it.
    #[inline]
    pub fn unix_fds(self, unix_fds: u32) -> Builder<'a> {
        Builder { unix_fds, ..self }
    }

    /// Sets who gets it.
    #[inline]
    pub fn destination(self, destination: &'a str) -> Builder<'a> {
        Builder { destination: Some(destination), ..self }
    }

    /// Sets who sent it. On a bus, the bus does that.
    #[inline]
    pub fn sender(self, sender: &'a str) -> Builder<'a> {
        Builder { sender: Some(sender), ..self }
    }

    /// Sets the arguments. Their byte order becomes that of the message.
    #[inline]
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
        if let Some((text, what)) = self.invalid_name() {
            panic!("{text:?} is not {what}");
        }
        let (_, mut out) = self.header(serial);
        let bytes = out.len() + self.body.bytes.len();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(TooLong { bytes });
        }
        out.extend_from_slice(&self.body.bytes);
        Ok(out)
    }

    /// The header, in a buffer in which the message fits, and its layout. Neither names nor what must be there is
    /// checked.
    pub(super) fn header(&self, serial: u32) -> (Layout, Vec<u8>) {
        assert!(serial > 0, "a serial is never zero");
        let bytes = Vec::with_capacity(self.bytes_at_most());
        let mut message = Body { bytes, ..Body::in_order(self.body.endian) };
        let layout = self.push_header(serial, &mut message);
        (layout, message.bytes)
    }

    /// The fields that are texts, in the order in which they are written.
    #[inline]
    pub(super) fn texts(&self) -> [Option<&'a str>; 6] {
        [self.path, self.interface, self.member, self.error_name, self.destination, self.sender]
    }

    /// Room for the message in any case: a field has at most 16 bytes in addition to its text.
    fn bytes_at_most(&self) -> usize {
        let texts = self.texts().into_iter().flatten().map(|text| text.len() + 16);
        16 + texts.sum::<usize>() + 32 + self.body.signature.len() + 16 + self.body.bytes.len()
    }

    fn push_header(&self, serial: u32, out: &mut Body) -> Layout {
        let endian = out.endian;
        out.bytes.extend([endian.mark(), self.kind.number(), self.flags, 1]);
        out.push_u32(u32::try_from(self.body.bytes.len()).unwrap_or(u32::MAX));
        out.push_u32(serial);
        out.push_u32(0);
        let mut layout = Layout::empty(endian, self.kind, self.unix_fds);
        for (index, text) in self.texts().into_iter().enumerate() {
            if let Some(text) = text {
                let (code, letter) = CODES_AND_TYPES[index];
                out.push_field(code, letter);
                // Behind its length.
                layout.set_text(index, out.bytes.len() + 4, text.len());
                out.push_text(text);
            }
        }
        if let Some(reply_serial) = self.reply_serial {
            out.push_field(5, b'u');
            layout.reply_serial_at = out.bytes.len() as u32;
            out.push_u32(reply_serial);
        }
        if self.unix_fds > 0 {
            out.push_field(9, b'u');
            out.push_u32(self.unix_fds);
        }
        if !self.body.signature.is_empty() {
            out.push_field(8, b'g');
            layout.set_text(SIGNATURE, out.bytes.len() + 1, self.body.signature.len());
            out.push_signature(&self.body.signature);
        }
        let fields = u32::try_from(out.bytes.len() - 16).unwrap_or(u32::MAX);
        out.bytes[12..16].copy_from_slice(&endian.bytes(fields));
        out.align(8);
        layout.header_bytes = out.bytes.len() as u32;
        layout
    }

    /// The first text that is not the name that it should be, and what it should be.
    pub(super) fn invalid_name(&self) -> Option<(&'a str, &'static str)> {
        let invalid = |text: Option<&'a str>, is_valid: fn(&str) -> bool, what| {
            text.filter(|text| !is_valid(text)).map(|text| (text, what))
        };
        invalid(self.path, names::is_path, "an object path")
            .or_else(|| invalid(self.interface, names::is_interface, "an interface"))
            .or_else(|| invalid(self.member, names::is_member, "a member"))
            .or_else(|| invalid(self.error_name, names::is_interface, "an error name"))
            .or_else(|| invalid(self.destination, names::is_bus_name, "a bus name"))
            .or_else(|| invalid(self.sender, names::is_bus_name, "a bus name"))
    }
}

/// Of the fields of [`Builder::texts`].
const CODES_AND_TYPES: [(u8, u8); 6] = [(1, b'o'), (2, b's'), (3, b's'), (4, b's'), (6, b's'), (7, b's')];

/// Arguments, marshalled one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Body {
    pub(super) endian: Endian,
    /// Most bodies have one argument, whose type needs no memory of its own.
    pub(super) signature: Cow<'static, str>,
    pub(super) bytes: Vec<u8>,
}

impl Default for Body {
    #[inline]
    fn default() -> Body {
        Body::in_order(Endian::NATIVE)
    }
}

impl Body {
    /// No arguments yet, in this byte order.
    #[inline]
    pub fn in_order(endian: Endian) -> Body {
        Body { endian, signature: Cow::Borrowed(""), bytes: Vec::new() }
    }

    /// Bytes that were marshalled elsewhere, of this signature.
    ///
    /// # Panics
    /// The signature is not valid.
    pub fn marshalled(endian: Endian, signature: &str, bytes: &[u8]) -> Body {
        assert!(signature::check(signature).is_ok(), "{signature:?} is not a signature");
        Body { endian, signature: signature.to_owned().into(), bytes: bytes.into() }
    }

    /// The arguments as they are written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a string. One with a zero byte makes a message that every receiver refuses; for text that may have one
    /// use [`Body::of`], which returns an error then.
    #[inline]
    pub fn text(mut self, text: &str) -> Body {
        self.add_type("s");
        self.push_text(text);
        self
    }

    /// Appends an object path.
    ///
    /// # Panics
    /// It is none.
    pub fn object(mut self, path: &str) -> Body {
        assert!(names::is_path(path), "{path:?} is not an object path");
        self.add_type("o");
        self.push_text(path);
        self
    }

    /// Appends a number.
    #[inline]
    pub fn u32(mut self, number: u32) -> Body {
        self.add_type("u");
        self.push_u32(number);
        self
    }

    /// Appends a descriptor: its index among those that travel with the message.
    pub fn descriptor_index(mut self, index: u32) -> Body {
        self.add_type("h");
        self.push_u32(index);
        self
    }

    /// Appends an array of strings.
    pub fn texts(mut self, texts: &[&str]) -> Body {
        self.add_type("as");
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
    #[inline]
    pub fn blob(mut self, bytes: &[u8]) -> Body {
        self.add_type("ay");
        self.make_room(bytes.len() + 8);
        self.push_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends a variant that holds a string.
    pub fn variant_text(mut self, text: &str) -> Body {
        self.add_type("v");
        self.push_signature("s");
        self.push_text(text);
        self
    }

    #[inline]
    fn add_type(&mut self, types: &'static str) {
        match &mut self.signature {
            signature if signature.is_empty() => *signature = Cow::Borrowed(types),
            signature => signature.to_mut().push_str(types),
        }
    }

    /// Makes room for so many bytes more. Where there is none yet, it is that of the last body that was recycled, or
    /// new: nothing has to grow.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if self.bytes.capacity() == 0 {
            self.bytes = spare_bytes();
        }
        match self.bytes.capacity() {
            0 => self.bytes = Vec::with_capacity(bytes),
            _ => self.bytes.reserve(bytes),
        }
    }

    #[inline]
    fn align(&mut self, to: usize) {
        let padding = self.bytes.len().next_multiple_of(to) - self.bytes.len();
        self.bytes.extend_from_slice(&[0; 8][..padding]);
    }

    #[inline]
    fn push_u32(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend_from_slice(&self.endian.bytes(number));
    }

    fn push_text(&mut self, text: &str) {
        self.make_room(text.len() + 8);
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
    use super::super::values;
    use super::*;

    fn full<'a>() -> Builder<'a> {
        let message = Builder::new(Kind::Error).path("/a").interface("a.B").member("M").error_name("a.E");
        message.reply_serial(9).destination(":1.2").sender(":1.1").flags(3).unix_fds(2)
    }

    #[test]
    fn every_part_that_is_set_is_in_the_message() {
        for endian in [Endian::Little, Endian::Big] {
            let bytes = full().body(Body::in_order(endian).text("x")).build(7).unwrap();
            let expected = Header {
                endian,
                kind: Kind::Error,
                flags: 3,
                serial: 7,
                header_bytes: bytes.len() - 6,
                body_bytes: 6,
                path: Some("/a"),
                interface: Some("a.B"),
                member: Some("M"),
                error_name: Some("a.E"),
                reply_serial: Some(9),
                destination: Some(":1.2"),
                sender: Some(":1.1"),
                signature: "s",
                unix_fds: 2,
            };
            assert_eq!(Header::parse(&bytes), Ok(expected));
        }
    }

    #[test]
    fn a_message_like_another_leaves_sender_arguments_and_descriptors_out() {
        let bytes = full().body(Body::default().text("x")).build(7).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let like = Builder::like(&header).build(7).unwrap();
        let (header_bytes, body_bytes) = (like.len(), 0);
        let expected =
            Header { sender: None, signature: "", unix_fds: 0, header_bytes, body_bytes, ..header };
        assert_eq!(Header::parse(&like), Ok(expected));
        let addressed = Builder::call("/", "N").addressed_like(&full());
        assert_eq!(
            (addressed.sender, addressed.destination, addressed.member),
            (full().sender, full().destination, Some("N"))
        );
        let of_driver = Builder::of_driver("Hello").build(1).unwrap();
        let header = Header::parse(&of_driver).unwrap();
        assert_eq!(
            (header.title().as_str(), header.path),
            ("method_call org.freedesktop.DBus.Hello", Some(DRIVER_PATH))
        );
        assert_eq!(header.destination, Some(DRIVER));
    }

    #[test]
    fn arguments_stand_one_behind_the_other_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let body = Body::in_order(endian).blob(&[1, 2, 3]).text("x").object("/p").u32(7);
            let body = body.variant_text("v").descriptor_index(1).texts(&[]).texts(&["a", "bc"]);
            let bytes = Builder::call("/", "M").body(body.clone()).build(1).unwrap();
            let header = Header::parse(&bytes).unwrap();
            assert_eq!((header.signature, header.endian), ("aysouvhasas", endian));
            assert_eq!(body.bytes(), &bytes[header.header_bytes..]);
            let shown: Vec<String> =
                values(&header, body.bytes()).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(shown.join(" "), r#"3 1 2 3 "x" "/p" 7 s "v" 1 0 2 "a" "bc""#);
            assert_eq!(Body::marshalled(endian, "aysouvhasas", body.bytes()), body);
        }
    }

    #[test]
    fn the_room_of_a_message_is_enough_and_not_much_more() {
        for message in [full().body(Body::default().blob(&[7; 1000]).u32(7)), Builder::reply(1)] {
            let bytes = message.build(1).unwrap().len();
            let room = message.bytes_at_most();
            assert!((bytes..bytes + 200).contains(&room), "{room} for {bytes}");
        }
    }

    #[test]
    fn the_largest_message_has_128_mib() {
        let with_blob = |bytes: usize| Builder::reply(1).body(Body::default().blob(&vec![0; bytes])).build(1);
        let other = with_blob(0).unwrap().len();
        assert_eq!(with_blob(MESSAGE_BYTES_MAX - other).unwrap().len(), MESSAGE_BYTES_MAX);
        let error = with_blob(MESSAGE_BYTES_MAX - other + 1).unwrap_err();
        assert_eq!(error, TooLong { bytes: MESSAGE_BYTES_MAX + 1 });
        assert_eq!(error.to_string(), "a message of 134217729 bytes is larger than 128 MiB");
    }

    #[test]
    fn names_that_are_not_valid_are_named_in_their_order() {
        assert_eq!(full().invalid_name(), None);
        for (message, expected) in [
            (full().path("a"), ("a", "an object path")),
            (full().interface("a"), ("a", "an interface")),
            (full().member("a.b"), ("a.b", "a member")),
            (full().error_name("a"), ("a", "an error name")),
            (full().destination("a"), ("a", "a bus name")),
            (full().sender("b"), ("b", "a bus name")),
        ] {
            assert_eq!(message.invalid_name(), Some(expected));
        }
    }

    #[test]
    #[should_panic(expected = "\"a.b\" is not a member")]
    fn a_name_that_is_not_valid_is_a_bug() {
        let _ = Builder::call("/", "a.b").build(1);
    }

    #[test]
    fn the_memory_of_arguments_serves_the_next_ones_unless_they_are_long() {
        let blob = |bytes: usize| Body::default().blob(&vec![7; bytes]);
        let recycle = |body| Builder::call("/", "M").body(body).recycle();
        recycle(blob(100));
        let next = blob(3);
        assert!(next.bytes.capacity() >= 100, "{} bytes", next.bytes.capacity());
        assert_eq!(next.bytes[4..], [7, 7, 7]);
        assert!(blob(3).bytes.capacity() < 100, "one body has it");
        recycle(blob(2 * SPARE_BYTES));
        assert_eq!(spare_bytes().capacity(), 0);
    }
}
