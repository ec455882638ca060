//! The loop: one thread, one epoll, all sockets.
//!
//! No system call here waits but `epoll_wait`. One round reads each socket that is ready once, lets the bus pass what has arrived, and
//! then writes to each socket what it got in this round.

mod native;
mod token;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use causeway_os::process::{block_signals, read_signal};
use causeway_os::socket::{peer_credentials, peer_groups, peer_security_label};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::event::epoll::{self, EventFlags};
use rustix::time::Timespec;

use crate::bus::{Action, Bus, Ended};
use crate::children::Children;
use crate::config::Config;
use crate::connection::{Connection, End, READ_BYTES};
use crate::listen::Listener;
use crate::log::log;
use crate::member::{Carrier, Identity, MemberId};
use native::Native;
use token::Token;

const EVENTS: usize = 256;
/// How long nobody is accepted when this process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections accepted from one socket in one round.
const MOST_ACCEPTED: usize = 64;
/// Signals by which this program is told to end, to read its configuration again, and nothing.
const SIGNALS: [i32; 3] = [15, 2, 1];
const HANGUP: i32 = 1;

struct Client {
    connection: Connection,
    /// When it must have said Hello.
    deadline: Instant,
    wants_to_write: bool,
    /// It is not read, because the order log is full.
    is_paused: bool,
}

impl Client {
    /// What its socket is watched for.
    fn interest(&self) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, !self.is_paused);
        flags.set(EventFlags::OUT, self.wants_to_write);
        flags
    }
}

/// Reads the configuration again.
pub type Reload = Box<dyn Fn() -> Result<Config, String>>;

/// A bus with its sockets.
pub struct Server {
    epoll: OwnedFd,
    signals: OwnedFd,
    listeners: Vec<Listener>,
    /// Are connections accepted now? Until when not?
    is_listening: bool,
    paused_until: Option<Instant>,
    clients: FxHashMap<MemberId, Client>,
    /// Those that have not said Hello, by their deadlines.
    incomplete: BTreeSet<(Instant, MemberId)>,
    /// Those whose descriptors wait for the rest of a message.
    half: FxHashSet<MemberId>,
    /// Those that got something in this round.
    dirty: Vec<MemberId>,
    children: Children,
    /// Native members and the order log, if they can join here.
    native: Option<Native>,
    /// Clients that are not read, because the order log is full.
    paused: Vec<MemberId>,
    bus: Bus,
    reload: Reload,
    scratch: Vec<u8>,
    now: Instant,
}

impl Server {
    /// A server of a bus that listens already.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn new(
        bus: Bus,
        listeners: Vec<Listener>,
        children: Children,
        reload: Reload,
    ) -> Result<Server, String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| said(&error))?;
        let signals = block_signals(&SIGNALS).map_err(|error| said(&error))?;
        epoll::add(&epoll, &signals, Token::Signal.data(), EventFlags::IN).map_err(|error| said(&error))?;
        let mut server = Server {
            epoll,
            signals,
            listeners,
            is_listening: false,
            paused_until: None,
            clients: FxHashMap::default(),
            incomplete: BTreeSet::new(),
            half: FxHashSet::default(),
            dirty: Vec::new(),
            children,
            native: None,
            paused: Vec::new(),
            bus,
            reload,
            scratch: vec![0; READ_BYTES],
            now: Instant::now(),
        };
        server.listen(true);
        Ok(server)
    }

    /// Ends [`Server::run`] also when this becomes readable.
    ///
    /// # Errors
    /// The kernel's.
    pub fn stop_with(&mut self, stop: &OwnedFd) -> Result<(), String> {
        epoll::add(&self.epoll, stop, Token::Stop.data(), EventFlags::IN).map_err(|error| error.to_string())
    }

    /// Serves until a signal says that it is enough.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn run(&mut self) -> Result<(), String> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            let timeout = if self.may_sleep() { self.timeout() } else { Some(Timespec::default()) };
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(format!("cannot wait for events: {error}")),
            }
            self.now = Instant::now();
            self.wake_up();
            for event in &events {
                match Token::of(event) {
                    Token::Listener(index) => self.accept(index as usize),
                    Token::Member(number) => self.serve(MemberId(number), event.flags),
                    Token::Child(number) => self.reap(number),
                    Token::Native => self.serve_members(),
                    Token::Stop => return Ok(()),
                    Token::Signal => match read_signal(&self.signals) {
                        Ok(Some(HANGUP)) => self.reload(),
                        Ok(Some(_)) => return Ok(()),
                        _ => {}
                    },
                }
            }
            self.pass_time();
            self.exchange();
            self.flush();
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let hello = self.incomplete.first().map(|(deadline, _)| *deadline);
        let limit = self.bus.config.limits.waiting_descriptors;
        let half =
            self.half.iter().filter_map(|id| self.clients.get(id)?.connection.descriptors_wait_since());
        let half = half.min().map(|since| since + limit);
        let deadlines = [hello, half, self.bus.next_deadline(), self.paused_until, self.native_deadline()];
        let next = deadlines.into_iter().flatten().min()?;
        Timespec::try_from(next.saturating_duration_since(Instant::now())).ok()
    }

    /// Accepts connections from now on, or does not.
    fn listen(&mut self, should_listen: bool) {
        if should_listen == self.is_listening {
            return;
        }
        for (index, listener) in (0..).zip(&self.listeners) {
            let changed = match should_listen {
                true => epoll::add(&self.epoll, listener, Token::Listener(index).data(), EventFlags::IN),
                false => epoll::delete(&self.epoll, listener),
            };
            if let Err(error) = changed {
                log(&format!("cannot watch a socket: {error}"));
            }
        }
        self.is_listening = should_listen;
    }

    fn accept(&mut self, index: usize) {
        for _ in 0..MOST_ACCEPTED {
            match self.listeners[index].accept() {
                Ok(Some(socket)) => self.admit(socket),
                Ok(None) => return,
                // Out of descriptors: one that has not said Hello must go; without one, those that want to connect wait a moment.
                Err(error) => {
                    if let Some(&(_, oldest)) = self.incomplete.first() {
                        self.end(
                            oldest,
                            End::NotAuthenticated("it has not said Hello, and there are no descriptors left"),
                        );
                        continue;
                    }
                    log(&format!("cannot accept a connection: {error}"));
                    self.paused_until = Some(self.now + PAUSE);
                    return self.listen(false);
                }
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd) {
        // A client that has gone already has no identity.
        let Ok(credentials) = peer_credentials(&socket) else { return };
        let groups = peer_groups(&socket).ok().flatten();
        let identity = Identity::new(credentials, groups, peer_security_label(&socket).ok().flatten());
        let Some(id) = self.bus.admit(identity, Carrier::Socket) else { return };
        if epoll::add(&self.epoll, &socket, Token::Member(id.0).data(), EventFlags::IN).is_err() {
            return self.bus.leave(id);
        }
        let limits = &self.bus.config.limits;
        let deadline = self.now + limits.authentication;
        let connection = Connection::new(socket, credentials.uid, limits.message_bytes);
        let client = Client { connection, deadline, wants_to_write: false, is_paused: false };
        self.clients.insert(id, client);
        let most = limits.incomplete_connections;
        self.incomplete.insert((deadline, id));
        // A client that means well says Hello within milliseconds: the oldest of too many is none.
        while self.incomplete.len() > most.max(1)
            && let Some(&(_, oldest)) = self.incomplete.first()
        {
            self.end(oldest, End::NotAuthenticated("it has not said Hello, and others wait to connect"));
        }
    }

    fn serve(&mut self, id: MemberId, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.dirty.push(id);
        }
        let has_ended = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if flags.contains(EventFlags::IN) && !has_ended && self.is_log_full() {
            return self.pause(id);
        }
        if (flags.contains(EventFlags::IN) || has_ended)
            && let Err(end) = self.read(id)
        {
            self.end(id, end);
        }
        self.act();
    }

    fn read(&mut self, id: MemberId) -> Result<(), End> {
        // It may have ended in this round.
        let Some(Client { connection, deadline, .. }) = self.clients.get_mut(&id) else { return Ok(()) };
        if connection.read(&mut self.scratch, &self.bus.guid, self.now)? {
            self.bus.set_takes_descriptors(id, connection.passes_descriptors());
        }
        let was_active = self.bus.is_active(id);
        while let Some(incoming) = connection.next_message()? {
            self.bus.accept(id, incoming, self.now);
        }
        if !was_active && self.bus.is_active(id) {
            self.incomplete.remove(&(*deadline, id));
        }
        match connection.descriptors_wait_since() {
            Some(_) => self.half.insert(id),
            None => self.half.remove(&id),
        };
        // What one read brings is not counted: every message may be cut there.
        let incomplete = connection.incomplete_bytes();
        let counted = if incomplete > READ_BYTES { incomplete as u64 } else { 0 };
        if self.bus.hold_incoming(id, counted) { Ok(()) } else { Err(End::TooMuch) }
    }

    /// Does what the bus has left to be done.
    fn act(&mut self) {
        loop {
            let actions = self.bus.take_actions();
            if actions.is_empty() {
                return;
            }
            if self.is_read_natively() {
                self.hold(actions);
                self.carry();
            } else {
                actions.into_iter().for_each(|action| self.do_now(action));
            }
        }
    }

    fn do_now(&mut self, action: Action) {
        match action {
            Action::Deliver(id, message) => {
                if let Some(client) = self.clients.get_mut(&id) {
                    if !client.connection.has_output() {
                        self.dirty.push(id);
                    }
                    client.connection.push(message);
                }
            }
            Action::Append { .. } => {}
            Action::Show(shown) => self.show(&shown),
            Action::Disconnect(id, why) => {
                log(&format!("{} is disconnected: {why}", id.unique_name()));
                self.forget(id);
                self.put_out(id, why);
            }
            Action::Start { number, command, environment } => self.start(number, &command, environment),
            Action::Reload => self.reload(),
        }
    }

    fn start(&mut self, number: u64, command: &[String], environment: Vec<(OsString, OsString)>) {
        let started = self.children.start(number, command, environment).and_then(|pidfd| {
            let added = epoll::add(&self.epoll, pidfd, Token::Child(number).data(), EventFlags::IN);
            added.map_err(|error| error.to_string())
        });
        if let Err(why) = started {
            self.bus.service_ended(number, &Ended::NotStarted(why));
        }
    }

    fn reap(&mut self, number: u64) {
        if let Some(ended) = self.children.reap(number) {
            self.bus.service_ended(number, &ended);
            self.act();
        }
    }

    fn reload(&mut self) {
        match (self.reload)() {
            Ok(config) => self.bus.reconfigure(config),
            Err(why) => log(&format!("the configuration is as before: {why}")),
        }
    }

    fn pass_time(&mut self) {
        while let Some(&(deadline, id)) = self.incomplete.first()
            && deadline <= self.now
        {
            self.end(id, End::NotAuthenticated("it has not said Hello in time"));
        }
        let limit = self.bus.config.limits.waiting_descriptors;
        let is_late = |id: &&MemberId| {
            let since = self.clients.get(id).and_then(|client| client.connection.descriptors_wait_since());
            since.is_some_and(|since| since + limit <= self.now)
        };
        let late: Vec<MemberId> = self.half.iter().filter(is_late).copied().collect();
        for id in late {
            self.end(id, End::Descriptors("the rest of their message does not come"));
        }
        self.bus.tick(self.now);
        self.act();
        if self.paused_until.is_some_and(|until| until <= self.now) {
            self.paused_until = None;
        }
        self.listen(self.paused_until.is_none());
    }

    /// Writes what was delivered in this round.
    fn flush(&mut self) {
        while let Some(id) = self.dirty.pop() {
            let Some(client) = self.clients.get_mut(&id) else { continue };
            match client.connection.flush() {
                Ok(written) => self.bus.written(id, written.bytes, written.descriptors),
                Err(end) => {
                    self.end(id, end);
                    self.act();
                    continue;
                }
            }
            let wants_to_write = client.connection.has_output();
            if wants_to_write != client.wants_to_write {
                client.wants_to_write = wants_to_write;
                self.watch_again(id);
            }
        }
    }

    /// Watches a client for what is wanted of it now.
    fn watch_again(&self, id: MemberId) {
        if let Some(client) = self.clients.get(&id) {
            let (token, interest) = (Token::Member(id.0).data(), client.interest());
            epoll::modify(&self.epoll, &client.connection, token, interest).expect("the socket is watched");
        }
    }

    /// A connection ends of itself, or because of what it sent.
    fn end(&mut self, id: MemberId, end: End) {
        if end != End::Closed {
            log(&format!("{} is disconnected: {end}", id.unique_name()));
        }
        self.forget(id);
        self.bus.leave(id);
    }

    fn forget(&mut self, id: MemberId) {
        if let Some(client) = self.clients.remove(&id) {
            let _ = epoll::delete(&self.epoll, client.connection.as_fd());
            self.incomplete.remove(&(client.deadline, id));
            self.half.remove(&id);
        }
    }
}
