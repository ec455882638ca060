//! A message that grows: its arguments are written little by little behind its header, and copied nowhere afterwards.

use super::{ARRAY_BYTES_MAX, Body, Builder, Endian, Marshal, OpenArray};

/// A message with a body that is not whole yet.
#[derive(Debug)]
pub struct Growing {
    out: Marshal,
    header_bytes: usize,
}

impl Growing {
    /// The header of a message whose arguments will have these types.
    ///
    /// # Panics
    /// The signature or a name is not valid.
    pub fn new(message: Builder<'_>, signature: &str) -> Growing {
        let empty = message.body(Body::marshalled(Endian::NATIVE, signature, &[]));
        // The serial comes at the end.
        let header = empty.build(1).expect("a header is short");
        let header_bytes = header.len();
        Growing { out: Marshal::behind(header), header_bytes }
    }

    /// Where the next argument is written.
    pub fn out(&mut self) -> &mut Marshal {
        &mut self.out
    }

    /// Begins an array; its elements begin on this boundary.
    pub fn begin_array(&mut self, element_alignment: usize) -> OpenArray {
        self.out.begin_array(element_alignment)
    }

    /// No further elements come.
    pub fn end_array(&mut self, array: OpenArray) {
        self.out.end_array(array);
    }

    /// So many bytes are there.
    pub fn bytes(&self) -> usize {
        self.out.bytes().len()
    }

    /// Has it more than an array may have, of which messages that grow are?
    pub fn is_too_long(&self) -> bool {
        self.bytes() > ARRAY_BYTES_MAX
    }

    /// The message with this serial.
    ///
    /// # Panics
    /// It [is too long](Growing::is_too_long).
    pub fn finish(self, serial: u32) -> Vec<u8> {
        assert!(!self.is_too_long(), "the message has {} bytes", self.bytes());
        let mut bytes = self.out.into_bytes();
        let body_bytes = (bytes.len() - self.header_bytes) as u32;
        for (at, number) in [(4, body_bytes), (8, serial)] {
            bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Marshal;

    #[test]
    fn the_largest_message_that_grows_has_64_mib() {
        let mut growing = Growing::new(Builder::reply(7), "ay");
        let array = growing.begin_array(1);
        let left = ARRAY_BYTES_MAX - growing.bytes();
        growing.out().all_fixed(std::iter::repeat_n([7], left));
        assert_eq!((growing.bytes(), growing.is_too_long()), (ARRAY_BYTES_MAX, false));
        growing.out().byte(7);
        assert!(growing.is_too_long());
        growing.end_array(array);
    }

    #[test]
    fn what_has_grown_is_the_message_that_is_built_at_once() {
        for count in [0, 1, 7] {
            let reply = Builder::reply(7).sender("org.freedesktop.DBus").destination(":1.9");
            let mut growing = Growing::new(reply.clone(), "a{sas}");
            let mut whole = Marshal::default();
            let all = growing.begin_array(8);
            for number in 0..count {
                growing.out().align(8);
                growing.out().text(&format!(":1.{number}"));
                let inner = growing.begin_array(4);
                (0..number).for_each(|_| growing.out().text("type='signal'"));
                growing.end_array(inner);
            }
            growing.end_array(all);
            whole.array(8, |out| {
                for number in 0..count {
                    out.align(8);
                    out.text(&format!(":1.{number}"));
                    out.texts((0..number).map(|_| "type='signal'"));
                }
            });
            let whole = reply.body(whole.into_body("a{sas}")).build(33).unwrap();
            assert_eq!(growing.finish(33), whole);
        }
    }
}
