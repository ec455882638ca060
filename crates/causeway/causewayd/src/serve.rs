//! The loop: one thread, one epoll, all sockets.
//!
//! No system call here waits but `epoll_wait`; what may wait is left to threads (modules `blocking`, `descriptors`,
//! `metrics`). One turn reads sockets that are ready, one after another, lets the bus pass what has arrived, and then
//! writes to sockets what they got. Each of these parts is limited (module `turn`): of one client a turn takes
//! `MESSAGES_MAX` messages at most, clients that have sent more wait in a queue behind the others, and no client is
//! read before all that was delivered has been offered to its sockets.

mod actions;
mod clients;
mod copying;
mod lobby;
mod native;
mod outcomes;
mod report;
#[cfg(test)]
mod tests;
mod token;
mod turn;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use causeway_dbus_wire::wire::Checker;
use causeway_os::heap;
use causeway_os::process::{block_signals, read_signal};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::time::Timespec;

use crate::blocking::Blocking;
use crate::bus::{Action, Bus};
use crate::children::Children;
use crate::connection::READ_BYTES;
use crate::end::End;
use crate::listen::{ACCEPT_PAUSE, Listener};
use crate::log::{self, log};
use crate::member::MemberId;
use crate::metrics::Metrics;
use clients::Clients;
use lobby::{Lobby, PIECE_BYTES, PIECES};
use native::{Native, Unserved};
use report::Pass;
use token::Token;
use turn::{Slice, Turns};

const EVENTS: usize = 256;
/// Connections accepted from one socket in one turn.
const ACCEPTED_MAX: usize = 64;
/// How long clients that bring descriptors are left alone while too many wait to be closed.
const CLOSING_PAUSE: Duration = Duration::from_millis(1);
/// Messages taken from one client before the others have had their turn: as many as one system call writes.
const MESSAGES_MAX: usize = 32;
/// Room for as many actions is kept.
const KEPT_ACTIONS: usize = 256;
/// TERM and INT end this program, HUP has it read its configuration again.
const SIGNALS: [i32; 3] = [TERMINATE, INTERRUPT, HANGUP];
const TERMINATE: i32 = Signal::TERM.as_raw();
const INTERRUPT: i32 = Signal::INT.as_raw();
const HANGUP: i32 = Signal::HUP.as_raw();

const UNWATCHED: End = End::Kept("the kernel cannot watch its socket");

/// What came of reading a client.
enum Read {
    /// There is more in its buffer.
    More,
    Done,
    /// It brings descriptors, and too many wait to be closed.
    Later,
    /// It has said Hello, has this number now, and what it has sent behind that waits.
    SaidHello(MemberId),
}

/// A bus with its sockets.
pub struct Server {
    epoll: Rc<OwnedFd>,
    lobby: Lobby,
    signals: OwnedFd,
    listeners: Vec<Listener>,
    /// Are connections accepted now? Until when not?
    is_listening: bool,
    paused_until: Option<Instant>,
    /// When clients are looked at again that bring descriptors.
    deferred_until: Option<Instant>,
    clients: Clients,
    /// Some of those that got something were not offered it in the last turn: first they are, and then clients are
    /// read. The order log is read all the while: a member that finds it full evicts the slowest reader, which must not
    /// be this process.
    is_behind: bool,
    turns: Turns,
    children: Children,
    blocking: Blocking,
    /// Native members and the order log, if they can join here.
    native: Option<Native>,
    /// They could once, and this is to be so again.
    unserved: Option<Unserved>,
    metrics: Option<Metrics>,
    /// Over connections, some of them each turn.
    passes: VecDeque<Pass>,
    bus: Bus,
    /// Empty, for the actions of the next message.
    emptied: Vec<Action>,
    scratch: Vec<u8>,
    /// For bodies that are checked in one slice.
    checker: Checker,
    now: Instant,
}

impl Server {
    /// A server of a bus that listens already.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn new(bus: Bus, listeners: Vec<Listener>, children: Children) -> Result<Server, String> {
        // One client may leave hundreds of thousands of small pieces, and nobody waits for all of them to be merged.
        heap::merge_at_once();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| error.to_string())?;
        let signals = block_signals(&SIGNALS).map_err(|error| error.to_string())?;
        epoll::add(&epoll, &signals, Token::Signal.data(), EventFlags::IN)
            .map_err(|error| error.to_string())?;
        let blocking = Blocking::new().map_err(|error| error.to_string())?;
        epoll::add(&epoll, &blocking, Token::Blocking.data(), EventFlags::IN)
            .map_err(|error| error.to_string())?;
        let lobby = Lobby::new(&epoll).map_err(|error| error.to_string())?;
        let mut server = Server {
            epoll: Rc::new(epoll),
            lobby,
            signals,
            listeners,
            is_listening: false,
            paused_until: None,
            deferred_until: None,
            clients: Clients::default(),
            is_behind: false,
            turns: Turns::default(),
            children,
            blocking,
            native: None,
            unserved: None,
            metrics: None,
            passes: VecDeque::new(),
            bus,
            emptied: Vec::new(),
            scratch: Vec::new(),
            checker: Checker::default(),
            now: Instant::now(),
        };
        server.listen(true);
        Ok(server)
    }

    /// Ends [`Server::run`] also when this becomes readable.
    ///
    /// # Errors
    /// In a sentence: the kernel cannot watch it.
    pub fn stop_with(&mut self, stop: &OwnedFd) -> Result<(), String> {
        epoll::add(&self.epoll, stop, Token::Stop.data(), EventFlags::IN).map_err(|error| error.to_string())
    }

    /// Serves until a signal says that it is enough.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn run(&mut self) -> Result<(), String> {
        let mut events = Vec::with_capacity(EVENTS);
        self.now = Instant::now();
        self.bus.read_services();
        self.run_actions();
        loop {
            events.clear();
            let is_working = self.is_collecting() || self.is_copying() || self.bus.has_work();
            let is_idle = self.clients.are_idle() && !is_working;
            let may_sleep = is_idle && self.may_sleep();
            let ended = Instant::now();
            self.count_turn(ended);
            let timeout = if may_sleep { self.timeout(ended) } else { Some(Timespec::default()) };
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(format!("cannot wait for events: {error}")),
            }
            self.now = Instant::now();
            self.wake_up();
            self.bus.begin_turn();
            if self.bus.has_work() {
                self.go_on();
            }
            for event in &events {
                match Token::of(event) {
                    Token::Listener(_) => unreachable!("those that listen are in the lobby"),
                    Token::Member(number) => self.clients.note(MemberId(number), event.flags),
                    Token::Child(number) => self.reap(number),
                    Token::Blocking => self.take_outcomes(),
                    Token::Native => self.serve_members(),
                    Token::Metrics => self.begin_collecting(),
                    Token::Lobby => self.serve_lobby(),
                    Token::LobbyOpens => self.open_lobby(),
                    Token::Stop => return Ok(()),
                    Token::Signal => match read_signal(&self.signals) {
                        Ok(Some(HANGUP)) => {
                            self.bus.reload(None);
                            self.run_actions();
                        }
                        Ok(Some(_)) => return Ok(()),
                        _ => {}
                    },
                }
            }
            self.serve();
            self.pass_time();
            self.exchange();
            self.flush();
            self.collect();
        }
    }

    /// The turn that began at `now` ends.
    fn count_turn(&mut self, ended: Instant) {
        self.turns.count(ended.saturating_duration_since(self.now));
        let counters = &mut self.bus.counters;
        (counters.longest_turn, counters.longest_turn_cpu) = (self.turns.longest, self.turns.longest_cpu);
    }

    fn timeout(&self, now: Instant) -> Option<Timespec> {
        let (clients, bus) = (self.clients.next_deadline(), self.bus.next_deadline());
        let next = [
            clients,
            bus,
            self.paused_until,
            self.deferred_until,
            self.native_deadline(now),
            log::omitted_until(),
        ];
        let next = next.into_iter().flatten().min()?;
        Timespec::try_from(next.saturating_duration_since(now)).ok()
    }

    /// Accepts connections from now on, or does not. Where the kernel cannot watch a socket now, this is tried again.
    fn listen(&mut self, should_listen: bool) {
        if should_listen == self.is_listening {
            return;
        }
        self.is_listening = should_listen;
        for (index, listener) in self.listeners.iter().enumerate() {
            let changed = if should_listen {
                epoll::add(&self.lobby.set, listener, Token::Listener(index).data(), EventFlags::IN)
            } else {
                epoll::delete(&self.lobby.set, listener)
            };
            match changed {
                // It was so before, where another one failed.
                Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
                Err(error) => {
                    log(&format!("cannot watch a socket: {error}"));
                    self.is_listening = false;
                    self.paused_until = Some(self.now + ACCEPT_PAUSE);
                }
            }
        }
    }

    fn accept(&mut self, index: usize) {
        let mut slice = Slice::since(self.now);
        for count in 0..ACCEPTED_MAX {
            if count > 0 && slice.is_over() {
                return;
            }
            match self.listeners[index].accept() {
                Ok(Some(socket)) => self.admit(socket),
                Ok(None) => return,
                // Out of descriptors: one that has not said Hello must go; without one, those that want to connect wait
                // a moment.
                Err(error) => {
                    if let Some(oldest) = self.clients.first_to_go() {
                        let why = "it has not called Hello, and the bus is out of file descriptors";
                        self.end(oldest, End::NotAuthenticated(why));
                        continue;
                    }
                    log(&format!("cannot accept a connection: {error}"));
                    self.paused_until = Some(self.now + ACCEPT_PAUSE);
                    return self.listen(false);
                }
            }
        }
    }

    /// Reads clients that are ready, as long as the slice lasts. What they sent before stands in their sockets, or in
    /// their buffers.
    fn serve(&mut self) {
        let mut slice = Slice::since(self.now);
        for left in (0..self.clients.ready.len()).rev() {
            if self.is_behind || self.bus.is_passing() {
                return;
            }
            let Some(id) = self.clients.ready.pop_front() else { return };
            self.serve_one(id, &mut slice);
            if left > 0 && slice.is_over() {
                return;
            }
        }
    }

    fn serve_one(&mut self, id: MemberId, slice: &mut Slice) {
        let Some(client) = self.clients.get_mut(id) else { return };
        client.is_ready = false;
        if !client.has_ended && self.is_log_full() {
            return self.clients.pause(id);
        }
        match self.read(id, slice) {
            Ok(Read::More) => self.clients.make_ready(id),
            Ok(Read::Done) => {}
            Ok(Read::Later) => {
                self.clients.defer(id);
                self.deferred_until.get_or_insert(self.now + CLOSING_PAUSE);
            }
            Ok(Read::SaidHello(number)) => self.name(id, number),
            Err(end) => self.end(id, end),
        }
        self.run_actions();
    }

    /// A client has said Hello, and has this number from now on. What it has sent meanwhile is read next.
    fn name(&mut self, id: MemberId, number: MemberId) {
        match self.clients.rename(id, number, &self.epoll) {
            Ok(()) => self.clients.make_ready(number),
            Err(_) => self.end(number, UNWATCHED),
        }
    }

    /// Passes what a client has sent, up to the limit.
    fn read(&mut self, id: MemberId, slice: &mut Slice) -> Result<Read, End> {
        let Some(client) = self.clients.get_mut(id) else { return Ok(Read::Done) };
        let connection = &mut client.connection;
        let arrived = connection.incomplete_bytes();
        let (mut count, mut may_read) = (0, true);
        // What others have not got yet comes first.
        while !self.bus.is_passing() {
            if let Some(incoming) = connection.next_message(&mut self.checker)? {
                if let Some(number) = self.bus.accept(id, incoming, self.now) {
                    return Ok(Read::SaidHello(number));
                }
                count += 1;
                // What is said to one without a number must reach it before it has one.
                if !id.is_named() || count == MESSAGES_MAX || (connection.has_message() && slice.is_over()) {
                    break;
                }
            } else if !connection.has_message() && std::mem::take(&mut may_read) {
                // A configuration that is read again may say something else.
                self.scratch.resize(self.bus.config.limits.read_bytes, 0);
                if !client.has_ended && connection.must_wait(&mut self.scratch, self.bus.room.closing) {
                    return Ok(Read::Later);
                }
                if connection.read(&mut self.scratch, &self.bus.guid, self.now)? {
                    self.bus.set_takes_descriptors(id, connection.passes_descriptors());
                }
            } else {
                break;
            }
        }
        let limits = &self.bus.config.limits;
        let until = connection.descriptors_wait_since().map(|since| since + limits.waiting_descriptors);
        let waiting = connection.waiting_descriptors();
        let (has_message, incomplete) = (connection.has_message(), connection.incomplete_bytes());
        // What one read brings is not counted: every message may be cut there, and behind a whole message no more than
        // two have brought.
        let counted = match (has_message, incomplete > READ_BYTES) {
            (true, _) => client.charged_bytes,
            (false, true) => incomplete as u64,
            (false, false) => 0,
        };
        let before = std::mem::replace(&mut client.charged, waiting);
        let bytes_before = std::mem::replace(&mut client.charged_bytes, counted);
        let is_piece =
            count == 0 && !has_message && incomplete > arrived && incomplete - arrived < PIECE_BYTES;
        client.pieces = if is_piece { client.pieces.saturating_add(1) } else { 0 };
        if id.is_named() {
            let set = if client.pieces >= PIECES { &self.lobby.set } else { &self.epoll };
            client.move_to(id, set).map_err(|_| UNWATCHED)?;
        }
        if until != client.half_until {
            self.clients.await_rest(id, until);
        }
        if before != waiting {
            self.bus.hold_descriptors(id, before, waiting).map_err(End::Limit)?;
        }
        if counted != bytes_before {
            self.bus.hold_incoming(id, counted).map_err(End::Limit)?;
        }
        Ok(if has_message { Read::More } else { Read::Done })
    }

    fn pass_time(&mut self) {
        let mut slice = Slice::default();
        while let Some((deadline, id)) = self.clients.next_hello()
            && deadline <= self.now
            && !slice.is_over()
        {
            self.end(id, End::NotAuthenticated("it has not called Hello in time (auth_timeout)"));
        }
        while let Some((deadline, id)) = self.clients.next_rest()
            && deadline <= self.now
            && !slice.is_over()
        {
            let why =
                "timed out waiting for the rest of a message with file descriptors (pending_fd_timeout)";
            self.end(id, End::Descriptors(why));
        }
        self.bus.tick(self.now);
        self.run_actions();
        self.retry_natively();
        log::tell_omitted();
        if self.deferred_until.is_some_and(|until| until <= self.now) {
            self.deferred_until = None;
            self.clients.resume_deferred();
        }
        if self.paused_until.is_some_and(|until| until <= self.now) {
            self.paused_until = None;
        }
        self.listen(self.paused_until.is_none());
    }

    /// Writes what was delivered, as long as the slice lasts, and what sockets did not take before, as long as another
    /// one lasts.
    fn flush(&mut self) {
        let mut slice = Slice::default();
        while let Some(id) = self.clients.pop_writable() {
            self.flush_one(id);
            if slice.is_over() {
                break;
            }
        }
        // What the end of a client brings to others is among it.
        let mut slice = Slice::default();
        while let Some(id) = self.clients.dirty.pop_front() {
            self.flush_one(id);
            if !self.clients.dirty.is_empty() && slice.is_over() {
                break;
            }
        }
        self.is_behind = !self.clients.dirty.is_empty();
    }

    fn flush_one(&mut self, id: MemberId) {
        let Some(client) = self.clients.get_mut(id) else { return };
        match client.connection.flush() {
            Ok(written) => {
                self.bus.written(id, written.bytes, written.descriptors);
                client.watch_output(id);
            }
            Err(end) => {
                self.end(id, end);
                self.run_actions();
            }
        }
    }

    /// A connection ends of itself, or because of what it sent.
    fn end(&mut self, id: MemberId, end: End) {
        if end != End::Closed {
            self.log_eviction(id, &self.bus.described(id), &end);
        }
        self.remove_client(id);
        self.bus.leave(id);
    }

    fn remove_client(&mut self, id: MemberId) {
        if let Some(output) = self.clients.remove(id) {
            self.bus.forget(output);
        }
    }
}
