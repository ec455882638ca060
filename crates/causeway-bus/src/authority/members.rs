//! Processes at the control socket: they join, ask for descriptors, leave, die, and are put out.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use causeway_os::socket;
use rustix::event::epoll;

use super::listener::Listener;
use super::{Authority, Connection, Event, Link, PeerId, STRANGERS_MAX, Work, unique_name, watch};
use crate::control::{self, Packet};
use crate::error::{Error, Result};
use crate::port::{AUTHORITY, Descriptors};
use crate::shared::ABI;
use crate::shared::directory::{Peer, State};
use crate::shared::outbox::ForeignOutbox;
use crate::shared::ring;

impl Authority {
    pub(super) fn accept(&mut self) {
        let Some(socket) = self.listener.as_ref().and_then(Listener::accept) else { return };
        let Ok(credentials) = socket::peer_credentials(&socket) else { return };
        let own = rustix::process::geteuid().as_raw();
        if credentials.uid != own {
            let text = format!(
                "this bus is for processes of user {own}; user {} can use the gateway",
                credentials.uid
            );
            let _ = control::send(&socket, &Packet::text(control::Kind::Refused, text), &[]);
            return;
        }
        if self.links.values().filter(|link| !link.has_joined).count() >= STRANGERS_MAX {
            return;
        }
        // The number of the process may be another process's by now; the descriptor of the peer cannot.
        let pidfd =
            socket::peer_pidfd(&socket).or_else(|_| causeway_os::process::pidfd_open(credentials.pid)).ok();
        let link = self.next_link;
        if watch(&self.epoll, &socket, link * 2).is_err() {
            return;
        }
        if let Some(pidfd) = &pidfd {
            let _ = watch(&self.epoll, pidfd, link * 2 + 1);
        }
        self.next_link += 1;
        self.links
            .insert(link, Link { socket, pidfd, credentials, member: None, has_joined: false, holds: None });
    }

    pub(super) fn serve_link(&mut self, link: u64, events: &mut Vec<Event>) {
        let Some(socket) = self.links.get(&link).map(|link| &link.socket) else { return };
        let why = match control::receive(socket) {
            Ok(Some((packet, fds))) => match self.request(link, &packet, fds, events) {
                Ok(()) => return,
                Err(error) => {
                    if let Some(link) = self.links.get(&link) {
                        let why = match self.leaving.is_empty() {
                            true => control::Refusal::Final,
                            false => control::Refusal::Limit,
                        };
                        let _ = control::send(&link.socket, &Packet::refused(why, error.to_string()), &[]);
                    }
                    error.to_string()
                }
            },
            Ok(None) => "it left".to_owned(),
            Err(Error::Os(error))
                if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) =>
            {
                // What it sent with its packet is closed, and the packet lost. All that carry descriptors are answered.
                let text = "the process that serves the bus has no descriptors left";
                let refusal = Packet::refused(control::Refusal::Limit, text);
                match self.links.get(&link).map(|link| control::send(&link.socket, &refusal, &[])) {
                    Some(Err(error)) => error.to_string(),
                    _ => return,
                }
            }
            Err(Error::Os(error))
                if error.raw_os_error() == Some(rustix::io::Errno::AGAIN.raw_os_error()) =>
            {
                return;
            }
            Err(error) => error.to_string(),
        };
        self.close(link, &why, events);
    }

    pub(super) fn request(
        &mut self,
        link: u64,
        packet: &Packet,
        fds: Vec<OwnedFd>,
        events: &mut Vec<Event>,
    ) -> Result<()> {
        let [first, second, ..] = packet.words;
        let (slot, mut fds) = (u16::try_from(first).unwrap_or(u16::MAX), fds.into_iter());
        let has_joined = self.links.get(&link).is_some_and(|link| link.has_joined);
        let unexpected = || Error::Refused("the request came at the wrong time or lacks a descriptor".into());
        match packet.kind {
            control::Kind::Join if !has_joined && first != u64::from(ABI) => Err(Error::Refused(format!(
                "this bus has version {ABI} of the shared memory, the program version {first}"
            ))),
            control::Kind::Join if !has_joined && second == 0 => {
                let id = self.join(link, fds.next().ok_or_else(unexpected)?)?;
                events.push(Event::Joined(id));
                Ok(())
            }
            control::Kind::Join if !has_joined => self.welcome_monitor(link),
            control::Kind::Outbox if has_joined => {
                let outbox = self.fds.outbox(slot, second)?;
                self.answer_with(link, outbox)
            }
            control::Kind::Doorbell if has_joined => {
                let doorbell = self.fds.doorbell(slot, second)?;
                self.answer_with(link, doorbell)
            }
            control::Kind::SetDoorbell => {
                let doorbell = fds.next().ok_or_else(unexpected)?;
                let id = self.links.get(&link).and_then(|link| link.member).ok_or_else(unexpected)?;
                let index = self.connections.get(&id).ok_or_else(unexpected)?.index;
                self.port.set_doorbell(
                    index,
                    doorbell
                        .try_clone()
                        .map_err(|error| causeway_os::Error::new("copy", "a doorbell", error))?,
                );
                self.fds.doorbells.insert(index, (id, doorbell));
                self.answer_with(link, None)
            }
            control::Kind::Deposit | control::Kind::Take | control::Kind::Sent => {
                self.transfer(link, packet, fds.collect())
            }
            _ => Err(unexpected()),
        }
    }

    pub(super) fn answer_with(&mut self, link: u64, fd: Option<OwnedFd>) -> Result<()> {
        let Some(link) = self.links.get(&link) else { return Ok(()) };
        match fd {
            Some(fd) => {
                control::send(&link.socket, &Packet::new(control::Kind::Descriptor, [0; 4]), &[fd.as_fd()])
            }
            None => control::send(&link.socket, &Packet::new(control::Kind::None, [0; 4]), &[]),
        }
    }

    pub(super) fn welcome_monitor(&mut self, link: u64) -> Result<()> {
        let Some(link) = self.links.get_mut(&link) else { return Ok(()) };
        link.has_joined = true;
        let fds = [self.order_fd.as_fd(), self.directory_fd.as_fd()];
        control::send(&link.socket, &Packet::new(control::Kind::Welcome, [0; 4]), &fds)
    }

    /// Gives a process a slot, and announces it.
    pub(super) fn join(&mut self, link: u64, outbox: OwnedFd) -> Result<PeerId> {
        ForeignOutbox::open(&outbox)?;
        let Some(found) = self.links.get(&link) else { return Err(Error::AuthorityGone) };
        let credentials = found.credentials;
        let label = socket::peer_security_label(&found.socket).ok().flatten().unwrap_or_default();
        self.free_slots();
        let slots = self.options.members as u16;
        let is_free = |slot: &u16| self.port.directory().id_and_state(*slot).1 == State::Free;
        let Some(slot) = (AUTHORITY + 1..slots).find(is_free) else {
            // Some may only wait for others to pass what the last member there sent.
            self.demand_place();
            return Err(Error::Refused(format!("all {slots} places of this bus are taken")));
        };
        self.place_wanted = None;
        let id = self.next_id;
        self.next_id += 1;
        // Present first, and only then where it begins: senders that did not see it have let nothing be overwritten from there on.
        let end = self.port.find_end();
        self.port.order().reset_line(slot, end);
        let (uid, pid) = (credentials.uid, credentials.pid);
        let peer = Peer { id, carrier: slot, state: State::Active, pid, uid, label };
        self.port.directory().set_peer(slot, &peer);
        ring::fence_after_append();
        let cursor = self.port.find_end();
        self.port.order().cursor(slot).store(cursor, Ordering::Release);
        self.port.forget(slot);
        self.fds.outboxes.insert(slot, (id, outbox));
        self.fds.doorbells.remove(&slot);
        let connection = Connection {
            index: slot,
            link: Some(link),
            uid,
            pid,
            rules: Vec::new(),
            wants_everything: false,
        };
        self.connections.insert(id, connection);
        let place = self.port.next_place(slot);
        if let Some(link) = self.links.get_mut(&link) {
            (link.member, link.has_joined) = (Some(id), true);
            let words = [u64::from(slot), id, cursor, u64::from(place)];
            let fds = [self.order_fd.as_fd(), self.directory_fd.as_fd(), self.doorbell.as_fd()];
            control::send(&link.socket, &Packet::new(control::Kind::Welcome, words), &fds)?;
        }
        self.announce(&unique_name(id), None, Some(id));
        Ok(id)
    }

    /// A process waits for a place: wakes members that must read first, and puts those out that have not for the deadline.
    pub(super) fn demand_place(&mut self) {
        self.ring_behind();
        let now = Instant::now();
        // Who wants to join tries again every few milliseconds, or has given up.
        let is_same_wait = |(_, last): &(Instant, Instant)| now - *last < self.options.laggard_deadline;
        let since = self.place_wanted.filter(is_same_wait).map_or(now, |(first, _)| first);
        self.place_wanted = Some((since, now));
        let Some(end) = self.leaving.iter().map(|(_, end)| *end).min() else { return };
        if since.elapsed() < self.options.laggard_deadline {
            return;
        }
        for slot in self.port.directory().present().filter(|slot| *slot != AUTHORITY).collect::<Vec<_>>() {
            if self.port.order().cursor(slot).load(Ordering::Acquire) < end {
                self.port.evict(&mut self.fds, slot);
            }
        }
    }

    /// Wakes those who sleep before the end of a member whose place is needed.
    pub(super) fn ring_behind(&mut self) {
        let Some(end) = self.leaving.iter().map(|(_, end)| *end).max() else { return };
        for slot in self.port.directory().present().collect::<Vec<_>>() {
            if self.port.order().cursor(slot).load(Ordering::Acquire) < end {
                self.port.ring(&mut self.fds, slot);
            }
        }
    }

    /// Frees the places of those who left, once all members have read what they sent.
    pub(super) fn free_slots(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        let (lowest, _) = self.port.lowest_cursor();
        let directory = Arc::clone(self.port.directory());
        let held: Vec<u16> = self.links.values().filter_map(|link| link.holds).collect();
        self.leaving.retain(|(index, end)| {
            if lowest < *end || held.contains(index) {
                return true;
            }
            directory.set_state(*index, State::Free);
            self.fds.outboxes.remove(index);
            self.fds.doorbells.remove(index);
            self.port.forget(*index);
            false
        });
    }

    /// Ends the members that were put out, by a sender or here.
    pub(super) fn end_evicted(&mut self, events: &mut Vec<Event>) {
        let evictions = self.port.order().evictions().load(Ordering::Acquire);
        if evictions == self.evictions {
            return;
        }
        self.evictions = evictions;
        let out: Vec<(PeerId, u64, u16)> = self
            .connections
            .iter()
            .filter(|(id, connection)| {
                connection.link.is_some()
                    && self.port.order().evicted(connection.index).load(Ordering::Acquire) == **id
            })
            .filter_map(|(id, connection)| Some((*id, connection.link?, connection.index)))
            .collect();
        for (id, link, index) in out {
            let why = "it did not read for longer than the bus allows";
            if let Some(link) = self.links.get_mut(&link) {
                (link.member, link.holds) = (None, Some(index));
                let _ = control::send(&link.socket, &Packet::text(control::Kind::Disconnected, why), &[]);
                // It sees the end; its own end of the connection says when it has noticed.
                let _ = rustix::net::shutdown(&link.socket, rustix::net::Shutdown::Write);
            }
            self.remove(id);
            events.push(Event::Left { peer: id, why: why.into() });
        }
    }

    /// The end of a process at the control socket.
    pub(super) fn close(&mut self, link: u64, why: &str, events: &mut Vec<Event>) {
        let Some(link) = self.links.remove(&link) else { return };
        let _ = epoll::delete(&self.epoll, &link.socket);
        if let Some(pidfd) = &link.pidfd {
            let _ = epoll::delete(&self.epoll, pidfd);
        }
        if let Some(id) = link.member {
            self.remove(id);
            events.push(Event::Left { peer: id, why: why.into() });
        }
    }

    /// Takes a connection off the bus: its names pass on, then its end is announced.
    pub(super) fn remove(&mut self, id: PeerId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (index, is_member) = (connection.index, connection.link.is_some());
        self.port.directory().set_state(index, State::Leaving);
        self.tokens.receiver_left(id, is_member.then_some(index));
        for name in self.names.of(id) {
            let (_, change) = self.names.release(&name, id);
            self.publish_name(&name, change);
        }
        self.connections.remove(&id);
        self.announce(&unique_name(id), Some(id), None);
        self.work.push_back(Work::Left { index, id, is_member });
    }
}
