//! What an event of the loop is about.

use rustix::event::epoll::{Event, EventData};

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A socket that listens, by its index.
    Listener(u32),
    /// Signals for this process.
    Signal,
    /// The socket of a client.
    Member(u64),
    /// A program that was started, by the number of its start.
    Child(u64),
    /// Native members.
    Native,
    /// What ends the loop beside signals.
    Stop,
}

impl Token {
    const KIND_BITS: u32 = 3;

    /// For the kernel.
    pub fn data(self) -> EventData {
        let (kind, number) = match self {
            Token::Listener(index) => (0, index.into()),
            Token::Signal => (1, 0),
            Token::Member(number) => (2, number),
            Token::Child(number) => (3, number),
            Token::Native => (4, 0),
            Token::Stop => (5, 0),
        };
        EventData::new_u64(number << Self::KIND_BITS | kind)
    }

    /// From the kernel.
    ///
    /// # Panics
    /// The event has other data than one of [`Token::data`].
    pub fn of(event: &Event) -> Token {
        let data = event.data.u64();
        let number = data >> Self::KIND_BITS;
        match data & ((1 << Self::KIND_BITS) - 1) {
            0 => Token::Listener(u32::try_from(number).expect("it was one")),
            1 => Token::Signal,
            2 => Token::Member(number),
            3 => Token::Child(number),
            4 => Token::Native,
            5 => Token::Stop,
            other => unreachable!("no event has kind {other}"),
        }
    }
}
