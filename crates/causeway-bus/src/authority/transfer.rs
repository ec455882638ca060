//! Deposits of members, and of the authority itself for its clients: taken in, handed out, ended.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weighbridge_dbus::wire::{
    Body, Builder, FLAG_NO_REPLY_EXPECTED, Header, Kind as MessageKind, MAX_MESSAGE_BYTES,
};

use super::tokens::Deposit;
use super::{Authority, Event, PeerId, Work, name_of, unique_name};
use crate::control::{self, FDS_MAX, Kind, Packet, Refusal};
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, AUTHORITY_ID, Parcel, Received, To};
use crate::shared::body;
use crate::shared::header::BusHeader;
use crate::shared::order::Statistic;

/// How often deposits are looked at that end when members have read on. A member that reads does not tell.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

impl Authority {
    /// Serves a request of a member about its deposits.
    ///
    /// # Errors
    /// It is none that a correct member sends; the member does not read.
    pub(super) fn transfer(&mut self, link: u64, packet: &Packet, fds: Vec<OwnedFd>) -> Result<()> {
        let unexpected = || Error::Refused("the request about a deposit makes no sense".into());
        let id = self.links.get(&link).and_then(|link| link.member).ok_or_else(unexpected)?;
        let slot = self.connections.get(&id).ok_or_else(unexpected)?.index;
        let [first, second, third, _] = packet.words;
        match packet.kind {
            Kind::Deposit => {
                let token = u32::try_from(first).map_err(|_| unexpected())?;
                match self.take_in(id, token, (second, third), fds)? {
                    Ok(()) => self.answer_with(link, None),
                    Err((refusal, why)) => self.answer(link, &Packet::refused(refusal, why), &[]),
                }
            }
            Kind::Take => {
                let (owner, token) = (first, u32::try_from(second).map_err(|_| unexpected())?);
                let Some(deposit) = self.tokens.find(owner, token, slot, id) else {
                    return self.answer_with(link, None);
                };
                let fds: Vec<BorrowedFd<'_>> = deposit.descriptors.iter().map(AsFd::as_fd).collect();
                let packet = Packet::new(Kind::Descriptor, [deposit.body_bytes, 0, 0, 0]);
                let answered = self.answer(link, &packet, &fds);
                self.tokens.taken(owner, token, slot);
                // Too many descriptors of this user may be between processes: then they do not come, and their receiver says so.
                answered.or_else(|_| self.answer_with(link, None))
            }
            Kind::Sent => {
                let token = u32::try_from(first).map_err(|_| unexpected())?;
                self.tokens.sent(id, token, second, control::slots_of(&packet.text));
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    fn answer(&self, link: u64, packet: &Packet, fds: &[BorrowedFd<'_>]) -> Result<()> {
        self.links.get(&link).map_or(Ok(()), |link| control::send(&link.socket, packet, fds))
    }

    /// Takes a deposit in, or says to its sender why not.
    fn take_in(
        &mut self,
        id: PeerId,
        token: u32,
        (destination, body_bytes): (PeerId, u64),
        fds: Vec<OwnedFd>,
    ) -> Result<std::result::Result<(), (Refusal, String)>> {
        let file = fds.first().ok_or_else(|| Error::Refused("a deposit came without descriptors".into()))?;
        if body_bytes > 0
            && (body_bytes > MAX_MESSAGE_BYTES as u64 || body::checked_bytes(file)? != body_bytes)
        {
            return Err(Error::Refused(format!("the file of a message does not have {body_bytes} bytes")));
        }
        let to = match destination {
            0 => To::All,
            AUTHORITY_ID => To::Peer { slot: AUTHORITY, id: AUTHORITY_ID },
            id => match self.connections.get(&id) {
                Some(connection) => To::Peer { slot: self.port.directory().carrier(connection.index), id },
                None => return Ok(Err((Refusal::NoDestination, "the destination is gone".into()))),
            },
        };
        self.sweep_deposits();
        match self.tokens.deposit(id, token, Deposit::new(id, to, body_bytes, fds)) {
            Ok(()) => Ok(Ok(())),
            Err(Error::Method { message, .. }) => Ok(Err((Refusal::Limit, message))),
            Err(error) => Err(error),
        }
    }

    /// Prepares a message that goes into the outbox of the authority: deposits its descriptors, and the message if it is long.
    ///
    /// # Errors
    /// `LimitsExceeded`; the kernel lacks memory or descriptors.
    pub(super) fn deposit_own(
        &mut self,
        charged: PeerId,
        to: To,
        bytes: &[u8],
        mut descriptors: Vec<OwnedFd>,
    ) -> Result<Parcel> {
        let header = Header::parse(bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        let (longest, named) = (self.port.longest_message(), header.unix_fds as usize);
        if named != descriptors.len() {
            let came = descriptors.len();
            return Err(Error::Invalid(format!("the message names {named} descriptors and has {came}")));
        }
        let is_in_file = bytes.len() > longest;
        if is_in_file {
            descriptors.insert(0, body::write(bytes)?);
        }
        check_parcel(&header, descriptors.len(), longest, is_in_file)?;
        if descriptors.is_empty() {
            return Ok(Parcel::default());
        }
        let token = self.tokens.next_token();
        let body_bytes = if is_in_file { bytes.len() as u64 } else { 0 };
        self.sweep_deposits();
        self.tokens.deposit(AUTHORITY_ID, token, Deposit::new(charged, to, body_bytes, descriptors))?;
        Ok(Parcel { token, is_in_file })
    }

    /// A message of the authority's outbox is in the log: if it is a signal with a deposit, notes for whom.
    pub(super) fn note_sent(&mut self, parcel: Parcel, to: To, sender: PeerId, position: u64, bytes: &[u8]) {
        let (To::All, 1.., Ok(header)) = (to, parcel.token, Header::parse(bytes)) else { return };
        let slots = self.port.wanting_slots(sender, &header, bytes);
        self.tokens.sent(AUTHORITY_ID, parcel.token, position, slots);
    }

    /// Adds to a message for a client, or for the bus itself, what is held for it. `None` if that is not there: the message is then
    /// counted, and answered with an error where an answer is expected.
    pub(super) fn complete(&mut self, received: Received, events: &mut Vec<Event>) -> Option<Received> {
        let (header, position) = (received.header, received.position);
        if header.token == 0 {
            return Some(received);
        }
        // No client wants a signal that is not held for the authority.
        let is_signal = header.destination == 0;
        if is_signal && !self.tokens.may_be_for(received.owner(), header.token, AUTHORITY) {
            return None;
        }
        let descriptors = self.take_own(received.owner(), header.token, header.destination);
        match descriptors.and_then(|descriptors| received.complete(descriptors)) {
            Ok(received) => Some(received),
            Err(error) => {
                self.port.order().count(AUTHORITY, Statistic::Incomplete, 1);
                self.answer_incomplete(&header, position, &error.to_string(), events);
                None
            }
        }
    }

    fn take_own(&mut self, owner: PeerId, token: u32, destination: PeerId) -> Result<Vec<OwnedFd>> {
        let missing = || Error::Refused("nothing was deposited under its token".into());
        let deposit = self.tokens.find(owner, token, AUTHORITY, destination).ok_or_else(missing)?;
        // Others may take it, too.
        let copies = match deposit.to {
            To::All => deposit.descriptors.iter().map(OwnedFd::try_clone).collect(),
            To::Peer { .. } => Ok(Vec::new()),
        };
        let last = self.tokens.taken(owner, token, AUTHORITY);
        match last {
            Some(deposit) => Ok(deposit.descriptors),
            None => Ok(copies.map_err(|error| causeway_os::Error::new("copy", "descriptors", error))?),
        }
    }

    /// What a client was called with, or was answered, cannot be delivered.
    fn answer_incomplete(&mut self, header: &BusHeader, position: u64, why: &str, events: &mut Vec<Event>) {
        let (sender, receiver) = (name_of(header.sender), name_of(header.destination));
        let text = Body::default().text(&format!("the message could not be delivered: {why}"));
        let error = |serial| Builder::error(serial, name::LIMITS_EXCEEDED).body(text.clone());
        const CALL: u8 = MessageKind::MethodCall.number();
        const RETURN: u8 = MessageKind::MethodReturn.number();
        const ERROR: u8 = MessageKind::Error.number();
        match header.kind {
            CALL if header.flags & FLAG_NO_REPLY_EXPECTED == 0 => {
                let Some(to) = self.resolve(&unique_name(header.sender)) else { return };
                self.serial = self.serial.wrapping_add(1).max(1);
                let answer = error(header.serial).sender(&receiver).destination(&sender);
                if let Ok(bytes) = answer.build(self.serial) {
                    let sender = header.destination;
                    self.work.push_back(Work::Send { sender, to, bytes, parcel: Parcel::default() });
                }
            }
            RETURN | ERROR => {
                let answer = error(header.reply_serial).sender(&sender).destination(&receiver);
                if let Ok(bytes) = answer.build(header.serial.max(1)) {
                    let (to, sender) = (Some(header.destination), header.sender);
                    let descriptors = Vec::new().into();
                    events.push(Event::Message { position, to, sender, bytes: bytes.into(), descriptors });
                }
            }
            _ => {}
        }
    }

    /// After the last message of a member: those who may still take what it deposited read on.
    pub(super) fn end_deposits_of(&mut self, id: PeerId, end: u64) {
        let present: Vec<u16> = self.port.directory().present().collect();
        for slot in self.tokens.owner_left(id, end, &present) {
            if self.port.order().cursor(slot).load(Ordering::Acquire) < end {
                self.port.ring(&mut self.fds, slot);
            }
        }
    }

    /// Ends the deposits that those they are for have passed.
    pub(super) fn sweep_deposits(&mut self) {
        if self.tokens.has_waiting() {
            let (order, own) = (Arc::clone(self.port.order()), self.port.cursor());
            self.tokens.sweep(|slot| match slot {
                AUTHORITY => own,
                slot if usize::from(slot) < order.slots() => order.cursor(slot).load(Ordering::Acquire),
                _ => u64::MAX,
            });
        }
    }

    /// When to look at deposits again.
    pub(super) fn sweep_timeout(&self) -> Option<Duration> {
        self.tokens.has_waiting().then_some(SWEEP_EVERY)
    }

    /// Descriptors that this process holds for members, and bytes in files among them: of one connection, or of all.
    #[must_use]
    pub fn in_flight(&self, id: Option<PeerId>) -> (usize, u64) {
        self.tokens.in_flight(id)
    }
}

/// Can a message with so many descriptors, the file that holds it included, be sent from an outbox that takes `longest` bytes?
pub(crate) fn check_parcel(header: &Header<'_>, fds: usize, longest: usize, is_in_file: bool) -> Result<()> {
    let limit = |text: String| Err(Error::method(name::LIMITS_EXCEEDED, text));
    if fds > FDS_MAX {
        let beside = if is_in_file { " beside a long body" } else { "" };
        let (has, most) = (fds - usize::from(is_in_file), FDS_MAX - usize::from(is_in_file));
        return limit(format!("a message of {has} descriptors is not possible: {most} are{beside}"));
    }
    if is_in_file && header.header_bytes > longest {
        let has = header.header_bytes;
        return limit(format!("a header of {has} bytes is not possible: {longest} are with this outbox"));
    }
    Ok(())
}
