//! The lobby: sockets from which no message is expected soon. Those that listen, clients that have not said Hello, and clients that send
//! one message in many small pieces.
//!
//! They have an epoll of their own, which is watched by that of the loop. While many messages pass, it is looked at once in [`PAUSE`]: what
//! comes there meanwhile is taken together, wakes nobody, and stands before few of the others' messages instead of many.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use causeway_os::socket::{peer_credentials, peer_groups, peer_security_label};
use rustix::event::epoll::{self, Event, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::{EVENTS, Server, Token};
use crate::connection::Connection;
use crate::descriptors;
use crate::end::End;
use crate::member::{Carrier, Identity, MemberId};

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
    /// Readable when a pause is over. A time for which the loop waits would have the kernel set its clock with every message.
    pub timer: OwnedFd,
    /// When it was looked at last, and how many messages had passed until then.
    since: Instant,
    passed: u64,
}

impl Lobby {
    /// An empty one, which `watcher` watches.
    pub fn new(watcher: impl AsFd) -> Result<Lobby, Errno> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&watcher, &set, Token::Lobby.data(), EventFlags::IN)?;
        epoll::add(&watcher, &timer, Token::LobbyOpens.data(), EventFlags::IN)?;
        let set = Rc::new(set);
        Ok(Lobby { set, is_closed: false, timer, since: Instant::now(), passed: 0 })
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
                Token::Member(number) => self.clients.note(MemberId(number), event.flags),
                other => unreachable!("{other:?} is not in the lobby"),
            }
        }
        if self.lobby.is_pause_due(self.now, self.bus.counters.accepted) {
            self.lobby.watch(&self.epoll, true);
            let (never, once) = (Duration::ZERO, PAUSE);
            let [it_interval, it_value] =
                [never, once].map(|time| Timespec::try_from(time).expect("it is short"));
            let set = timerfd_settime(
                &self.lobby.timer,
                TimerfdTimerFlags::empty(),
                &Itimerspec { it_interval, it_value },
            );
            set.expect("it is a timer");
        }
    }

    /// Somebody has connected.
    pub(super) fn admit(&mut self, socket: OwnedFd) {
        // A client that has gone already has no identity.
        let Ok(credentials) = peer_credentials(&socket) else { return };
        let groups = peer_groups(&socket).ok().flatten();
        let identity = Identity::new(credentials, groups, peer_security_label(&socket).ok().flatten());
        let Some(id) = self.bus.admit(identity, Carrier::Socket) else {
            return descriptors::close_socket(credentials.uid, socket);
        };
        if epoll::add(&self.lobby.set, &socket, Token::Member(id.0).data(), EventFlags::IN).is_err() {
            descriptors::close_socket(credentials.uid, socket);
            return self.bus.leave(id);
        }
        let limits = &self.bus.config.limits;
        let deadline = self.now + limits.authentication;
        let connection = Connection::new(socket, credentials.uid, id.unique_name(), limits.message_bytes);
        let most = limits.incomplete_connections;
        self.clients.insert(id, credentials.uid, connection, deadline, Rc::clone(&self.lobby.set));
        // A legitimate client says Hello within milliseconds: the oldest of a user's too many is not one.
        while self.clients.incomplete_count() > most.max(1)
            && let Some(oldest) = self.clients.first_to_go()
        {
            self.end(
                oldest,
                End::NotAuthenticated(
                    "it has not called Hello, and others wait to connect (max_incomplete_connections)",
                ),
            );
        }
    }

    /// A pause is over.
    pub(super) fn open_lobby(&mut self) {
        if rustix::io::read(&self.lobby.timer, &mut [0; 8]).is_ok() {
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
