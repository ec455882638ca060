//! The lobby: sockets from which no message is expected soon. Those that listen, clients that have not said Hello, and clients that send
//! one message in many small pieces.
//!
//! They have an epoll of their own, which is watched by that of the loop. While many messages pass, it is looked at once in [`PAUSE`]: what
//! comes there meanwhile is taken together, wakes nobody, and stands before few of the others' messages instead of many.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, Event, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::{EVENTS, Server, Token};

/// How long the lobby is not looked at while many messages pass.
const PAUSE: Duration = Duration::from_millis(10);
/// So many messages in so much time are many.
const MANY: u64 = 32;
const EACH: Duration = Duration::from_micros(100);
/// A piece of a message with fewer bytes is small.
pub const PIECE_BYTES: usize = 4096;
/// Whose message comes in so many small pieces goes to the lobby.
pub const PIECES: u32 = 3;

/// What is watched there, and since when it was not looked at.
pub struct Lobby {
    pub set: Rc<OwnedFd>,
    is_closed: bool,
    pub closed_until: Option<Instant>,
    /// When it was looked at last, and how many messages had passed until then.
    since: Instant,
    passed: u64,
}

impl Lobby {
    /// An empty one, which `watcher` watches.
    pub fn new(watcher: impl AsFd) -> Result<Lobby, Errno> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(watcher, &set, Token::Lobby.data(), EventFlags::IN)?;
        let set = Rc::new(set);
        Ok(Lobby { set, is_closed: false, closed_until: None, since: Instant::now(), passed: 0 })
    }

    /// It was looked at, and so many messages have passed since the bus began. Were they many since the last time?
    fn is_pause_due(&mut self, now: Instant, passed: u64) -> bool {
        let elapsed = now.saturating_duration_since(std::mem::replace(&mut self.since, now));
        let count = passed - std::mem::replace(&mut self.passed, passed);
        let most = u32::try_from(count).map_or(Duration::MAX, |count| EACH.saturating_mul(count));
        count >= MANY && most >= elapsed
    }

    fn watch(&mut self, watcher: impl AsFd, is_closed: bool) {
        if self.is_closed != is_closed {
            let interest = if is_closed { EventFlags::empty() } else { EventFlags::IN };
            epoll::modify(watcher, &self.set, Token::Lobby.data(), interest).expect("it is watched");
            self.is_closed = is_closed;
        }
    }
}

impl Server {
    /// Somebody in the lobby has come, has said something, or has gone.
    pub(super) fn serve_lobby(&mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // What fails now is tried again with the next event.
        let _ = epoll::wait(&self.lobby.set, rustix::buffer::spare_capacity(&mut events), Some(&at_once));
        for event in &events {
            match Token::of(event) {
                Token::Listener(index) => self.accept(index),
                Token::Member(number) => self.clients.note(crate::member::MemberId(number), event.flags),
                other => unreachable!("{other:?} is not in the lobby"),
            }
        }
        if self.lobby.is_pause_due(self.now, self.bus.counters.accepted) {
            self.lobby.closed_until = Some(self.now + PAUSE);
            self.lobby.watch(&self.epoll, true);
        }
    }

    /// Time has passed.
    pub(super) fn open_lobby(&mut self) {
        if self.lobby.closed_until.is_some_and(|until| until <= self.now) {
            self.lobby.closed_until = None;
            self.lobby.watch(&self.epoll, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lobby_pauses_only_while_many_messages_pass() {
        let watcher = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let mut lobby = Lobby::new(&watcher).unwrap();
        let mut now = lobby.since;
        for (count, elapsed, is_due) in [
            (MANY, EACH * MANY as u32, true),
            (MANY - 1, Duration::ZERO, false),
            (MANY, EACH * MANY as u32 + Duration::from_nanos(1), false),
            (1_000_000, EACH, true),
            (0, Duration::ZERO, false),
        ] {
            now += elapsed;
            assert_eq!(lobby.is_pause_due(now, lobby.passed + count), is_due, "{count} in {elapsed:?}");
        }
    }
}
