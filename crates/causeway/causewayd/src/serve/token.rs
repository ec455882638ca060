//! What an event of the loop is about.

use causeway_os::epoll;
use rustix::event::epoll::{Event, EventData};

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A socket that listens, by its index.
    Listener(usize),
    /// Signals for this process.
    Signal,
    /// The socket of a client.
    Member(u64),
    /// A program that was started, by the number of its start.
    Child(u64),
    /// Native members.
    Native,
    /// What else than a signal ends the loop.
    Stop,
    /// Metrics are wanted.
    Metrics,
    /// A thread has read or started something.
    Blocking,
}

impl Token {
    /// For the kernel.
    pub fn data(self) -> EventData {
        let (kind, number) = match self {
            Token::Listener(index) => (0, index as u64),
            Token::Signal => (1, 0),
            Token::Member(number) => (2, number),
            Token::Child(number) => (3, number),
            Token::Native => (4, 0),
            Token::Stop => (5, 0),
            Token::Metrics => (6, 0),
            Token::Blocking => (7, 0),
        };
        epoll::Token::new(kind, number).data()
    }

    /// From the kernel.
    ///
    /// # Panics
    /// The event has other data than one of [`Token::data`].
    pub fn of(event: &Event) -> Token {
        let epoll::Token { kind, number } = epoll::Token::of(event);
        match kind {
            0 => Token::Listener(number as usize),
            1 => Token::Signal,
            2 => Token::Member(number),
            3 => Token::Child(number),
            4 => Token::Native,
            5 => Token::Stop,
            6 => Token::Metrics,
            7 => Token::Blocking,
            other => unreachable!("no event has kind {other}"),
        }
    }
}
