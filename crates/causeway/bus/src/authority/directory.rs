//! What the host has decided, written where members read it without a system call.

use std::sync::atomic::Ordering;
use std::time::Instant;

use causeway_dbus_wire::rule::MatchRule;
use causeway_os::socket::Credentials;

use super::{Authority, Connection, Leaving, PeerId, peer};
use crate::port::AUTHORITY;
use crate::shared::directory::{Owner, State};
use crate::shared::filter::Filter;
use crate::shared::ring;

impl Authority {
    /// Shows a client, a connection without shared memory: members send to it without asking. False if the directory
    /// has no place left for it: what members send to it goes to the host then, and so do all signals of members while
    /// it has rules for any.
    pub fn add_client(&mut self, id: PeerId, credentials: Credentials, label: Option<&str>) -> bool {
        let first = self.options.members as u16;
        let directory = self.port.directory();
        let is_free = |index: &u16| directory.id_and_state(*index).1 == State::Free;
        let Some(index) = (first..directory.peers() as u16).find(is_free) else {
            self.unlisted.insert(id, Box::default());
            self.port.directory().set_partial(true);
            return false;
        };
        directory.set_peer(index, &peer(id, AUTHORITY, credentials, label));
        self.connections.insert(id, Connection { index, link: None, filter: Box::default() });
        true
    }

    /// Before the end of a connection is announced: members find it no more. A call to it that is in the log by then is
    /// ended by the announcement.
    pub fn hide(&self, id: PeerId) {
        if let Some(connection) = self.connections.get(&id) {
            self.port.directory().set_state(connection.index, State::Leaving);
        }
    }

    /// Takes a connection out whose end the log announces already, and wakes those who wait for its replies, and those
    /// whom it may have left asleep because it ended between an entry and a wake-up.
    pub fn remove(&mut self, id: PeerId) {
        let Some(Connection { index, link, filter }) = self.connections.remove(&id) else {
            return self.remove_unlisted(id);
        };
        let is_member = link.is_some();
        if !filter.is_empty() && !is_member {
            self.listen_to_signals();
        }
        ring::fence_after_append();
        let order = self.port.order();
        let was_sending = is_member && order.sending(index).load(Ordering::Acquire) != 0;
        let waits_for = |slot: &u16| order.waiting_for(*slot).load(Ordering::Acquire);
        let is_concerned = |slot: &u16| was_sending || [id, u64::MAX].contains(&waits_for(slot));
        self.ring(self.port.directory().present().filter(is_concerned).collect());
        // Also what came for it since it is a member no more.
        let watched = self.watched_end();
        self.staging.receiver_left(id, is_member.then_some(index), watched);
        if !is_member {
            // What it sent is in the outbox of the authority.
            return self.port.directory().set_state(index, State::Free);
        }
        let end = self.port.find_end();
        self.end_staged_by(id, end);
        if self.leaving.iter().all(|one| one.end.is_none()) {
            self.leaving_since = Instant::now();
        }
        self.leaving.push(Leaving { index, end: Some(end), since: Instant::now() });
        if self.leaving.len() > self.options.members / 4 {
            self.ring_behind();
        }
    }

    fn remove_unlisted(&mut self, id: PeerId) {
        if self.unlisted.remove(&id).is_some() {
            self.port.directory().set_partial(!self.unlisted.is_empty());
            self.listen_to_signals();
        }
    }

    /// Shows who has a name, the owner first and then those that wait for it. An owner that the directory does not show
    /// is named by its number, and a name for which there is no place is not shown: what members send there goes to the
    /// host.
    pub fn set_owner(&self, name: &str, queue: &[PeerId]) {
        let owner = queue.first().and_then(|id| {
            let shown = self.connections.get(id).map(|connection| connection.index);
            let peer = shown.or_else(|| self.unlisted.contains_key(id).then_some(AUTHORITY))?;
            Some(Owner { peer, id: *id, queue: queue[1..].to_vec() })
        });
        self.port.directory().set_owner(name, owner.as_ref());
    }

    /// Sets the wake filter of a connection: that of its match rules, or one that says yes to more.
    pub fn set_filter(&mut self, id: PeerId, new: Filter) {
        self.change_filter(id, |filter| *filter = new);
    }

    /// A connection has a further match rule. `owner` finds the number of the connection that has a name.
    pub fn add_rule(&mut self, id: PeerId, rule: &MatchRule, owner: impl Fn(&str) -> Option<PeerId>) {
        self.change_filter(id, |filter| filter.add(rule, owner));
    }

    fn change_filter(&mut self, id: PeerId, change: impl FnOnce(&mut Filter)) {
        let Some(connection) = self.connections.get_mut(&id) else {
            if let Some(filter) = self.unlisted.get_mut(&id) {
                change(filter);
                self.listen_to_signals();
            }
            return;
        };
        let before = connection.filter.is_empty();
        change(&mut connection.filter);
        self.port.directory().set_filter(connection.index, &connection.filter);
        if connection.link.is_none() && connection.filter.is_empty() != before {
            self.listen_to_signals();
        }
    }

    /// From now on the host gets every message of members, those between two of them included; or no longer.
    pub fn watch_everything(&mut self, wants: bool) {
        if self.port.wants_everything != wants {
            self.port.wants_everything = wants;
            self.port.directory().set_watched(wants);
            self.listen_to_signals();
        }
    }

    /// Reads signals of members if anybody here wants some, and is woken for all of them if the filters of the
    /// directory do not say for which.
    fn listen_to_signals(&mut self) {
        let has_unlisted = self.unlisted.values().any(|filter| !filter.is_empty());
        let wakes_for_all = has_unlisted || self.port.wants_everything;
        let mut clients = self.connections.values().filter(|connection| connection.link.is_none());
        self.port.wants_signals = wakes_for_all || clients.any(|client| !client.filter.is_empty());
        if self.wakes_for_all != wakes_for_all {
            self.wakes_for_all = wakes_for_all;
            let filter = if wakes_for_all { Filter::all() } else { Filter::default() };
            self.port.directory().set_filter(AUTHORITY, &filter);
        }
    }
}
