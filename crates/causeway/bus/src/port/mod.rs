//! One member's access to the bus: it sends and reads through shared memory. Connections and the authority are built on
//! it.
//!
//! Nothing here waits. What blocks is returned as a value, and the caller decides how long to try.

mod others;
mod receive;
mod send;
mod staged;
mod subscribers;
mod wake;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::content::{Bytes, FileDescriptors};
use crate::error::{Error, Result};
pub use crate::shared::AUTHORITY_ID;
use crate::shared::directory::Directory;
use crate::shared::header::BusHeader;
use crate::shared::order::{Broken, OrderLog};
use crate::shared::outbox::Outbox;
use crate::shared::unique_name::unique_name;
use others::Other;
pub use send::Outbound;
use send::Outstanding;
pub use staged::TransferRef;
use subscribers::SubscriberCache;
use wake::StallTable;

/// Slot of the authority.
pub const AUTHORITY: u16 = 0;

/// Where a port gets descriptors that it lacks.
pub trait Descriptors {
    /// The outbox of a member; `None` if it is gone.
    fn outbox(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>>;
    /// The doorbell of a member; `None` if it is gone or has none.
    fn doorbell(&mut self, slot: u16, id: u64) -> Result<Option<OwnedFd>>;
    /// Rings the doorbell of another member. What is full has been rung. A member that makes its own one block, which
    /// all can who have it, keeps other members waiting, which have the same user; the authority must not wait.
    fn ring(&mut self, doorbell: BorrowedFd<'_>) {
        let _ = rustix::io::write(doorbell, &1u64.to_ne_bytes());
    }
}

/// For whom a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    All,
    Peer { slot: u16, id: u64 },
}

pub const TO_BUS: To = To::Peer { slot: AUTHORITY, id: AUTHORITY_ID };

/// Why a laggard was evicted.
pub(crate) const LATE: &str = "it did not read within the laggard deadline";

/// Why a message was not sent. Nothing of it can be seen by others then.
#[derive(Debug)]
pub enum NotSent {
    /// There is no space until this member has read.
    Full(u16),
    /// It will never be sent.
    Failed(Error),
}

impl From<Error> for NotSent {
    fn from(error: Error) -> NotSent {
        NotSent::Failed(error)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub position: u64,
    /// The slot whose outbox carried it.
    pub slot: u16,
    pub header: BusHeader,
    /// The D-Bus message, or of one in a file that was not taken yet its header.
    pub bytes: Bytes,
    /// The descriptors that came with it, once they were taken.
    pub descriptors: FileDescriptors,
}

#[derive(Debug)]
pub struct Port {
    order: Arc<OrderLog>,
    directory: Arc<Directory>,
    outbox: Outbox,
    slot: u16,
    id: u64,
    cursor: u64,
    published: u64,
    unpublished_bytes: usize,
    /// From here on this member has not looked for the end.
    end: u64,
    outstanding: VecDeque<Outstanding>,
    holders: VecDeque<u16>,
    subscribers: SubscriberCache,
    sent_ns: u64,
    waits: StallTable,
    others: Vec<Other>,
    /// Members whose messages cannot be read, and that were not told.
    unread: Vec<u64>,
    places: Vec<Option<u32>>,
    /// Does it want signals of members at all?
    pub wants_signals: bool,
    /// Does it want messages between others?
    pub wants_everything: bool,
    /// Was a message of the authority gone that may have announced a change of an owner or the end of a connection?
    pub has_missed_bus: bool,
    /// Does it know its own messages, so that it need not read them?
    pub skips_own: bool,
}

impl Port {
    /// The access of the member `id` in `slot`, which reads from `cursor` on.
    pub fn new(
        order: Arc<OrderLog>,
        directory: Arc<Directory>,
        outbox: Outbox,
        slot: u16,
        id: u64,
        cursor: u64,
    ) -> Port {
        let mut others = Vec::new();
        others.resize_with(order.slots(), Other::default);
        Port {
            places: vec![None; order.slots()],
            order,
            directory,
            outbox,
            slot,
            id,
            cursor,
            published: cursor,
            unpublished_bytes: 0,
            end: cursor,
            outstanding: VecDeque::new(),
            waits: StallTable::default(),
            holders: VecDeque::new(),
            subscribers: SubscriberCache::default(),
            sent_ns: 0,
            others,
            unread: Vec::new(),
            wants_signals: false,
            wants_everything: false,
            has_missed_bus: false,
            skips_own: false,
        }
    }

    #[inline]
    pub fn order(&self) -> &Arc<OrderLog> {
        &self.order
    }

    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    #[inline]
    pub fn slot(&self) -> u16 {
        self.slot
    }

    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub fn is_evicted(&self) -> bool {
        !is_member(&self.order, &self.directory, self.slot, self.id)
    }

    #[cold]
    fn evicted_error(&self) -> Error {
        Error::Disconnected(LATE.into())
    }

    /// Ends the bus because of an entry, and wakes all whose doorbell is known here or that sleep on a futex, so that
    /// they learn it, also where the authority has ended.
    #[cold]
    fn broken(&self, fds: &mut dyn Descriptors, slot: Option<u16>, position: u64) -> Error {
        let first = self.order.set_broken(Broken { slot, position });
        for slot in self.directory.present().collect::<Vec<_>>() {
            let other = &self.others[usize::from(slot)];
            let doorbell = || other.doorbell.as_ref().filter(|_| other.id == self.directory.id(slot));
            self.order.end_sleep(slot, || doorbell().map(|doorbell| fds.ring(doorbell.as_fd())).is_some());
        }
        // It wakes the others that sleep on doorbells.
        if let Some(doorbell) = &self.others[usize::from(AUTHORITY)].doorbell {
            fds.ring(doorbell.as_fd());
        }
        broken_by(&self.directory, first)
    }

    #[inline]
    pub fn check(&self) -> Result<()> {
        self.check_whole()?;
        if self.is_evicted() { Err(self.evicted_error()) } else { Ok(()) }
    }

    #[inline]
    fn check_whole(&self) -> Result<()> {
        self.order.broken().map_or(Ok(()), |broken| Err(broken_by(&self.directory, broken)))
    }
}

/// The error of a bus that has ended because of an entry.
#[cold]
pub(crate) fn broken_by(directory: &Directory, broken: Broken) -> Error {
    let member = match broken.slot.map(|slot| (slot, directory.peer(slot))) {
        Some((_, Some(peer))) => format!("{} (process {})", unique_name(peer.id), peer.pid),
        Some((slot, None)) => format!("an unknown member in slot {slot}"),
        None => "an unknown member".to_owned(),
    };
    Error::Broken { member, position: broken.position }
}

/// Is this member on the bus, and was it not evicted?
#[inline]
fn is_member(order: &OrderLog, directory: &Directory, slot: u16, id: u64) -> bool {
    directory.is_active(slot, id) && order.evicted(slot).load(Ordering::Relaxed) != id
}
