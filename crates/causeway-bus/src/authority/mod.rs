//! The process that says who is on the bus: members join here, names are given here, deaths are noticed here.
//!
//! It is part of an event loop: [`Authority::as_fd`] becomes readable, [`Authority::dispatch`] does what there is to do and never
//! waits. It is a member itself, in slot 0, and sends what is the bus's own: replies of `org.freedesktop.DBus`, changes of names,
//! arrivals, deaths. A *client* is a connection that another program (the gateway) serves: it has a number, names and rules,
//! and its messages travel in the outbox of the authority.

mod driver;
mod listener;
mod log;
mod members;
mod names;
mod tokens;
mod transfer;

pub use driver::{DRIVER, DRIVER_PATH, name_of, unique_name};
pub use names::{ALLOW_REPLACEMENT, DO_NOT_QUEUE, NameReply, REPLACE_EXISTING, ReleaseReply};
pub use tokens::TransferLimits;
pub(crate) use transfer::check_parcel;

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::socket::Credentials;
use rustix::event::{EventfdFlags, epoll};
use weighbridge_dbus::rule::MatchRule;
use weighbridge_dbus::wire::{Body, Builder, Header, Kind};

use crate::content::{Bytes, FileDescriptors};
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, AUTHORITY_ID, Descriptors, Parcel, Port, To};
use crate::shared::directory::{Directory, Peer, State};
use crate::shared::filter::unique_number;
use crate::shared::order::OrderLog;
use crate::shared::outbox::Outbox;
use crate::shared::ring::{self, Sleep};
use listener::Listener;
use names::Names;
use tokens::Tokens;

/// Number of a connection in its unique name; never used again.
pub type PeerId = u64;

/// Settings of a bus.
#[derive(Clone, Debug)]
pub struct AuthorityOptions {
    /// Entries of the order log, a power of two.
    pub order_entries: u64,
    /// Bytes of the authority's own outbox, a power of two. Messages of clients above a quarter go into files.
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
    /// How much may be on its way beside the log.
    pub transfers: TransferLimits,
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
            transfers: TransferLimits::default(),
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
        /// The D-Bus message, with its sender filled in. A long one is mapped.
        bytes: Bytes,
        /// The descriptors that came with it.
        descriptors: FileDescriptors,
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
    /// The slot of a member that was put out: it is not used again as long as its process may write there.
    holds: Option<u16>,
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
        parcel: Parcel,
    },
    /// Every message that a member's end causes has been sent: wakes the members that wait for them.
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
    tokens: Tokens,
    leaving: Vec<(u16, u64)>,
    work: VecDeque<Work>,
    /// Who stood in the way when the work stopped, at which cursor, since when.
    blocked: Option<(u16, u64, Instant)>,
    /// Since when a process waits for a place, and when it last asked.
    place_wanted: Option<(Instant, Instant)>,
    next_id: PeerId,
    next_link: u64,
    serial: u32,
    evictions: u64,
}

/// What an epoll event is about: the listener, the doorbell, or a link and whether it is its pidfd.
const LISTENER: u64 = 0;
const DOORBELL: u64 = 1;
/// How often one dispatch looks into the log, and how many messages it takes each time.
const TURNS_PER_DISPATCH: usize = 4;
const MESSAGES_PER_TURN: usize = 256;
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
        let tokens = Tokens::new(options.transfers.clone());
        let mut authority = Authority {
            options,
            tokens,
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

    /// When to call [`Authority::dispatch`] although the descriptor is not readable: messages wait for space, or descriptors for
    /// members that may still take them.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        (!self.work.is_empty()).then_some(Duration::from_millis(2)).or_else(|| self.sweep_timeout())
    }

    /// Does all there is to do, without waiting.
    ///
    /// # Errors
    /// The bus is broken: it has ended, and all members get the same error. The kernel's errors of epoll.
    pub fn dispatch(&mut self) -> Result<Vec<Event>> {
        ring::disarm(self.port.order().armed(AUTHORITY));
        let mut events = Vec::new();
        self.poll_descriptors(&mut events)?;
        for _ in 0..TURNS_PER_DISPATCH {
            self.read_log(&mut events).inspect_err(|_| self.wake_all())?;
            self.end_evicted(&mut events);
            self.flush().inspect_err(|_| self.wake_all())?;
            self.free_slots();
            self.sweep_deposits();
            if self.arm() {
                return Ok(events);
            }
            ring::disarm(self.port.order().armed(AUTHORITY));
        }
        // Members send faster than this reads: the rest of the program gets its turn, and the descriptor stays readable.
        let _ = rustix::io::write(&self.doorbell, &1u64.to_ne_bytes());
        Ok(events)
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
    /// As [`Authority::send_with_descriptors`].
    pub fn send_as(&mut self, client: PeerId, bytes: Vec<u8>) -> Result<()> {
        self.send_with_descriptors(client, bytes, Vec::new())
    }

    /// As [`Authority::send_as`], with the descriptors that the message names.
    ///
    /// # Errors
    /// [`Error::Invalid`] for bytes that are no message of this client, or one for the bus itself, which the gateway answers, or
    /// another number of descriptors than it names; [`Error::Method`] with `ServiceUnknown` for a destination that nobody is,
    /// `LimitsExceeded` if more is on its way beside the log than [`TransferLimits`] allows.
    pub fn send_with_descriptors(
        &mut self,
        client: PeerId,
        bytes: Vec<u8>,
        descriptors: Vec<OwnedFd>,
    ) -> Result<()> {
        let header = Header::parse(&bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        if header.message_bytes() != bytes.len() || header.sender != Some(&unique_name(client)) {
            return Err(Error::Invalid("the message is not whole, or its sender is not the client".into()));
        }
        let to = match header.destination {
            None if header.kind == Kind::Signal => To::All,
            Some(DRIVER) | None => return Err(Error::Invalid("a message for the bus itself".into())),
            Some(name) => self.resolve(name).ok_or_else(|| {
                Error::method(name::SERVICE_UNKNOWN, format!("no connection has the name {name}"))
            })?,
        };
        let parcel = self.deposit_own(client, to, &bytes, descriptors)?;
        self.work.push_back(Work::Send { sender: client, to, bytes, parcel });
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
