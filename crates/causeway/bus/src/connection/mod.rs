//! A member of a bus: calls, replies, signals, names, matches.

mod by_serial;
mod calls;
mod descriptors;
mod destinations;
mod link;
mod message;
mod names;
mod options;
mod pending;
mod properties;
mod raw;
mod receiving;
mod rules;
mod sending;
mod serving;
mod sleep;
mod standard;
mod watcher;

pub use crate::shared::statistics::Statistics;
pub use message::{Call, Incoming, Message, Reply};
pub use options::ConnectionOptions;
pub use serving::{Answer, Context, Refusal};

pub(crate) use calls::outcome;
pub(crate) use link::{Link, descriptors};
#[cfg(feature = "zbus")]
pub(crate) use raw::is_for_driver;
#[cfg(feature = "tokio")]
pub(crate) use {
    calls::Callee,
    names::{name_reply, release_reply},
    receiving::Taken,
    sending::Outgoing,
};

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use causeway_dbus_wire::introspection::Objects;
use causeway_os::memory::Access;
use causeway_os::sched;
use causeway_waiting::polling::Polling;

use crate::authority::{DRIVER, unique_name};
use crate::error::Result;
use crate::port::{AUTHORITY, AUTHORITY_ID, Port};
use crate::shared::directory::Directory;
use crate::shared::order::OrderLog;
use crate::shared::outbox::Outbox;
use by_serial::BySerial;
use descriptors::Undeliverable;
use destinations::Destinations;
use message::HeaderCache;
use pending::PendingCalls;
use properties::Properties;
use rules::Rules;
use sending::Writer;
use watcher::Watched;

/// A member of a bus. What it is asked to do fails when the bus or this connection has ended.
///
/// ```no_run
/// use causeway_bus::{Connection, wire::Body};
///
/// let mut bus = Connection::session()?;
/// let reply = bus.call("com.example.Clock", "/clock", "com.example.Clock", "Now", Body::default())?;
/// let (seconds, zone): (f64, &str) = reply.args()?;
/// println!("{seconds} {zone}");
/// # Ok::<(), causeway_bus::Error>(())
/// ```
#[derive(Debug)]
pub struct Connection {
    port: Port,
    link: Link,
    watched: Arc<Watched>,
    options: ConnectionOptions,
    /// A member that has kept this one waiting for so long is evicted.
    laggard_deadline: Duration,
    name: Arc<str>,
    /// Number and unique name of the one that was answered last.
    answered: (u64, String),
    writer: Writer,
    rules: Rules,
    /// The end of a callee may have been overwritten before it was read.
    may_miss_ends: bool,
    inbox: VecDeque<Incoming>,
    inbox_bytes: usize,
    headers: HeaderCache,
    /// What the program has said of its objects.
    objects: Objects,
    properties: Properties,
    pending: PendingCalls,
    /// Of these, calls whose replies the program takes as messages.
    raw: BySerial<raw::RawCall>,
    /// Answers, errors among them, and calls that ended without one.
    replies: BySerial<Result<Message>>,
    destinations: Destinations,
    undeliverable: Vec<Undeliverable>,
    last_token: u32,
    doorbell: Option<OwnedFd>,
    /// A sleep on the descriptor is announced.
    is_armed: bool,
    asleep: sleep::Asleep,
    /// The last sleep was ended by a wake-up, and what came of it is not known yet.
    was_woken: bool,
    /// A sleep was ended because the authority is gone; no other will be.
    has_noticed_end: bool,
    /// The program was told.
    has_told_end: bool,
    /// Counts what the program gets: messages, replies, ends of calls.
    delivered: u64,
    polling: Polling,
    /// The process that joined.
    process: u32,
}

impl Connection {
    /// Joins the bus that is served at a path. Fails if nobody serves there, the bus refuses, or the kernel lacks
    /// memory or descriptors.
    pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
        Connection::open_with(path, ConnectionOptions::default())
    }

    /// As [`Connection::open`], with settings.
    pub fn open_with(path: impl AsRef<Path>, options: ConnectionOptions) -> Result<Connection> {
        let (outbox_fd, mut outbox) = Outbox::create(options.outbox_bytes)?;
        let (mut link, welcome, fds) = Link::join(path.as_ref(), Some(outbox_fd.as_fd()))?;
        let [slot, id, cursor, place] = welcome.words;
        let [order, directory, authority] = link::descriptors(fds)?;
        let laggard_deadline = welcome.text.parse().map(Duration::from_millis);
        let laggard_deadline = laggard_deadline.map_err(|_| link::incomplete("no laggard deadline"))?;
        let order = Arc::new(OrderLog::open(&order, Access::ReadWrite)?);
        let directory = Arc::new(Directory::open(&directory)?);
        let slot = u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < order.slots());
        let slot = slot.ok_or_else(|| link::incomplete("no valid slot"))?;
        outbox.begin_at(place as u32);
        let watched = watcher::watch(link.socket(), Arc::clone(&order), slot)?;
        link.set_watched(Arc::clone(&watched));
        let mut port = Port::new(order, directory, outbox, slot, id, cursor);
        port.set_own_outbox(&outbox_fd)?;
        port.set_doorbell(AUTHORITY, authority);
        let can_spin = sched::allowed_cpus().is_ok_and(|cpus| cpus.len() > 1);
        let spin = if can_spin { options.spin } else { Duration::ZERO };
        Ok(Connection {
            port,
            link,
            watched,
            laggard_deadline: options.laggard_deadline.unwrap_or(laggard_deadline),
            options: ConnectionOptions { spin, ..options },
            name: unique_name(id).into(),
            answered: (AUTHORITY_ID, DRIVER.into()),
            writer: Writer::default(),
            rules: Rules::default(),
            may_miss_ends: false,
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            headers: HeaderCache::default(),
            objects: Objects::default(),
            properties: Properties::default(),
            pending: PendingCalls::default(),
            raw: BySerial::default(),
            replies: BySerial::default(),
            destinations: Destinations::default(),
            undeliverable: Vec::new(),
            last_token: 0,
            doorbell: None,
            is_armed: false,
            asleep: sleep::Asleep::default(),
            was_woken: false,
            has_noticed_end: false,
            has_told_end: false,
            delivered: 0,
            polling: Polling::up_to(spin),
            process: std::process::id(),
        })
    }

    /// The unique name of this connection.
    pub fn unique_name(&self) -> &str {
        &self.name
    }

    /// What this connection has done.
    pub fn statistics(&mut self) -> Statistics {
        let end = self.port.find_end();
        self.port.publish_cursor();
        Statistics::of(self.port.order(), self.port.slot(), end)
    }

    /// The order log itself, for tests that damage it.
    #[doc(hidden)]
    pub fn order_log(&self) -> &Arc<OrderLog> {
        self.port.order()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A child that this process has forked has the socket and the list of the watcher, too; it is not a member, and in
        // it nothing ends.
        if self.process == std::process::id() {
            watcher::forget(self.link.socket(), &self.watched);
            let _ = rustix::net::shutdown(self.link.socket(), rustix::net::Shutdown::Both);
        }
    }
}

impl AsFd for Connection {
    /// Readable when something has come after [`Connection::prepare_to_wait`].
    ///
    /// # Panics
    /// [`use_descriptor`](Connection::use_descriptor) was not called before.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.doorbell {
            Some(doorbell) => doorbell.as_fd(),
            None => panic!("use_descriptor() makes the descriptor"),
        }
    }
}
