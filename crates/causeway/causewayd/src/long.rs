//! Long messages of clients, in which nothing that is in proportion to their bytes is done at once.
//!
//! Such a message gets its sender when its header has arrived, and its body goes from the socket into a memory file. When it is whole the file is
//! sealed and mapped: its receivers have it from there, native members by the file. No other thread takes part before that, because a copy and a
//! check that stop after so many bytes need none.

use std::os::fd::OwnedFd;

use causeway_bus::{Bytes, MessageFile};
use causeway_dbus_wire::wire::{Checker, Fault, Header, stamped_header};

use crate::descriptors::Descriptors;
use crate::end::End;
use crate::message::Message;

/// Steps in which a body is checked before others have had their turn: far below a millisecond.
pub const CHECKED_STEPS: usize = 1 << 15;

const NO_FILE: End = End::Kept("the bus has no descriptor or memory left for a long message");

/// A message that arrives, or that is checked.
#[derive(Debug)]
pub struct Long {
    file: Option<MessageFile>,
    /// Bytes that have not arrived.
    missing: usize,
    /// Once it is whole.
    whole: Option<(Bytes, OwnedFd)>,
    checker: Checker,
}

impl Long {
    /// A message of this sender whose header has arrived, and is the start of `start`.
    pub fn begin(start: &[u8], sender: &str) -> Result<Long, End> {
        let header = Header::parse(start).map_err(End::Invalid)?;
        let too_large = End::Invalid(Fault::Invalid("it is too large once its sender is filled in"));
        let stamp = stamped_header(start, &header, sender).ok_or(too_large)?;
        let mut file = MessageFile::create().map_err(|_| NO_FILE)?;
        file.append(&stamp).map_err(|_| NO_FILE)?;
        let mut checker = Checker::default();
        checker.begin(&header);
        Ok(Long { file: Some(file), missing: header.body_bytes, whole: None, checker })
    }

    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Bytes that are kept of it.
    pub fn arrived(&self) -> usize {
        self.file.as_ref().map_or(0, |file| file.bytes() as usize)
    }

    /// The next bytes of the body, of which no more than are missing.
    pub fn append(&mut self, piece: &[u8]) -> Result<(), End> {
        self.missing -= piece.len();
        let file = self.file.as_mut().expect("it is not whole");
        file.append(piece).map_err(|_| NO_FILE)
    }

    /// Checks one slice more of a message that has arrived. True at its end.
    pub fn check(&mut self) -> Result<bool, End> {
        if let Some(file) = self.file.take() {
            self.whole = Some(file.finish().map_err(|_| NO_FILE)?);
        }
        let (bytes, _) = self.whole.as_ref().expect("it is whole");
        let body = &bytes[self.header().header_bytes..];
        self.checker.advance(body, CHECKED_STEPS).map_err(End::Invalid)
    }

    /// The header of a message that has arrived.
    pub fn header(&self) -> Header<'_> {
        let (bytes, _) = self.whole.as_ref().expect("it is whole");
        Header::parse(bytes).expect("it was stamped")
    }

    /// The message, once it is checked.
    pub fn into_message(self, descriptors: Descriptors) -> Message {
        let (bytes, file) = self.whole.expect("it was checked");
        Message::in_file(bytes, file, descriptors)
    }
}

#[cfg(test)]
mod tests {
    use causeway_dbus_wire::wire::{Builder, Marshal};

    use super::*;
    use crate::message::LONG_BYTES;

    /// A message of many small structs, which is more work than one turn may be.
    fn message() -> Vec<u8> {
        let mut out = Marshal::default();
        out.array(8, |out| (0..LONG_BYTES / 4).for_each(|number| out.u64(number as u64)));
        Builder::signal("/", "a.B", "C").body(out.into_body("a((yyyyyyyy))")).build(1).unwrap()
    }

    #[test]
    fn a_long_message_is_checked_in_slices_and_has_its_sender_then() {
        let message = message();
        let header = Header::parse(&message).unwrap();
        let (start, body) = message.split_at(header.header_bytes);
        let mut long = Long::begin(start, ":1.7").unwrap();
        body.chunks(100_000).for_each(|piece| long.append(piece).unwrap());
        assert_eq!((long.missing(), long.arrived() > body.len()), (0, true));
        let slices = (1..).find(|_| long.check().unwrap()).unwrap();
        let operations = body.len() / 8 * 10;
        assert_eq!(slices, operations / CHECKED_STEPS + 1);
        let message = long.into_message(Descriptors::default());
        assert_eq!(message.header().sender, Some(":1.7"));
        assert!(message.bytes().ends_with(body) && message.file.take().is_some());
    }

    #[test]
    fn one_that_is_not_valid_is_refused() {
        let mut message = message();
        let header = Header::parse(&message).unwrap();
        let at = header.header_bytes;
        // The array is longer than the body.
        message[at..at + 4].copy_from_slice(&(32_u32 << 20).to_ne_bytes());
        let mut long = Long::begin(&message, ":1.7").unwrap();
        long.append(&message[at..]).unwrap();
        let end = (0..100).find_map(|_| long.check().err());
        assert_eq!(end, Some(End::Invalid(Fault::Cut)));
    }
}
