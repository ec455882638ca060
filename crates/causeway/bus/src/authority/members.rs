//! Processes at the control socket: they join, ask for descriptors, leave, die, and are evicted.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use causeway_os::epoll::Token;
use causeway_os::fences::full_fence;
use causeway_os::handshake::{Offer, Part};
use causeway_os::process::is_own_user;
use causeway_os::socket;
use rustix::event::epoll;
use rustix::io::Errno;

use super::foreign::ForeignDescriptors;
use super::{
    ACCEPT_PAUSE, Authority, Connection, Event, LINK, LISTENER, LeaveReason, Link, MONITORS_MAX, PROCESS,
    PeerId, Process, Ticket, UNJOINED_MAX, peer, watch,
};
use crate::control::{self, AGREED, JOIN, Kind, NO_FORMAT, OBSERVE, OFFER, Packet, Refusal};
use crate::error::{Error, Result};
use crate::port::AUTHORITY;
use crate::shared::FORMAT;
use crate::shared::directory::State;
use crate::shared::outbox::ForeignOutbox;

/// What a process that joins so does: a monitor only reads.
fn part_of(operation: u64) -> Part {
    if operation == OBSERVE { Part::Reads } else { Part::Writes }
}

impl Authority {
    pub(super) fn accept(&mut self, events: &mut Vec<Event>) {
        let Some(listener) = &self.listener else { return };
        let socket = match listener.accept() {
            Ok(Some(socket)) => socket,
            Ok(None) => return,
            Err(_) => {
                // No descriptors left: those that want to connect wait a moment, and this does not turn in circles.
                let _ = epoll::delete(&self.epoll, listener);
                self.paused_until = Some(Instant::now() + ACCEPT_PAUSE);
                return;
            }
        };
        let Ok(credentials) = socket::peer_credentials(&socket) else { return self.discard(socket) };
        if !is_own_user(credentials.uid) {
            let (own, uid) = (rustix::process::geteuid().as_raw(), credentials.uid);
            let text = format!("this bus accepts processes of user {own} only, not of user {uid}");
            let _ = control::send(&socket, &Packet::text(Kind::Refused, text), &[]);
            return self.discard(socket);
        }
        if self.unjoined.len() >= UNJOINED_MAX {
            self.unjoined.retain(|(link, _)| self.links.get(link).is_some_and(Link::is_unjoined));
            if self.unjoined.len() >= UNJOINED_MAX
                && let Some((oldest, _)) = self.unjoined.pop_front()
            {
                self.reject(oldest, "too many connections had not asked to join", events);
            }
        }
        // The number of the process may be another process's by now; the descriptor of the peer cannot.
        let (pidfd, liveness) = socket::peer_process(&socket, credentials.pid);
        let link = self.next_link;
        if watch(&self.epoll, &socket, Token::new(LINK, link)).is_err() {
            return self.discard(socket);
        }
        if let Some(pidfd) = &pidfd {
            let _ = watch(&self.epoll, pidfd, Token::new(PROCESS, link));
        }
        self.next_link += 1;
        let groups = socket::peer_groups(&socket).ok().flatten();
        let label = socket::peer_security_label(&socket).ok().flatten();
        let process = Process { credentials, groups, label };
        let unjoined = Link {
            socket,
            pidfd,
            liveness,
            process,
            outbox: None,
            member: None,
            has_joined: false,
            holds: None,
        };
        self.links.insert(link, unjoined);
        self.unjoined.push_back((link, Instant::now()));
    }

    /// When the next process that has connected and not asked for anything is sent away.
    pub(super) fn unjoined_timeout(&self) -> Option<Duration> {
        let (_, since) = self.unjoined.front()?;
        Some(self.options.join_deadline.saturating_sub(since.elapsed()))
    }

    pub(super) fn reject_overdue(&mut self, events: &mut Vec<Event>) {
        while let Some((link, since)) = self.unjoined.front().copied() {
            let is_unjoined = self.links.get(&link).is_some_and(Link::is_unjoined);
            if is_unjoined && since.elapsed() < self.options.join_deadline {
                return;
            }
            self.unjoined.pop_front();
            if is_unjoined {
                self.reject(link, "it did not ask to join in time", events);
            }
        }
    }

    fn reject(&mut self, link: u64, why: &str, events: &mut Vec<Event>) {
        self.send_refusal(link, why);
        self.close(link, Some(why.to_owned()), events);
    }

    pub(super) fn listen_again(&mut self) {
        if self.paused_until.is_some_and(|until| until <= Instant::now())
            && let Some(listener) = &self.listener
        {
            // Where the kernel has no memory for it now, members go on and new ones wait.
            let is_watched = watch(&self.epoll, listener, LISTENER).is_ok();
            self.paused_until = (!is_watched).then(|| Instant::now() + ACCEPT_PAUSE);
        }
    }

    /// Serves a process whose socket has something to read, or whose end of it is closed (`has_hung_up`).
    pub(super) fn serve_link(&mut self, link: u64, has_hung_up: bool, events: &mut Vec<Event>) {
        let Some(found) = self.links.get(&link) else { return };
        if found.holds.is_some() {
            if has_hung_up {
                self.close(link, None, events);
            }
            return;
        }
        let arrived = control::receive_any(&found.socket).and_then(|(packet, fds)| {
            let fds = ForeignDescriptors::new(fds, self.options.close);
            Ok(packet?.map(|packet| (packet, fds)))
        });
        let why = match arrived {
            Ok(Some((packet, fds))) => match self.request(link, &packet, fds, events) {
                Ok(()) => return,
                Err(error) => {
                    self.send_refusal(link, &error.to_string());
                    Some(error.to_string())
                }
            },
            Ok(None) => None,
            Err(error) if error.is(Errno::AGAIN) => return,
            // Killed, it may leave what it has not read: that is an end like others.
            Err(error) if error.is(Errno::CONNRESET) => None,
            // What it sent with its packet is closed, and the packet lost. All that carry descriptors are answered.
            Err(error) if error.is(Errno::MFILE) => match self.answer(link, &out_of_descriptors(), &[]) {
                Ok(()) => return,
                Err(error) => Some(error.to_string()),
            },
            Err(error) => Some(error.to_string()),
        };
        let Some((id, index)) = self.member(link).filter(|_| !has_hung_up) else {
            return self.close(link, why, events);
        };
        // One that has ended what it sends itself waits for nothing. Both ends together would look as if it had closed
        // its socket.
        if why.is_some() {
            self.end_answers(link);
        }
        self.detach(id, link, index);
        events.push(Event::Left { peer: id, why: why.map(LeaveReason::Protocol) });
    }

    pub(super) fn member(&self, link: u64) -> Option<(PeerId, u16)> {
        let id = self.links.get(&link)?.member?;
        Some((id, self.connections.get(&id)?.index))
    }

    /// Nothing more is sent to this process: it sees the end.
    fn end_answers(&self, link: u64) {
        if let Some(link) = self.links.get(&link) {
            let _ = rustix::net::shutdown(&link.socket, rustix::net::Shutdown::Write);
        }
    }

    pub(super) fn request(
        &mut self,
        link: u64,
        packet: &Packet,
        mut fds: ForeignDescriptors,
        events: &mut Vec<Event>,
    ) -> Result<()> {
        let [first, second, ..] = packet.words;
        let slot = u16::try_from(first).unwrap_or(u16::MAX);
        let has_joined = self.links.get(&link).is_some_and(|link| link.has_joined);
        let unexpected = || Error::Refused("unexpected request, or its descriptor is missing".into());
        match packet.kind {
            Kind::Join if !has_joined => Err(Error::Refused(format!(
                "the bus has {OFFER}, and the program version {first} of a release before there were formats; install the release of the bus, or use the D-Bus socket of the bus"
            ))),
            Kind::Handshake if packet.may_be_ignored() => Ok(()),
            Kind::Handshake if !has_joined && [JOIN, OBSERVE].contains(&first) => {
                if let Err(mismatch) = OFFER.agree(packet.offer(), part_of(first)) {
                    self.answer(link, &Packet::handshake(NO_FORMAT, OFFER), &[])?;
                    return Err(Error::Refused(mismatch.to_string()));
                }
                if first == OBSERVE {
                    return self.welcome_monitor(link);
                }
                ForeignOutbox::open(fds.first().ok_or_else(unexpected)?)?;
                let outbox = fds.take_first_if(|_| true).ok_or_else(unexpected)?;
                let Some(found) = self.links.get_mut(&link) else { return Ok(()) };
                if found.outbox.replace(outbox).is_none() {
                    events.push(Event::Joining(Ticket(link), found.process.clone()));
                }
                Ok(())
            }
            Kind::Outbox if has_joined => self.send_descriptor(link, &self.fds.outboxes, slot, second),
            Kind::Doorbell if has_joined => self.send_descriptor(link, &self.fds.doorbells, slot, second),
            Kind::SetDoorbell => {
                let (id, index) = self.member(link).ok_or_else(unexpected)?;
                let doorbell = fds.take_first_if(control::is_doorbell).ok_or_else(unexpected)?;
                let Ok(copy) = doorbell.try_clone() else {
                    return self.answer(link, &out_of_descriptors(), &[]);
                };
                self.port.set_doorbell(index, copy);
                self.fds.doorbells.insert(index, (id, doorbell));
                self.answer_none(link)
            }
            Kind::Stage | Kind::Take | Kind::Sent => self.transfer(link, packet, fds),
            _ => Err(unexpected()),
        }
    }

    pub(super) fn answer_none(&self, link: u64) -> Result<()> {
        self.answer(link, &Packet::new(Kind::None, [0; 4]), &[])
    }

    pub(super) fn welcome_monitor(&mut self, link: u64) -> Result<()> {
        if self.monitors() >= MONITORS_MAX {
            return Err(Error::Refused(format!(
                "this bus has {MONITORS_MAX} monitors already, which is the most; one must end first"
            )));
        }
        let Some(link) = self.links.get_mut(&link) else { return Ok(()) };
        link.has_joined = true;
        self.readers += 1;
        let fds = [self.order_fd.as_fd(), self.directory_fd.as_fd()];
        control::send(&link.socket, &Packet::handshake(AGREED, Offer::levels(FORMAT..=FORMAT)), &[])?;
        control::send(&link.socket, &Packet::new(Kind::Welcome, [0; 4]), &fds)
    }

    /// Lets a process join under a number that was never used on this bus. From now on it has a place: announce it, and
    /// then call
    /// [`Authority::welcome`]. Fails if all slots are in use, or the process is gone: it was told, and is not a member.
    pub fn admit(&mut self, ticket: Ticket, id: PeerId) -> Result<()> {
        let joined = self.join(ticket.0, id);
        if let Err(error) = &joined {
            self.refuse(ticket, &error.to_string());
        }
        joined
    }

    /// Tells a process that it has joined. What it asks for comes behind its announcement: a rule of its own does not
    /// bring that.
    pub fn welcome(&mut self, id: PeerId) {
        let Some(&Connection { index: slot, link: Some(link), .. }) = self.connections.get(&id) else {
            return;
        };
        let Some(link) = self.links.get(&link) else { return };
        let cursor = self.port.order().cursor(slot).load(Ordering::Acquire);
        let words = [u64::from(slot), id, cursor, u64::from(self.port.next_place(slot))];
        // Rounded up: a deadline below a millisecond must not become none at all.
        let deadline = self.options.laggard_deadline.as_nanos().div_ceil(1_000_000).to_string();
        let fds = [self.order_fd.as_fd(), self.directory_fd.as_fd(), self.doorbell.as_fd()];
        let welcome = Packet { words, ..Packet::text(Kind::Welcome, deadline) };
        // One that does not take it is gone, and its end comes as that of a member.
        let agreed = Packet::handshake(AGREED, Offer::levels(FORMAT..=FORMAT));
        let _ = control::send(&link.socket, &agreed, &[]);
        let _ = control::send(&link.socket, &welcome, &fds);
    }

    /// Does not let a process join, and tells it why.
    pub fn refuse(&mut self, ticket: Ticket, why: &str) {
        self.send_refusal(ticket.0, why);
        self.close(ticket.0, None, &mut Vec::new());
    }

    /// Answers with a descriptor of a member, if that is still there.
    fn send_descriptor(
        &self,
        link: u64,
        table: &HashMap<u16, (u64, OwnedFd)>,
        slot: u16,
        id: u64,
    ) -> Result<()> {
        let fd = table.get(&slot).filter(|(has, _)| *has == id).map(|(_, fd)| fd.as_fd());
        let kind = if fd.is_some() { Kind::Descriptor } else { Kind::None };
        self.answer(link, &Packet::new(kind, [0; 4]), fd.as_slice())
    }

    fn send_refusal(&self, link: u64, why: &str) {
        let Some(link) = self.links.get(&link) else { return };
        let refusal = if self.leaving.is_empty() { Refusal::Final } else { Refusal::Limit };
        let _ = control::send(&link.socket, &Packet::refused(refusal, why), &[]);
    }

    /// Evicts a member, and tells it why. Announce its end and call [`Authority::remove`].
    pub fn evict(&mut self, id: PeerId, why: &str) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (index, Some(link)) = (connection.index, connection.link) else { return };
        self.port.evict(&mut self.fds, index);
        self.dismiss(id, link, index, why);
    }

    fn join(&mut self, link: u64, id: PeerId) -> Result<()> {
        let Some(found) = self.links.get_mut(&link) else { return Err(Error::AuthorityGone) };
        let Some(outbox) = found.outbox.take() else { return Err(Error::AuthorityGone) };
        // Opened here, so that a lack of descriptors later refuses nobody's messages.
        let opened = ForeignOutbox::open(&outbox)?;
        let process = found.process.clone();
        self.free_slots();
        let slots = self.options.members as u16;
        let is_free = |slot: &u16| self.port.directory().id_and_state(*slot).1 == State::Free;
        let Some(slot) = (AUTHORITY + 1..slots).find(is_free) else {
            // Some may only wait for others to pass what the last member there sent.
            self.demand_place();
            return Err(Error::Refused(format!(
                "all {} member slots of this bus are in use (AuthorityOptions::members)",
                slots - 1
            )));
        };
        self.place_wanted = None;
        // Present first, and only then where it begins: senders that did not see it have let nothing be overwritten
        // from there on.
        let end = self.port.find_end();
        self.port.order().reset_line(slot, end);
        self.port.directory().set_peer(slot, &peer(id, slot, process.credentials, process.label.as_deref()));
        full_fence();
        let cursor = self.port.find_end();
        self.port.order().cursor(slot).store(cursor, Ordering::Release);
        self.port.forget(slot);
        self.port.set_outbox(slot, opened);
        self.fds.outboxes.insert(slot, (id, outbox));
        self.fds.doorbells.remove(&slot);
        self.connections.insert(id, Connection { index: slot, link: Some(link), filter: Box::default() });
        if let Some(link) = self.links.get_mut(&link) {
            (link.member, link.has_joined) = (Some(id), true);
            self.readers += 1;
        }
        Ok(())
    }

    /// Ends the members that were evicted, by a sender or here.
    pub(super) fn end_evicted(&mut self, events: &mut Vec<Event>) {
        let evictions = self.port.order().evictions().load(Ordering::Acquire);
        if evictions == self.evictions {
            return;
        }
        self.evictions = evictions;
        let order = self.port.order();
        let members = self.connections.iter().filter_map(|(id, of)| Some((*id, of.link?, of.index)));
        let evicted = members.filter(|(id, _, index)| order.evicted(*index).load(Ordering::Acquire) == *id);
        for (id, link, index) in evicted.collect::<Vec<_>>() {
            let why = self.lateness(index);
            if self.dismiss(id, link, index, &why) {
                events.push(Event::Left { peer: id, why: Some(LeaveReason::Laggard(why)) });
            }
        }
    }

    /// Ends a membership, and tells the process why. False if that was so before.
    fn dismiss(&mut self, id: PeerId, link: u64, index: u16, why: &str) -> bool {
        let Some(found) = self.links.get(&link).filter(|link| link.member == Some(id)) else {
            return false;
        };
        let _ = control::send(&found.socket, &Packet::text(Kind::Disconnected, why), &[]);
        self.end_answers(link);
        self.detach(id, link, index);
        true
    }

    /// Ends a membership. Its process may still write into its line: the slot is held until that has closed its socket
    /// or ended.
    fn detach(&mut self, id: PeerId, link: u64, index: u16) {
        if let Some(link_of) = self.links.get_mut(&link) {
            (link_of.member, link_of.holds) = (None, Some(index));
            let data = Token::new(LINK, link).data();
            let _ = epoll::modify(&self.epoll, &link_of.socket, data, epoll::EventFlags::empty());
        }
        self.leave(id, index);
    }

    /// Ends a membership: nobody waits for it, and what was for it alone is dropped.
    fn leave(&mut self, id: PeerId, slot: u16) {
        self.port.directory().set_state(slot, State::Leaving);
        let watched = self.watched_end();
        self.staging.receiver_left(id, Some(slot), watched);
    }

    /// Ends a connection whose socket may hold descriptors that were never received.
    pub(super) fn discard(&self, socket: OwnedFd) {
        // Its peer sees the end now, whenever it is closed.
        let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
        (self.options.close)(vec![socket]);
    }

    /// The end of a process at the control socket.
    pub(super) fn close(&mut self, link: u64, why: Option<String>, events: &mut Vec<Event>) {
        let Some(link) = self.links.remove(&link) else { return };
        let _ = epoll::delete(&self.epoll, &link.socket);
        if let Some(pidfd) = &link.pidfd {
            let _ = epoll::delete(&self.epoll, pidfd);
        }
        self.readers -= usize::from(link.has_joined);
        self.discard(link.socket);
        if let Some(id) = link.member
            && let Some(connection) = self.connections.get(&id)
        {
            self.leave(id, connection.index);
            events.push(Event::Left { peer: id, why: why.map(LeaveReason::Protocol) });
        }
    }
}

fn out_of_descriptors() -> Packet {
    Packet::refused(Refusal::Limit, "the bus process is out of file descriptors")
}
