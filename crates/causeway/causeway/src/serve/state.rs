//! The state of a server, and what it does with each request. How a peer becomes a publisher or a subscriber is in
//! [`admission`](super::admission), how one log follows another in [`epochs`](super::epochs).

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::socket::{Credentials, peer_credentials, seqpacket_pair, set_send_buffer_bytes};
use causeway_os::{Context, clock};

use super::allowance::Rates;
use super::connections::{Answer, Connection, Connections, Origin, Role};
use super::first::Held;
use super::logs::Logs;
use super::payload_files::PayloadFiles;
use super::places::{Places, Share};
use super::report::{PublisherReport, Report, SubscriberReport};
use super::subscribers::{Subscribers, is_demoted};
use crate::error::{Error, Refusal, Result};
use crate::foreign::ForeignSocket;
use crate::log::form::check_format;
use crate::log::layout::FORMAT_DEFAULT;
use crate::log::mapped::MappedLog;
use crate::log::pages::{StatusPages, WakePage};
use crate::log::wait::{WaitingSubscriber, wake_waiters};
use crate::log::wake_word::WakeWord;
use crate::log::{Memory, server};
use crate::options::GroupOptions;
use crate::request::Request;
use crate::trust::Trust;
use crate::wire::{Incoming, Message, Op, receive};

/// Answers that may wait for a subscriber of another user, as the kernel counts them: half of what it then allows. Enough for
/// a report with all publishers. Publishers need the usual size, for their notices.
const STRANGER_BUFFER_BYTES: usize = 32 << 10;

/// Most requests of a dead publisher that are read; its socket holds no more by far.
const REQUESTS_OF_DEAD_MAX: usize = 1024;

#[derive(Debug)]
pub struct State {
    pub name: String,
    pub options: GroupOptions,
    pub logs: Logs,
    pub pages: GroupPages,
    pub connections: Connections,
    pub publishers: Publishers,
    pub subscribers: Subscribers,
    pub files: PayloadFiles,
    /// The thread that serves is to end.
    pub is_stopping: bool,
}

/// What every member gets besides the log.
#[derive(Debug)]
pub struct GroupPages {
    pub status: StatusPages,
    pub status_fd: OwnedFd,
    /// Where subscribers sleep that trust each other, and the descriptor of the page in which that is.
    pub wake_word: WakeWord,
    pub wake_page_fd: Option<OwnedFd>,
    /// A pipe that nobody writes to. The server and all publishers hold its writing end, subscribers the other one, which hangs
    /// up when no process is left that could publish.
    pub alive: OwnedFd,
    pub lifeline: OwnedFd,
}

/// What decides whether another publisher may join, and whether one that is gone was killed.
#[derive(Debug)]
pub struct Publishers {
    /// Those of other processes that have not mapped the first log yet.
    pub awaited: u32,
    pub admits_local: bool,
    /// The connections of those that have said that they leave.
    pub leaving: BTreeSet<u64>,
    /// The slots of those that are to be left out of the next log and then disconnected, a bit each.
    pub outcasts: u64,
    pub rates: Rates,
    /// The last that joined, while subscribers that waited for it find their places.
    pub held: Option<Held>,
}

impl GroupPages {
    fn new(log: &Arc<MappedLog>, trust: Trust) -> Result<GroupPages> {
        let (status_fd, status) = StatusPages::create()?;
        let (wake_word, wake_page_fd) = match trust {
            Trust::SameUser => {
                let (fd, page) = WakePage::create()?;
                (WakeWord::in_page(Arc::clone(log), Arc::new(page), 0), Some(fd))
            }
            Trust::Strangers => (WakeWord::in_log(Arc::clone(log)), None),
        };
        let (lifeline, alive) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context("make", || "a pipe")?;
        Ok(GroupPages { status, status_fd, wake_word, wake_page_fd, alive, lifeline })
    }

    /// What a publisher gets: these pages, the log unless its process made that, and a connection for the next logs if it needs one.
    pub fn for_publisher<'a>(
        &'a self,
        log: Option<&'a OwnedFd>,
        logs: Option<&'a OwnedFd>,
    ) -> Vec<BorrowedFd<'a>> {
        let fds = [Some(&self.status_fd), log, Some(&self.alive), self.wake_page_fd.as_ref(), logs];
        fds.into_iter().flatten().map(AsFd::as_fd).collect()
    }

    fn phase(&self) -> u64 {
        self.status.words().phase.load(Ordering::Relaxed)
    }

    /// Whether the first log was sealed: subscribers have it.
    pub fn is_sealed(&self) -> bool {
        self.phase() != 0
    }

    /// Whether nothing more will be published.
    pub fn has_ended(&self) -> bool {
        self.phase() == 2
    }

    pub fn end(&self) {
        self.status.words().phase.store(2, Ordering::Release);
    }
}

impl State {
    pub fn new(name: &str, options: GroupOptions, epoll: Arc<OwnedFd>) -> Result<State> {
        let level = options.format.unwrap_or(FORMAT_DEFAULT);
        check_format(level)?;
        let (log_fd, log) = MappedLog::create(name, options.kind, options.capacity_bytes, level)?;
        let log = Arc::new(log);
        let pages = GroupPages::new(&log, options.effective_trust())?;
        let awaited = options.remote_publishers;
        let state = State {
            name: name.to_owned(),
            options,
            logs: Logs::new(log, log_fd),
            pages,
            connections: Connections::new(epoll),
            publishers: Publishers {
                awaited,
                admits_local: true,
                leaving: BTreeSet::new(),
                outcasts: 0,
                rates: Rates::default(),
                held: None,
            },
            subscribers: Subscribers::new(),
            files: PayloadFiles::default(),
            is_stopping: false,
        };
        if awaited == 0 {
            state.seal()?;
        }
        Ok(state)
    }

    /// Adds a connection, if the rules admit its user and there is a place for it. A refused peer is told the reason.
    pub fn connect(&mut self, socket: OwnedFd, origin: Origin) -> Result<u64> {
        let socket = ForeignSocket::new(socket);
        rustix::io::ioctl_fionbio(&socket, true).context("watch", || "a connection")?;
        let (peer, share) = match origin {
            Origin::Local | Origin::Invitation => (peer_credentials(&socket)?, None),
            Origin::Path => {
                let peer = peer_credentials(&socket)?;
                (peer, Share::of(peer))
            }
            Origin::Asked(token) => {
                let other = self.connections.get(token).map_err(|_| Error::ServerGone)?;
                // Which process will use it is not known: a pair of sockets shows the process that made it.
                (other.peer, Some(other.share.unwrap_or(Share::Invited)))
            }
        };
        if origin != Origin::Local
            && let Err(refusal) = self.check_visitor(peer, share)
        {
            let _ = Message::refusal(refusal).send(&socket, &[]);
            return Err(Error::Refused(refusal));
        }
        if matches!(share, Some(Share::User(_))) && !self.options.publishers.admits(peer) {
            // What it requests and does not read lies in this process's memory. A failure leaves the usual size.
            let _ = set_send_buffer_bytes(&socket, STRANGER_BUFFER_BYTES);
        }
        self.connections.add(socket, origin, peer, share)
    }

    /// Asks the rules whether this user may join in any way, and whether there is a place for another connection.
    fn check_visitor(&self, peer: Credentials, share: Option<Share>) -> Answer {
        let is_stranger = matches!(share, Some(Share::User(_)));
        if is_stranger && !self.options.publishers.admits(peer) && !self.options.subscribers.admits(peer) {
            return Err(Refusal::Forbidden);
        }
        let remote = self.connections.iter().filter(|connection| !connection.local);
        Places::now().check(remote.map(|connection| connection.share), share)
    }

    /// A connection like this one, for whoever will use it. Returns its far end.
    pub fn connect_another(&mut self, token: u64) -> Answer<(u64, OwnedFd)> {
        let (near, far) = seqpacket_pair().map_err(|_| Refusal::Exhausted)?;
        match self.connect(near, Origin::Asked(token)) {
            Ok(another) => Ok((another, far)),
            // The far end is dropped with what it was told.
            Err(Error::Refused(refusal)) => Err(refusal),
            Err(_) => Err(Refusal::Exhausted),
        }
    }

    /// When the next visitor's time, or that of a roll, is over.
    pub fn next_deadline(&self) -> Option<Instant> {
        let others =
            self.roll_deadline().into_iter().chain(self.hold_ends()).chain(self.next_look_at_rates());
        self.connections.next_deadline().into_iter().chain(others).min()
    }

    pub fn end_visits(&mut self) {
        for token in self.connections.overdue() {
            self.connections.send(token, Message::refusal(Refusal::TooLate));
            self.disconnect(token);
        }
        self.release_held();
    }

    pub fn serve(&mut self, token: u64, incoming: Result<Incoming>) {
        let Ok(connection) = self.connections.get_mut(token) else { return };
        let message = match incoming {
            // What is left to hear of it is its end.
            _ if connection.is_ignored() => return self.disconnect(token),
            Ok(Incoming::Message(message, _)) => message,
            Ok(Incoming::Nothing | Incoming::Ignored) => return,
            Ok(Incoming::OtherVersion(_) | Incoming::Malformed) => {
                return self.connections.note_mistake(token);
            }
            Ok(Incoming::End) | Err(_) => return self.disconnect(token),
        };
        connection.extend_visit();
        let role = connection.role;
        let answered = match self.note_offer(token, &message) {
            Ok(()) => Request::decode(&message).and_then(|request| self.answer(token, role, request)),
            Err(refusal) => Some(Err(refusal)),
        };
        match answered {
            None => self.connections.note_mistake(token),
            Some(Ok(())) => {}
            Some(Err(refusal)) => self.refuse(token, refusal),
        }
        self.release_held();
    }

    /// Does what a peer in this role requests; `None` if it may not request that.
    fn answer(&mut self, token: u64, role: Role, request: Request) -> Option<Answer> {
        Some(match (request, role) {
            (Request::Publish { fingerprint }, Role::Client) => {
                self.check_type(fingerprint, true).and_then(|()| self.grant_publisher(token))
            }
            (Request::Mapped { .. }, Role::Publisher { slot, mapped: false }) => {
                self.publisher_mapped(token, slot)
            }
            (Request::Subscribe { policy, fingerprint }, Role::Client | Role::Waiting) => {
                let policy = self.check_type(fingerprint, false).and(policy.ok_or(Refusal::NotUnderstood));
                policy.and_then(|policy| self.subscribe(token, policy))
            }
            (Request::Ready, Role::Joining { slot }) => self.register(token, slot),
            (Request::Placed, Role::Subscriber { slot }) => self.note_placed(token, slot),
            (Request::Follow { epoch }, Role::Subscriber { slot }) => self.send_next_log(token, slot, epoch),
            (Request::Claim { role }, Role::Client) => self.claim(token, role),
            (Request::Pool { kind, files }, Role::Client) => self.open_pool(token, kind, files),
            (Request::Allocate { bytes }, Role::Pool { number }) => {
                self.allocate_payload_file(token, number, bytes)
            }
            (Request::Payload { pool, index }, Role::Subscriber { slot }) => {
                self.send_payload_file(token, slot, pool, index)
            }
            (Request::Upgrade, Role::Client) => self.answer_upgrade(token),
            (Request::Report { from }, _) => self.send_report(token, from),
            // Not for a subscriber: a hostile one would use up all connections.
            (Request::Connect, Role::Client) => self.send_another_connection(token),
            _ => return self.take_notice(token, role, request).map(Ok),
        })
    }

    /// The same of requests that are never refused.
    fn take_notice(&mut self, token: u64, role: Role, request: Request) -> Option<()> {
        match (request, role) {
            (Request::Mapped { epoch }, Role::LatePublisher { .. } | Role::Mapper { .. }) => {
                self.note_mapped(token, epoch);
            }
            (Request::Roll, Role::Publisher { .. }) => self.roll_for(token),
            (Request::Fetch { subscriber, part }, Role::Publisher { .. }) => {
                self.send_what_it_lacks(token, subscriber, part);
            }
            (Request::Missed(subscriber), Role::Publisher { .. }) => {
                if let Some(subscriber) = self.connection_of(subscriber) {
                    self.disconnect(subscriber);
                }
            }
            (Request::Leave, Role::Publisher { .. }) => drop(self.publishers.leaving.insert(token)),
            (Request::Wake, Role::Publisher { .. }) => self.wake_all_subscribers(),
            (Request::Forget { index }, Role::Pool { number }) => self.files.forget(number, index),
            _ => return None,
        }
        Some(())
    }

    /// Compares the type that a peer states, 0 for none, with that of the group. Bytes of a typed message may be read by all, and
    /// published by none but those that state the type.
    fn check_type(&self, stated: u64, publishes: bool) -> Answer {
        let reads_bytes = stated == 0 && !publishes;
        if stated == self.options.fingerprint || reads_bytes { Ok(()) } else { Err(Refusal::OtherType) }
    }

    /// Only the user who may replace the server may change what it makes.
    fn answer_upgrade(&mut self, token: u64) -> Answer {
        if self.connections.get(token)?.share.is_some() {
            return Err(Refusal::Forbidden);
        }
        let level = self.upgrade()?;
        self.connections.send(token, Message::new(Op::Granted, &[level]));
        Ok(())
    }

    fn send_another_connection(&mut self, token: u64) -> Answer {
        let (_, far) = self.connect_another(token)?;
        let _ = self.connections.get(token)?.send(Message::new(Op::Granted, &[]), &[far.as_fd()]);
        Ok(())
    }

    /// Gives a role to a process that may publish, if no other has it.
    fn claim(&mut self, token: u64, role: u64) -> Answer {
        self.connections.get(token)?.check(&self.options.publishers)?;
        if self.connections.find(|of| of == Role::Claimant { role }).is_some() {
            return Err(Refusal::Claimed);
        }
        self.connections.set_role(token, Role::Claimant { role });
        self.connections.send(token, Message::new(Op::Granted, &[]));
        Ok(())
    }

    pub fn seal(&self) -> Result<()> {
        MappedLog::seal(&self.logs.present_fd)?;
        self.pages.status.words().phase.store(1, Ordering::Release);
        Ok(())
    }

    pub fn report(&self) -> Result<Report> {
        let log = &self.logs.present;
        let (position, messages) = server::end_of(&**log, log.kind())?;
        let (mut publishers, mut subscribers) = (Vec::new(), Vec::new());
        for connection in self.connections.iter() {
            let (Credentials { pid, uid, .. }, liveness) = (connection.peer, connection.liveness);
            match connection.role {
                Role::Publisher { slot, .. } => {
                    publishers.push(PublisherReport {
                        slot,
                        pid,
                        uid,
                        liveness,
                        waits_for: self.waits_for(slot),
                    });
                }
                Role::Subscriber { slot } => {
                    let Some(subscriber) = self.subscribers.present.get(slot).filter(|one| one.placed) else {
                        continue;
                    };
                    let words = subscriber.words();
                    let cursor = words.cursor.load(Ordering::Relaxed);
                    // What was overwritten is lost, and not to be read.
                    let mut kept = self.logs.kept().filter(|(log, _)| log.epoch() >= subscriber.epoch);
                    let oldest = kept.next().map_or(log, |(log, _)| log);
                    let begin = cursor.max(oldest.tail().floor.load(Ordering::Relaxed));
                    subscribers.push(SubscriberReport {
                        slot: slot as u32,
                        pid,
                        uid,
                        liveness,
                        policy: subscriber.policy,
                        asleep: words.arm.load(Ordering::Relaxed) & 3 != 0,
                        demoted: is_demoted(subscriber, log.tail()),
                        lag_bytes: position.saturating_sub(begin),
                        received: words.received.load(Ordering::Relaxed),
                        lost_messages: words.lost_messages.load(Ordering::Relaxed),
                    });
                }
                _ => {}
            }
        }
        publishers.sort_unstable_by_key(|publisher| publisher.slot);
        subscribers.sort_unstable_by_key(|subscriber| subscriber.slot);
        let (capacity_bytes, format, epoch) = (log.capacity_bytes(), log.level(), log.epoch());
        Ok(Report { capacity_bytes, position, messages, format, epoch, publishers, subscribers })
    }

    /// The subscriber for which this publisher says that it waits, if there is one, and how long ago that began.
    fn waits_for(&self, publisher: u8) -> Option<(u32, Duration)> {
        let words = &self.logs.present.tail().publishers[usize::from(publisher)];
        let named = words.waits_for.load(Ordering::Relaxed);
        let slot = (named as u32).checked_sub(1)?;
        self.subscribers.present.find(slot as usize, (named >> 32) as u32)?;
        let ns = clock::monotonic_ns().saturating_sub(words.waits_since_ns.load(Ordering::Relaxed));
        Some((slot, Duration::from_nanos(ns)))
    }

    /// Sends the part of a report that begins with row `from`.
    fn send_report(&self, token: u64, from: u32) -> Answer {
        let connection = self.connections.get(token)?;
        let mut report = self.report().map_err(|_| Refusal::NotUnderstood)?;
        // Of other subscribers, a stranger learns nothing.
        if let Some(Share::User(uid)) = connection.share {
            report.subscribers.retain(|subscriber| subscriber.uid == uid);
            let is_shown = |slot| report.subscribers.iter().any(|subscriber| subscriber.slot == slot);
            for publisher in &mut report.publishers {
                publisher.waits_for = publisher.waits_for.filter(|(slot, _)| is_shown(*slot));
            }
        }
        // A client that does not read gets part of a report, without its end.
        let _ = report.to_messages(from).into_iter().try_for_each(|row| connection.send(row, &[]));
        Ok(())
    }

    /// Removes a peer whose process has died. Of a publisher, what it had sent is read first: one that left and then ended was
    /// not killed. Publishers are trusted, so this read, unlike that of a visitor, may be made with the lock.
    pub fn reap(&mut self, token: u64) {
        if let Ok(Connection { socket, role: Role::Publisher { .. }, .. }) = self.connections.get(token) {
            for _ in 0..REQUESTS_OF_DEAD_MAX {
                match receive(&**socket, 0) {
                    Ok(Incoming::Message(message, _)) if message.op == Op::Leave => {
                        self.publishers.leaving.insert(token);
                    }
                    Ok(Incoming::Nothing | Incoming::End) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        }
        self.disconnect(token);
    }

    /// Removes a peer whose connection has ended or whose process has died.
    pub fn disconnect(&mut self, token: u64) {
        let Some(mut connection) = self.connections.remove(token) else { return };
        self.subscribers.waiting.retain(|(waiting, _)| *waiting != token);
        match connection.role {
            Role::Client | Role::Waiting | Role::Claimant { .. } => {}
            Role::Publisher { slot, .. } => {
                self.end_count(token, slot, &mut connection);
                if !self.publishers.leaving.remove(&token) {
                    self.pages.status.words().killed_publishers.fetch_add(1, Ordering::Relaxed);
                }
                self.remove_publisher(slot);
                self.disconnect_mapper_of(slot);
            }
            Role::LatePublisher { slot } => {
                self.forget_joiner(token);
                self.disconnect_mapper_of(slot);
                // It may have been the last for which a group without its creator waited.
                self.end_if_nobody_is_left();
            }
            Role::Mapper { .. } => self.await_no_longer(token),
            Role::Pool { number } => self.end_pool(number),
            Role::Joining { .. } => {
                self.subscribers.joining.remove(&token);
                self.begin_if_mapped();
            }
            Role::Subscriber { slot } => self.remove_subscriber(slot, connection.share),
        }
        self.release_held();
        self.follow_formats();
    }

    fn disconnect_mapper_of(&mut self, publisher: u8) {
        if let Some(mapper) = self.mapper_of(publisher) {
            self.disconnect(mapper);
        }
    }

    pub fn wake_all_subscribers(&mut self) {
        self.logs.change_wake_words_of_ended();
        std::sync::atomic::fence(Ordering::SeqCst); // PAIR log-armed: as a publisher after its commit
        let wake_word = &self.pages.wake_word;
        wake_waiters(wake_word, &mut self.subscribers.present, None, |bits| wake_word.wake(bits));
    }

    /// Stops serving. If other processes publish, messages still flow.
    pub fn close(&mut self) {
        self.connections.stop_listening();
        if self.pages.status.words().remote_publishers() == 0 {
            self.pages.end();
        }
        self.wake_all_subscribers();
        self.connections.clear();
    }
}
