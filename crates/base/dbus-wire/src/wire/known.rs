//! Headers that a sender has used before, with what a bus makes of them: a message that has one again is not parsed a second time.

use super::layout::{Layout, Numbers};
use super::stamp::stamped_header;
use super::{Header, MESSAGE_BYTES_MAX};

/// Headers of one sender that are remembered: of a call, of a reply, and of signals in turn.
const HEADERS_MAX: usize = 4;
/// A longer header is parsed each time.
const BYTES_MAX: usize = 512;

/// The headers that one sender has used last.
#[derive(Debug, Default)]
pub struct KnownHeaders {
    known: Vec<KnownHeader>,
    /// Which one is given up for the next.
    oldest: usize,
}

/// A valid header, whatever its numbers are.
#[derive(Debug)]
pub struct KnownHeader {
    received: Box<[u8]>,
    layout: Layout,
    texts: Box<Texts>,
    stamped: Box<[u8]>,
    /// Where the serial of the answered call stands in `stamped`, 0 without one.
    reply_serial_at: usize,
}

#[derive(Debug)]
struct Texts {
    path: Option<Box<str>>,
    interface: Option<Box<str>>,
    member: Option<Box<str>>,
    error_name: Option<Box<str>>,
    destination: Option<Box<str>>,
    /// The true one.
    sender: Box<str>,
    signature: Box<str>,
}

impl KnownHeaders {
    /// The header of the message that starts here, for [`KnownHeaders::get`], if it is known. The header is there to its end then.
    #[inline]
    pub fn find(&self, message: &[u8]) -> Option<usize> {
        self.known.iter().position(|known| known.layout.is_of(&known.received, message))
    }

    /// One that was found.
    ///
    /// # Panics
    /// There is none with this index.
    pub fn get(&self, index: usize) -> &KnownHeader {
        &self.known[index]
    }

    /// Remembers a header that was parsed from `message`, with its true sender, and returns its index; nothing if it is too long for that.
    pub fn learn(&mut self, header: &Header<'_>, message: &[u8], sender: &str) -> Option<usize> {
        if header.header_bytes > BYTES_MAX {
            return None;
        }
        let stamped = stamped_header(message, header, sender)?;
        let reply_serial_at = Layout::reply_serial_in(&Header::parse(&stamped).ok()?, &stamped);
        let own = |text: Option<&str>| text.map(Box::from);
        let known = KnownHeader {
            received: message[..header.header_bytes].into(),
            layout: Layout::of(header, message),
            texts: Box::new(Texts {
                path: own(header.path),
                interface: own(header.interface),
                member: own(header.member),
                error_name: own(header.error_name),
                destination: own(header.destination),
                sender: sender.into(),
                signature: header.signature.into(),
            }),
            stamped: stamped.into(),
            reply_serial_at,
        };
        if self.known.len() < HEADERS_MAX {
            self.known.push(known);
            return Some(self.known.len() - 1);
        }
        let index = self.oldest;
        self.oldest = (index + 1) % HEADERS_MAX;
        self.known[index] = known;
        Some(index)
    }
}

impl KnownHeader {
    /// The header of a message for which it was found, with the true sender in place of what the message says.
    #[inline]
    pub fn header(&self, message: &[u8]) -> Header<'_> {
        let Numbers { kind, flags, serial, body_bytes, reply_serial, unix_fds } =
            self.layout.numbers(message);
        let texts = &*self.texts;
        Header {
            endian: self.layout.endian,
            kind,
            flags,
            serial,
            header_bytes: self.layout.header_bytes(),
            body_bytes,
            path: texts.path.as_deref(),
            interface: texts.interface.as_deref(),
            member: texts.member.as_deref(),
            error_name: texts.error_name.as_deref(),
            reply_serial,
            destination: texts.destination.as_deref(),
            sender: Some(&texts.sender),
            signature: &texts.signature,
            unix_fds,
        }
    }

    /// As [`stamped`](super::stamped), of a message for which this header was found.
    #[inline]
    pub fn stamp(&self, message: &[u8]) -> Option<Vec<u8>> {
        let Numbers { body_bytes, .. } = self.layout.numbers(message);
        let start = self.layout.header_bytes();
        let body = message.get(start..start + body_bytes)?;
        if self.stamped.len() + body_bytes > MESSAGE_BYTES_MAX {
            return None;
        }
        let mut out = Vec::with_capacity(self.stamped.len() + body_bytes);
        out.extend_from_slice(&self.stamped);
        out.extend_from_slice(body);
        // The flags are alike; sizes and serials are this message's own.
        out[4..12].copy_from_slice(&message[4..12]);
        let (from, to) = (self.layout.reply_serial_at as usize, self.reply_serial_at);
        if from > 0 {
            out[to..to + 4].copy_from_slice(&message[from..from + 4]);
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::tests::alike;
    use super::super::{Body, Builder, stamped};
    use super::*;

    const SENDER: &str = ":1.7";

    /// What is known says the same as a parse, and the stamp is the same to the byte.
    #[test]
    fn a_known_header_is_what_a_parse_says_and_its_stamp_is_that_of_any_message() {
        for [first, second] in alike() {
            let mut known = KnownHeaders::default();
            assert_eq!(known.find(&first), None);
            let header = Header::parse(&first).unwrap();
            assert_eq!(known.learn(&header, &first, SENDER), Some(0));
            for message in [&first, &second] {
                let found = known.get(known.find(message).unwrap());
                let parsed = Header::parse(message).unwrap();
                assert_eq!(found.header(message), Header { sender: Some(SENDER), ..parsed });
                assert_eq!(found.stamp(message), stamped(message, &parsed, SENDER));
            }
        }
    }

    #[test]
    fn the_last_few_headers_are_known_and_long_ones_are_not() {
        let mut known = KnownHeaders::default();
        let messages: Vec<Vec<u8>> = (0..2 * HEADERS_MAX)
            .map(|number| Builder::signal(&format!("/p{number}"), "a.B", "C").build(1).unwrap())
            .collect();
        for message in &messages {
            assert!(known.learn(&Header::parse(message).unwrap(), message, SENDER).is_some());
        }
        let found: Vec<bool> = messages.iter().map(|message| known.find(message).is_some()).collect();
        assert_eq!(found, [[false; HEADERS_MAX], [true; HEADERS_MAX]].concat());
        let long = Builder::signal(&format!("/{}", "p".repeat(BYTES_MAX)), "a.B", "C").build(1).unwrap();
        assert_eq!(known.learn(&Header::parse(&long).unwrap(), &long, SENDER), None);
    }

    #[test]
    fn headers_of_at_most_512_bytes_are_known() {
        let learned = |bytes: usize| {
            let built = |path: usize| {
                Builder::signal(&format!("/{}", "p".repeat(path)), "a.B", "C").build(1).unwrap()
            };
            let message = built(bytes - built(1).len());
            let header = Header::parse(&message).unwrap();
            (header.header_bytes, KnownHeaders::default().learn(&header, &message, SENDER))
        };
        assert_eq!((learned(BYTES_MAX), learned(BYTES_MAX + 8)), ((512, Some(0)), (520, None)));
    }

    #[test]
    fn the_largest_message_that_is_stamped_has_128_mib() {
        let message =
            |blob: usize| Builder::reply(1).body(Body::default().blob(&vec![0; blob])).build(1).unwrap();
        let (mut known, small) = (KnownHeaders::default(), message(0));
        known.learn(&Header::parse(&small).unwrap(), &small, SENDER).unwrap();
        let stamp = |message: &[u8]| {
            let of_known = known.get(known.find(message).unwrap()).stamp(message);
            [of_known, stamped(message, &Header::parse(message).unwrap(), SENDER)]
                .map(|it| it.map(|it| it.len()))
        };
        let other = stamp(&small)[0].unwrap();
        assert_eq!(stamp(&message(MESSAGE_BYTES_MAX - other)), [Some(MESSAGE_BYTES_MAX); 2]);
        assert_eq!(stamp(&message(MESSAGE_BYTES_MAX - other + 1)), [None; 2]);
    }

    /// One byte of the header is another one: it is not taken for the known header, or it is valid and says the same.
    #[test]
    fn a_header_that_differs_is_parsed() {
        let message = Builder::reply(9).destination(":1.3").body(Body::default().u32(7)).build(5).unwrap();
        let mut known = KnownHeaders::default();
        known.learn(&Header::parse(&message).unwrap(), &message, SENDER).unwrap();
        for at in 0..message.len() - 4 {
            for byte in [0, 1, 7, 0x80, 0xff] {
                let mut other = message.clone();
                other[at] = byte;
                if let Some(index) = known.find(&other) {
                    let parsed = Header::parse(&other).unwrap();
                    let header = known.get(index).header(&other);
                    assert_eq!(header, Header { sender: Some(SENDER), ..parsed }, "{byte} at {at}");
                }
            }
        }
    }
}
