//! Staged transfers of members, and of the authority itself for its clients: taken in, handed out, ended.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_dbus_wire::wire::{Header, MESSAGE_BYTES_MAX};

use super::foreign::ForeignDescriptors;
use super::staging::StagedTransfer;
use super::{Authority, InboundMessage, PeerId};
use crate::content::FileDescriptors;
use crate::control::{self, FDS_MAX, Kind, Packet, Refusal};
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, AUTHORITY_ID, Outbound, Received, To, TransferRef};
use crate::shared::body;
use crate::shared::order::Statistic;

/// How often staged transfers are looked at that end when members have read on. A member that reads does not tell.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

impl Authority {
    /// Serves a request of a member about its staged transfers. Fails for one that no correct member sends.
    pub(super) fn transfer(&mut self, link: u64, packet: &Packet, fds: ForeignDescriptors) -> Result<()> {
        let unexpected = || Error::Refused("invalid request about a staged transfer".into());
        let (id, slot) = self.member(link).ok_or_else(unexpected)?;
        let [first, second, third, _] = packet.words;
        match packet.kind {
            Kind::Stage => {
                let token = u32::try_from(first).map_err(|_| unexpected())?;
                let answer = self.take_in(id, token, (second, third), fds)?;
                self.answer(link, &answer, &[])
            }
            Kind::Take => {
                let (owner, token) = (first, u32::try_from(second).map_err(|_| unexpected())?);
                let Some(staged) = self.staging.find(owner, token, slot, id) else {
                    return self.answer_none(link);
                };
                let fds: Vec<BorrowedFd<'_>> = staged.descriptors.iter().map(AsFd::as_fd).collect();
                let packet = Packet::new(Kind::Descriptor, [staged.body_bytes, 0, 0, 0]);
                let answered = self.answer(link, &packet, &fds);
                let is_for_one = matches!(staged.to, To::Peer { .. });
                match self.watched_end().filter(|_| is_for_one && owner != AUTHORITY_ID) {
                    Some(end) => self.staging.taken_and_watched(owner, token, slot, end),
                    None => drop(self.staging.taken(owner, token, slot)),
                }
                // The kernel limits how many descriptors a user may have in flight. Beyond that the receiver gets none, and reports it.
                answered.or_else(|_| self.answer_none(link))
            }
            Kind::Sent => {
                let token = u32::try_from(first).map_err(|_| unexpected())?;
                // Only members that are there can take it, and only up to what is in the log.
                let last = self.port.find_end().saturating_sub(1);
                let present: Vec<u16> = self.port.directory().present().collect();
                let mut slots = control::slots_of(&packet.text);
                slots.retain(|slot| present.contains(slot));
                self.staging.sent(id, token, second.min(last), slots);
                Ok(())
            }
            _ => Err(unexpected()),
        }
    }

    pub(super) fn answer(&self, link: u64, packet: &Packet, fds: &[BorrowedFd<'_>]) -> Result<()> {
        self.links.get(&link).map_or(Ok(()), |link| control::send(&link.socket, packet, fds))
    }

    /// Takes a staged transfer in; returns the answer to its sender.
    fn take_in(
        &mut self,
        id: PeerId,
        token: u32,
        (destination, body_bytes): (PeerId, u64),
        fds: ForeignDescriptors,
    ) -> Result<Packet> {
        let file =
            fds.first().ok_or_else(|| Error::Refused("a staged transfer needs a descriptor".into()))?;
        if body_bytes > 0
            && (body_bytes > MESSAGE_BYTES_MAX as u64 || body::checked_bytes(file)? != body_bytes)
        {
            return Err(Error::Refused(format!("the file of a message does not have {body_bytes} bytes")));
        }
        let to = match destination {
            0 => To::All,
            AUTHORITY_ID => To::Peer { slot: AUTHORITY, id: AUTHORITY_ID },
            id => match self.connections.get(&id) {
                Some(connection) => To::Peer { slot: self.port.directory().carrier(connection.index), id },
                None => return Ok(Packet::refused(Refusal::NoDestination, "the destination is gone")),
            },
        };
        self.sweep_staged();
        let staged = StagedTransfer::new(id, to, body_bytes, fds);
        match self.staging.stage(id, token, staged) {
            Ok(()) => Ok(Packet::new(Kind::None, [0; 4])),
            Err(Error::Method { message, .. }) => Ok(Packet::refused(Refusal::Limit, message)),
            Err(error) => Err(error),
        }
    }

    /// Prepares a message for [`Authority::append`] to members: stages its descriptors, and itself if it is long, on account of
    /// its sender; in this sealed file if there is one, which has all of its bytes. Fails with `LimitsExceeded`.
    pub fn stage_for(
        &mut self,
        sender: Option<PeerId>,
        to: Option<PeerId>,
        (bytes, file): (&[u8], Option<OwnedFd>),
        descriptors: Vec<OwnedFd>,
    ) -> Result<TransferRef> {
        let mut descriptors = ForeignDescriptors::new(descriptors, self.options.close);
        let (charged, to) = (sender.unwrap_or(AUTHORITY_ID), self.address(to));
        let header = Header::parse(bytes)?;
        let (longest, named) = (self.port.longest_message(), header.unix_fds as usize);
        if named != descriptors.len() {
            let came = descriptors.len();
            return Err(Error::Invalid(format!("the message announces {named} descriptors but has {came}")));
        }
        let is_in_file = bytes.len() > longest;
        if is_in_file {
            let file = file.map_or_else(|| body::write(bytes), Ok)?;
            descriptors.as_mut_vec().insert(0, file);
        }
        check_staged(&header, descriptors.len(), longest, is_in_file)?;
        if descriptors.is_empty() {
            return Ok(TransferRef::default());
        }
        let token = self.staging.next_token();
        let body_bytes = if is_in_file { bytes.len() as u64 } else { 0 };
        self.sweep_staged();
        let staged = StagedTransfer::new(charged, to, body_bytes, descriptors);
        self.staging.stage(AUTHORITY_ID, token, staged)?;
        Ok(TransferRef { token, is_in_file })
    }

    /// The staged transfer of a message that no member takes: of one that is too long for the outbox the log has the header, and monitors see its length.
    pub fn stage_header_only(&mut self, bytes: &[u8]) -> TransferRef {
        if bytes.len() > self.port.longest_message() {
            TransferRef { token: self.staging.next_token(), is_in_file: true }
        } else {
            TransferRef::default()
        }
    }

    /// A message of the authority's outbox is in the log: if it is a signal with a staged transfer, notes for whom.
    pub(super) fn note_sent(&mut self, transfer: TransferRef, outbound: &Outbound<'_>, position: u64) {
        let Some(signal) = outbound.signal.filter(|_| transfer.token != 0) else { return };
        let slots = self.port.subscriber_slots(&signal);
        self.staging.sent(AUTHORITY_ID, transfer.token, position, slots);
    }

    /// Adds to a message what is held for it, or says where that is not there: one for a client, for the bus itself, or, if the bus is watched, for another member. `None` for a signal
    /// that is not held for the authority, so that no client wants it.
    pub(super) fn complete(&mut self, mut received: Received) -> Option<InboundMessage> {
        let (header, position) = (received.header, received.position);
        let to = (header.destination != 0).then_some(header.destination);
        let inbound = |received: Received, missing| InboundMessage {
            position,
            sender: header.sender,
            to,
            descriptors: received.descriptors.take(),
            bytes: received.bytes,
            missing,
        };
        if header.token == 0 {
            return Some(inbound(received, None));
        }
        if to.is_none() && !self.staging.may_be_for(received.owner(), header.token, AUTHORITY) {
            return None;
        }
        let inline = Received { descriptors: FileDescriptors::default(), ..received.clone() };
        let held = self.take_own(received.owner(), header.token, header.destination);
        let completed = held.and_then(|held| {
            let mut held = ForeignDescriptors::new(held, self.options.close);
            received.complete(held.as_mut_vec())
        });
        match completed {
            Ok(()) => Some(inbound(received, None)),
            Err(error) => {
                self.port.order().count(AUTHORITY, Statistic::Incomplete, 1);
                Some(inbound(inline, Some(error.to_string())))
            }
        }
    }

    fn take_own(&mut self, owner: PeerId, token: u32, destination: PeerId) -> Result<Vec<OwnedFd>> {
        let missing = || Error::Refused("no staged transfer has its token".into());
        let staged = self.staging.any(owner, token).ok_or_else(missing)?;
        if matches!(staged.to, To::Peer { slot, .. } if slot != AUTHORITY) {
            // For another member, and for those that watch the bus.
            return staged.copies();
        }
        let staged = self.staging.find(owner, token, AUTHORITY, destination).ok_or_else(missing)?;
        // Others may take it, too.
        let copies = match staged.to {
            To::All => staged.copies(),
            To::Peer { .. } => Ok(Vec::new()),
        };
        match self.staging.taken(owner, token, AUTHORITY) {
            Some(mut staged) => Ok(staged.descriptors.take()),
            None => copies,
        }
    }

    /// If the bus is watched: up to where the log must be read before what belongs to messages between members is not needed here any more.
    pub(super) fn watched_end(&mut self) -> Option<u64> {
        let end = self.port.wants_everything.then(|| self.port.find_end());
        end.filter(|end| self.port.cursor() < *end)
    }

    /// After the last message of a member: those that may still take what it staged read on.
    pub(super) fn end_staged_by(&mut self, id: PeerId, end: u64) {
        let present: Vec<u16> = self.port.directory().present().collect();
        let mut behind = self.before(end);
        let concerned = self.staging.owner_left(id, end, &present);
        behind.retain(|slot| concerned.contains(slot));
        self.ring(behind);
    }

    /// Ends the staged transfers that those they are for have passed. Members that read on do not tell: call it now and then.
    pub fn sweep_staged(&mut self) {
        if self.staging.has_waiting() {
            let (order, own) = (Arc::clone(self.port.order()), self.port.cursor());
            self.staging.sweep(|slot| match slot {
                AUTHORITY => own,
                slot if usize::from(slot) < order.slots() => order.cursor(slot).load(Ordering::Acquire),
                _ => u64::MAX,
            });
        }
    }

    /// When to look at staged transfers again.
    pub(super) fn sweep_timeout(&self) -> Option<Duration> {
        self.staging.has_waiting().then_some(SWEEP_EVERY)
    }

    /// Descriptors that this process holds for members, and bytes in files among them: of one connection, or of all.
    pub fn in_flight(&self, id: Option<PeerId>) -> (usize, u64) {
        self.staging.in_flight(id)
    }

    /// The same of each connection that has sent any.
    pub fn in_flight_of_each(&self) -> HashMap<PeerId, (usize, u64)> {
        self.staging.in_flight_of_each()
    }
}

/// Can a message with so many descriptors, the file that holds it included, be sent from an outbox that takes `longest` bytes?
pub(crate) fn check_staged(header: &Header<'_>, fds: usize, longest: usize, is_in_file: bool) -> Result<()> {
    let limit = |text: String| Err(Error::method(name::LIMITS_EXCEEDED, text));
    if fds > FDS_MAX {
        let with_body = if is_in_file { " with a long body" } else { "" };
        let (has, most) = (fds - usize::from(is_in_file), FDS_MAX - usize::from(is_in_file));
        return limit(format!("a message{with_body} has at most {most} descriptors, not {has}"));
    }
    if is_in_file && header.header_bytes > longest {
        let has = header.header_bytes;
        return limit(format!("with this outbox a header has at most {longest} bytes, not {has}"));
    }
    Ok(())
}
