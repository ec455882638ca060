//! The 64 bytes before each message in an outbox.

use causeway_dbus_wire::wire::MESSAGE_BYTES_MAX;

/// What is said of a message without reading it. The D-Bus message follows, as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusHeader {
    /// Position of this header in the sender's outbox, in bytes since its beginning.
    pub position: u64,
    /// Number of the sender.
    pub sender: u64,
    /// Number of the destination, 0 for a signal to all.
    pub destination: u64,
    /// The sender's number of the message.
    pub serial: u32,
    /// The call that it answers, or 0.
    pub reply_serial: u32,
    /// Bytes of the D-Bus message, of which [`BusHeader::inline_bytes`] follow.
    pub message_bytes: u32,
    /// Where in it the body begins.
    pub body_offset: u32,
    /// Type of the message, as D-Bus numbers it.
    pub kind: u8,
    /// Flags of D-Bus.
    pub flags: u8,
    /// Where the message is: [`INLINE`] or [`BODY_IN_FILE`].
    pub form: u16,
    /// Under which number its file and its descriptors travel over the control sockets, 0 for none.
    pub token: u32,
    /// When it was sent, `CLOCK_MONOTONIC`.
    pub sent_ns: u64,
}

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;
/// Header and body are one D-Bus message, behind this header.
pub const INLINE: u16 = 0;
/// The header is behind this one. The whole message, the header again, lies in a sealed memory file, which travels under the token.
pub const BODY_IN_FILE: u16 = 1;

impl BusHeader {
    /// Bytes of the D-Bus message that follow in the outbox.
    #[inline]
    pub fn inline_bytes(&self) -> u32 {
        if self.form == BODY_IN_FILE { self.body_offset } else { self.message_bytes }
    }

    /// Can a correct member have written form, token and lengths?
    #[inline]
    pub fn is_possible(&self) -> bool {
        match self.form {
            INLINE => true,
            BODY_IN_FILE => {
                self.token != 0
                    && self.body_offset <= self.message_bytes
                    && self.message_bytes as usize <= MESSAGE_BYTES_MAX
            }
            _ => false,
        }
    }

    /// The header as words, of which the last is kept free.
    #[inline]
    pub fn words(&self) -> [u64; 8] {
        let two = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [
            self.position,
            self.sender,
            self.destination,
            two(self.serial, self.reply_serial),
            two(self.message_bytes, self.body_offset),
            u64::from(self.kind)
                | u64::from(self.flags) << 8
                | u64::from(self.form) << 16
                | u64::from(self.token) << 32,
            self.sent_ns,
            0,
        ]
    }

    /// The header that these words are.
    #[inline]
    pub fn of(words: [u64; 8]) -> BusHeader {
        BusHeader {
            position: words[0],
            sender: words[1],
            destination: words[2],
            serial: words[3] as u32,
            reply_serial: (words[3] >> 32) as u32,
            message_bytes: words[4] as u32,
            body_offset: (words[4] >> 32) as u32,
            kind: words[5] as u8,
            flags: (words[5] >> 8) as u8,
            form: (words[5] >> 16) as u16,
            token: (words[5] >> 32) as u32,
            sent_ns: words[6],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_how_much_follows_and_whether_it_can_be() {
        let in_file = BusHeader {
            form: BODY_IN_FILE,
            token: 1,
            message_bytes: MESSAGE_BYTES_MAX as u32,
            body_offset: 80,
            ..BusHeader::default()
        };
        assert_eq!((in_file.inline_bytes(), in_file.is_possible()), (80, true));
        assert_eq!(BusHeader { form: INLINE, ..in_file }.inline_bytes(), in_file.message_bytes);
        for wild in [
            BusHeader { token: 0, ..in_file },
            BusHeader { message_bytes: 79, ..in_file },
            BusHeader { message_bytes: in_file.message_bytes + 1, ..in_file },
            BusHeader { form: 2, ..in_file },
        ] {
            assert!(!wild.is_possible(), "{wild:?}");
        }
    }

    #[test]
    fn a_header_comes_back_from_its_words() {
        let mut words = [0, 1, 2, 3, 4, 5, 6, 7].map(|word| 0x0102_0304_0506_0708 << word);
        // It is kept free.
        words[7] = 0;
        assert_eq!(BusHeader::of(words).words(), words);
    }
}
