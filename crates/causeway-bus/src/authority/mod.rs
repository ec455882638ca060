//! The process that says who is on the bus: members join here, names are given here, deaths are noticed here.
//!
//! It is part of an event loop: [`Authority::as_fd`] becomes readable, [`Authority::dispatch`] does what there is to do and never
//! waits. It is a member itself, in slot 0, and sends what is the bus's own: replies of `org.freedesktop.DBus`, changes of names,
//! arrivals, deaths. A *client* is a connection that another program (the gateway) serves: it has a number, names and rules,
//! and its messages travel in the outbox of the authority.

mod driver;
mod listener;
mod names;

pub use driver::{DRIVER, DRIVER_PATH, name_of, unique_name};
pub use names::{ALLOW_REPLACEMENT, DO_NOT_QUEUE, NameReply, REPLACE_EXISTING, ReleaseReply};

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::socket::{self, Credentials};
use rustix::event::{EventfdFlags, epoll};
use weighbridge_dbus::rule::MatchRule;
use weighbridge_dbus::wire::{Body, Builder, Header, Kind};

use crate::control::{self, Packet};
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, AUTHORITY_ID, Descriptors, NotSent, Port, Received, To};
use crate::shared::ABI;
use crate::shared::directory::{Directory, Owner, Peer, State};
use crate::shared::filter::{Filter, unique_number};
use crate::shared::order::OrderLog;
use crate::shared::outbox::{ForeignOutbox, Outbox};
use crate::shared::ring::{self, Sleep};
use driver::Answer;
use listener::Listener;
use names::{Change, Names};

/// Number of a connection in its unique name; never used again.
pub type PeerId = u64;

/// Settings of a bus.
#[derive(Clone, Debug)]
pub struct AuthorityOptions {
    /// Entries of the order log, a power of two.
    pub order_entries: u64,
    /// Bytes of the authority's own outbox, a power of two. The longest message of a client is a quarter.
    pub outbox_bytes: u64,
    /// Members at most, the authority included.
    pub members: usize,
    /// Clients at most.
    pub clients: usize,
    /// Names at most.
    pub names: usize,
    /// Names that one connection may own or wait for.
    pub names_per_connection: usize,
    /// Match rules of one connection.
    pub rules_per_connection: usize,
    /// A member that stands in the way of others for so long is put out.
    pub laggard_deadline: Duration,
}

impl Default for AuthorityOptions {
    fn default() -> AuthorityOptions {
        AuthorityOptions {
            order_entries: 1 << 16,
            outbox_bytes: 1 << 22,
            members: 1024,
            clients: 1024,
            names: 2048,
            names_per_connection: 512,
            rules_per_connection: 512,
            laggard_deadline: Duration::from_millis(250),
        }
    }
}

/// What the program that embeds the authority has to know or do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message for a client, or a signal that clients may want. In the order of the bus.
    Message {
        /// Position in the order log.
        position: u64,
        /// The client; `None` for a signal to all who want it: match it against the rules of the clients.
        to: Option<PeerId>,
        /// Number of the sender.
        sender: PeerId,
        /// The D-Bus message, with its sender filled in.
        bytes: Vec<u8>,
    },
    /// A member called a method of the bus that this library does not implement. Answer with
    /// [`Authority::reply_as_driver`] or [`Authority::error_as_driver`].
    DriverCall {
        /// Number of the caller.
        caller: PeerId,
        /// The call.
        bytes: Vec<u8>,
    },
    /// A member joined.
    Joined(PeerId),
    /// A member left, died or was put out.
    Left {
        /// Which.
        peer: PeerId,
        /// Why, for people.
        why: String,
    },
}

/// A process at the control socket.
#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    pidfd: Option<OwnedFd>,
    credentials: Credentials,
    member: Option<PeerId>,
    has_joined: bool,
}

/// A connection, member or client.
#[derive(Debug)]
struct Connection {
    /// Its entry in the directory; a member's slot.
    index: u16,
    link: Option<u64>,
    uid: u32,
    pid: u32,
    rules: Vec<MatchRule>,
    wants_everything: bool,
}

/// Something to be done in the order of the bus, when there is space.
#[derive(Debug)]
enum Work {
    Send {
        sender: PeerId,
        to: To,
        bytes: Vec<u8>,
    },
    /// All that a member's end caused has been sent: wake whoever waits for it.
    Left {
        index: u16,
        id: PeerId,
        is_member: bool,
    },
}

/// Descriptors of members.
#[derive(Debug, Default)]
struct Fds {
    outboxes: HashMap<u16, (u64, OwnedFd)>,
    doorbells: HashMap<u16, (u64, OwnedFd)>,
}

fn copy_of(table: &HashMap<u16, (u64, OwnedFd)>, slot: u16, id: u64) -> Result<Option<OwnedFd>> {
    let Some((_, fd)) = table.get(&slot).filter(|(has, _)| *has == id) else { return Ok(None) };
    let copy =
        fd.try_clone().map_err(|error| causeway_os::Error::new("copy", "a descriptor of a member", error))?;
    Ok(Some(copy))
}

impl Descriptors for Fds {
    fn outbox(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>> {
        copy_of(&self.outboxes, slot, id)
    }
    fn doorbell(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>> {
        copy_of(&self.doorbells, slot, id)
    }
}

/// Serves a bus.
#[derive(Debug)]
pub struct Authority {
    options: AuthorityOptions,
    epoll: OwnedFd,
    listener: Option<Listener>,
    doorbell: OwnedFd,
    order_fd: OwnedFd,
    directory_fd: OwnedFd,
    port: Port,
    fds: Fds,
    guid: String,
    links: HashMap<u64, Link>,
    connections: HashMap<PeerId, Connection>,
    names: Names,
    leaving: Vec<(u16, u64)>,
    work: VecDeque<Work>,
    /// Who stood in the way when the work stopped, at which cursor, since when.
    blocked: Option<(u16, u64, Instant)>,
    /// Since when a process waits for a place.
    place_wanted: Option<Instant>,
    next_id: PeerId,
    next_link: u64,
    serial: u32,
    evictions: u64,
}

/// What an epoll event is about: the listener, the doorbell, or a link and whether it is its pidfd.
const LISTENER: u64 = 0;
const DOORBELL: u64 = 1;
/// Processes that have connected and not joined.
const STRANGERS_MAX: usize = 256;

impl Authority {
    /// A new bus, at which nobody can join yet.
    ///
    /// # Errors
    /// An option is out of bounds, or the kernel lacks memory, descriptors or a feature.
    pub fn create(options: AuthorityOptions) -> Result<Authority> {
        let mut random = [0; 16];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| causeway_os::Error::new("get", "random bytes", error))?;
        let halves = [0, 8].map(|at| random[at..].first_chunk().map_or(0, |half| u64::from_be_bytes(*half)));
        let guid = format!("{:016x}{:016x}", halves[0], halves[1]);
        let (order_fd, order) = OrderLog::create(options.order_entries, options.members)?;
        let peers = options.members + options.clients;
        let (directory_fd, directory) = Directory::create(options.members, peers, options.names, halves)?;
        let (outbox_fd, outbox) = Outbox::create(options.outbox_bytes)?;
        let doorbell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| causeway_os::Error::new("make", "a doorbell", error))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| causeway_os::Error::new("make", "an epoll instance", error))?;
        watch(&epoll, &doorbell, DOORBELL)?;
        order.reset_line(AUTHORITY, 0);
        directory.set_peer(
            AUTHORITY,
            &Peer {
                id: AUTHORITY_ID,
                carrier: AUTHORITY,
                state: State::Active,
                pid: std::process::id(),
                uid: rustix::process::geteuid().as_raw(),
                label: String::new(),
            },
        );
        let mut fds = Fds::default();
        let mut port = Port::new(Arc::new(order), Arc::new(directory), outbox, AUTHORITY, AUTHORITY_ID, 0);
        port.set_own_outbox(&outbox_fd)?;
        fds.outboxes.insert(AUTHORITY, (AUTHORITY_ID, outbox_fd));
        let mut authority = Authority {
            options,
            epoll,
            listener: None,
            doorbell,
            order_fd,
            directory_fd,
            port,
            fds,
            guid,
            links: HashMap::new(),
            connections: HashMap::new(),
            names: Names::default(),
            leaving: Vec::new(),
            work: VecDeque::new(),
            blocked: None,
            place_wanted: None,
            next_id: AUTHORITY_ID + 1,
            next_link: 1,
            serial: 0,
            evictions: 0,
        };
        authority.arm();
        Ok(authority)
    }

    /// Lets processes of this user join at a socket with this path. The file goes when the authority is dropped.
    ///
    /// # Errors
    /// Another process serves there, or the path cannot be used.
    pub fn serve_at(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let listener = Listener::bind(path.as_ref())?;
        watch(&self.epoll, &listener, LISTENER)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// The GUID of this bus, 32 hexadecimal digits.
    #[must_use]
    pub fn guid(&self) -> String {
        self.guid.clone()
    }

    /// Serves until `stop` becomes readable, for a program that has nothing else to do.
    ///
    /// # Errors
    /// As [`Authority::dispatch`].
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> Result<()> {
        loop {
            let ready = causeway_os::process::poll(&[stop, self.epoll.as_fd()], self.timeout())?;
            if ready[0] {
                return Ok(());
            }
            for event in self.dispatch()? {
                if let Event::DriverCall { caller, bytes } = event {
                    self.error_as_driver(caller, &bytes, name::UNKNOWN_METHOD, "the bus has no such method");
                }
            }
        }
    }

    /// When to call [`Authority::dispatch`] although the descriptor is not readable: messages wait for space.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        (!self.work.is_empty()).then_some(Duration::from_millis(2))
    }

    /// Does all there is to do, without waiting.
    ///
    /// # Errors
    /// The bus is broken: it has ended, and all members get the same error. The kernel's errors of epoll.
    pub fn dispatch(&mut self) -> Result<Vec<Event>> {
        ring::disarm(self.port.order().armed(AUTHORITY));
        let mut events = Vec::new();
        self.poll_descriptors(&mut events)?;
        loop {
            self.read_log(&mut events).inspect_err(|_| self.wake_all())?;
            self.end_evicted(&mut events);
            self.flush().inspect_err(|_| self.wake_all())?;
            self.free_slots();
            if self.arm() {
                return Ok(events);
            }
            ring::disarm(self.port.order().armed(AUTHORITY));
        }
    }

    /// Announces that this thread sleeps on its doorbell; false if there is something to do instead.
    fn arm(&mut self) -> bool {
        self.port.publish_cursor();
        ring::arm(self.port.order().armed(AUTHORITY), Sleep::Doorbell);
        !self.port.is_ready() && self.port.order().evictions().load(Ordering::Acquire) == self.evictions
    }

    fn poll_descriptors(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let mut ready =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = match epoll::wait(&self.epoll, &mut ready[..], Some(&none)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(causeway_os::Error::new("wait for", "members", error).into()),
        };
        for event in &ready[..count] {
            match event.data.u64() {
                LISTENER => self.accept(),
                DOORBELL => drop(rustix::io::read(&self.doorbell, &mut [0; 8])),
                data if data % 2 == 1 => self.close(data / 2, "its process ended", events),
                data => self.serve_link(data / 2, events),
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        let Some(socket) = self.listener.as_ref().and_then(Listener::accept) else { return };
        let Ok(credentials) = socket::peer_credentials(&socket) else { return };
        let own = rustix::process::geteuid().as_raw();
        if credentials.uid != own {
            let text = format!(
                "this bus is for processes of user {own}; user {} can use the gateway",
                credentials.uid
            );
            let _ = control::send(&socket, &Packet::text(control::Kind::Refused, text), &[]);
            return;
        }
        if self.links.values().filter(|link| !link.has_joined).count() >= STRANGERS_MAX {
            return;
        }
        // The number of the process may be another process's by now; the descriptor of the peer cannot.
        let pidfd =
            socket::peer_pidfd(&socket).or_else(|_| causeway_os::process::pidfd_open(credentials.pid)).ok();
        let link = self.next_link;
        if watch(&self.epoll, &socket, link * 2).is_err() {
            return;
        }
        if let Some(pidfd) = &pidfd {
            let _ = watch(&self.epoll, pidfd, link * 2 + 1);
        }
        self.next_link += 1;
        self.links.insert(link, Link { socket, pidfd, credentials, member: None, has_joined: false });
    }

    fn serve_link(&mut self, link: u64, events: &mut Vec<Event>) {
        let Some(socket) = self.links.get(&link).map(|link| &link.socket) else { return };
        let why = match control::receive(socket) {
            Ok(Some((packet, fds))) => match self.request(link, &packet, fds, events) {
                Ok(()) => return,
                Err(error) => {
                    if let Some(link) = self.links.get(&link) {
                        let mut refusal = Packet::text(control::Kind::Refused, error.to_string());
                        // Try again.
                        refusal.words[0] = u64::from(!self.leaving.is_empty());
                        let _ = control::send(&link.socket, &refusal, &[]);
                    }
                    error.to_string()
                }
            },
            Ok(None) => "it left".to_owned(),
            Err(Error::Os(error))
                if error.raw_os_error() == Some(rustix::io::Errno::AGAIN.raw_os_error()) =>
            {
                return;
            }
            Err(error) => error.to_string(),
        };
        self.close(link, &why, events);
    }

    fn request(
        &mut self,
        link: u64,
        packet: &Packet,
        fds: Vec<OwnedFd>,
        events: &mut Vec<Event>,
    ) -> Result<()> {
        let [first, second, ..] = packet.words;
        let (slot, mut fds) = (u16::try_from(first).unwrap_or(u16::MAX), fds.into_iter());
        let has_joined = self.links.get(&link).is_some_and(|link| link.has_joined);
        let unexpected = || Error::Refused("the request came at the wrong time or lacks a descriptor".into());
        match packet.kind {
            control::Kind::Join if !has_joined && first != u64::from(ABI) => Err(Error::Refused(format!(
                "this bus has version {ABI} of the shared memory, the program version {first}"
            ))),
            control::Kind::Join if !has_joined && second == 0 => {
                let id = self.join(link, fds.next().ok_or_else(unexpected)?)?;
                events.push(Event::Joined(id));
                Ok(())
            }
            control::Kind::Join if !has_joined => self.welcome_monitor(link),
            control::Kind::Outbox if has_joined => {
                let outbox = self.fds.outbox(slot, second)?;
                self.answer_with(link, outbox)
            }
            control::Kind::Doorbell if has_joined => {
                let doorbell = self.fds.doorbell(slot, second)?;
                self.answer_with(link, doorbell)
            }
            control::Kind::SetDoorbell => {
                let doorbell = fds.next().ok_or_else(unexpected)?;
                let id = self.links.get(&link).and_then(|link| link.member).ok_or_else(unexpected)?;
                let index = self.connections.get(&id).ok_or_else(unexpected)?.index;
                self.port.set_doorbell(
                    index,
                    doorbell
                        .try_clone()
                        .map_err(|error| causeway_os::Error::new("copy", "a doorbell", error))?,
                );
                self.fds.doorbells.insert(index, (id, doorbell));
                self.answer_with(link, None)
            }
            _ => Err(unexpected()),
        }
    }

    fn answer_with(&mut self, link: u64, fd: Option<OwnedFd>) -> Result<()> {
        let Some(link) = self.links.get(&link) else { return Ok(()) };
        match fd {
            Some(fd) => {
                control::send(&link.socket, &Packet::new(control::Kind::Descriptor, [0; 4]), &[fd.as_fd()])
            }
            None => control::send(&link.socket, &Packet::new(control::Kind::None, [0; 4]), &[]),
        }
    }

    fn welcome_monitor(&mut self, link: u64) -> Result<()> {
        let Some(link) = self.links.get_mut(&link) else { return Ok(()) };
        link.has_joined = true;
        let fds = [self.order_fd.as_fd(), self.directory_fd.as_fd()];
        control::send(&link.socket, &Packet::new(control::Kind::Welcome, [0; 4]), &fds)
    }

    /// Gives a process a slot, and announces it.
    fn join(&mut self, link: u64, outbox: OwnedFd) -> Result<PeerId> {
        ForeignOutbox::open(&outbox)?;
        let Some(found) = self.links.get(&link) else { return Err(Error::AuthorityGone) };
        let credentials = found.credentials;
        let label = socket::peer_security_label(&found.socket).ok().flatten().unwrap_or_default();
        self.free_slots();
        let slots = self.options.members as u16;
        let is_free = |slot: &u16| self.port.directory().id_and_state(*slot).1 == State::Free;
        let Some(slot) = (AUTHORITY + 1..slots).find(is_free) else {
            // Some may only wait for others to pass what the last member there sent.
            self.demand_place();
            return Err(Error::Refused(format!("all {slots} places of this bus are taken")));
        };
        self.place_wanted = None;
        let id = self.next_id;
        self.next_id += 1;
        // Present first, and only then where it begins: senders that did not see it have let nothing be overwritten from there on.
        let end = self.port.find_end();
        self.port.order().reset_line(slot, end);
        let (uid, pid) = (credentials.uid, credentials.pid);
        let peer = Peer { id, carrier: slot, state: State::Active, pid, uid, label };
        self.port.directory().set_peer(slot, &peer);
        ring::fence_after_append();
        let cursor = self.port.find_end();
        self.port.order().cursor(slot).store(cursor, Ordering::Release);
        self.port.forget(slot);
        self.fds.outboxes.insert(slot, (id, outbox));
        self.fds.doorbells.remove(&slot);
        let connection = Connection {
            index: slot,
            link: Some(link),
            uid,
            pid,
            rules: Vec::new(),
            wants_everything: false,
        };
        self.connections.insert(id, connection);
        let place = self.port.next_place(slot);
        if let Some(link) = self.links.get_mut(&link) {
            (link.member, link.has_joined) = (Some(id), true);
            let words = [u64::from(slot), id, cursor, u64::from(place)];
            let fds = [self.order_fd.as_fd(), self.directory_fd.as_fd(), self.doorbell.as_fd()];
            control::send(&link.socket, &Packet::new(control::Kind::Welcome, words), &fds)?;
        }
        self.announce(&unique_name(id), None, Some(id));
        Ok(id)
    }

    /// A client of the gateway joins: a connection without memory of its own.
    ///
    /// # Errors
    /// There are too many.
    pub fn add_client(&mut self, uid: u32, pid: u32) -> Result<PeerId> {
        let first = self.options.members as u16;
        let directory = Arc::clone(self.port.directory());
        let index = (first..directory.peers() as u16)
            .find(|index| directory.id_and_state(*index).1 == State::Free)
            .ok_or_else(|| {
                Error::method(name::LIMITS_EXCEEDED, "all places for clients of this bus are taken")
            })?;
        let id = self.next_id;
        self.next_id += 1;
        let state = State::Active;
        directory.set_peer(index, &Peer { id, carrier: AUTHORITY, state, pid, uid, label: String::new() });
        let connection =
            Connection { index, link: None, uid, pid, rules: Vec::new(), wants_everything: false };
        self.connections.insert(id, connection);
        self.announce(&unique_name(id), None, Some(id));
        Ok(id)
    }

    /// A client of the gateway has left: its names pass on, and its end is announced.
    pub fn remove_client(&mut self, id: PeerId) {
        if self.connections.get(&id).is_some_and(|connection| connection.link.is_none()) {
            self.remove(id);
        }
    }

    /// Sends a message of a client, whose `SENDER` is filled in: to its `DESTINATION`, or to all who want the signal. It is sent
    /// in the order of these calls; where there is no space, it waits here.
    ///
    /// # Errors
    /// [`Error::Invalid`] for bytes that are no message of this client, or one for the bus itself, which the gateway answers;
    /// [`Error::Method`] with `ServiceUnknown` for a destination that nobody is, `LimitsExceeded` for a message that is too long.
    pub fn send_as(&mut self, client: PeerId, bytes: Vec<u8>) -> Result<()> {
        let header = Header::parse(&bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        if header.message_bytes() != bytes.len() || header.sender != Some(&unique_name(client)) {
            return Err(Error::Invalid("the message is not whole, or its sender is not the client".into()));
        }
        if bytes.len() > self.port.longest_message() {
            let most = self.port.longest_message();
            return Err(Error::method(
                name::LIMITS_EXCEEDED,
                format!("messages have at most {most} bytes here"),
            ));
        }
        let to = match header.destination {
            None if header.kind == Kind::Signal => To::All,
            Some(DRIVER) | None => return Err(Error::Invalid("a message for the bus itself".into())),
            Some(name) => self.resolve(name).ok_or_else(|| {
                Error::method(name::SERVICE_UNKNOWN, format!("no connection has the name {name}"))
            })?,
        };
        self.work.push_back(Work::Send { sender: client, to, bytes });
        self.flush()
    }

    fn resolve(&self, name: &str) -> Option<To> {
        let id = self.owner_of(name)?;
        let index = self.connections.get(&id)?.index;
        Some(To::Peer { slot: self.port.directory().carrier(index), id })
    }

    /// The number of the connection that has a name, unique or well-known.
    #[must_use]
    pub fn owner_of(&self, name: &str) -> Option<PeerId> {
        match unique_number(name) {
            Some(id) => self.connections.contains_key(&id).then_some(id),
            None if name == DRIVER => Some(AUTHORITY_ID),
            None => self.names.owner(name),
        }
    }

    /// User and process of a connection.
    #[must_use]
    pub fn credentials(&self, id: PeerId) -> Option<(u32, u32)> {
        self.connections.get(&id).map(|connection| (connection.uid, connection.pid))
    }

    /// All names: the bus itself, unique, well-known.
    #[must_use]
    pub fn list_names(&self) -> Vec<String> {
        let mut ids: Vec<_> = self.connections.keys().copied().collect();
        ids.sort_unstable();
        let unique = ids.into_iter().map(unique_name);
        [DRIVER.to_owned()].into_iter().chain(unique).chain(self.names.all().map(str::to_owned)).collect()
    }

    /// Numbers of the owner of a name and of those who wait for it.
    ///
    /// # Errors
    /// `NameHasNoOwner`.
    pub fn queued_owners(&self, name: &str) -> Result<Vec<PeerId>> {
        let claims = self.names.claims(name);
        if claims.is_empty() {
            return Err(Error::method(name::NAME_HAS_NO_OWNER, format!("no connection has the name {name}")));
        }
        Ok(claims)
    }

    /// A connection asks for a name.
    ///
    /// # Errors
    /// `InvalidArgs` for what is no name, `LimitsExceeded` for too many.
    pub fn request_name(&mut self, id: PeerId, name: &str, flags: u32) -> Result<NameReply> {
        driver::check_ownable(name)?;
        let limit = self.options.names_per_connection;
        let is_new = !self.names.claims(name).contains(&id);
        if is_new && self.names.count_of(id) >= limit {
            return Err(Error::method(name::LIMITS_EXCEEDED, format!("a connection may have {limit} names")));
        }
        if self.names.owner(name).is_none() && self.names.all().count() >= self.options.names {
            return Err(Error::method(name::LIMITS_EXCEEDED, "the bus has no space for another name"));
        }
        let (reply, change) = self.names.request(name, id, flags);
        self.publish_name(name, change);
        Ok(reply)
    }

    /// A connection gives a name up.
    ///
    /// # Errors
    /// `InvalidArgs` for what is no name.
    pub fn release_name(&mut self, id: PeerId, name: &str) -> Result<ReleaseReply> {
        driver::check_ownable(name)?;
        let (reply, change) = self.names.release(name, id);
        self.publish_name(name, change);
        Ok(reply)
    }

    /// A connection wants the signals that a rule matches.
    ///
    /// # Errors
    /// `MatchRuleInvalid`, `LimitsExceeded`.
    pub fn add_match(&mut self, id: PeerId, rule: &str) -> Result<()> {
        let rule = driver::parse_rule(rule)?;
        let limit = self.options.rules_per_connection;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if connection.rules.len() >= limit {
            return Err(Error::method(
                name::LIMITS_EXCEEDED,
                format!("a connection may have {limit} match rules"),
            ));
        }
        connection.rules.push(rule);
        self.publish_filter(id);
        Ok(())
    }

    /// A connection does not want them any more; of equal rules one goes.
    ///
    /// # Errors
    /// `MatchRuleInvalid`, `MatchRuleNotFound`.
    pub fn remove_match(&mut self, id: PeerId, rule: &str) -> Result<()> {
        let rule = driver::parse_rule(rule)?;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        let Some(at) = connection.rules.iter().position(|known| *known == rule) else {
            return Err(Error::method(name::MATCH_RULE_NOT_FOUND, "the connection has no such match rule"));
        };
        connection.rules.remove(at);
        self.publish_filter(id);
        Ok(())
    }

    /// A client wants every signal, or no longer: it monitors the bus. Messages between others do not pass here; use a
    /// [`Monitor`](crate::Monitor) for them.
    pub fn want_every_signal(&mut self, id: PeerId, wants: bool) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.wants_everything = wants;
            self.publish_filter(id);
        }
    }

    fn publish_filter(&mut self, id: PeerId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let filter = match connection.wants_everything {
            true => Filter::all(),
            false => Filter::new(&connection.rules, |name| self.owner_of(name)),
        };
        self.port.directory().set_filter(connection.index, &filter);
        let has_clients = |connection: &Connection| {
            connection.link.is_none() && (connection.wants_everything || !connection.rules.is_empty())
        };
        self.port.wants_signals = self.connections.values().any(has_clients);
    }

    /// Writes a name into the directory, and its change into the log.
    fn publish_name(&mut self, name: &str, change: Option<Change>) {
        let claims = self.names.claims(name);
        let owner = claims.first().and_then(|id| {
            let peer = self.connections.get(id)?.index;
            Some(Owner { peer, id: *id, queue: claims[1..].to_vec() })
        });
        // The table has as many entries as there may be names.
        let has_space = self.port.directory().set_owner(name, owner.as_ref());
        debug_assert!(has_space, "names are counted before");
        let Some(Change { name, old, new }) = change else { return };
        let concerned: Vec<PeerId> = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.rules.iter().any(|rule| rule.sender.as_ref() == Some(&name)))
            .map(|(id, _)| *id)
            .collect();
        concerned.into_iter().for_each(|id| self.publish_filter(id));
        if let Some(old) = old {
            self.tell(old, "NameLost", &name);
        }
        self.announce(&name, old, new);
        if let Some(new) = new {
            self.tell(new, "NameAcquired", &name);
        }
    }

    /// A signal of the bus to one connection.
    fn tell(&mut self, id: PeerId, member: &str, name: &str) {
        let destination = unique_name(id);
        let signal = Builder::signal(DRIVER_PATH, DRIVER, member).destination(&destination);
        self.send_own(signal.body(Body::default().text(name)), Some(id));
    }

    /// `NameOwnerChanged`.
    fn announce(&mut self, name: &str, old: Option<PeerId>, new: Option<PeerId>) {
        let text = |id: Option<PeerId>| id.map_or_else(String::new, unique_name);
        let body = Body::default().text(name).text(&text(old)).text(&text(new));
        self.send_own(Builder::signal(DRIVER_PATH, DRIVER, "NameOwnerChanged").body(body), None);
    }

    /// A message of the bus itself, to a connection or to all.
    fn send_own(&mut self, message: Builder<'_>, to: Option<PeerId>) {
        let to = match to {
            None => To::All,
            Some(id) => {
                let Some(connection) = self.connections.get(&id) else { return };
                To::Peer { slot: self.port.directory().carrier(connection.index), id }
            }
        };
        self.serial = self.serial.wrapping_add(1).max(1);
        if let Ok(bytes) = message.sender(DRIVER).build(self.serial) {
            self.work.push_back(Work::Send { sender: AUTHORITY_ID, to, bytes });
        }
    }

    /// Answers a call of a method of the bus.
    pub fn reply_as_driver(&mut self, caller: PeerId, call: &[u8], body: Body) {
        let Ok(header) = Header::parse(call) else { return };
        if header.expects_reply() {
            let destination = unique_name(caller);
            self.send_own(Builder::reply(header.serial).destination(&destination).body(body), Some(caller));
        }
    }

    /// Answers it with an error.
    ///
    /// # Panics
    /// `error` is no error name.
    pub fn error_as_driver(&mut self, caller: PeerId, call: &[u8], error: &str, text: &str) {
        let Ok(header) = Header::parse(call) else { return };
        if header.expects_reply() {
            let destination = unique_name(caller);
            let reply = Builder::error(header.serial, error).destination(&destination);
            self.send_own(reply.body(Body::default().text(text)), Some(caller));
        }
    }

    fn read_log(&mut self, events: &mut Vec<Event>) -> Result<()> {
        while let Some(received) = self.port.next(&mut self.fds)? {
            self.handle(received, events);
        }
        Ok(())
    }

    fn handle(&mut self, received: Received, events: &mut Vec<Event>) {
        let Received { position, header, bytes, .. } = received;
        if header.destination != AUTHORITY_ID {
            let to = (header.destination != 0).then_some(header.destination);
            // A client that has left, and signals while no client wants any, concern nobody.
            let is_wanted = to.map_or(self.port.wants_signals, |to| self.connections.contains_key(&to));
            if is_wanted {
                events.push(Event::Message { position, to, sender: header.sender, bytes });
            }
            return;
        }
        let Ok(call) = Header::parse(&bytes) else { return };
        if call.kind != Kind::MethodCall || !self.connections.contains_key(&header.sender) {
            return;
        }
        let caller = header.sender;
        match driver::answer(self, caller, &call, &bytes[call.header_bytes..]) {
            Answer::Reply(body) => self.reply_as_driver(caller, &bytes, body),
            Answer::Error(Error::Method { name, message }) => {
                self.error_as_driver(caller, &bytes, &name, &message)
            }
            Answer::Error(error) => {
                self.error_as_driver(caller, &bytes, "org.freedesktop.DBus.Error.Failed", &error.to_string());
            }
            Answer::Unknown => events.push(Event::DriverCall { caller, bytes }),
        }
    }

    /// Sends what waits, as far as there is space. A member that stands in the way for too long is put out.
    fn flush(&mut self) -> Result<()> {
        while let Some(work) = self.work.front() {
            let (sender, to, bytes) = match work {
                Work::Send { sender, to, bytes } => (*sender, *to, bytes),
                Work::Left { index, id, is_member } => {
                    let (index, id, is_member) = (*index, *id, *is_member);
                    self.after_end(index, id, is_member);
                    self.work.pop_front();
                    continue;
                }
            };
            let Ok(header) = Header::parse(bytes) else {
                self.work.pop_front();
                continue;
            };
            match self.port.send(&mut self.fds, to, sender, &header, bytes) {
                Ok(_) => {
                    self.blocked = None;
                    self.work.pop_front();
                }
                Err(NotSent::Failed(Error::TooLong { .. })) => drop(self.work.pop_front()),
                Err(NotSent::Failed(error)) => return Err(error),
                Err(NotSent::Full(slot)) if slot == AUTHORITY => {
                    // The next dispatch reads first.
                    return Ok(());
                }
                Err(NotSent::Full(slot)) => {
                    let cursor = self.port.order().cursor(slot).load(Ordering::Acquire);
                    self.port.ring(&mut self.fds, slot);
                    match self.blocked {
                        Some((who, at, since)) if (who, at) == (slot, cursor) => {
                            if since.elapsed() < self.options.laggard_deadline {
                                return Ok(());
                            }
                            self.port.evict(&mut self.fds, slot);
                            self.blocked = None;
                        }
                        _ => {
                            self.blocked = Some((slot, cursor, Instant::now()));
                            return Ok(());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the members that were put out, by a sender or here.
    fn end_evicted(&mut self, events: &mut Vec<Event>) {
        let evictions = self.port.order().evictions().load(Ordering::Acquire);
        if evictions == self.evictions {
            return;
        }
        self.evictions = evictions;
        let out: Vec<u64> = self
            .connections
            .iter()
            .filter(|(id, connection)| {
                connection.link.is_some()
                    && self.port.order().evicted(connection.index).load(Ordering::Acquire) == **id
            })
            .filter_map(|(_, connection)| connection.link)
            .collect();
        for link in out {
            let why = "it did not read for longer than the bus allows";
            if let Some(link) = self.links.get(&link) {
                let _ = control::send(&link.socket, &Packet::text(control::Kind::Disconnected, why), &[]);
            }
            self.close(link, why, events);
        }
    }

    /// The end of a process at the control socket.
    fn close(&mut self, link: u64, why: &str, events: &mut Vec<Event>) {
        let Some(link) = self.links.remove(&link) else { return };
        let _ = epoll::delete(&self.epoll, &link.socket);
        if let Some(pidfd) = &link.pidfd {
            let _ = epoll::delete(&self.epoll, pidfd);
        }
        if let Some(id) = link.member {
            self.remove(id);
            events.push(Event::Left { peer: id, why: why.into() });
        }
    }

    /// Takes a connection off the bus: its names pass on, then its end is announced.
    fn remove(&mut self, id: PeerId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (index, is_member) = (connection.index, connection.link.is_some());
        self.port.directory().set_state(index, State::Leaving);
        for name in self.names.of(id) {
            let (_, change) = self.names.release(&name, id);
            self.publish_name(&name, change);
        }
        self.connections.remove(&id);
        self.announce(&unique_name(id), Some(id), None);
        self.work.push_back(Work::Left { index, id, is_member });
    }

    /// After the end of a connection was announced: wakes those who wait for its replies, and those whom it may have left asleep
    /// because it ended between an entry and a wake-up.
    fn after_end(&mut self, index: u16, id: PeerId, is_member: bool) {
        let order = Arc::clone(self.port.order());
        ring::fence_after_append();
        let was_sending = is_member && order.sending(index).load(Ordering::Acquire) != 0;
        for slot in self.port.directory().present().collect::<Vec<_>>() {
            let waits_for = order.waiting_for(slot).load(Ordering::Acquire);
            if was_sending || waits_for == id || waits_for == u64::MAX {
                self.port.ring(&mut self.fds, slot);
            }
        }
        if !is_member {
            // What it sent is in the outbox of the authority.
            return self.port.directory().set_state(index, State::Free);
        }
        let end = self.port.find_end();
        self.leaving.push((index, end));
        if self.leaving.len() > self.options.members / 4 {
            self.ring_behind();
        }
    }

    /// A process waits for a place: wakes members that must read first, and puts those out that have not for the deadline.
    fn demand_place(&mut self) {
        self.ring_behind();
        let since = *self.place_wanted.get_or_insert_with(Instant::now);
        let Some(end) = self.leaving.iter().map(|(_, end)| *end).min() else { return };
        if since.elapsed() < self.options.laggard_deadline {
            return;
        }
        for slot in self.port.directory().present().filter(|slot| *slot != AUTHORITY).collect::<Vec<_>>() {
            if self.port.order().cursor(slot).load(Ordering::Acquire) < end {
                self.port.evict(&mut self.fds, slot);
            }
        }
    }

    /// Wakes those who sleep before the end of a member whose place is needed.
    fn ring_behind(&mut self) {
        let Some(end) = self.leaving.iter().map(|(_, end)| *end).max() else { return };
        for slot in self.port.directory().present().collect::<Vec<_>>() {
            if self.port.order().cursor(slot).load(Ordering::Acquire) < end {
                self.port.ring(&mut self.fds, slot);
            }
        }
    }

    /// Frees the places of those who left, once all members have read what they sent.
    fn free_slots(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let (lowest, _) = self.port.lowest_cursor();
        let directory = Arc::clone(self.port.directory());
        self.leaving.retain(|(index, end)| {
            if lowest < *end {
                return true;
            }
            directory.set_state(*index, State::Free);
            self.fds.outboxes.remove(index);
            self.fds.doorbells.remove(index);
            self.port.forget(*index);
            false
        });
    }

    /// Wakes all members: the bus has ended.
    fn wake_all(&mut self) {
        for slot in self.port.directory().present().collect::<Vec<_>>() {
            self.port.ring(&mut self.fds, slot);
        }
    }
}

impl AsFd for Authority {
    /// Readable when there is something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn watch(epoll: &OwnedFd, fd: impl AsFd, data: u64) -> Result<()> {
    epoll::add(epoll, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN)
        .map_err(|error| causeway_os::Error::new("watch", "a descriptor", error).into())
}
