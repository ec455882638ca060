//! A message of a native member on its first steps, after it was read from the order log.

use std::rc::Rc;
use std::time::Instant;

use causeway_bus::InboundMessage;
use causeway_dbus_wire::wire::{Header, Kind, walk};

use crate::bus::{Bus, DRIVER, RoutedMessage};
use crate::calls::Call;
use crate::descriptors::Descriptors;
use crate::end::End;
use crate::member::{Carrier, Member, MemberId, Stage};
use crate::message::{LazyArgs, Message};
use crate::{driver, error};

impl Bus {
    /// A message of a native member has been read from the log.
    pub fn accept_native(&mut self, inbound: InboundMessage, now: Instant) {
        self.now = now;
        self.pass_native(inbound);
        self.close_entry();
        self.settle();
    }

    fn pass_native(&mut self, mut inbound: InboundMessage) {
        let mut descriptors = Descriptors::default();
        descriptors.extend(inbound.descriptors.drain(..));
        let from = MemberId(inbound.sender);
        let member = self.members.get(&from).filter(|member| !member.is_leaving);
        let (Some(member), is_for_bus) = (member, inbound.is_for_bus()) else { return };
        if let Some(why) = &inbound.missing {
            return self.answer_incomplete(&inbound, why);
        }
        if !is_valid(&inbound.bytes, descriptors.len(), &member.name) {
            return self.disconnect(from, End::Protocol("it sent an invalid message".into()));
        }
        let message = Rc::new(Message::new(inbound.bytes, descriptors));
        let header = message.header();
        if matches!(header.kind, Kind::Other(_)) {
            return;
        }
        let to = inbound.to.map(MemberId);
        let checked = self.config.limits.check_message(message.bytes().len(), header.unix_fds);
        if let Err(limit) = checked
            && !to.is_some_and(|to| self.is_native(to))
        {
            return self.end_undelivered(from, to, &header, &limit.to_string());
        }
        self.counters.accepted += 1;
        let args = LazyArgs::new(&header, message.bytes());
        let routed = RoutedMessage::of(from, &header, &args, &message);
        self.show_first(from, routed);
        let is_for_driver = is_for_bus && header.destination.is_none_or(|name| name == DRIVER);
        // What a member sends to the bus for another one must be put into the log once more, for that one.
        if is_for_driver || !is_for_bus {
            self.mark_read_from_log();
        }
        match inbound.to {
            None => self.broadcast(routed),
            Some(_) if is_for_driver => driver::handle(self, from, routed),
            Some(_) if is_for_bus => self.route(from, routed),
            Some(to) => {
                let to = MemberId(to);
                let is_client =
                    |member: &Member| member.stage == Stage::Active && member.carrier == Carrier::Socket;
                if self.members.get(&to).is_some_and(is_client) {
                    self.unicast(from, to, routed);
                } else {
                    // Between native members, or for one that has left, whose end the sender reads in the log.
                    self.eavesdrop(routed, Some(to));
                }
            }
        }
    }

    /// A message of a native member came without what belongs to it. A call is answered for its receiver; a reply ends
    /// with an error, and all else is dropped. What is for another member does not concern the bus.
    fn answer_incomplete(&mut self, inbound: &InboundMessage, why: &str) {
        let Ok(header) = Header::parse(&inbound.bytes) else { return };
        let (from, to) = (MemberId(inbound.sender), inbound.to.map(MemberId));
        if !to.is_some_and(|to| self.is_native(to)) {
            self.end_undelivered(from, to, &header, &format!("the message could not be delivered: {why}"));
        }
    }

    /// A message of a native member does not reach a client or the bus: a call is answered for its receiver, a reply
    /// becomes an error.
    fn end_undelivered(&mut self, from: MemberId, to: Option<MemberId>, header: &Header<'_>, why: &str) {
        match (to, header.reply_serial) {
            (Some(to), Some(serial)) => self.end_call(Call { caller: to, serial, callee: from }, why),
            _ if header.kind == Kind::MethodCall => self.refuse(from, header, error::LIMITS_EXCEEDED, why),
            _ => {}
        }
    }
}

/// Is this a message of the member with this name, whole and valid?
fn is_valid(bytes: &[u8], descriptors: usize, name: &str) -> bool {
    Header::parse(bytes).is_ok_and(|header| {
        header.message_bytes() == bytes.len()
            && header.sender == Some(name)
            && header.unix_fds as usize == descriptors
            && walk(&header, &bytes[header.header_bytes..], &mut |_, _| {}).is_ok()
    })
}
