//! The state of a server: the group, and the peer at the other end of each socket. Requests are answered here; how a peer
//! becomes a publisher or a subscriber is in [`admission`](super::admission).

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use causeway_os::futex;
use causeway_os::socket::{Credentials, peer_credentials, peer_pidfd, seqpacket_pair};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::report::Report;
use super::{Listener, PIDFD, SOCKET};
use crate::error::{Error, Refusal, Result};
use crate::foreign::ForeignSocket;
use crate::log::Memory;
use crate::log::layout::SUBSCRIBERS_MAX;
use crate::log::mapped::MappedLog;
use crate::log::pages::StatusPage;
use crate::log::wait::wake_waiters;
use crate::log::word::PUBLISHERS_MAX;
use crate::options::{GroupOptions, Policy};
use crate::subscriber_handle::SubscriberHandle;
use crate::wire::{Incoming, Message, Op};

/// Connections beyond this number are refused: every slot twice, and some that only request reports.
const CONNECTIONS_MAX: usize = 2 * (SUBSCRIBERS_MAX + PUBLISHERS_MAX) + 64;

#[derive(Debug)]
pub(super) struct State {
    pub(super) options: GroupOptions,
    pub(super) log: Arc<MappedLog>,
    pub(super) log_fd: OwnedFd,
    pub(super) status: StatusPage,
    pub(super) status_fd: OwnedFd,
    listeners: BTreeMap<u64, Listener>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) subscribers: Vec<SubscriberHandle>,
    /// The descriptor of each subscriber's page, for publishers that join later.
    pub(super) pages: BTreeMap<usize, OwnedFd>,
    pub(super) generations: Vec<u32>,
    /// Remote publishers that have not mapped the log yet.
    pub(super) awaited_publishers: u32,
    /// Whether further publishers of this process may join.
    pub(super) admits_local_publishers: bool,
    /// Subscribers that joined before the log was sealed: token and policy.
    pub(super) waiting: Vec<(u64, Policy)>,
    next_token: u64,
}

/// A peer at the other end of a socket.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Arc<ForeignSocket>,
    pidfd: Option<OwnedFd>,
    pub(super) peer: Credentials,
    pub(super) local: bool,
    pub(super) role: Role,
}

/// What a peer has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Neither publisher nor subscriber, or not yet.
    Client,
    Publisher {
        slot: u8,
        mapped: bool,
    },
    Subscriber {
        slot: usize,
    },
}

/// The result of a request.
pub(super) type Answer = std::result::Result<(), Refusal>;

impl State {
    pub(super) fn new(name: &str, options: GroupOptions) -> Result<State> {
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::os("draw", "the number of a group", error))?;
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| id[at + index]));
        let (log_fd, log) =
            MappedLog::create(name, options.kind, options.capacity_bytes, [half(0), half(8)])?;
        let (status_fd, status) = StatusPage::create()?;
        let mut state = State {
            awaited_publishers: options.remote_publishers,
            admits_local_publishers: true,
            options,
            log: Arc::new(log),
            log_fd,
            status,
            status_fd,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            subscribers: Vec::new(),
            pages: BTreeMap::new(),
            generations: vec![0; SUBSCRIBERS_MAX],
            waiting: Vec::new(),
            next_token: 1,
        };
        if state.awaited_publishers == 0 {
            state.seal()?;
        }
        Ok(state)
    }

    pub(super) fn log(&self) -> Arc<MappedLog> {
        Arc::clone(&self.log)
    }

    pub(super) fn options(&self) -> &GroupOptions {
        &self.options
    }

    pub(super) fn report(&self) -> Result<Report> {
        Report::of(self, &self.log)
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    pub(super) fn add_listener(&mut self, socket: ForeignSocket, path: std::path::PathBuf) -> u64 {
        let token = self.token();
        self.listeners.insert(token, Listener { socket, path });
        token
    }

    pub(super) fn listener(&self, token: u64) -> Option<&ForeignSocket> {
        self.listeners.get(&token).map(|listener| &listener.socket)
    }

    /// Adds a connection. `like` is the connection that requested it, if one did: a pair of sockets does not show which
    /// process will use it, so the new one inherits its credentials.
    pub(super) fn connect(
        &mut self,
        epoll: &OwnedFd,
        socket: OwnedFd,
        local: bool,
        like: Option<u64>,
    ) -> Result<()> {
        if self.connections.len() >= CONNECTIONS_MAX {
            let _ = Message::refusal(Refusal::TooMany).send(&socket, &[]);
            return Err(Error::Refused(Refusal::TooMany));
        }
        let socket = ForeignSocket::new(socket);
        let failed = |error: Errno| Error::os("watch", "a connection", error);
        rustix::io::ioctl_fionbio(&socket, true).map_err(failed)?;
        let (peer, pidfd) = match like.and_then(|token| self.connections.get(&token)) {
            Some(other) => (other.peer, other.pidfd.as_ref().and_then(|pidfd| pidfd.try_clone().ok())),
            None => {
                let peer = peer_credentials(&socket)?;
                // A pair of sockets shows the process that made it, which is this one, not the process that uses it later.
                // So only the end of the connection tells that the peer is gone.
                let own = peer.pid == std::process::id();
                let by_number = || causeway_os::process::pidfd_open(peer.pid);
                (peer, (!own).then(|| peer_pidfd(&socket).or_else(|_| by_number()).ok()).flatten())
            }
        };
        let token = self.token();
        epoll::add(epoll, &socket, EventData::new_u64((token << 2) | SOCKET), events(&socket))
            .map_err(failed)?;
        if let Some(pidfd) = &pidfd {
            epoll::add(epoll, pidfd, EventData::new_u64((token << 2) | PIDFD), EventFlags::IN)
                .map_err(failed)?;
        }
        self.connections
            .insert(token, Connection { socket: Arc::new(socket), pidfd, peer, local, role: Role::Client });
        Ok(())
    }

    /// The socket of a connection, to be read.
    pub(super) fn socket(&self, token: u64) -> Option<Arc<ForeignSocket>> {
        self.connections.get(&token).map(|connection| Arc::clone(&connection.socket))
    }

    /// Waits for the next request on a socket that is read by a thread of its own.
    pub(super) fn watch_again(&mut self, epoll: &OwnedFd, token: u64) {
        if let Some(connection) = self.connections.get(&token) {
            let (socket, data) = (&connection.socket, EventData::new_u64((token << 2) | SOCKET));
            let _ = epoll::modify(epoll, socket, data, events(socket));
        }
    }

    /// Answers what was read from a peer.
    pub(super) fn serve(&mut self, epoll: &OwnedFd, token: u64, incoming: Result<Incoming>) {
        let Some(connection) = self.connections.get(&token) else { return };
        let message = match incoming {
            Ok(Incoming::Message(message, _)) => message,
            Ok(Incoming::Nothing) => return,
            Ok(Incoming::Malformed) => return self.send_to(token, Message::refusal(Refusal::NotUnderstood)),
            Ok(Incoming::End) | Err(_) => return self.disconnect(epoll, token),
        };
        let answer = match (message.op, connection.role) {
            (Op::Publish, Role::Client) => self.grant_publisher(token),
            (Op::Mapped, Role::Publisher { slot, mapped: false }) => self.publisher_mapped(token, slot),
            (Op::Subscribe, Role::Client) => self.subscribe(token, [message.words[0], message.words[1]]),
            (Op::Stat, _) => self.send_report(token),
            // Not for a subscriber: a hostile one would use up all connections.
            (Op::Connect, Role::Client) => self.connect_another(epoll, token),
            _ => Err(Refusal::NotUnderstood),
        };
        if let Err(refusal) = answer {
            self.send_to(token, Message::refusal(refusal));
        }
    }

    /// Sends without waiting. A peer whose buffer is full does not get the message.
    pub(super) fn send_to(&self, token: u64, message: Message) {
        if let Some(connection) = self.connections.get(&token) {
            let _ = message.send(&connection.socket, &[]);
        }
    }

    fn connect_another(&mut self, epoll: &OwnedFd, token: u64) -> Answer {
        let (near, far) = seqpacket_pair().map_err(|_| Refusal::Exhausted)?;
        self.connect(epoll, near, false, Some(token)).map_err(|_| Refusal::TooMany)?;
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        let _ = Message::new(Op::Granted, &[]).send(&connection.socket, &[far.as_fd()]);
        Ok(())
    }

    pub(super) fn is_sealed(&self) -> bool {
        self.status.words().phase.load(Ordering::Relaxed) != 0
    }

    pub(super) fn seal(&mut self) -> Result<()> {
        MappedLog::seal(&self.log_fd)?;
        self.status.words().phase.store(1, Ordering::Release);
        Ok(())
    }

    fn send_report(&self, token: u64) -> Answer {
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        for row in self.report().map_err(|_| Refusal::NotUnderstood)?.to_messages() {
            // A client that does not read gets part of a report, without its end.
            if row.send(&connection.socket, &[]).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Removes a peer whose connection has ended or whose process has died.
    pub(super) fn disconnect(&mut self, epoll: &OwnedFd, token: u64) {
        let Some(connection) = self.connections.remove(&token) else { return };
        // A forked child may hold another descriptor of the same socket; epoll would still report it.
        let _ = epoll::delete(epoll, &connection.socket);
        if let Some(pidfd) = &connection.pidfd {
            let _ = epoll::delete(epoll, pidfd);
        }
        self.waiting.retain(|(waiting, _)| *waiting != token);
        match connection.role {
            Role::Client => {}
            Role::Publisher { slot, .. } => self.remove_publisher(slot),
            Role::Subscriber { slot } => self.remove_subscriber(slot),
        }
    }

    pub(super) fn wake_all_subscribers(&mut self) {
        std::sync::atomic::fence(Ordering::SeqCst); // PAIR log-armed: as a publisher after its commit
        let tail = self.log.tail();
        wake_waiters(tail, &mut self.subscribers, || {
            let _ = futex::wake(&tail.wake_seq, u32::MAX);
        });
    }

    /// Stops serving. If other processes publish, messages still flow.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
        let status = self.status.words();
        if status.publishers.load(Ordering::Acquire) & !status.local_publishers.load(Ordering::Relaxed) == 0 {
            status.phase.store(2, Ordering::Release);
        }
        self.wake_all_subscribers();
        self.connections.clear();
    }
}

/// What to wait for on a socket. One that a thread of its own reads is watched again when that thread has read it.
fn events(socket: &ForeignSocket) -> EventFlags {
    match socket.refuses_descriptors() {
        true => EventFlags::IN,
        false => EventFlags::IN | EventFlags::ONESHOT,
    }
}
