//! A member of a bus: calls, replies, signals, names, matches.
//!
//! | file | what it has |
//! |---|---|
//! | `options` | settings and statistics |
//! | `calls`, `message` | calls and replies; messages as programs see them |
//! | `sending`, `receiving`, `sleep` | the way out, the way in, and waiting for what comes |
//! | `raw` | whole messages, for programs that build and read them themselves |
//! | `descriptors` | what of a message travels beside the log |
//! | `names`, `rules` | names and match rules |
//! | `headers` | headers that were checked before |
//! | `link`, `watcher` | the control socket, and the thread that sees its end |

mod calls;
mod descriptors;
mod headers;
mod link;
mod message;
mod names;
mod options;
mod raw;
mod receiving;
mod rules;
mod sending;
mod sleep;
mod watcher;

pub use message::{Call, Incoming, Message, Reply};
pub use options::{ConnectionOptions, Statistics};

#[cfg(feature = "tokio")]
pub(crate) use calls::outcome;
pub(crate) use link::Link;
#[cfg(feature = "tokio")]
pub(crate) use names::{name_reply, release_reply};
#[cfg(feature = "tokio")]
pub(crate) use receiving::Taken;
#[cfg(feature = "tokio")]
pub(crate) use sending::Outgoing;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use causeway_os::memory::Access;
use causeway_os::sched;
use rustc_hash::FxHashMap;

use crate::authority::unique_name;
use crate::error::{Error, Result};
use crate::port::{AUTHORITY, Port};
use crate::shared::directory::Directory;
use crate::shared::order::OrderLog;
use crate::shared::outbox::Outbox;
use descriptors::Undeliverable;
use headers::KnownHeaders;
use rules::Rule;
use watcher::Watched;

/// The environment variable that names the native socket of the session's bus.
pub const ADDRESS_VARIABLE: &str = "CAUSEWAY_BUS";

/// A call without a reply.
#[derive(Clone, Copy, Debug)]
struct Pending {
    callee: u64,
    /// The bus has the call, and will say who gets it.
    is_passed_on: bool,
}

/// A member of a bus.
///
/// ```no_run
/// use causeway_bus::{Connection, Incoming, wire::Body};
///
/// let mut bus = Connection::session()?;
/// let reply = bus.call("com.example.Clock", "/clock", "com.example.Clock", "Now", Body::default())?;
/// println!("{:?}", reply.args());
/// # Ok::<(), causeway_bus::Error>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    port: Port,
    link: Link,
    watched: Arc<Watched>,
    options: ConnectionOptions,
    name: Arc<str>,
    serial: u32,
    rules: Vec<Rule>,
    next_rule: u64,
    inbox: VecDeque<Incoming>,
    inbox_bytes: usize,
    /// Headers of received messages.
    headers: KnownHeaders,
    /// Where messages are built.
    buffer: Vec<u8>,
    pending: FxHashMap<u32, Pending>,
    /// Of these, calls whose replies the program takes as messages.
    raw: FxHashMap<u32, raw::Change>,
    /// Answers, errors among them, and calls that ended without one.
    replies: FxHashMap<u32, Result<Message>>,
    known: FxHashMap<u64, u16>,
    undeliverable: Vec<Undeliverable>,
    last_token: u32,
    doorbell: Option<OwnedFd>,
    is_armed: bool,
    /// A sleep was ended because the authority is gone; no other will be.
    has_noticed_end: bool,
    /// The program was told.
    has_told_end: bool,
    /// Counts what the program gets: messages, replies, ends of calls.
    delivered: u64,
    spin: Duration,
    sleeps: u32,
}

impl Connection {
    /// Joins the bus whose native socket the environment variable `CAUSEWAY_BUS` names.
    ///
    /// # Errors
    /// It is not set; otherwise as [`Connection::open`].
    pub fn session() -> Result<Connection> {
        let path = session_path()?;
        Connection::open(path)
    }

    /// Joins the bus that is served at a path.
    ///
    /// # Errors
    /// Nobody serves there, the bus refuses, or the kernel lacks memory or descriptors.
    pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
        Connection::open_with(path, ConnectionOptions::default())
    }

    /// As [`Connection::open`], with settings.
    ///
    /// # Errors
    /// As [`Connection::open`]; an option that is not possible.
    pub fn open_with(path: impl AsRef<Path>, options: ConnectionOptions) -> Result<Connection> {
        let (outbox_fd, mut outbox) = Outbox::create(options.outbox_bytes)?;
        let (link, [slot, id, cursor, place], fds) = Link::join(path.as_ref(), Some(outbox_fd.as_fd()))?;
        let Ok([order, directory, authority]) = <[OwnedFd; 3]>::try_from(fds) else {
            return Err(Error::Refused("the welcome of the bus lacks descriptors".into()));
        };
        let order = Arc::new(OrderLog::open(&order, Access::ReadWrite)?);
        let directory = Arc::new(Directory::open(&directory)?);
        let slot = u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < order.slots());
        let slot = slot.ok_or_else(|| Error::Refused("the welcome of the bus names no slot".into()))?;
        outbox.begin_at(place as u32);
        let watched = watcher::watch(link.socket(), Arc::clone(&order), slot)?;
        let mut port = Port::new(order, directory, outbox, slot, id, cursor);
        port.set_own_outbox(&outbox_fd)?;
        port.set_doorbell(AUTHORITY, authority);
        let can_spin = sched::allowed_cpus().is_ok_and(|cpus| cpus.len() > 1);
        let spin = if can_spin { options.spin } else { Duration::ZERO };
        Ok(Connection {
            port,
            link,
            watched,
            options: ConnectionOptions { spin, ..options },
            name: unique_name(id).into(),
            serial: 0,
            rules: Vec::new(),
            next_rule: 0,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            headers: KnownHeaders::default(),
            buffer: Vec::new(),
            pending: FxHashMap::default(),
            raw: FxHashMap::default(),
            replies: FxHashMap::default(),
            known: FxHashMap::default(),
            undeliverable: Vec::new(),
            last_token: 0,
            doorbell: None,
            is_armed: false,
            has_noticed_end: false,
            has_told_end: false,
            delivered: 0,
            spin,
            sleeps: 0,
        })
    }

    /// The unique name of this connection.
    #[must_use]
    pub fn unique_name(&self) -> &str {
        &self.name
    }

    /// What this connection has done.
    #[must_use]
    pub fn statistics(&mut self) -> Statistics {
        let end = self.port.find_end();
        self.port.publish_cursor();
        Statistics::of(self.port.order(), self.port.slot(), end)
    }

    /// The order log itself, for tests that damage it.
    #[doc(hidden)]
    #[must_use]
    pub fn order_log(&self) -> &Arc<OrderLog> {
        self.port.order()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        watcher::forget(self.link.socket());
    }
}

impl AsFd for Connection {
    /// Readable when something has come after [`Connection::prepare_to_wait`].
    ///
    /// # Panics
    /// [`Connection::use_descriptor`] was not called before.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.doorbell {
            Some(doorbell) => doorbell.as_fd(),
            None => panic!("use_descriptor() makes the descriptor"),
        }
    }
}

/// The path that [`ADDRESS_VARIABLE`] names.
pub(crate) fn session_path() -> Result<PathBuf> {
    std::env::var_os(ADDRESS_VARIABLE).map(PathBuf::from).ok_or_else(|| {
        Error::Invalid(format!(
            "{ADDRESS_VARIABLE} is not set: it names the native socket of the session's bus"
        ))
    })
}
