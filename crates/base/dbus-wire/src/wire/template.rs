//! Headers that were built before: the header of a message with the same fields is a copy, in which numbers are changed.

use super::layout::SIGNATURE;
use super::{Builder, Layout, MESSAGE_BYTES_MAX, TooLong};

/// Places for headers; a power of two.
const PLACES: usize = 64;

/// Builds messages, and remembers the headers that were built last. Their names are checked once.
///
/// ```
/// use causeway_dbus_wire::wire::{Body, Builder, Templates};
///
/// let (mut templates, mut bytes) = (Templates::default(), Vec::new());
/// let call = |text| Builder::call("/", "Get").destination("a.b").body(Body::default().text(text));
/// for (serial, text) in [(1, "x"), (2, "longer")] {
///     templates.build(&call(text), serial, &mut bytes).unwrap();
///     assert_eq!(bytes, call(text).build(serial)?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Templates {
    /// One in each place.
    headers: Vec<Option<Template>>,
    /// Where the header lies that was built last.
    last: usize,
}

/// Why a message cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unbuildable {
    /// A name is not valid, a field is missing, or has a value that is reserved: in a sentence.
    Invalid(String),
    /// It would be longer than the specification allows.
    TooLong(TooLong),
}

impl Templates {
    /// Replaces what is in `out` by the bytes of a message; returns the layout of its header.
    ///
    /// # Panics
    /// The serial is zero.
    pub fn build(
        &mut self,
        message: &Builder<'_>,
        serial: u32,
        out: &mut Vec<u8>,
    ) -> Result<&Layout, Unbuildable> {
        if !self.headers.get(self.last).is_some_and(|last| last.as_ref().is_some_and(|it| it.is_for(message)))
        {
            self.find(message)?;
        }
        match &self.headers[self.last] {
            Some(template) => {
                template.write(message, serial, out).map_err(Unbuildable::TooLong)?;
                Ok(&template.layout)
            }
            None => unreachable!("it was found or made"),
        }
    }

    /// The layout of the header that was built last.
    ///
    /// # Panics
    /// None was.
    #[inline]
    pub fn last(&self) -> &Layout {
        match self.headers.get(self.last) {
            Some(Some(template)) => &template.layout,
            _ => panic!("no message was built"),
        }
    }

    /// Makes the header of a message the last one, from those that are remembered or anew.
    fn find(&mut self, message: &Builder<'_>) -> Result<(), Unbuildable> {
        if self.headers.is_empty() {
            self.headers.resize_with(PLACES, || None);
        }
        let at = place_of(message);
        if !self.headers[at].as_ref().is_some_and(|known| known.is_for(message)) {
            self.headers[at] = Some(Template::new(message)?);
        }
        self.last = at;
        Ok(())
    }
}

/// Where the header of a message is remembered: the ends of its names tell most messages apart.
fn place_of(message: &Builder<'_>) -> usize {
    let end = |text: Option<&str>| {
        let bytes = text.unwrap_or_default().as_bytes();
        match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last),
            None => bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)),
        }
    };
    let mixed = end(message.member)
        ^ end(message.destination).rotate_left(21)
        ^ end(message.path).rotate_left(42)
        ^ u64::from(message.kind.number());
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % PLACES
}

/// A header that was built, and whose names were checked.
#[derive(Clone, Debug)]
struct Template {
    header: Box<[u8]>,
    layout: Layout,
}

impl Template {
    fn new(message: &Builder<'_>) -> Result<Template, Unbuildable> {
        if let Some((text, what)) = message.invalid_name() {
            return Err(Unbuildable::Invalid(format!("{text:?} is not {what}")));
        }
        let (layout, header) = message.header(1);
        let checked = layout.header(&header).check();
        checked.map_err(|fault| Unbuildable::Invalid(format!("invalid message: {fault}")))?;
        Ok(Template { header: header.into(), layout })
    }

    /// Does the header of a message differ from this one in numbers only?
    fn is_for(&self, message: &Builder<'_>) -> bool {
        let Layout { endian, kind, reply_serial_at, unix_fds, texts, .. } = self.layout;
        let is = |(at, bytes): (u32, u32), text: Option<&str>| match text {
            None => at == 0,
            Some(text) => {
                at != 0
                    && bytes as usize == text.len()
                    && self.header[at as usize..].starts_with(text.as_bytes())
            }
        };
        let body = &message.body;
        let signature = Some(&*body.signature).filter(|signature| !signature.is_empty());
        (endian, kind, unix_fds) == (body.endian, message.kind, message.unix_fds)
            && (reply_serial_at != 0) == message.reply_serial.is_some()
            && message.reply_serial != Some(0)
            && message.texts().into_iter().zip(texts).all(|(text, is_at)| is(is_at, text))
            && is(texts[SIGNATURE], signature)
            && (signature.is_some() || body.bytes.is_empty())
    }

    fn write(&self, message: &Builder<'_>, serial: u32, out: &mut Vec<u8>) -> Result<(), TooLong> {
        assert!(serial > 0, "a serial is never zero");
        let Layout { endian, reply_serial_at, .. } = self.layout;
        let body = &*message.body.bytes;
        let bytes = self.header.len() + body.len();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(TooLong { bytes });
        }
        out.clear();
        out.reserve(bytes);
        out.extend_from_slice(&self.header);
        out.extend_from_slice(body);
        out[2] = message.flags;
        out[4..8].copy_from_slice(&endian.bytes(body.len() as u32));
        out[8..12].copy_from_slice(&endian.bytes(serial));
        if let Some(reply_serial) = message.reply_serial {
            let at = reply_serial_at as usize;
            out[at..at + 4].copy_from_slice(&endian.bytes(reply_serial));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Body, Endian, Header, Kind};
    use super::*;

    /// Twice each, in turn, with other numbers: the second time from the header of the first.
    #[test]
    fn what_is_built_from_a_template_is_what_is_built_without() {
        let (mut templates, mut bytes) = (Templates::default(), vec![7; 1000]);
        for round in 1..4 {
            for endian in [Endian::Little, Endian::Big] {
                let body = |text: &str| Body::in_order(endian).text(&text.repeat(round as usize)).u32(round);
                for message in [
                    Builder::call("/a/b", "M").interface("a.b").destination("c.d").sender(":1.7").flags(1),
                    Builder::call("/a/b", "M").interface("a.b").destination("c.d").body(body("x")),
                    Builder::call("/a/b", "M").destination("c.d").flags(round as u8),
                    Builder::call("/a/b", "M").destination(":1.3").body(body("y")),
                    Builder::call("/a/b", "M").destination("c.d").body(Body::in_order(endian).text("y")),
                    Builder::signal("/", "a.b", "M").body(body("z")),
                    Builder::reply(8 + round).destination(":1.12").body(body("")).unix_fds(3),
                    Builder::reply(8 + round).destination(":1.12").body(body("")).unix_fds(round),
                    Builder::error(u32::MAX - round, "a.b").sender(":1.0"),
                ] {
                    let layout = *templates.build(&message, round, &mut bytes).unwrap();
                    assert_eq!(bytes, message.build(round).unwrap());
                    let header = Header::parse(&bytes).unwrap();
                    assert_eq!((layout.header(&bytes), layout), (header, Layout::of(&header, &bytes)));
                }
            }
        }
    }

    #[test]
    fn a_header_is_built_once_for_all_numbers_and_arguments() {
        let (mut templates, mut bytes) = (Templates::default(), Vec::new());
        let call = |text| Builder::call("/a", "M").destination("a.b").body(Body::default().text(text));
        let mut place = |message: &Builder<'_>| {
            templates.build(message, 1, &mut bytes).unwrap();
            let template = templates.headers[templates.last].as_ref().unwrap();
            assert_eq!(templates.last(), &template.layout);
            (template.header.as_ptr(), bytes[2])
        };
        let (first, _) = place(&call("x"));
        assert_ne!(place(&Builder::reply(7)).0, first);
        assert_eq!(place(&call("longer").flags(3)), (first, 3));
        assert_ne!(place(&call("x").sender(":1.1")).0, first);
    }

    #[test]
    fn the_largest_message_from_a_template_has_128_mib() {
        let (mut templates, mut bytes) = (Templates::default(), Vec::new());
        let mut built = |blob: usize| {
            let message = Builder::reply(1).body(Body::default().blob(&vec![0; blob]));
            templates.build(&message, 1, &mut bytes).map(drop).map(|()| bytes.len())
        };
        let other = built(0).unwrap();
        assert_eq!(built(MESSAGE_BYTES_MAX - other), Ok(MESSAGE_BYTES_MAX));
        let error = Unbuildable::TooLong(TooLong { bytes: MESSAGE_BYTES_MAX + 1 });
        assert_eq!(built(MESSAGE_BYTES_MAX - other + 1), Err(error));
    }

    /// Also after a message that differs in this only, so that there is a template.
    #[test]
    fn what_is_no_message_is_not_built() {
        let good = Builder::call("/a", "M").interface("a.b").destination("c.d").sender(":1.7");
        let untyped = || Body::marshalled(Endian::NATIVE, "", b"x");
        for (bad, why) in [
            (good.clone().path("a"), "\"a\" is not an object path"),
            (good.clone().interface("a"), "\"a\" is not an interface"),
            (good.clone().member("a.b"), "\"a.b\" is not a member"),
            (good.clone().destination("c"), "\"c\" is not a bus name"),
            (good.clone().sender(""), "\"\" is not a bus name"),
            (good.clone().error_name("a"), "\"a\" is not an error name"),
            (good.clone().body(untyped()), "invalid message: there is a body but no signature"),
            (good.clone().reply_serial(0), "invalid message: the reply serial is zero"),
            (Builder::new(Kind::Signal).path("/"), "invalid message: a header field that"),
            (good.clone().path("/org/freedesktop/DBus/Local"), "invalid message: the path or interface is"),
        ] {
            let (mut templates, mut bytes) = (Templates::default(), Vec::new());
            for _ in 0..2 {
                let error = templates.build(&bad, 1, &mut bytes).unwrap_err();
                assert!(matches!(&error, Unbuildable::Invalid(text) if text.starts_with(why)), "{error:?}");
                templates.build(&good, 1, &mut bytes).unwrap();
                templates.build(&good.clone().reply_serial(5), 1, &mut bytes).unwrap();
            }
        }
    }
}
