//! A body of a given signature and a given size, for messages whose own body the capture has not whole.

use causeway_dbus_wire::wire::{Endian, signature};

/// A valid body of exactly `bytes` bytes; nothing where this signature has none of that size.
///
/// Numbers are zero, arrays and strings empty, but for one of the first that is long enough to fill the rest.
pub fn of_size(types: &str, bytes: usize, endian: Endian) -> Option<Vec<u8>> {
    let of_stretch = |stretch: usize, skip: usize| {
        let mut writer = Writer { out: Vec::new(), endian, stretch: Some(stretch), skip };
        signature::types(types).for_each(|one| writer.value(one));
        writer.out
    };
    let rest = bytes.checked_sub(of_stretch(0, 0).len())?;
    // What stands behind the long value, and around it, may have to be aligned.
    let stretches = (rest.saturating_sub(SLACK)..=rest).rev();
    let tries = stretches.flat_map(|stretch| (0..MOST_SKIPPED).map(move |skip| (stretch, skip)));
    tries.map(|(stretch, skip)| of_stretch(stretch, skip)).find(|body| body.len() == bytes)
}

/// So many of the first values are tried as the long one.
const MOST_SKIPPED: usize = 3;

/// Most bytes that alignment and the frame of one element can add.
const SLACK: usize = 64;

struct Writer {
    out: Vec<u8>,
    endian: Endian,
    /// Bytes for the first value that can have them.
    stretch: Option<usize>,
    /// Values that could have them and are left short.
    skip: usize,
}

impl Writer {
    fn align(&mut self, to: usize) {
        self.out.resize(self.out.len().next_multiple_of(to), 0);
    }

    fn length(&mut self, bytes: usize) {
        self.align(4);
        self.out.extend(self.endian.bytes(u32::try_from(bytes).unwrap_or(u32::MAX)));
    }

    /// The bytes for a value that can have them, if it is its turn.
    fn take_stretch(&mut self) -> Option<usize> {
        if self.skip == 0 {
            return self.stretch.take();
        }
        self.skip -= 1;
        None
    }

    fn text(&mut self, start: &str) {
        let stretch = self.take_stretch().unwrap_or(0);
        self.length(start.len() + stretch);
        self.out.extend(start.bytes());
        self.out.resize(self.out.len() + stretch, b'x');
        self.out.push(0);
    }

    fn value(&mut self, types: &str) {
        let code = types.as_bytes()[0];
        match code {
            b's' => self.text(""),
            // `/`, or `/xxx`
            b'o' => self.text("/"),
            b'g' => self.out.extend([0, 0]),
            b'v' if self.stretch.is_some() => {
                self.out.extend(b"\x01s\0");
                self.text("");
            }
            b'v' => self.out.extend(b"\x01y\0\0"),
            b'a' => self.array(&types[1..]),
            b'(' | b'{' => {
                self.align(8);
                signature::types(&types[1..types.len() - 1]).for_each(|field| self.value(field));
            }
            _ => {
                let bytes = signature::alignment(code);
                self.align(bytes);
                self.out.resize(self.out.len() + bytes, 0);
            }
        }
    }

    fn array(&mut self, element: &str) {
        self.length(0);
        let length_at = self.out.len() - 4;
        let alignment = signature::alignment(element.as_bytes()[0]);
        self.align(alignment);
        let start = self.out.len();
        match self.stretch {
            Some(0) | None => {}
            Some(_) if signature::is_fixed(element) => {
                let stretch = self.take_stretch().unwrap_or(0);
                self.out.resize(start + stretch / alignment * alignment, 0);
            }
            Some(_) => self.value(element),
        }
        let bytes = u32::try_from(self.out.len() - start).unwrap_or(u32::MAX);
        self.out[length_at..length_at + 4].copy_from_slice(&self.endian.bytes(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_dbus_wire::wire::{Body, Builder, Header, Kind, walk};

    #[test]
    fn bodies_are_valid_and_of_the_size_that_was_asked_for() {
        let cases = [
            ("s", 100),
            ("ay", 4_096),
            ("sa{sv}as", 300),
            ("a{sv}", 600),
            ("uas", 205),
            ("a(so)", 80),
            ("(iad)u", 1_036),
            ("v", 77),
            ("ou", 40),
            ("aas", 500),
            ("d", 8),
        ];
        for endian in [Endian::Little, Endian::Big] {
            for (types, bytes) in cases {
                let body = of_size(types, bytes, endian).unwrap_or_else(|| panic!("{types} {bytes}"));
                let body = Body::marshalled(endian, types, &body);
                let message = Builder::new(Kind::MethodReturn).reply_serial(1).body(body).build(1).unwrap();
                let header = Header::parse(&message).unwrap();
                assert_eq!(header.body_bytes, bytes);
                walk(&header, &message[header.header_bytes..], &mut |_, _| {}).unwrap();
            }
        }
        assert_eq!(of_size("u", 5, Endian::Little), None);
        assert_eq!(of_size("s", 3, Endian::Little), None);
    }
}
