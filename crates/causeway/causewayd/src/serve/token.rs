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
    /// Sockets that are looked at less often.
    Lobby,
    /// They are looked at again.
    LobbyOpens,
    /// A thread has read or started something.
    Blocking,
}

impl Token {
    /// For the kernel.
    pub fn data(self) -> EventData {
        // What there is one of is told apart by its number.
        let (kind, number) = match self {
            Token::Listener(index) => (0, index as u64),
            Token::Member(number) => (1, number),
            Token::Child(number) => (2, number),
            Token::Signal => (3, 0),
            Token::Native => (3, 1),
            Token::Stop => (3, 2),
            Token::Metrics => (3, 3),
            Token::Blocking => (3, 4),
            Token::Lobby => (3, 5),
            Token::LobbyOpens => (3, 6),
        };
        epoll::Token::new(kind, number).data()
    }

    /// From the kernel.
    ///
    /// # Panics
    /// The event has other data than one of [`Token::data`].
    pub fn of(event: &Event) -> Token {
        let epoll::Token { kind, number } = epoll::Token::of(event);
        match (kind, number) {
            (0, index) => Token::Listener(index as usize),
            (1, number) => Token::Member(number),
            (2, number) => Token::Child(number),
            (3, 0) => Token::Signal,
            (3, 1) => Token::Native,
            (3, 2) => Token::Stop,
            (3, 3) => Token::Metrics,
            (3, 4) => Token::Blocking,
            (3, 5) => Token::Lobby,
            (3, 6) => Token::LobbyOpens,
            other => unreachable!("no event is about {other:?}"),
        }
    }
}
