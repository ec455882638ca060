//! What the authority sees of its members: how far each has read, and what it has not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_os::clock;
use causeway_os::socket::Liveness;

use super::{Authority, PeerId, name_of};
use crate::port::LATE;
use crate::shared::ring::{self, Cell, Cells};
use crate::shared::statistics::Statistics;

/// Entries looked at to find one whose message is still there. Those before it were not for this member, or it would
/// be.
const LOOKED_AT_MAX: u64 = 256;

/// The oldest entry that a member has not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The time since it was sent, at least.
    pub age: Duration,
    /// Who sent it.
    pub sender: PeerId,
}

/// How a member stands.
#[derive(Clone, Copy, Debug)]
pub struct MemberReport {
    /// What it has done.
    pub statistics: Statistics,
    /// How its end will be noticed.
    pub liveness: Liveness,
    /// Nothing for one that sleeps: what came since is not for it.
    pub unread: Option<Unread>,
}

impl Authority {
    /// How a member stands, from what it has written itself; nothing for a client.
    pub fn report(&mut self, id: PeerId) -> Option<MemberReport> {
        let connection = self.connections.get(&id)?;
        let liveness = self.links.get(&connection.link?).map_or(Liveness::Unknown, |link| link.liveness);
        let (slot, end) = (connection.index, self.port.find_end());
        let statistics = Statistics::of(self.port.order(), slot, end);
        Some(MemberReport { statistics, liveness, unread: self.unread(slot) })
    }

    /// Entries that somebody may still have to read, and how many the order log holds.
    pub fn fill(&mut self) -> (u64, u64) {
        let (lowest, end) = (self.port.lowest_cursor().0, self.port.find_end());
        (end.saturating_sub(lowest), self.port.order().capacity())
    }

    /// What the member in a slot has not looked at. Entries have no time, and messages have one.
    fn unread(&mut self, slot: u16) -> Option<Unread> {
        let (order, now) = (Arc::clone(self.port.order()), clock::monotonic_ns());
        if ring::asleep(order.armed(slot)).is_some() {
            return None;
        }
        let cursor = order.cursor(slot).load(Ordering::Acquire);
        for position in cursor..cursor.saturating_add(LOOKED_AT_MAX) {
            let Cell::Present(entry) = ring::look(&*order, position) else { return None };
            if let Some(header) = self.port.header_of(&mut self.fds, entry) {
                let age = Duration::from_nanos(now.saturating_sub(header.sent_ns));
                return Some(Unread { age, sender: header.sender });
            }
        }
        None
    }

    /// Why the laggard in a slot is evicted, in a sentence.
    pub(super) fn lateness(&mut self, slot: u16) -> String {
        let (deadline, end) = (self.options.laggard_deadline.as_millis(), self.port.find_end());
        let lag = Statistics::of(self.port.order(), slot, end).lag;
        let oldest = self.unread(slot).map_or_else(String::new, |Unread { age, sender }| {
            format!(", the oldest sent {} ms ago by {}", age.as_millis(), name_of(sender))
        });
        format!("{LATE} ({deadline} ms): it has {lag} entries of the order log unread{oldest}")
    }
}
