//! What the authority reads from the log, and what it writes there: in the order in which it happened, as soon as there is space.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use weighbridge_dbus::wire::{Body, Builder, Header, Kind};

use super::driver::{self, Answer};
use super::names::Change;
use super::{
    Authority, Connection, DRIVER, DRIVER_PATH, Event, MESSAGES_PER_TURN, PeerId, Work, unique_name,
};
use crate::error::{Error, Result};
use crate::port::{AUTHORITY, AUTHORITY_ID, NotSent, Received, To};
use crate::shared::directory::{Owner, State};
use crate::shared::filter::Filter;
use crate::shared::ring;

impl Authority {
    pub(super) fn publish_filter(&mut self, id: PeerId) {
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
    pub(super) fn publish_name(&mut self, name: &str, change: Option<Change>) {
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
    pub(super) fn tell(&mut self, id: PeerId, member: &str, name: &str) {
        let destination = unique_name(id);
        let signal = Builder::signal(DRIVER_PATH, DRIVER, member).destination(&destination);
        self.send_own(signal.body(Body::default().text(name)), Some(id));
    }

    /// `NameOwnerChanged`.
    pub(super) fn announce(&mut self, name: &str, old: Option<PeerId>, new: Option<PeerId>) {
        let text = |id: Option<PeerId>| id.map_or_else(String::new, unique_name);
        let body = Body::default().text(name).text(&text(old)).text(&text(new));
        self.send_own(Builder::signal(DRIVER_PATH, DRIVER, "NameOwnerChanged").body(body), None);
    }

    /// A message of the bus itself, to a connection or to all.
    pub(super) fn send_own(&mut self, message: Builder<'_>, to: Option<PeerId>) {
        let to = match to {
            None => To::All,
            Some(id) => {
                let Some(connection) = self.connections.get(&id) else { return };
                To::Peer { slot: self.port.directory().carrier(connection.index), id }
            }
        };
        self.serial = self.serial.wrapping_add(1).max(1);
        if let Ok(bytes) = message.sender(DRIVER).build(self.serial) {
            // Only a long one needs a place among the deposits. Without one it is not sent, as one that nobody can read.
            if let Ok(parcel) = self.deposit_own(AUTHORITY_ID, to, &bytes, Vec::new()) {
                self.work.push_back(Work::Send { sender: AUTHORITY_ID, to, bytes, parcel });
            }
        }
    }

    pub(super) fn read_log(&mut self, events: &mut Vec<Event>) -> Result<()> {
        for _ in 0..MESSAGES_PER_TURN {
            let Some(received) = self.port.next(&mut self.fds)? else { break };
            self.handle(received, events);
        }
        Ok(())
    }

    pub(super) fn handle(&mut self, received: Received, events: &mut Vec<Event>) {
        let Some(received) = self.complete(received, events) else { return };
        let Received { position, header, bytes, descriptors, .. } = received;
        if header.destination != AUTHORITY_ID {
            let to = (header.destination != 0).then_some(header.destination);
            // A client that has left, and signals while no client wants any, concern nobody.
            let is_wanted = to.map_or(self.port.wants_signals, |to| self.connections.contains_key(&to));
            if is_wanted {
                events.push(Event::Message { position, to, sender: header.sender, bytes, descriptors });
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
            Answer::Unknown => events.push(Event::DriverCall { caller, bytes: bytes.to_vec() }),
        }
    }

    /// Sends what waits, as far as there is space. A member that stands in the way for too long is put out.
    pub(super) fn flush(&mut self) -> Result<()> {
        while let Some(work) = self.work.front() {
            let (sender, to, bytes, parcel) = match work {
                Work::Send { sender, to, bytes, parcel } => (*sender, *to, bytes, *parcel),
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
            match self.port.send(&mut self.fds, to, sender, &header, bytes, parcel) {
                Ok(position) => {
                    self.blocked = None;
                    if let Some(Work::Send { bytes, .. }) = self.work.pop_front() {
                        self.note_sent(parcel, to, sender, position, &bytes);
                    }
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

    /// After the end of a connection was announced: wakes those who wait for its replies, and those whom it may have left asleep
    /// because it ended between an entry and a wake-up.
    pub(super) fn after_end(&mut self, index: u16, id: PeerId, is_member: bool) {
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
        self.end_deposits_of(id, end);
        self.leaving.push((index, end));
        if self.leaving.len() > self.options.members / 4 {
            self.ring_behind();
        }
    }

    /// Wakes all members: the bus has ended.
    pub(super) fn wake_all(&mut self) {
        for slot in self.port.directory().present().collect::<Vec<_>>() {
            self.port.ring(&mut self.fds, slot);
        }
    }
}
