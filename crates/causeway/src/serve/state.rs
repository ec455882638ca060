//! Who takes part in a group, and what is done when somebody comes or goes.
//!
//! Order matters in two places. A receiver's descriptors are sent to every publisher before the count of members
//! changes, and the receiver hears of its slot after: so a publisher that sees the count has the descriptors waiting.
//! And what a dead publisher left is decided before its bit is cleared and everybody is rung for.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use causeway_os::futex;
use causeway_os::socket::{Credentials, peer_credentials, peer_pidfd, seqpacket_pair, stream_pair};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::report::Report;
use super::{Listener, PIDFD, SOCKET};
use crate::error::{Error, Refusal, Result};
use crate::log::layout::RECEIVERS_MAX;
use crate::log::mapped::{MappedLog, ReceiverPage, StatusPage};
use crate::log::sleep::{Sleepy, wake_sleepers};
use crate::log::word::PUBLISHERS_MAX;
use crate::log::{Kind, Memory, Reader, reclaim};
use crate::member::Member;
use crate::options::{GroupOptions, Policy};
use crate::wire::{Incoming, Message, Op, is_gone, receive};

/// More connections than this are turned away: every slot twice, and some who only ask.
const CONNECTIONS_MAX: usize = 2 * (RECEIVERS_MAX + PUBLISHERS_MAX) + 64;

#[derive(Debug)]
pub(super) struct State {
    options: GroupOptions,
    log: Arc<MappedLog>,
    log_fd: OwnedFd,
    pub(super) status: StatusPage,
    status_fd: OwnedFd,
    listeners: BTreeMap<u64, Listener>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) members: Vec<Member>,
    /// The descriptor of each member's page, for publishers that come later.
    pages: BTreeMap<usize, OwnedFd>,
    generations: Vec<u32>,
    /// Remote publishers that have not mapped the log yet.
    awaited: u32,
    /// Receivers that asked before the log was sealed.
    waiting: Vec<(u64, Policy)>,
    next_token: u64,
}

/// Somebody at the other end of a socket.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    pidfd: Option<OwnedFd>,
    pub(super) peer: Credentials,
    local: bool,
    pub(super) role: Role,
}

/// What somebody became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Visitor,
    Publisher { slot: u8, mapped: bool },
    Receiver { slot: usize },
}

/// What to say to a request.
type Answer = std::result::Result<(), Refusal>;

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
            awaited: options.remote_publishers,
            options,
            log: Arc::new(log),
            log_fd,
            status,
            status_fd,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            members: Vec::new(),
            pages: BTreeMap::new(),
            generations: vec![0; RECEIVERS_MAX],
            waiting: Vec::new(),
            next_token: 1,
        };
        if state.awaited == 0 {
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

    pub(super) fn add_listener(&mut self, socket: OwnedFd, path: std::path::PathBuf) -> u64 {
        let token = self.token();
        self.listeners.insert(token, Listener { socket, path });
        token
    }

    pub(super) fn listener(&self, token: u64) -> Option<&OwnedFd> {
        self.listeners.get(&token).map(|listener| &listener.socket)
    }

    /// Takes a connection in. `like` is the connection that asked for it, if one did: a pair of sockets says nothing
    /// about who will use it, so the new one inherits.
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
        let failed = |error: Errno| Error::os("watch", "a connection", error);
        rustix::io::ioctl_fionbio(&socket, true).map_err(failed)?;
        let (peer, pidfd) = match like.and_then(|token| self.connections.get(&token)) {
            Some(other) => (other.peer, other.pidfd.as_ref().and_then(|pidfd| pidfd.try_clone().ok())),
            None => {
                let peer = peer_credentials(&socket)?;
                // A pair of sockets names the process that made it, this one, whoever holds it later. Its death is
                // no news; the end of the connection is all there is.
                let own = peer.pid == std::process::id();
                let by_number = || causeway_os::process::pidfd_open(peer.pid);
                (peer, (!own).then(|| peer_pidfd(&socket).or_else(|_| by_number()).ok()).flatten())
            }
        };
        let token = self.token();
        epoll::add(epoll, &socket, EventData::new_u64((token << 2) | SOCKET), EventFlags::IN)
            .map_err(failed)?;
        if let Some(pidfd) = &pidfd {
            epoll::add(epoll, pidfd, EventData::new_u64((token << 2) | PIDFD), EventFlags::IN)
                .map_err(failed)?;
        }
        self.connections.insert(token, Connection { socket, pidfd, peer, local, role: Role::Visitor });
        Ok(())
    }

    /// Answers what a peer sent.
    pub(super) fn serve(&mut self, epoll: &OwnedFd, token: u64) {
        let Some(connection) = self.connections.get(&token) else { return };
        // A visitor's descriptors are not even taken: closing one could block.
        let message = match receive(&connection.socket, 0) {
            Ok(Incoming::Message(message, _)) => message,
            Ok(Incoming::Nothing) => return,
            Ok(Incoming::Nonsense) => return self.say(token, Message::refusal(Refusal::NotUnderstood)),
            Ok(Incoming::End) | Err(_) => return self.leave(epoll, token),
        };
        let answer = match (message.op, connection.role) {
            (Op::Publish, Role::Visitor) => self.grant_publisher(token),
            (Op::Mapped, Role::Publisher { slot, mapped: false }) => self.publisher_mapped(token, slot),
            (Op::Subscribe, Role::Visitor) => self.subscribe(token, [message.words[0], message.words[1]]),
            (Op::Stat, _) => self.send_report(token),
            // Not for a receiver: a hostile one would take every place at the door.
            (Op::Connect, Role::Visitor) => self.connect_another(epoll, token),
            _ => Err(Refusal::NotUnderstood),
        };
        if let Err(refusal) = answer {
            self.say(token, Message::refusal(refusal));
        }
    }

    /// Sends without waiting. Who does not read its answers does not get them.
    fn say(&self, token: u64, message: Message) {
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

    fn grant_publisher(&mut self, token: u64) -> Answer {
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        let local = connection.local;
        if !local && !self.options.publishers.admits(connection.peer) {
            return Err(Refusal::Forbidden);
        }
        let status = self.status.words();
        let taken = status.publishers.load(Ordering::Relaxed);
        let ended = status.phase.load(Ordering::Relaxed) == 2;
        let slots = if self.options.kind == Kind::Single { 1 } else { PUBLISHERS_MAX as u32 };
        let remote_taken = (taken & !status.local_publishers.load(Ordering::Relaxed)).count_ones();
        if !local && (self.is_sealed() || remote_taken >= self.options.remote_publishers) {
            return Err(Refusal::PublishersFixed);
        }
        let slot = (!taken).trailing_zeros();
        match self.options.kind {
            Kind::Single if slot >= slots || ended => return Err(Refusal::OnePublisher),
            Kind::Shared if ended => return Err(Refusal::Ended),
            Kind::Shared if slot >= slots => return Err(Refusal::TooMany),
            Kind::Single | Kind::Shared => {}
        }
        self.admit_publisher(token, slot as u8, local)
    }

    fn admit_publisher(&mut self, token: u64, slot: u8, local: bool) -> Answer {
        let connection = self.connections.get_mut(&token).ok_or(Refusal::NotUnderstood)?;
        // How many notices follow: until it has them all, the publisher must not free space.
        let granted = Message::new(Op::Granted, &[u32::from(slot), self.members.len() as u32]);
        let both = [self.status_fd.as_fd(), self.log_fd.as_fd()];
        let fds = if local { &both[..1] } else { &both[..] };
        granted.send(&connection.socket, fds).map_err(|_| Refusal::PublisherStuck)?;
        connection.role = Role::Publisher { slot, mapped: local };
        for member in &self.members {
            let page = self.pages.get(&member.slot).ok_or(Refusal::NotUnderstood)?;
            joined(member.slot, member.generation, member.policy)
                .send(&connection.socket, &[page.as_fd(), member.bell.as_fd()])
                .map_err(|_| Refusal::PublisherStuck)?;
        }
        let status = self.status.words();
        if local {
            status.local_publishers.fetch_or(1 << slot, Ordering::Relaxed);
        }
        status.publishers.fetch_or(1 << slot, Ordering::Release);
        Ok(())
    }

    fn publisher_mapped(&mut self, token: u64, slot: u8) -> Answer {
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = Role::Publisher { slot, mapped: true };
        }
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited == 0 && !self.is_sealed() {
            self.seal().map_err(|_| Refusal::NotUnderstood)?;
            for (token, policy) in std::mem::take(&mut self.waiting) {
                if let Err(refusal) = self.grant_receiver(token, policy) {
                    self.say(token, Message::refusal(refusal));
                }
            }
        }
        Ok(())
    }

    fn is_sealed(&self) -> bool {
        self.status.words().phase.load(Ordering::Relaxed) != 0
    }

    fn seal(&mut self) -> Result<()> {
        MappedLog::seal(&self.log_fd)?;
        self.status.words().phase.store(1, Ordering::Release);
        Ok(())
    }

    fn subscribe(&mut self, token: u64, words: [u32; 2]) -> Answer {
        let policy = Policy::from_words(words).ok_or(Refusal::NotUnderstood)?;
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        if !connection.local && !self.options.readers.admits(connection.peer) {
            return Err(Refusal::Forbidden);
        }
        if self.is_sealed() {
            return self.grant_receiver(token, policy);
        }
        if !self.waiting.iter().any(|(waiting, _)| *waiting == token) {
            self.waiting.push((token, policy));
        }
        self.say(token, Message::new(Op::Waiting, &[]));
        Ok(())
    }

    fn grant_receiver(&mut self, token: u64, policy: Policy) -> Answer {
        let status = self.status.words();
        let slot = (0..RECEIVERS_MAX)
            .find(|slot| status.receivers[*slot].load(Ordering::Relaxed) == 0)
            .ok_or(Refusal::TooMany)?;
        let (page_fd, page) = ReceiverPage::create().map_err(|_| Refusal::Exhausted)?;
        let (bell, bell_far) = stream_pair().map_err(|_| Refusal::Exhausted)?;
        // A first cursor that is in no one's way: the receiver moves it to where it really begins.
        let start = Reader::join(&*self.log).map_err(|_| Refusal::NotUnderstood)?.position();
        page.words().cursor.store(start, Ordering::Release);
        self.generations[slot] = self.generations[slot].wrapping_add(1).max(1);
        let generation = self.generations[slot];
        for connection in self.connections.values() {
            if matches!(connection.role, Role::Publisher { .. }) {
                match joined(slot, generation, policy)
                    .send(&connection.socket, &[page_fd.as_fd(), bell.as_fd()])
                {
                    // It died, and its end is among the next events.
                    Err(error) if is_gone(&error) => {}
                    other => other.map_err(|_| Refusal::PublisherStuck)?,
                }
            }
        }
        status.receivers[slot].store(generation, Ordering::Release);
        status.members.fetch_add(1, Ordering::SeqCst); // PAIR members: `Publisher` loads it after each commit
        let connection = self.connections.get_mut(&token).ok_or(Refusal::NotUnderstood)?;
        connection.role = Role::Receiver { slot };
        let fds = [self.status_fd.as_fd(), self.log_fd.as_fd(), page_fd.as_fd(), bell_far.as_fd()];
        let _ = Message::new(Op::Granted, &[slot as u32, generation]).send(&connection.socket, &fds);
        self.members.push(Member { slot, generation, policy, page: Arc::new(page), bell, seen: 0, rung: 0 });
        self.pages.insert(slot, page_fd);
        Ok(())
    }

    fn send_report(&self, token: u64) -> Answer {
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        for row in self.report().map_err(|_| Refusal::NotUnderstood)?.to_messages() {
            // A visitor that does not read gets half a report, without its end.
            if row.send(&connection.socket, &[]).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Somebody is gone: its connection ended, or its process did.
    pub(super) fn leave(&mut self, epoll: &OwnedFd, token: u64) {
        let Some(connection) = self.connections.remove(&token) else { return };
        // Another descriptor of the same socket may live on in a forked child; epoll would go on to report it.
        let _ = epoll::delete(epoll, &connection.socket);
        if let Some(pidfd) = &connection.pidfd {
            let _ = epoll::delete(epoll, pidfd);
        }
        self.waiting.retain(|(waiting, _)| *waiting != token);
        match connection.role {
            Role::Visitor => {}
            Role::Publisher { slot, .. } => self.bury_publisher(slot),
            Role::Receiver { slot } => self.bury_receiver(slot),
        }
    }

    fn bury_publisher(&mut self, slot: u8) {
        if self.options.kind == Kind::Shared {
            // A log that publishers have corrupted cannot be repaired; receivers will say so.
            let _ = reclaim::settle(&*self.log, slot);
        } else {
            self.log.tail().writers_waiting.fetch_and(!(1 << slot), Ordering::Relaxed);
        }
        let status = self.status.words();
        status.local_publishers.fetch_and(!(1 << slot), Ordering::Relaxed);
        let left = status.publishers.fetch_and(!(1 << slot), Ordering::AcqRel) & !(1 << slot);
        let no_more = self.options.kind == Kind::Single || (self.options.remote_publishers > 0 && left == 0);
        if no_more && self.is_sealed() {
            status.phase.store(2, Ordering::Release);
        }
        // It may have died between its commit and its ring.
        self.wake_everybody();
    }

    fn bury_receiver(&mut self, slot: usize) {
        let status = self.status.words();
        status.receivers[slot].store(0, Ordering::Release);
        status.members.fetch_add(1, Ordering::SeqCst);
        if let Some(index) = self.members.iter().position(|member| member.slot == slot) {
            let member = self.members.swap_remove(index);
            // Publishers asleep on this cursor wake up, and those about to sleep find it changed.
            member.words().cursor.store(u64::MAX, Ordering::Release);
            let _ = futex::wake(member.page.cursor_futex(), u32::MAX);
        }
        self.pages.remove(&slot);
    }

    fn wake_everybody(&mut self) {
        std::sync::atomic::fence(Ordering::SeqCst); // PAIR log-armed: as a publisher after its commit
        let tail = self.log.tail();
        wake_sleepers(tail, &mut self.members, || {
            let _ = futex::wake(&tail.wake_seq, u32::MAX);
        });
    }

    pub(super) fn evict(&mut self, publisher: u8) -> Result<bool> {
        let role = |connection: &Connection| matches!(connection.role, Role::Publisher { slot, .. } if slot == publisher);
        let token = self.connections.iter().find(|(_, connection)| role(connection)).map(|(token, _)| *token);
        let Some(token) = token.filter(|_| self.options.kind == Kind::Shared) else { return Ok(false) };
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.role = Role::Visitor;
        }
        // Its late bytes may still arrive in what becomes padding. So that nobody's message ever lies there, the log
        // ends first: then that memory may be freed, but not claimed.
        reclaim::end_log(&*self.log)?;
        self.bury_publisher(publisher);
        Ok(true)
    }

    /// The end of serving. Where publishers live elsewhere, traffic goes on.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
        let status = self.status.words();
        if status.publishers.load(Ordering::Acquire) & !status.local_publishers.load(Ordering::Relaxed) == 0 {
            status.phase.store(2, Ordering::Release);
        }
        self.wake_everybody();
        self.connections.clear();
    }
}

fn joined(slot: usize, generation: u32, policy: Policy) -> Message {
    let [kind, deadline] = policy.to_words();
    Message::new(Op::Joined, &[slot as u32, generation, kind, deadline])
}
