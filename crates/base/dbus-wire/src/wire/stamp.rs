//! The sender of a message, filled in by the bus that it passes.

use super::layout::fields;
use super::{ARRAY_BYTES_MAX, Header, MESSAGE_BYTES_MAX, names};

const SENDER: u8 = 7;
/// The last field that this version of the specification knows.
const LAST_KNOWN: u8 = 9;

/// The bytes of a message with this sender, whatever sender it named before, and without header fields that the specification
/// does not know: their meaning may be one that only a bus may assert. Nothing else is changed.
///
/// `None` if the message would be larger than 128 MiB then, or its header fields larger than 64 MiB.
///
/// Source: D-Bus Specification, section "Header Fields": a bus controls the sender, and removes fields that it does not know.
///
/// # Panics
/// `header` is not that of `message`, the message is cut, or the sender is not a bus name.
pub fn stamped(message: &[u8], header: &Header<'_>, sender: &str) -> Option<Vec<u8>> {
    let message = &message[..header.message_bytes()];
    let mut out = Vec::with_capacity(message.len() + sender.len() + 24);
    stamp_header(&mut out, message, header, sender)?;
    out.extend_from_slice(&message[header.header_bytes..]);
    Some(out)
}

/// As [`stamped`], of a message of which the header is there: what the message begins with, up to its body.
pub fn stamped_header(start: &[u8], header: &Header<'_>, sender: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(header.header_bytes + sender.len() + 24);
    stamp_header(&mut out, start, header, sender)?;
    Some(out)
}

fn stamp_header(out: &mut Vec<u8>, message: &[u8], header: &Header<'_>, sender: &str) -> Option<()> {
    assert!(names::is_bus_name(sender), "{sender:?} is not a bus name");
    out.extend_from_slice(&message[..16]);
    for (_, at) in fields(header, message).filter(|(code, _)| *code != SENDER && *code <= LAST_KNOWN) {
        pad(out);
        // Every field starts on a boundary of eight, so that padding inside it stays right.
        out.extend_from_slice(&message[at]);
    }
    pad(out);
    out.extend([SENDER, 1, b's', 0]);
    out.extend(header.endian.bytes(u32::try_from(sender.len()).expect("a name is short")));
    out.extend(sender.as_bytes());
    out.push(0);
    let fields_bytes =
        u32::try_from(out.len() - 16).ok().filter(|bytes| *bytes as usize <= ARRAY_BYTES_MAX)?;
    out[12..16].copy_from_slice(&header.endian.bytes(fields_bytes));
    pad(out);
    (out.len() + header.body_bytes <= MESSAGE_BYTES_MAX).then_some(())
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

#[cfg(test)]
mod tests {
    use super::super::{Body, Builder, Endian};
    use super::*;

    #[test]
    fn a_stamp_replaces_the_sender_and_keeps_the_rest_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            for claimed in [None, Some(":1.99"), Some("org.example.SomebodyElse")] {
                let body = Body::in_order(endian).text("hello").u32(7);
                let call = Builder::call("/a/b", "Member").interface("a.B").destination(":1.3").body(body);
                let before = claimed.map_or(call.clone(), |name| call.sender(name)).build(5).unwrap();
                let header = Header::parse(&before).unwrap();
                let after = stamped(&before, &header, ":1.4").unwrap();
                let stamped = Header::parse(&after).unwrap();
                assert_eq!(stamped.sender, Some(":1.4"));
                let rest = Header { sender: header.sender, header_bytes: header.header_bytes, ..stamped };
                assert_eq!(rest, header);
                assert_eq!(after[stamped.header_bytes..], before[header.header_bytes..]);
            }
        }
    }

    #[test]
    fn header_fields_that_have_no_room_for_a_sender_are_not_stamped() {
        // What a path adds to the header, and the largest one that leaves room for the sender or does not.
        let with_path = |bytes: usize| {
            let path = format!("/{}", "a".repeat(bytes - 1));
            Builder::signal(&path, "a.B", "C").build(1).unwrap()
        };
        let other = Header::parse(&with_path(8)).unwrap().header_bytes - 16 - 8;
        let largest = with_path((ARRAY_BYTES_MAX - other) / 8 * 8 - 8);
        for (message, fits) in [(largest, false), (with_path(ARRAY_BYTES_MAX - other - 64), true)] {
            let header = Header::parse(&message).unwrap();
            let after = stamped(&message, &header, ":1.4");
            assert_eq!(after.is_some(), fits, "{} bytes", header.header_bytes);
            assert!(after.is_none_or(|after| Header::parse(&after).is_ok()));
        }
    }

    #[test]
    fn fields_of_the_future_are_removed() {
        let mut bytes = Builder::signal("/", "a.B", "C").build(1).unwrap();
        let fields = u32::from_ne_bytes(bytes[12..16].try_into().unwrap());
        bytes.extend([77, 1, b's', 0]);
        bytes.extend(3_u32.to_ne_bytes());
        bytes.extend(b"new\0");
        let padded = fields.next_multiple_of(8);
        bytes[12..16].copy_from_slice(&(padded + 12).to_ne_bytes());
        pad(&mut bytes);
        let header = Header::parse(&bytes).unwrap();
        let after = stamped(&bytes, &header, ":1.4").unwrap();
        assert!(!after.windows(3).any(|three| three == b"new"));
        assert_eq!(Header::parse(&after).unwrap().member, Some("C"));
    }
}
