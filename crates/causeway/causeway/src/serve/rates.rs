//! Publishers that the server leaves out: one that the application names, or that publishes faster than the group allows.
//!
//! A process that has mapped a log for writing keeps it, and what it writes there cannot be told from what it may write. So a publisher
//! is disconnected by a roll ([`epochs`](super::epochs)): the next log is for all others, and the present one ends.
//!
//! A rate is a token bucket: a publisher that joins may publish what it may in a second, and that is filled as time passes. What the
//! server has counted cannot be taken back, so an allowance may be below zero. One that leaves with less than it had when it came
//! leaves that to its process, as long as that lives: a process is not a new one because it joins again.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::socket::Credentials;

use super::allowance::{Allowance, Counted, LEFT_MAX, Left, has_ended};
use super::connections::{Answer, Connection, Role};
use super::state::State;
use crate::error::{Error, Refusal, Result};
use crate::log::Memory;
use crate::options::OverRate;
use crate::wire::Message;

/// How long the server waits before it looks again.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// By what a process is known again; one that was invited or cannot be seen from here is not.
fn known(connection: &Connection) -> Option<Credentials> {
    (connection.pidfd.is_some() && connection.peer.pid != 0).then_some(connection.peer)
}

impl State {
    /// Wants a log without this publisher; it is disconnected when that begins. Returns whether there is one.
    pub fn cast_out(&mut self, publisher: u8) -> Result<bool> {
        let Some(token) = self.connection_of_publisher(publisher) else { return Ok(false) };
        let is_local = self.connections.get(token).is_ok_and(|connection| connection.local);
        if is_local || !self.can_resize() {
            return Err(Error::invalid(
                "call",
                if is_local {
                    "this publisher is in the creating process, which ends it by dropping it"
                } else {
                    "publishers of this group are not prepared for another log; create it with GroupOptions::late_publishers"
                },
            ));
        }
        self.want_log(self.logs.present.capacity_bytes()).map_err(Error::Refused)?;
        self.publishers.outcasts |= 1 << publisher;
        Ok(true)
    }

    fn connection_of_publisher(&self, publisher: u8) -> Option<u64> {
        self.connections.find(|role| matches!(role, Role::Publisher { slot, .. } if slot == publisher))
    }

    /// The log that was made without these publishers has begun.
    pub fn end_outcasts(&mut self, outcasts: u64) {
        for slot in (0..u64::BITS as u8).filter(|slot| outcasts & 1 << slot != 0) {
            let Some(token) = self.connection_of_publisher(slot) else { continue };
            self.connections.send(token, Message::refusal(Refusal::Disconnected));
            // It was not killed.
            self.publishers.leaving.insert(token);
            self.disconnect(token);
        }
        self.publishers.outcasts &= !outcasts;
    }

    fn rate(&self) -> Option<f64> {
        (self.options.publisher_rate_max > 0).then_some(self.options.publisher_rate_max as f64)
    }

    /// Whether a process may join as a publisher: not before it could publish a message.
    pub fn check_allowance(&mut self, token: u64) -> Answer {
        let Some(rate) = self.rate() else { return Ok(()) };
        let now = Instant::now();
        self.publishers.rates.forget(rate, now);
        let Some(peer) = known(self.connections.get(token)?) else { return Ok(()) };
        let left = self.publishers.rates.left.get(&peer.pid).filter(|left| left.uid == peer.uid);
        let is_over = left.is_some_and(|left| left.allowance.passed(rate, now, 0).excess().is_some());
        if is_over { Err(Refusal::Disconnected) } else { Ok(()) }
    }

    /// A publisher of another process has joined: it is counted from now on.
    pub fn begin_to_count(&mut self, token: u64, slot: u8) {
        let (Some(rate), Ok(connection)) = (self.rate(), self.connections.get(token)) else { return };
        if connection.local {
            return;
        }
        let now = Instant::now();
        let peer = known(connection);
        let published = self.published_by(slot);
        let rates = &mut self.publishers.rates;
        let left = peer.and_then(|peer| rates.left.remove(&peer.pid).filter(|left| left.uid == peer.uid));
        let allowance = left.map_or(Allowance::full(rate, now), |left| left.allowance.passed(rate, now, 0));
        rates.present.insert(token, Counted { allowance, published, is_told_of: false });
    }

    /// What the publishers in a slot have published. One that has not come to the present log counts in the one before.
    fn published_by(&self, slot: u8) -> u64 {
        let counts = self.logs.kept().map(|(log, _)| &log.tail().publishers[usize::from(slot)].published);
        counts.map(|count| count.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    /// When the server has to compare what publishers have published with what they may.
    pub fn next_look_at_rates(&self) -> Option<Instant> {
        let rates = &self.publishers.rates;
        let looked = rates.present.values().map(|counted| counted.allowance.at).min();
        looked.map(|looked| looked + LOOK_PAUSE)
    }

    /// Casts out those that have published too much.
    pub fn check_rates(&mut self) {
        let now = Instant::now();
        let Some(rate) = self.rate() else { return };
        if self.next_look_at_rates().is_none_or(|at| now < at) {
            return;
        }
        self.publishers.rates.forget(rate, now);
        let slot = |(token, connection): (u64, &Connection)| match connection.role {
            Role::Publisher { slot, .. } => Some((token, slot, connection.peer)),
            _ => None,
        };
        let publishers: Vec<_> = self.connections.with_tokens().filter_map(slot).collect();
        for (token, slot, peer) in publishers {
            // One that cannot be left out now is looked at again.
            if self.count(token, slot, rate, now).is_some_and(|allowance| allowance.excess().is_some())
                && self.logs.next.is_none()
                && self.cast_out(slot).is_ok_and(|is_out| is_out)
            {
                self.tell(token, slot, peer, true);
            }
        }
    }

    /// Counts what a publisher has published since it was last looked at.
    fn count(&mut self, token: u64, slot: u8, rate: f64, now: Instant) -> Option<Allowance> {
        let published = self.published_by(slot);
        let counted = self.publishers.rates.present.get_mut(&token)?;
        let before = std::mem::replace(&mut counted.published, published);
        counted.allowance = counted.allowance.passed(rate, now, published.saturating_sub(before));
        Some(counted.allowance)
    }

    /// The connection of a publisher has ended. What it has published too much its process owes.
    pub fn end_count(&mut self, token: u64, slot: u8, connection: &mut Connection) {
        let (Some(rate), now) = (self.rate(), Instant::now()) else { return };
        let Some(allowance) = self.count(token, slot, rate, now) else { return };
        let peer = known(connection);
        self.tell(token, slot, connection.peer, false);
        let rates = &mut self.publishers.rates;
        rates.present.remove(&token);
        rates.forget(rate, now);
        let (Some(peer), Some(process)) = (peer, connection.pidfd.take()) else { return };
        // Of several publishers of a process the one with the least counts.
        let has_less = rates.left.get(&peer.pid).is_some_and(|left| {
            left.uid == peer.uid && left.allowance.passed(rate, now, 0).messages <= allowance.messages
        });
        if has_less || allowance.is_full(rate) || has_ended(&process) {
            return;
        }
        rates.left.insert(peer.pid, Left { uid: peer.uid, process, allowance });
        if rates.left.len() > LEFT_MAX {
            let messages = |left: &Left| left.allowance.passed(rate, now, 0).messages;
            let most = rates.left.iter().max_by(|one, other| messages(one.1).total_cmp(&messages(other.1)));
            if let Some(pid) = most.map(|(pid, _)| *pid) {
                rates.left.remove(&pid);
            }
        }
    }

    /// Tells once of one that has published too much.
    fn tell(&mut self, token: u64, slot: u8, Credentials { pid, uid, .. }: Credentials, is_there: bool) {
        let rates = &mut self.publishers.rates;
        let Some(counted) = rates.present.get_mut(&token) else { return };
        if let Some(excess) = counted.allowance.excess()
            && !std::mem::replace(&mut counted.is_told_of, true)
            && let Some(told) = &rates.told
        {
            let _ = told.try_send(OverRate { publisher: slot, pid, uid, excess, is_there });
        }
    }
}
