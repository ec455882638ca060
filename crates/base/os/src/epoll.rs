//! What an event of epoll is about: a kind and a number in the 64 bits that the kernel keeps with what is watched.

use rustix::event::epoll::{Event, EventData};

/// What is watched, as the program that watches it tells its kinds apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Below 8.
    pub kind: u8,
    /// Below 2⁶¹.
    pub number: u64,
}

impl Token {
    const KIND_BITS: u32 = 3;

    /// Something of a kind below 8, with a number below 2⁶¹.
    pub const fn new(kind: u8, number: u64) -> Token {
        assert!(kind < 1 << Token::KIND_BITS && number >> (64 - Token::KIND_BITS) == 0);
        Token { kind, number }
    }

    /// For the kernel.
    pub fn data(self) -> EventData {
        EventData::new_u64(self.number << Token::KIND_BITS | u64::from(self.kind))
    }

    /// From the kernel.
    pub fn of(event: &Event) -> Token {
        let data = event.data.u64();
        Token { kind: (data & ((1 << Token::KIND_BITS) - 1)) as u8, number: data >> Token::KIND_BITS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::epoll::EventFlags;

    #[test]
    fn a_token_comes_back_as_it_was_given() {
        for token in [Token::new(0, 0), Token::new(7, 1), Token::new(3, (1 << 61) - 1)] {
            assert_eq!(Token::of(&Event { flags: EventFlags::IN, data: token.data() }), token);
        }
    }
}
