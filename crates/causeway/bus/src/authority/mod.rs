//! What carries a bus: members join here, their deaths are noticed here, and the bus writes into the order log from
//! here.
//!
//! The authority decides nothing. The program that embeds it (the *host*) says who may join and under which number, who
//! owns which name, who wants which signals, and the authority publishes that in the directory. A member itself, in
//! slot 0, it appends what the host sends for the bus and for its *clients*, connections without shared memory. Nothing
//! here waits:
//!
//! | the host calls | when |
//! |---|---|
//! | [`Authority::dispatch`] | the descriptor is readable, or [`Authority::timeout`] has passed |
//! | [`Authority::next`] | to read the order log, message by message |
//! | [`Authority::append`] | to send a message |
//! | [`Authority::prepare_to_wait`] | before it sleeps |

mod directory;
mod foreign;
mod listener;
mod log;
mod members;
mod places;
mod report;
mod staging;
mod transfer;

pub use crate::port::TransferRef;
pub use causeway_dbus_wire::driver::{
    ALLOW_REPLACEMENT, DO_NOT_QUEUE, DRIVER, DRIVER_PATH, NameReply, REPLACE_EXISTING, ReleaseReply,
};
pub use log::{Appended, InboundMessage};
pub use report::{MemberReport, Unread};
pub use staging::TransferLimits;
pub(crate) use transfer::check_staged;

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::Context;
use causeway_os::bell::Bell;
use causeway_os::epoll::Token;
use causeway_os::process::{is_overflow_user, overflow_user_refused};
use causeway_os::socket::{Credentials, Liveness};
use rustix::event::epoll;

use crate::control;
use crate::error::{Error, Result};
use crate::port::{AUTHORITY, AUTHORITY_ID, Descriptors, Port};
use crate::shared::directory::{Directory, Peer, State};
use crate::shared::filter::Filter;
use crate::shared::order::OrderLog;
use crate::shared::outbox::Outbox;
pub(crate) use crate::shared::unique_name::{name_of, unique_name};
use listener::Listener;
use staging::StagingArea;

/// Interface of what libraries of members hear from the bus and from each other, and programs do not see.
pub const BUS_INTERFACE: &str = "causeway.Bus";
/// A signal to the caller of a method: its call (the serial) has no receiver that the caller knew, and goes to this
/// member now (its unique name). It comes before the call in the log, so that the caller knows whose end ends the call.
pub const PASSED_ON: &str = "PassedOn";

/// A signal from one member to another, after the end of the authority: the sender lacks the outbox of the other one,
/// whose descriptor nobody has any more, and has skipped a message. It will skip all others, too.
pub(crate) const UNREAD: &str = "Unread";

/// Number of a connection: that of its unique name and two, because 0 is nobody and 1 the bus. Never used again.
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
    /// Clients at most that the directory shows. What members send to others goes through the host.
    pub clients: usize,
    /// Names at most that the directory shows; calls to others go through the host.
    pub names: usize,
    /// A member that has kept another one waiting for so long in all is evicted, in milliseconds, rounded up: see
    /// [`laggard_deadline`](crate::ConnectionOptions::laggard_deadline). Also how long a process that finds no place
    /// waits for members that must read first.
    pub laggard_deadline: Duration,
    /// A process that connects and has not asked for anything for so long is sent away.
    pub join_deadline: Duration,
    /// How much may be in flight outside of the log.
    pub transfers: TransferLimits,
    /// Closes descriptors that no receiver has taken, here or in another thread: closing a socket that lingers waits.
    pub close: fn(Vec<OwnedFd>),
}

impl Default for AuthorityOptions {
    fn default() -> AuthorityOptions {
        AuthorityOptions {
            order_entries: 1 << 16,
            outbox_bytes: 1 << 22,
            members: 1024,
            clients: 1024,
            names: 2048,
            laggard_deadline: Duration::from_millis(250),
            join_deadline: Duration::from_secs(30),
            transfers: TransferLimits::default(),
            close: drop,
        }
    }
}

/// Names a process that asks to join until the host has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// Who asks to join, as the kernel recorded it when the process connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process, user and group.
    pub credentials: Credentials,
    /// All groups of the process except its first one, where the kernel says them.
    pub groups: Option<Vec<u32>>,
    /// The label that a security module gave the process.
    pub label: Option<String>,
}

/// How the directory shows a connection whose messages stand in the outbox of this slot.
fn peer(id: PeerId, carrier: u16, credentials: Credentials, label: Option<&str>) -> Peer {
    let Credentials { pid, uid, .. } = credentials;
    Peer { id, carrier, state: State::Active, pid, uid, label: label.unwrap_or_default().to_owned() }
}

/// What happened at the control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A process asks to join. Answer with [`Authority::admit`] or [`Authority::refuse`].
    Joining(Ticket, Process),
    /// A member left, died or was evicted. Read up to [`Authority::end`], announce its end, and call
    /// [`Authority::remove`].
    Left {
        /// Which.
        peer: PeerId,
        /// Why it was evicted; nothing for one that left or died.
        why: Option<LeaveReason>,
    },
}

/// Why a member was evicted, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// It did not read within the laggard deadline.
    Laggard(String),
    /// It did at the control socket what no member may, or what it did there failed.
    Protocol(String),
}

/// A process at the control socket.
#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    pidfd: Option<OwnedFd>,
    liveness: Liveness,
    process: Process,
    /// The outbox of one that asks to join.
    outbox: Option<OwnedFd>,
    member: Option<PeerId>,
    has_joined: bool,
    /// The slot of one that is a member no more: it is not used again as long as its process may write there.
    holds: Option<u16>,
}

impl Link {
    fn is_unjoined(&self) -> bool {
        !self.has_joined && self.outbox.is_none()
    }
}

/// A connection that the directory shows, member or client.
#[derive(Debug)]
struct Connection {
    /// Its entry in the directory; a member's slot.
    index: u16,
    link: Option<u64>,
    /// For which signals it is woken.
    filter: Box<Filter>,
}

#[derive(Debug, Default)]
struct Fds {
    outboxes: HashMap<u16, (u64, OwnedFd)>,
    doorbells: HashMap<u16, (u64, OwnedFd)>,
    bell: Bell,
}

fn copy_of(table: &HashMap<u16, (u64, OwnedFd)>, slot: u16, id: u64) -> Result<Option<OwnedFd>> {
    let Some((_, fd)) = table.get(&slot).filter(|(has, _)| *has == id) else { return Ok(None) };
    let copy = fd.try_clone().context("copy", || "a descriptor of a member")?;
    Ok(Some(copy))
}

impl Descriptors for Fds {
    fn outbox(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>> {
        copy_of(&self.outboxes, slot, id)
    }
    fn doorbell(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>> {
        copy_of(&self.doorbells, slot, id)
    }
    fn ring(&mut self, doorbell: BorrowedFd<'_>) {
        self.bell.ring(doorbell);
    }
}

/// Carries a bus.
#[derive(Debug)]
pub struct Authority {
    options: AuthorityOptions,
    epoll: OwnedFd,
    listener: Option<Listener>,
    /// Until when no process is accepted, because there are no descriptors left.
    paused_until: Option<Instant>,
    doorbell: OwnedFd,
    order_fd: OwnedFd,
    directory_fd: OwnedFd,
    port: Port,
    fds: Fds,
    links: HashMap<u64, Link>,
    /// Processes that have the order log in their memory.
    readers: usize,
    connections: HashMap<PeerId, Connection>,
    /// Clients for which the directory has no place, and whether each wants signals.
    unlisted: HashMap<PeerId, Box<Filter>>,
    /// Is the authority woken for each signal of a member?
    wakes_for_all: bool,
    staging: StagingArea,
    leaving: Vec<Leaving>,
    /// Since when there are some, or when members were last woken for them.
    leaving_since: Instant,
    /// A message that was read and is behind the position up to which the host wanted to read.
    read_ahead: Option<InboundMessage>,
    /// A sleep was announced, and no member is known to have ended it.
    is_asleep: bool,
    /// A member ended the last sleep, and what came of it is not counted yet.
    was_woken: bool,
    /// How far the authority was when it announced its last sleep.
    asleep: log::Asleep,
    /// A process waits for a place.
    place_wanted: Option<places::PlaceWanted>,
    next_link: u64,
    /// Connections and when they were accepted, the oldest first, of processes that have not asked to join; some may
    /// have since.
    unjoined: VecDeque<(u64, Instant)>,
    evictions: u64,
}

/// A member that has left, and whose place is not free yet.
#[derive(Debug)]
struct Leaving {
    index: u16,
    /// Behind which position all members must read before the place is used again; nothing once they have.
    end: Option<u64>,
    since: Instant,
}

/// What an epoll event is about: the listener, the doorbell, the socket of a link or its pidfd.
const LISTENER: Token = Token::new(0, 0);
const DOORBELL: Token = Token::new(1, 0);
const LINK: u8 = 2;
const PROCESS: u8 = 3;
/// Processes that have connected and not joined.
const UNJOINED_MAX: usize = 256;
/// Monitors: each takes a descriptor of this process.
const MONITORS_MAX: usize = 64;
/// How long no process is accepted when there are no descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Authority {
    /// A new bus with this GUID, at which nobody can join yet. Fails if an option is out of bounds, or the kernel lacks
    /// memory, descriptors or a feature.
    pub fn create(options: AuthorityOptions, guid: u128) -> Result<Authority> {
        let (order_fd, order) = OrderLog::create(options.order_entries, options.members)?;
        let peers = options.members + options.clients;
        let halves = [(guid >> 64) as u64, guid as u64];
        let (directory_fd, directory) = Directory::create(options.members, peers, options.names, halves)?;
        let (outbox_fd, outbox) = Outbox::create(options.outbox_bytes)?;
        let doorbell = control::new_doorbell()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("make", || "an epoll instance")?;
        watch(&epoll, &doorbell, DOORBELL)?;
        order.reset_line(AUTHORITY, 0);
        let (pid, uid) = (std::process::id(), rustix::process::geteuid().as_raw());
        let own = Peer { id: AUTHORITY_ID, state: State::Active, pid, uid, ..Peer::default() };
        directory.set_peer(AUTHORITY, &own);
        let mut fds = Fds::default();
        let mut port = Port::new(Arc::new(order), Arc::new(directory), outbox, AUTHORITY, AUTHORITY_ID, 0);
        port.skips_own = true;
        fds.outboxes.insert(AUTHORITY, (AUTHORITY_ID, outbox_fd));
        let staging = StagingArea::new(options.transfers.clone());
        Ok(Authority {
            options,
            staging,
            epoll,
            listener: None,
            paused_until: None,
            doorbell,
            order_fd,
            directory_fd,
            port,
            fds,
            links: HashMap::new(),
            readers: 0,
            connections: HashMap::new(),
            unlisted: HashMap::new(),
            wakes_for_all: false,
            leaving: Vec::new(),
            leaving_since: Instant::now(),
            read_ahead: None,
            is_asleep: false,
            was_woken: false,
            asleep: log::Asleep::default(),
            place_wanted: None,
            next_link: 1,
            unjoined: VecDeque::new(),
            evictions: 0,
        })
    }

    /// Lets processes of this user join at a socket with this path. The file goes when the authority is dropped. Fails for a process whose
    /// user cannot be told from others: the one that stands for all users without a number in its user namespace.
    pub fn serve_at(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.listen(Listener::bind(path.as_ref())?)
    }

    /// Lets processes of this user join at a socket that listens already, such as one of a service manager
    /// (`ListenSequentialPacket=`). Fails if it is not a listening Unix socket of type `SOCK_SEQPACKET`.
    pub fn serve_on(&mut self, socket: OwnedFd) -> Result<()> {
        self.listen(Listener::inherited(socket)?)
    }

    fn listen(&mut self, listener: Listener) -> Result<()> {
        if is_overflow_user() {
            return Err(Error::Refused(overflow_user_refused()));
        }
        watch(&self.epoll, &listener, LISTENER)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Does any process have the order log in its memory? As long as none has, nothing needs to be appended.
    pub fn has_readers(&self) -> bool {
        self.readers > 0
    }

    /// When to call [`Authority::dispatch`] although the descriptor is not readable.
    pub fn timeout(&self) -> Option<Duration> {
        let pause = self.paused_until.map(|until| until.saturating_duration_since(Instant::now()));
        [pause, self.sweep_timeout(), self.leaving_timeout(), self.unjoined_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Must [`Authority::dispatch`] be called although the descriptor is not readable?
    pub fn is_due(&self) -> bool {
        self.has_evictions()
            || self.paused_until.is_some_and(|until| until <= Instant::now())
            || [self.leaving_timeout(), self.unjoined_timeout()].contains(&Some(Duration::ZERO))
    }

    /// Was a member evicted by a sender, and is its end not known here yet?
    fn has_evictions(&self) -> bool {
        self.port.order().evictions().load(Ordering::Acquire) != self.evictions
    }

    /// Serves the control sockets, without waiting.
    pub fn dispatch(&mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        self.listen_again();
        let mut ready =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = match epoll::wait(&self.epoll, &mut ready[..], Some(&none)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(causeway_os::Error::new("wait for", "members", error).into()),
        };
        for event in &ready[..count] {
            match Token::of(event) {
                LISTENER => self.accept(&mut events),
                DOORBELL => self.take_rings(),
                Token { kind: PROCESS, number } => self.close(number, None, &mut events),
                Token { number, .. } => {
                    let flags = event.flags;
                    self.serve_link(number, flags.contains(epoll::EventFlags::HUP), &mut events);
                }
            }
        }
        self.end_evicted(&mut events);
        self.reject_overdue(&mut events);
        self.free_slots();
        self.wake_for_leaving();
        self.sweep_staged();
        Ok(events)
    }

    /// Wakes all members, so that they learn that the bus has ended.
    pub fn wake_all(&mut self) {
        self.ring(self.port.directory().present().collect());
    }

    /// Wakes the members in these slots, as far as they sleep.
    fn ring(&mut self, slots: Vec<u16>) {
        for slot in slots {
            self.port.ring(&mut self.fds, slot);
        }
    }
}

impl Drop for Authority {
    /// What processes have sent to sockets and nobody has received may be closed by nobody who must not wait.
    fn drop(&mut self) {
        let links = std::mem::take(&mut self.links);
        links.into_values().for_each(|link| self.discard(link.socket));
        if let Some(listener) = self.listener.take() {
            (self.options.close)(vec![listener.into_socket()]);
        }
    }
}

impl AsFd for Authority {
    /// Readable when [`Authority::dispatch`] has something to do, or when a message came after
    /// [`Authority::prepare_to_wait`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

fn watch(epoll: &OwnedFd, fd: impl AsFd, token: Token) -> Result<()> {
    epoll::add(epoll, fd, token.data(), epoll::EventFlags::IN)
        .context("watch", || "a descriptor")
        .map_err(Into::into)
}
