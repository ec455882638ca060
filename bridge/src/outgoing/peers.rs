//! The receivers: how far each is, and what publishers may overwrite for it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use causeway::Position;

use super::{GRACE, Outgoing};
use crate::state::HOSTS_MAX;
use crate::status::count;

/// A receiver.
#[derive(Debug)]
pub(super) struct Peer {
    /// It has all below this index.
    pub(super) acked: u64,
    pub(super) heard: Instant,
    /// The bytes of a long message that it had when it asked last.
    pub(super) part: u64,
    /// When one of these has grown, or it had all.
    pub(super) moved: Instant,
}

impl Peer {
    fn new(acked: u64) -> Peer {
        let now = Instant::now();
        Peer { acked, heard: now, part: 0, moved: now }
    }
}

impl Outgoing {
    pub(super) fn take_ack(&mut self, host: u64, group: u64, next: u64) {
        if group != self.stamp.group {
            return;
        }
        if next > self.next {
            count(&self.route.counters.refused, 1);
            let head = self.next;
            return self.route.fail(&format!(
                "host {host:016x} acknowledges message {next}, but only {head} were sent; not believed"
            ));
        }
        let Some(peer) = self.peers.get_mut(&host) else {
            // It knows the bridge before this one.
            self.insert(host, next);
            return self.peers_changed();
        };
        peer.heard = Instant::now();
        if next > peer.acked || next >= self.from {
            peer.moved = peer.heard;
        }
        if next > peer.acked {
            peer.acked = next;
            self.let_go();
        }
    }

    /// A receiver that has all below this index. There are no more than the file of a receiver has hosts.
    pub(super) fn insert(&mut self, host: u64, acked: u64) {
        if self.peers.len() < HOSTS_MAX || self.peers.contains_key(&host) {
            self.peers.insert(host, Peer::new(acked));
        } else {
            self.route.fail("too many hosts take this group; some are not waited for");
        }
    }

    /// Lets publishers overwrite what no receiver lacks that takes anything: one that answers and stands still would stop the others.
    pub(super) fn let_go(&mut self) {
        let (from, lease) = (self.from, self.net.lease);
        let is_waited_for = |peer: &&Peer| peer.acked >= from || peer.moved.elapsed() < lease;
        let acked = self.peers.values().filter(is_waited_for).map(|peer| peer.acked).min();
        let acked = match acked {
            Some(acked) => acked,
            None if self.begun.elapsed() < GRACE => return,
            None => self.next,
        };
        let first = self.entries.partition_point(|entry| entry.index < acked);
        let position = self.entries.get(first).map_or(self.subscriber.position().0, |entry| entry.position);
        let before = self.entries.partition_point(|entry| entry.index < self.lacking.1);
        if !self.peers.is_empty() && first > before {
            count(&self.route.counters.acknowledged, (first - before) as u64);
        }
        self.lacking = (position, acked);
        self.long.take_if(|long| long.index < acked);
        self.subscriber.release(Position(position));
        let waiting = if self.peers.is_empty() { 0 } else { self.entries.len() - first };
        self.route.counters.queue.store(waiting as u64, Ordering::Relaxed);
    }

    /// Forgets receivers that have not said anything for as long as the lease. What they lack is counted when they are back.
    pub(super) fn forget_silent(&mut self) {
        let (lease, before) = (self.net.lease, self.peers.len());
        self.peers.retain(|_, peer| peer.heard.elapsed() < lease);
        if self.peers.len() != before {
            self.route.fail(&format!(
                "a host has not answered for {lease:?}; it is not waited for until it is back"
            ));
            self.peers_changed();
        }
    }

    pub(super) fn peers_changed(&mut self) {
        self.route.counters.peers.store(self.peers.len() as u64, Ordering::Relaxed);
        self.let_go();
    }
}
