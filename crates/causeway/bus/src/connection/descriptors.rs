//! What is staged outside of the log: descriptors, and messages that are too long for the outbox. The authority holds them meanwhile.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_REPLY_EXPECTED, Header, Kind as MessageKind, Layout};

use super::Connection;
use super::sending::Outgoing;
use crate::authority::{BUS_INTERFACE, DRIVER_PATH, UNREAD, check_staged, name_of};
use crate::control::{self, Kind, Packet, Refusal};
use crate::error::{Error, Result, name};
use crate::port::{Outbound, Received, TO_BUS, To, TransferRef};
use crate::shared::body;
use crate::shared::header::BusHeader;
use crate::shared::order::Statistic;

/// A call that came without what belongs to it, and is to be answered with an error.
#[derive(Debug)]
pub(super) struct Undeliverable {
    caller: u64,
    serial: u32,
    why: String,
}

impl Connection {
    /// Leaves with the authority what of a message does not go into the outbox: then it can be sent.
    pub(super) fn stage(
        &mut self,
        to: To,
        layout: &Layout,
        bytes: &[u8],
        descriptors: &[OwnedFd],
    ) -> Result<TransferRef> {
        let longest = self.port.longest_message();
        let is_in_file = bytes.len() > longest;
        if !is_in_file && descriptors.is_empty() {
            return Ok(TransferRef::default());
        }
        let count = descriptors.len() + usize::from(is_in_file);
        check_staged(&layout.header(bytes), count, longest, is_in_file)?;
        let file = if is_in_file { Some(body::write(bytes)?) } else { None };
        let fds: Vec<BorrowedFd<'_>> = file.iter().chain(descriptors).map(AsFd::as_fd).collect();
        self.last_token = self.last_token.wrapping_add(1).max(1);
        let transfer = TransferRef { token: self.last_token, is_in_file };
        let destination = match to {
            To::All => 0,
            To::Peer { id, .. } => id,
        };
        let body_bytes = if is_in_file { bytes.len() as u64 } else { 0 };
        let words = [u64::from(transfer.token), destination, body_bytes, 0];
        let (answer, _) = self.link.ask(&Packet::new(Kind::Stage, words), &fds)?;
        const LIMIT: u64 = Refusal::Limit as u64;
        const NO_DESTINATION: u64 = Refusal::NoDestination as u64;
        match (answer.kind, answer.words[0]) {
            (Kind::None, _) => Ok(transfer),
            (_, LIMIT) => Err(Error::method(name::LIMITS_EXCEEDED, answer.text)),
            (_, NO_DESTINATION) => Err(Error::method(name::SERVICE_UNKNOWN, answer.text)),
            _ => Err(Error::Refused(answer.text)),
        }
    }

    /// A message of this connection is in the log. If it is a signal with a staged transfer, the authority learns for whom, and when that ends.
    pub(super) fn note_sent(&mut self, transfer: TransferRef, outbound: &Outbound<'_>, position: u64) {
        let Some(signal) = outbound.signal.filter(|_| transfer.token != 0) else { return };
        let text = control::slots_text(&self.port.subscriber_slots(&signal));
        let words = [u64::from(transfer.token), position, 0, 0];
        self.link.tell(&Packet { text, ..Packet::new(Kind::Sent, words) });
    }

    /// Adds to a message what was left under its token. False if nobody here wants it, or if that cannot be had: then it is counted,
    /// and a call that waits for it ends with an error, here or at its caller.
    pub(super) fn complete(&mut self, received: &mut Received) -> bool {
        let header = received.header;
        if header.destination == 0 {
            if !Header::parse(&received.bytes).is_ok_and(|header| self.may_want(&header, received.position)) {
                return false;
            }
        } else {
            // Nobody waits for this member while it waits for the authority. What is for it alone is kept for it.
            self.port.publish_cursor();
        }
        let words = [received.owner(), u64::from(header.token), 0, 0];
        let taken = match self.link.ask(&Packet::new(Kind::Take, words), &[]) {
            Ok((Packet { kind: Kind::Descriptor, .. }, fds)) => Ok(fds),
            Ok(_) => Err(Error::Refused("no staged transfer has its token".into())),
            Err(error) => Err(error),
        };
        match taken.and_then(|mut fds| received.complete(&mut fds)) {
            Ok(()) => true,
            Err(error) => {
                self.port.order().count(self.port.slot(), Statistic::Incomplete, 1);
                self.end_incomplete(&header, &error);
                false
            }
        }
    }

    fn end_incomplete(&mut self, header: &BusHeader, error: &Error) {
        let is_call = header.kind == MessageKind::MethodCall.number();
        if is_call && header.flags & FLAG_NO_REPLY_EXPECTED == 0 {
            let (caller, serial) = (header.sender, header.serial);
            self.undeliverable.push(Undeliverable { caller, serial, why: error.to_string() });
        } else if header.reply_serial != 0 {
            let why = format!("the reply came without its descriptors or its body: {error}");
            self.fail_call(header.reply_serial, header.sender, &why);
        }
    }

    /// Is there something that could not be delivered to this program, and whose sender is to be told?
    #[inline]
    pub(super) fn has_refusals(&self) -> bool {
        !self.undeliverable.is_empty() || self.port.has_unread()
    }

    /// Tells the senders of what could not be delivered to this program.
    pub(super) fn answer_undeliverable(&mut self) -> Result<()> {
        while let Some(answer) = self.prepare_refusal()? {
            self.send(answer)?;
        }
        Ok(())
    }

    /// The answer to a call that could not be delivered to this program, or word to a member that cannot be read, if there is one.
    pub(super) fn prepare_refusal(&mut self) -> Result<Option<Outgoing>> {
        while let Some(sender) = self.port.take_unread() {
            let destination = name_of(sender);
            let Some(to) = self.find(&destination) else { continue };
            let word = Builder::signal(DRIVER_PATH, BUS_INTERFACE, UNREAD).destination(&destination);
            let own = self.next_serial();
            let built = self.writer.build(to, &word.sender(&self.name), own)?;
            return Ok(Some(self.writer.take(built, Vec::new())));
        }
        let Some(Undeliverable { caller, serial, why }) = self.undeliverable.pop() else { return Ok(None) };
        let (destination, own) = (name_of(caller), self.next_serial());
        // One that the directory does not show has left, or is a client that the bus knows.
        let to = self.find(&destination).unwrap_or(TO_BUS);
        let text = Body::default().text(&format!("the callee could not receive the call: {why}"));
        let answer = Builder::error(serial, name::LIMITS_EXCEEDED).body(text);
        let answer = answer.destination(&destination).sender(&self.name);
        let built = self.writer.build(to, &answer, own)?;
        Ok(Some(self.writer.take(built, Vec::new())))
    }
}
