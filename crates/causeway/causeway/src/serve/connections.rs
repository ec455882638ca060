//! The sockets of a server: who is at the other end of each, what that peer has become, and how long it may stay without a request.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_os::Context;
use causeway_os::epoll::Token;
use causeway_os::handshake::Offer;
use causeway_os::socket::{Credentials, Liveness, peer_process};
use rustix::event::epoll::{self, EventFlags};
use rustix::net::sockopt;

use super::listener::Listener;
use super::places::Share;
use crate::error::{Refusal, Result};
use crate::foreign::ForeignSocket;
use crate::log::form::OFFER;
use crate::options::Access;
use crate::wire::Message;

/// The kinds of what the server's thread waits for.
pub const SOCKET: u8 = 0;
pub const PIDFD: u8 = 1;
pub const LISTENER: u8 = 2;
pub const WAKE: u8 = 3;

/// A visitor that requests nothing for this long is disconnected.
const VISIT_TIME: Duration = Duration::from_secs(1);

/// Half the smallest send buffer that the kernel gives: space for some six notices.
const NOTICES_BYTES: usize = 2304;

/// After this many requests that are not understood, a peer is not listened to any more; only its end is noticed.
const MISTAKES_MAX: u32 = 16;

pub type Answer<T = ()> = std::result::Result<T, Refusal>;

/// All connections, by token.
#[derive(Debug)]
pub struct Connections {
    epoll: Arc<OwnedFd>,
    listeners: BTreeMap<u64, Listener>,
    by_token: BTreeMap<u64, Connection>,
    last_token: u64,
}

/// A peer at the other end of a socket.
#[derive(Debug)]
pub struct Connection {
    pub socket: Arc<ForeignSocket>,
    /// Its process, if it connected by itself.
    pub pidfd: Option<OwnedFd>,
    /// How its end is noticed.
    pub liveness: Liveness,
    pub peer: Credentials,
    pub local: bool,
    /// Whose share of the places this connection takes; `None` for this process, its user and root.
    pub share: Option<Share>,
    /// When the connection ends unless a request comes before.
    deadline: Option<Instant>,
    mistakes: u32,
    pub role: Role,
    /// The formats that it has, once it has said so.
    pub offer: Offer,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This process, for itself.
    Local,
    /// This process, for another one.
    Invitation,
    Path,
    /// The connection with this token, which asked for another one.
    Asked(u64),
}

/// What a peer has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Neither publisher nor subscriber, or not yet.
    Client,
    Publisher {
        slot: u8,
        mapped: bool,
    },
    /// A publisher that joins with the next log.
    LatePublisher {
        slot: u8,
    },
    /// A publisher's connection for the next logs; it is busy with one.
    Mapper {
        slot: u8,
        is_busy: bool,
    },
    /// A subscriber that waits for publishers, or for a log of another format.
    Waiting,
    /// A subscriber that is not ready yet.
    Joining {
        slot: usize,
    },
    Subscriber {
        slot: usize,
    },
    /// A publisher's pool of payload files.
    Pool {
        number: u32,
    },
    /// One that has claimed a role ([`Group::claim`](crate::Group::claim)).
    Claimant {
        role: u64,
    },
}

impl Connections {
    pub fn new(epoll: Arc<OwnedFd>) -> Connections {
        Connections { epoll, listeners: BTreeMap::new(), by_token: BTreeMap::new(), last_token: 0 }
    }

    fn new_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    pub fn add_listener(&mut self, listener: Listener) -> rustix::io::Result<()> {
        let token = self.new_token();
        epoll::add(&self.epoll, &listener, Token::new(LISTENER, token).data(), EventFlags::IN)?;
        self.listeners.insert(token, listener);
        Ok(())
    }

    pub fn listener(&self, token: u64) -> Option<&Listener> {
        self.listeners.get(&token)
    }

    /// Adds a connection of a peer that was admitted.
    pub fn add(
        &mut self,
        socket: ForeignSocket,
        origin: Origin,
        peer: Credentials,
        share: Option<Share>,
    ) -> Result<u64> {
        let on = || "a connection";
        // Only a process that connected by itself is known; the end of the others' connections tells that they are gone.
        let is_known = origin == Origin::Path && peer.pid != std::process::id();
        let (pidfd, liveness) =
            if is_known { peer_process(&socket, peer.pid) } else { (None, Liveness::Socket) };
        let token = self.new_token();
        epoll::add(&self.epoll, &socket, Token::new(SOCKET, token).data(), events(&socket))
            .context("watch", on)?;
        if let Some(pidfd) = &pidfd {
            epoll::add(&self.epoll, pidfd, Token::new(PIDFD, token).data(), EventFlags::IN)
                .context("watch", on)?;
        }
        let connection = Connection {
            socket: Arc::new(socket),
            pidfd,
            liveness,
            peer,
            local: origin == Origin::Local,
            share,
            // A socket that was made for another process may wait until that one starts.
            deadline: (origin == Origin::Path).then(|| Instant::now() + VISIT_TIME),
            mistakes: 0,
            role: Role::Client,
            offer: OFFER,
        };
        self.by_token.insert(token, connection);
        Ok(token)
    }

    pub fn get(&self, token: u64) -> Answer<&Connection> {
        self.by_token.get(&token).ok_or(Refusal::NotUnderstood)
    }

    pub fn get_mut(&mut self, token: u64) -> Answer<&mut Connection> {
        self.by_token.get_mut(&token).ok_or(Refusal::NotUnderstood)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.by_token.values()
    }

    pub fn with_tokens(&self) -> impl Iterator<Item = (u64, &Connection)> {
        self.by_token.iter().map(|(token, connection)| (*token, connection))
    }

    pub fn find(&self, is_it: impl Fn(Role) -> bool) -> Option<u64> {
        self.all(is_it).next()
    }

    pub fn all(&self, is_it: impl Fn(Role) -> bool) -> impl Iterator<Item = u64> {
        self.by_token.iter().filter(move |(_, connection)| is_it(connection.role)).map(|(token, _)| *token)
    }

    pub fn set_role(&mut self, token: u64, role: Role) {
        if let Ok(connection) = self.get_mut(token) {
            connection.role = role;
        }
    }

    /// A peer that waited is a visitor again, with all the time of one.
    pub fn make_visitor(&mut self, token: u64) {
        if let Ok(connection) = self.get_mut(token) {
            connection.role = Role::Client;
            connection.extend_visit();
        }
    }

    /// Sends without waiting. A peer whose buffer is full does not get the message.
    pub fn send(&self, token: u64, message: Message) {
        if let Ok(connection) = self.get(token) {
            let _ = message.send(&connection.socket, &[]);
        }
    }

    /// Refuses a request that is not understood. The refusal has our version, so that a peer of another one can name both. A peer
    /// that goes on and on costs no more than its place.
    pub fn note_mistake(&mut self, token: u64) {
        let Some(connection) = self.by_token.get_mut(&token) else { return };
        let _ = Message::refusal(Refusal::NotUnderstood).send(&connection.socket, &[]);
        connection.mistakes += 1;
        if connection.is_ignored() {
            self.watch_again(token);
        }
    }

    /// Waits for the next request, or the end of a peer that is not listened to.
    pub fn watch_again(&self, token: u64) {
        if let Ok(connection) = self.get(token) {
            let socket = &connection.socket;
            // Without this call, its end is reported all the same.
            let events = if connection.is_ignored() { EventFlags::RDHUP } else { events(socket) };
            let _ = epoll::modify(&self.epoll, socket, Token::new(SOCKET, token).data(), events);
        }
    }

    pub fn remove(&mut self, token: u64) -> Option<Connection> {
        let connection = self.by_token.remove(&token)?;
        // A forked child may hold another descriptor of the same socket; epoll would still report it.
        let _ = epoll::delete(&self.epoll, &connection.socket);
        if let Some(pidfd) = &connection.pidfd {
            let _ = epoll::delete(&self.epoll, pidfd);
        }
        Some(connection)
    }

    /// When the next visitor's time is over.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.iter().filter_map(Connection::visit_ends).min()
    }

    pub fn overdue(&self) -> Vec<u64> {
        let now = Instant::now();
        let overdue = self.by_token.iter().filter(|(_, it)| it.visit_ends().is_some_and(|end| end <= now));
        overdue.map(|(token, _)| *token).collect()
    }

    pub fn stop_listening(&mut self) {
        self.listeners.clear();
    }

    pub fn clear(&mut self) {
        self.by_token.clear();
    }
}

impl Connection {
    /// Whether this peer may do what a rule allows; this process may do all.
    pub fn check(&self, rule: &Access) -> Answer {
        if self.local || rule.admits(self.peer) { Ok(()) } else { Err(Refusal::Forbidden) }
    }

    /// Sends a message with descriptors, without waiting.
    pub fn send(&self, message: Message, fds: &[BorrowedFd<'_>]) -> causeway_os::Result<()> {
        message.send(&self.socket, fds)
    }

    /// Starts the time of a visit again, if it is limited.
    pub fn extend_visit(&mut self) {
        self.deadline = self.deadline.map(|_| Instant::now() + VISIT_TIME);
    }

    pub fn is_ignored(&self) -> bool {
        self.mistakes > MISTAKES_MAX
    }

    /// Lets no more than a few messages wait for this peer: descriptors that it has not read count as those of this user.
    pub fn limit_unread(&self) {
        let _ = sockopt::set_socket_send_buffer_size(&self.socket, NOTICES_BYTES);
    }

    /// When this visit ends unless a request comes before. A subscriber that joins is a visitor until it is ready; publishers
    /// and subscribers are none, nor is a subscriber that waits for publishers.
    fn visit_ends(&self) -> Option<Instant> {
        self.deadline.filter(|_| matches!(self.role, Role::Client | Role::Joining { .. }))
    }
}

/// What to wait for on a socket. One that a thread of its own reads is watched again when that thread has read it.
fn events(socket: &ForeignSocket) -> EventFlags {
    if socket.refuses_descriptors() { EventFlags::IN } else { EventFlags::IN | EventFlags::ONESHOT }
}
