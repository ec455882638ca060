//! The state of a server: the group, and the peer at the other end of each socket. Requests are answered here; how a peer
//! becomes a publisher or a subscriber is in [`admission`](super::admission).

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::socket::{Credentials, peer_credentials, peer_pidfd, seqpacket_pair, set_send_buffer_bytes};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::listener::Listener;
use super::logs::Epochs;
use super::payload_files::PayloadFiles;
use super::places::{Places, Share};
use super::report::Report;
use super::{PIDFD, SOCKET};
use crate::error::{Error, Refusal, Result};
use crate::foreign::ForeignSocket;
use crate::log::layout::SUBSCRIBERS_MAX;
use crate::log::mapped::MappedLog;
use crate::log::pages::{StatusPages, WakePage};
use crate::log::wait::wake_waiters;
use crate::log::wake_word::WakeWord;
use crate::options::{GroupOptions, Policy};
use crate::subscriber_handle::SubscriberHandle;
use crate::subscriber_table::SubscriberTable;
use crate::trust::Trust;
use crate::wire::{Incoming, Message, Op, from_halves, receive};

/// A visitor that requests nothing for this long is disconnected.
const VISIT_TIME: Duration = Duration::from_secs(1);

/// Answers that may wait for a subscriber of another user, as the kernel counts them: half of what it then allows. Enough for
/// a report with all publishers. Publishers need the usual size, for their notices.
const STRANGER_BUFFER_BYTES: usize = 32 << 10;

/// Half the smallest send buffer that the kernel gives: space for some six notices.
pub(super) const NOTICES_BYTES: usize = 2304;

/// After this many requests that are not understood, a peer is not listened to any more; only its end is noticed.
const MISTAKES_MAX: u32 = 16;
/// Most requests of a dead publisher that are read; its socket holds no more by far.
const REQUESTS_OF_DEAD_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) options: GroupOptions,
    pub(super) log: Arc<MappedLog>,
    pub(super) log_fd: OwnedFd,
    pub(super) epochs: Epochs,
    pub(super) status: StatusPages,
    pub(super) status_fd: OwnedFd,
    listeners: BTreeMap<u64, Listener>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) subscribers: SubscriberTable,
    /// Subscribers that are not ready yet, by connection, with the descriptors of their pages.
    pub(super) joining: BTreeMap<u64, (SubscriberHandle, OwnedFd)>,
    pub(super) lifeline: Lifeline,
    /// Where subscribers sleep that trust each other, and the descriptor of the page in which that is.
    pub(super) wake_word: WakeWord,
    pub(super) wake_page_fd: Option<OwnedFd>,
    /// Publishers that have said that they leave.
    leaving: BTreeSet<u64>,
    /// The descriptor of each subscriber's page, for publishers that join later.
    pub(super) pages: BTreeMap<usize, OwnedFd>,
    pub(super) generations: Vec<u32>,
    /// Remote publishers that have not mapped the log yet.
    pub(super) awaited_publishers: u32,
    /// Whether further publishers of this process may join.
    pub(super) admits_local_publishers: bool,
    /// Subscribers that joined before the log was sealed: token and policy.
    pub(super) waiting: Vec<(u64, Policy)>,
    /// Users whose subscribers missed a deadline and left, and until when that is remembered.
    pub(super) late_users: Vec<(Share, Instant)>,
    /// The files of payloads that are published by reference.
    pub(super) files: PayloadFiles,
    next_token: u64,
}

/// A pipe that nobody writes to. The server and all publishers hold its writing end, subscribers the other one, which hangs
/// up when no process is left that could publish.
#[derive(Debug)]
pub(super) struct Lifeline {
    pub(super) alive: OwnedFd,
    pub(super) watched: OwnedFd,
}

impl Lifeline {
    fn new() -> Result<Lifeline> {
        let (watched, alive) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| Error::os("make", "a pipe", error))?;
        Ok(Lifeline { alive, watched })
    }
}

/// A peer at the other end of a socket.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Arc<ForeignSocket>,
    pidfd: Option<OwnedFd>,
    pub(super) peer: Credentials,
    pub(super) local: bool,
    /// Whose share of the places this connection takes; `None` for this process, its user and root.
    pub(super) share: Option<Share>,
    /// When the connection ends unless a request comes before.
    deadline: Option<Instant>,
    /// Requests that were not understood.
    mistakes: u32,
    pub(super) role: Role,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// This process, for itself.
    Local,
    /// This process, for another one.
    Invitation,
    /// A socket in the file system.
    Path,
    /// The connection with this token, which asked for another one.
    Asked(u64),
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
    /// A publisher that joins with the next log.
    LatePublisher {
        slot: u8,
    },
    /// A publisher's connection for the logs to come; it is busy with one.
    Mapper {
        slot: u8,
        is_busy: bool,
    },
    /// A subscriber that waits for publishers.
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
}

/// The result of a request.
pub(super) type Answer<T = ()> = std::result::Result<T, Refusal>;

impl State {
    pub(super) fn new(name: &str, options: GroupOptions) -> Result<State> {
        let mut id = [0; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Error::os("draw", "the number of a group", error))?;
        let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| id[at + index]));
        let (log_fd, log) =
            MappedLog::create(name, options.kind, options.capacity_bytes, [half(0), half(8)])?;
        let (status_fd, status) = StatusPages::create()?;
        let log = Arc::new(log);
        let (wake_word, wake_page_fd) = match options.effective_trust() {
            Trust::SameUser => {
                let (fd, page) = WakePage::create()?;
                (WakeWord::in_page(Arc::clone(&log), Arc::new(page), 0), Some(fd))
            }
            Trust::Strangers => (WakeWord::in_log(Arc::clone(&log)), None),
        };
        let mut state = State {
            awaited_publishers: options.remote_publishers,
            admits_local_publishers: true,
            name: name.to_owned(),
            epochs: Epochs::default(),
            options,
            log,
            log_fd,
            status,
            status_fd,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            subscribers: SubscriberTable::default(),
            joining: BTreeMap::new(),
            lifeline: Lifeline::new()?,
            wake_word,
            wake_page_fd,
            leaving: BTreeSet::new(),
            pages: BTreeMap::new(),
            generations: vec![0; SUBSCRIBERS_MAX],
            waiting: Vec::new(),
            late_users: Vec::new(),
            files: PayloadFiles::default(),
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

    pub(super) fn add_listener(&mut self, listener: Listener) -> u64 {
        let token = self.token();
        self.listeners.insert(token, listener);
        token
    }

    pub(super) fn listener(&self, token: u64) -> Option<&Listener> {
        self.listeners.get(&token)
    }

    /// Adds a connection, if the rules admit its user and there is a place for it. A refused peer is told the reason.
    pub(super) fn connect(&mut self, epoll: &OwnedFd, socket: OwnedFd, origin: Origin) -> Result<u64> {
        let socket = ForeignSocket::new(socket);
        let failed = |error: Errno| Error::os("watch", "a connection", error);
        rustix::io::ioctl_fionbio(&socket, true).map_err(failed)?;
        let (peer, share) = match origin {
            Origin::Local | Origin::Invitation => (peer_credentials(&socket)?, None),
            Origin::Path => {
                let peer = peer_credentials(&socket)?;
                (peer, Share::of(peer))
            }
            Origin::Asked(token) => {
                let other = self.connections.get(&token).ok_or(Error::ServerGone)?;
                // Which process will use it is not known: a pair of sockets shows the process that made it.
                (other.peer, Some(other.share.unwrap_or(Share::Invited)))
            }
        };
        let local = matches!(origin, Origin::Local);
        if let Err(refusal) = self.check_visitor(peer, share, local) {
            let _ = Message::refusal(refusal).send(&socket, &[]);
            return Err(Error::Refused(refusal));
        }
        if matches!(share, Some(Share::User(_))) && !self.options.publishers.admits(peer) {
            // What it requests and does not read lies in this process's memory. A failure leaves the usual size.
            let _ = set_send_buffer_bytes(&socket, STRANGER_BUFFER_BYTES);
        }
        // Only a process that connected by itself is known; the end of the others' connections tells that they are gone.
        let pidfd = match origin {
            Origin::Path if peer.pid != std::process::id() => {
                peer_pidfd(&socket).or_else(|_| causeway_os::process::pidfd_open(peer.pid)).ok()
            }
            _ => None,
        };
        let token = self.token();
        epoll::add(epoll, &socket, EventData::new_u64((token << 2) | SOCKET), events(&socket))
            .map_err(failed)?;
        if let Some(pidfd) = &pidfd {
            epoll::add(epoll, pidfd, EventData::new_u64((token << 2) | PIDFD), EventFlags::IN)
                .map_err(failed)?;
        }
        // A socket that was made for another process may wait until that one starts.
        let deadline = matches!(origin, Origin::Path).then(|| Instant::now() + VISIT_TIME);
        let (socket, role) = (Arc::new(socket), Role::Client);
        let connection = Connection { socket, pidfd, peer, local, share, deadline, mistakes: 0, role };
        self.connections.insert(token, connection);
        Ok(token)
    }

    /// Asks the rules whether this user may join in any way, and whether there is a place for another connection.
    fn check_visitor(&self, peer: Credentials, share: Option<Share>, local: bool) -> Answer {
        if local {
            return Ok(());
        }
        let is_stranger = matches!(share, Some(Share::User(_)));
        if is_stranger && !self.options.publishers.admits(peer) && !self.options.subscribers.admits(peer) {
            return Err(Refusal::Forbidden);
        }
        let remote = self.connections.values().filter(|connection| !connection.local);
        Places::now().check(remote.map(|connection| connection.share), share)
    }

    /// When the next visitor's time is over.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let visits = self.connections.values().filter_map(Connection::visit_ends);
        visits.chain(self.roll_deadline()).min()
    }

    /// Disconnects the visitors whose time is over.
    pub(super) fn end_visits(&mut self, epoll: &OwnedFd) {
        let now = Instant::now();
        let is_over = |connection: &Connection| connection.visit_ends().is_some_and(|end| end <= now);
        let over: Vec<u64> =
            self.connections.iter().filter(|(_, it)| is_over(it)).map(|(token, _)| *token).collect();
        for token in over {
            self.send_to(token, Message::refusal(Refusal::TooLate));
            self.disconnect(epoll, token);
        }
    }

    /// The socket of a connection, to be read.
    pub(super) fn socket(&self, token: u64) -> Option<Arc<ForeignSocket>> {
        self.connections.get(&token).map(|connection| Arc::clone(&connection.socket))
    }

    /// Waits for the next request on a socket that is read by a thread of its own.
    pub(super) fn watch_again(&mut self, epoll: &OwnedFd, token: u64) {
        if let Some(connection) = self.connections.get(&token) {
            let (socket, data) = (&connection.socket, EventData::new_u64((token << 2) | SOCKET));
            let events = if connection.mistakes > MISTAKES_MAX { EventFlags::RDHUP } else { events(socket) };
            let _ = epoll::modify(epoll, socket, data, events);
        }
    }

    /// Answers what was read from a peer.
    pub(super) fn serve(&mut self, epoll: &OwnedFd, token: u64, incoming: Result<Incoming>) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let message = match incoming {
            // What is left to hear of it is its end.
            _ if connection.mistakes > MISTAKES_MAX => return self.disconnect(epoll, token),
            Ok(Incoming::Message(message, _)) => message,
            Ok(Incoming::Nothing) => return,
            Ok(Incoming::OtherVersion(_) | Incoming::Malformed) => return self.note_mistake(epoll, token),
            Ok(Incoming::End) | Err(_) => return self.disconnect(epoll, token),
        };
        connection.extend_visit();
        let answer = match (message.op, connection.role) {
            (Op::Publish, Role::Client) => self
                .check_type([message.words[0], message.words[1]], true)
                .and_then(|()| self.grant_publisher(epoll, token)),
            (Op::Mapped, Role::Publisher { slot, mapped: false }) => self.publisher_mapped(token, slot),
            (Op::Mapped, Role::LatePublisher { .. } | Role::Mapper { .. }) => {
                return self.note_mapped(token, from_halves([message.words[0], message.words[1]]));
            }
            (Op::Roll, Role::Publisher { .. }) => return self.roll_for(token),
            (Op::Follow, Role::Subscriber { slot }) => {
                self.send_next_log(token, slot, from_halves([message.words[0], message.words[1]]))
            }
            (Op::Subscribe, Role::Client | Role::Waiting) => self
                .check_type([message.words[2], message.words[3]], false)
                .and_then(|()| self.subscribe(token, [message.words[0], message.words[1]])),
            (Op::Ready, Role::Joining { slot }) => self.register(token, slot),
            (Op::Placed, Role::Subscriber { slot }) => self.note_placed(token, slot),
            (Op::Fetch, Role::Publisher { .. }) => {
                self.send_what_it_lacks(token, [message.words[0], message.words[1], message.words[2]]);
                return;
            }
            (Op::Missed, Role::Publisher { .. }) => {
                if let Some(subscriber) = self.connection_of([message.words[0], message.words[1]]) {
                    self.disconnect(epoll, subscriber);
                }
                return;
            }
            (Op::Leave, Role::Publisher { .. }) => {
                self.leaving.insert(token);
                return;
            }
            (Op::Wake, Role::Publisher { .. }) => return self.wake_all_subscribers(),
            (Op::Pool, Role::Client) => self.open_pool(token, [message.words[0], message.words[1]]),
            (Op::Allocate, Role::Pool { number }) => {
                self.allocate_payload_file(token, number, from_halves([message.words[0], message.words[1]]))
            }
            (Op::Forget, Role::Pool { number }) => {
                self.files.forget(number, message.words[0]);
                return;
            }
            (Op::Payload, Role::Subscriber { slot }) => {
                self.send_payload_file(token, slot, [message.words[0], message.words[1]])
            }
            (Op::Stat, _) => self.send_report(token, message.words[0]),
            // Not for a subscriber: a hostile one would use up all connections.
            (Op::Connect, Role::Client) => self.connect_another(epoll, token),
            _ => return self.note_mistake(epoll, token),
        };
        if let Err(refusal) = answer {
            self.send_to(token, Message::refusal(refusal));
        }
    }

    /// Compares the type that a peer states, 0 for none, with that of the group. Bytes of a typed message may be read by all, and
    /// published by none but those that state the type.
    fn check_type(&self, stated: [u32; 2], publishes: bool) -> Answer {
        let (stated, own) = (from_halves(stated), self.options.fingerprint);
        let reads_bytes = stated == 0 && !publishes;
        if stated == own || reads_bytes { Ok(()) } else { Err(Refusal::OtherType) }
    }

    /// Refuses a request that is not understood. The refusal has our version, so that a peer of another one can name both. A peer
    /// that goes on and on costs no more than its place.
    fn note_mistake(&mut self, epoll: &OwnedFd, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let _ = Message::refusal(Refusal::NotUnderstood).send(&connection.socket, &[]);
        connection.mistakes += 1;
        if connection.mistakes > MISTAKES_MAX {
            let (socket, data) = (&connection.socket, EventData::new_u64((token << 2) | SOCKET));
            // Its end is reported all the same.
            let _ = epoll::modify(epoll, socket, data, EventFlags::RDHUP);
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
        self.connect(epoll, near, Origin::Asked(token)).map_err(|error| match error {
            // The far end was dropped with what it was told.
            Error::Refused(refusal) => refusal,
            _ => Refusal::Exhausted,
        })?;
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

    /// Sends the part of a report that begins with row `from`.
    fn send_report(&self, token: u64, from: u32) -> Answer {
        let connection = self.connections.get(&token).ok_or(Refusal::NotUnderstood)?;
        let mut report = self.report().map_err(|_| Refusal::NotUnderstood)?;
        // Of other subscribers, a stranger learns nothing.
        if let Some(Share::User(uid)) = connection.share {
            report.subscribers.retain(|subscriber| subscriber.uid == uid);
        }
        for row in report.to_messages(from) {
            // A client that does not read gets part of a report, without its end.
            if row.send(&connection.socket, &[]).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Removes a peer whose process has died. Of a publisher, what it had sent is read first: one that left and then ended was
    /// not killed. Publishers are trusted, so this read, unlike that of a visitor, may be made with the lock.
    pub(super) fn bury(&mut self, epoll: &OwnedFd, token: u64) {
        if let Some(Connection { socket, role: Role::Publisher { .. }, .. }) = self.connections.get(&token) {
            for _ in 0..REQUESTS_OF_DEAD_MAX {
                match receive(&**socket, 0) {
                    Ok(Incoming::Message(message, _)) if message.op == Op::Leave => {
                        self.leaving.insert(token);
                    }
                    Ok(Incoming::Nothing | Incoming::End) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        }
        self.disconnect(epoll, token);
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
            Role::Client | Role::Waiting => {}
            Role::Publisher { slot, .. } => {
                if !self.leaving.remove(&token) {
                    self.status.words().killed_publishers.fetch_add(1, Ordering::Relaxed);
                }
                self.remove_publisher(slot);
                if let Some(mapper) = self.mapper_of(slot) {
                    self.disconnect(epoll, mapper);
                }
            }
            Role::LatePublisher { slot } => {
                self.forget_joiner(token);
                if let Some(mapper) = self.mapper_of(slot) {
                    self.disconnect(epoll, mapper);
                }
            }
            Role::Mapper { .. } => self.await_no_longer(token),
            Role::Pool { number } => self.end_pool(number),
            Role::Joining { .. } => drop(self.joining.remove(&token)),
            Role::Subscriber { slot } => self.remove_subscriber(slot, connection.share),
        }
    }

    pub(super) fn wake_all_subscribers(&mut self) {
        self.change_wake_words_of_ended_logs();
        std::sync::atomic::fence(Ordering::SeqCst); // PAIR log-armed: as a publisher after its commit
        let State { wake_word, subscribers, .. } = self;
        wake_waiters(wake_word, subscribers, None, |bits| wake_word.wake(bits));
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

impl Connection {
    /// Starts the time of a visit again, if it is limited.
    pub(super) fn extend_visit(&mut self) {
        self.deadline = self.deadline.map(|_| Instant::now() + VISIT_TIME);
    }

    /// When this visit ends unless a request comes before. A subscriber that joins is a visitor until it is ready; publishers
    /// and subscribers are none, nor is a subscriber that waits for publishers.
    fn visit_ends(&self) -> Option<Instant> {
        self.deadline.filter(|_| matches!(self.role, Role::Client | Role::Joining { .. }))
    }
}

/// What to wait for on a socket. One that a thread of its own reads is watched again when that thread has read it.
fn events(socket: &ForeignSocket) -> EventFlags {
    match socket.refuses_descriptors() {
        true => EventFlags::IN,
        false => EventFlags::IN | EventFlags::ONESHOT,
    }
}
