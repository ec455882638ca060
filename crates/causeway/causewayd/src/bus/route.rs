//! From a message to those that get it.

use std::rc::Rc;

use causeway_dbus_wire::wire::{Body, Builder, FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Header, Kind};

use super::passing::Audience;
use super::{Action, Bus, DRIVER, Receiver, RoutedMessage};
use crate::activation::{Phase, Wants};
use crate::calls::Call;
use crate::descriptors::Descriptors;
use crate::end::End;
use crate::error;
use crate::limit::Reached;
use crate::member::{Carrier, MemberId, Stage};
use crate::message::{LazyArgs, Message};
use crate::policy::{NamePattern, Passing, is_reply};
use crate::quota::Resource;

pub(super) const DENIED: &str = "the bus policy rejects this message";

impl Bus {
    /// The member that has a name, of either kind.
    pub(crate) fn resolve(&self, name: &str) -> Option<MemberId> {
        let unique = MemberId::from_unique_name(name)
            .filter(|id| self.members.get(id).is_some_and(|member| member.stage == Stage::Active));
        unique.or_else(|| self.names.owner(name))
    }

    pub(crate) fn route(&mut self, from: MemberId, routed: RoutedMessage<'_>) {
        let name = routed.header.destination.expect("it has a destination");
        match self.resolve(name) {
            Some(to) => self.unicast(from, to, routed),
            None if routed.header.flags & FLAG_NO_AUTO_START != 0 => {
                let why = format!("the name {name} has no owner");
                self.refuse(from, routed.header, error::NAME_HAS_NO_OWNER, &why);
            }
            None => {
                let is_denied = !self.may_send(from, None, routed) && !self.is_started_by_systemd(name);
                let is_looked_up =
                    self.starts.phase(name).is_none_or(|phase| matches!(phase, Phase::LookedUp));
                if is_denied && (is_reply(routed.header) || !is_looked_up) {
                    return self.deny(from, routed);
                }
                // As in dbus-daemon, who may not send learns first whether there is such a service.
                let wants = if is_denied { Wants::Refusal } else { Wants::Delivery };
                self.wait_for_service(from, name, routed, wants);
            }
        }
    }

    /// Hands a message to its destination, and to those that eavesdrop.
    pub(crate) fn unicast(&mut self, from: MemberId, to: MemberId, routed: RoutedMessage<'_>) {
        let header = routed.header;
        let answered = header.reply_serial.map(|serial| Call { caller: to, serial, callee: from });
        let is_requested_reply = answered.is_some_and(|call| self.calls.is_open(call));
        let routed = RoutedMessage { is_requested_reply, ..routed };
        if !self.may_send(from, Some(to), routed) || !self.may_receive(to, routed, false) {
            return self.deny(from, routed);
        }
        if header.unix_fds > 0 && !self.members[&to].takes_descriptors {
            let why = "the receiver has not negotiated file descriptor passing";
            return self.refuse(from, header, error::NOT_SUPPORTED, why);
        }
        // Native members follow the calls among themselves.
        let is_call = header.expects_reply() && !(self.is_native(from) && self.is_native(to));
        if is_call && self.calls.is_open(Call { caller: from, serial: header.serial, callee: to }) {
            let why = "a call with this serial is still pending, and its reply could not be told apart";
            return self.refuse(from, header, error::ACCESS_DENIED, why);
        }
        if is_call && let Err(limit) = self.charge(from, Resource::Calls, 1) {
            return self.refuse(from, header, error::LIMITS_EXCEEDED, &limit.to_string());
        }
        // One that leaves gets nothing any more, and its end is the answer.
        let is_taken = self.members[&to].stage == Stage::Active && self.is_reachable(to);
        if is_taken && let Err(limit) = self.charge_for(to, routed.message) {
            if is_call {
                self.release(from, Resource::Calls, 1);
            }
            if let Some(call) = answered {
                // Nobody can be told that a reply is lost but the one that waits for it. It loses its connection if it is to blame.
                return if limit.is_own() {
                    self.end_stalled(to, limit)
                } else {
                    self.replace_reply(call, &limit)
                };
            }
            let why = format!("the receiver does not read, and its queue is full: {limit}");
            return self.refuse(from, header, error::LIMITS_EXCEEDED, &why);
        }
        if is_taken {
            self.tell_caller(from, to, header);
            self.append_routed(routed, Receiver::One(to));
            self.hand_over(to, routed.message);
        }
        if is_call {
            let deadline = self.config.limits.reply.map(|time| self.now + time);
            self.calls.open(Call { caller: from, serial: header.serial, callee: to }, deadline);
        }
        if let Some(call) = answered
            && self.calls.close(call)
        {
            self.release(call.caller, Resource::Calls, 1);
        }
        self.eavesdrop(routed, Some(to));
    }

    /// A message whose descriptors the bus cannot keep: its sender is told or, where it answers a call, the caller.
    pub(crate) fn refuse_descriptors(&mut self, from: MemberId, header: &Header<'_>, limit: &Reached) {
        let caller = header.destination.filter(|_| is_reply(header)).and_then(|name| self.resolve(name));
        match header.reply_serial.zip(caller) {
            Some((serial, caller)) => self.replace_reply(Call { caller, serial, callee: from }, limit),
            None => self.refuse(from, header, error::LIMITS_EXCEEDED, &limit.to_string()),
        }
    }

    /// A caller gets an error in place of a reply that cannot be kept for it.
    fn replace_reply(&mut self, call: Call, limit: &Reached) {
        if self.calls.is_open(call) {
            self.end_call(call, &format!("the reply cannot be kept: {limit}"));
        }
    }

    /// Hands a message to everybody with a rule for it. As in dbus-daemon, the policy decides for each receiver, and denies without an error.
    pub(crate) fn broadcast(&mut self, routed: RoutedMessage<'_>) {
        // Native members have the message before anybody decides for them.
        if routed.from.is_none_or(|from| self.may_send(from, None, routed)) {
            self.append_routed(routed, Receiver::All);
        }
        self.eavesdrop(routed, None);
    }

    /// Hands a message to those whose rules match, except `to`, which has it.
    pub(crate) fn eavesdrop(&mut self, routed: RoutedMessage<'_>, to: Option<MemberId>) {
        self.spread(routed, Audience::Members, to);
    }

    pub(crate) fn capture(&mut self, routed: RoutedMessage<'_>) {
        if self.monitor_count > 0 {
            self.spread(routed, Audience::Monitors, None);
        }
    }

    /// Hands a message to one of those that it is not addressed to, if it may have it and can be passed the
    /// descriptors.
    pub(super) fn hand_copy(&mut self, id: MemberId, audience: Audience, routed: RoutedMessage<'_>) {
        let Some(member) = self.members.get(&id).filter(|member| !member.is_leaving) else { return };
        let takes = routed.header.unix_fds == 0 || member.takes_descriptors;
        if audience == Audience::Members {
            let is_eavesdropped = routed.header.destination.is_some();
            // Native members match for themselves.
            if member.carrier == Carrier::Log {
                return;
            }
            let may_send = routed.from.is_none_or(|from| self.may_send(from, Some(id), routed));
            if !may_send || !self.may_receive(id, routed, is_eavesdropped) {
                if !is_eavesdropped {
                    self.show_denial(routed);
                }
                return;
            }
        }
        if takes && let Err(limit) = self.deliver(id, routed.message) {
            self.end_stalled(id, limit);
        }
    }

    /// Lets monitors know that a receiver does not get a message because of the policy. Nobody else is told.
    fn show_denial(&mut self, routed: RoutedMessage<'_>) {
        let to = routed.from.map_or(DRIVER.into(), MemberId::unique_name);
        let error = Builder::error(routed.header.serial, error::ACCESS_DENIED).destination(&to);
        self.show_to_monitors(error.body(Body::default().text(DENIED)));
    }

    /// Shows a message of the driver to the monitors that goes to nobody.
    pub(super) fn show_to_monitors(&mut self, message: Builder<'_>) {
        if self.monitor_count == 0 {
            return;
        }
        let message = self.made_by_driver(message);
        let header = message.header();
        let args = LazyArgs::new(&header, message.bytes());
        let (header, args, message) = (&header, &args, &message);
        self.capture(RoutedMessage { from: None, header, args, message, is_requested_reply: true });
    }

    fn end_stalled(&mut self, id: MemberId, limit: Reached) {
        self.counters.stalled += 1;
        self.disconnect(id, End::Stalled(limit));
    }

    /// Hands a message to a member, if its quota allows. One that leaves gets nothing: it would be charged for what is
    /// dropped with its connection, or give back what it was not charged for.
    fn deliver(&mut self, to: MemberId, message: &Rc<Message>) -> Result<(), Reached> {
        if self.is_reachable(to) {
            self.charge_for(to, message)?;
            self.hand_over(to, message);
        }
        Ok(())
    }

    /// Is there still somebody who takes messages for a member?
    pub(crate) fn is_reachable(&self, id: MemberId) -> bool {
        self.members.get(&id).is_some_and(|member| !member.is_leaving)
    }

    /// Charges the receiver of a message for it. What waits for a native member lies in the outbox of the sender.
    fn charge_for(&mut self, to: MemberId, message: &Message) -> Result<(), Reached> {
        if self.is_native(to) { Ok(()) } else { self.charge_message(to, message) }
    }

    fn hand_over(&mut self, to: MemberId, message: &Rc<Message>) {
        self.counters.delivered += 1;
        if !self.is_read_natively() {
            message.file.take();
        }
        if !self.is_native(to) {
            self.push_action(Action::Deliver(to, Rc::clone(message)));
        }
    }

    /// Charges a member for a message that waits.
    pub(super) fn charge_message(&mut self, id: MemberId, message: &Message) -> Result<(), Reached> {
        let (bytes, descriptors) = (message.bytes().len() as u64, message.descriptors.len() as u64);
        self.charge(id, Resource::Bytes, bytes)?;
        if descriptors > 0 {
            let charged = self.charge(id, Resource::Descriptors, descriptors);
            return charged.inspect_err(|_| self.release(id, Resource::Bytes, bytes));
        }
        Ok(())
    }

    /// A message that a member was charged for waits no more.
    pub(super) fn release_message(&mut self, id: MemberId, message: &Message) {
        self.written(id, message.bytes().len() as u64, message.descriptors.len() as u64);
    }

    pub(crate) fn send(&mut self, to: MemberId, message: Builder<'_>) {
        let Some(member) = self.members.get(&to).filter(|member| !member.is_leaving) else { return };
        let name = Rc::clone(&member.name);
        // One that has not said Hello has no name.
        self.send_as_driver(Some(to), if to.is_named() { message.destination(&name) } else { message });
    }

    /// A message of the driver to a member, or to everybody with a rule for it.
    pub(super) fn send_as_driver(&mut self, to: Option<MemberId>, message: Builder<'_>) {
        let message = self.made_by_driver(message);
        self.hand_out(to, &message, true);
    }

    /// Hands out a message of the driver, which monitors see now unless they have seen it.
    pub(super) fn hand_out(&mut self, to: Option<MemberId>, message: &Rc<Message>, is_shown: bool) {
        let header = message.header();
        let args = LazyArgs::new(&header, message.bytes());
        let is_requested_reply = header.reply_serial.is_some();
        let routed = RoutedMessage { from: None, header: &header, args: &args, message, is_requested_reply };
        let is_allowed = to.is_none_or(|to| self.may_receive(to, routed, false));
        if is_allowed {
            self.append_routed(routed, to.map_or(Receiver::All, Receiver::One));
        }
        if is_shown {
            self.capture(routed);
        }
        if let Some(to) = to {
            if !is_allowed {
                return self.show_denial(routed);
            }
            if let Err(limit) = self.deliver(to, message) {
                self.end_stalled(to, limit);
            }
        } else {
            // As in dbus-daemon, monitors alone see what the driver says to one connection.
            self.eavesdrop(routed, None);
        }
    }

    pub(super) fn made_by_driver(&mut self, message: Builder<'_>) -> Rc<Message> {
        let serial = self.next_serial();
        let message = message.sender(DRIVER).flags(FLAG_NO_REPLY_EXPECTED);
        let bytes = message.build(serial).unwrap_or_else(|_| self.too_long(message));
        Rc::new(Message::new(bytes, Descriptors::default()))
    }

    /// That of the driver's next message.
    pub(super) fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.checked_add(1).unwrap_or(1);
        self.serial
    }

    /// In place of an answer that is too long because it repeats what its caller has sent, or lists too much.
    fn too_long(&self, answer: Builder<'_>) -> Vec<u8> {
        let short = answer.body(Body::default()).build(self.serial).expect("its header is short");
        let header = Header::parse(&short).expect("it was built here");
        let error = Builder::error(header.reply_serial.unwrap_or(1), error::LIMITS_EXCEEDED).sender(DRIVER);
        let error = error.destination(header.destination.unwrap_or(DRIVER)).flags(FLAG_NO_REPLY_EXPECTED);
        let error = error.body(Body::default().text("the reply would exceed the maximum message size"));
        error.build(self.serial).expect("it is short")
    }

    /// Answers a message with an error, unless its sender wants no answer.
    pub(crate) fn refuse(&mut self, to: MemberId, header: &Header<'_>, name: &str, why: &str) {
        let is_unwanted = header.kind == Kind::MethodCall && header.flags & FLAG_NO_REPLY_EXPECTED != 0;
        if !is_unwanted {
            self.send(to, Builder::error(header.serial, name).body(Body::default().text(why)));
        }
    }

    /// Says that the policy does not let a message pass. A reply that nobody waits for is dropped.
    pub(crate) fn deny(&mut self, from: MemberId, routed: RoutedMessage<'_>) {
        if routed.is_requested_reply || !is_reply(routed.header) {
            self.refuse(from, routed.header, error::ACCESS_DENIED, DENIED);
        }
    }

    /// May a member send this, to a member or to the driver or to all?
    pub(crate) fn may_send(&self, from: MemberId, to: Option<MemberId>, routed: RoutedMessage<'_>) -> bool {
        let Some(member) = self.members.get(&from) else { return false };
        let RoutedMessage { header, is_requested_reply, .. } = routed;
        let passing = Passing { header, is_requested_reply, is_eavesdropped: false };
        let destination = header.destination;
        member.rules.borrow().may_send(passing, &|pattern| match to {
            Some(to) => self.has_name(to, pattern),
            None => destination.is_some_and(|name| pattern.has(name)),
        })
    }

    fn may_receive(&self, to: MemberId, routed: RoutedMessage<'_>, is_eavesdropped: bool) -> bool {
        let Some(member) = self.members.get(&to) else { return false };
        let RoutedMessage { header, is_requested_reply, .. } = routed;
        let passing = Passing { header, is_requested_reply, is_eavesdropped };
        member.rules.borrow().may_receive(passing, &|pattern| match routed.from {
            Some(from) => self.has_name(from, pattern),
            None => pattern.has(DRIVER),
        })
    }

    /// Has a member, or does it wait for, one of these names?
    fn has_name(&self, id: MemberId, pattern: &NamePattern) -> bool {
        match pattern {
            NamePattern::Any => true,
            NamePattern::Exact(name) => {
                MemberId::from_unique_name(name) == Some(id) || self.names.is_in_queue(name, id)
            }
            NamePattern::Prefix(_) => {
                self.names.of(id).iter().any(|name| pattern.has(name)) || pattern.has(&id.unique_name())
            }
        }
    }
}
