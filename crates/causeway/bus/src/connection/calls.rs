//! Calls and replies.

use std::os::fd::OwnedFd;
use std::time::Duration;

use causeway_dbus_wire::wire::{Arg, Body, Builder, FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Kind, names};
use causeway_os::clock;

use super::pending::Pending;
#[cfg(feature = "tokio")]
use super::sending::Outgoing;
use super::sending::{Built, check};
use super::serving::Refusal;
use super::sleep::{end_after, has_passed};
use super::{Call, Connection, Message, Reply};
use crate::authority::{DRIVER, DRIVER_PATH, name_of};
use crate::content::Payload;
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, AUTHORITY_ID, To};
use crate::shared::unique_name::unique_number;

/// What a call goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callee<'a> {
    pub destination: &'a str,
    pub path: &'a str,
    pub interface: &'a str,
    pub member: &'a str,
}

impl<'a> Callee<'a> {
    pub fn driver(member: &'a str) -> Callee<'a> {
        Callee { destination: DRIVER, path: DRIVER_PATH, interface: DRIVER, member }
    }
}

/// How a call is answered.
type Outcome = std::result::Result<Payload, Refusal>;

impl Connection {
    /// Calls a method and waits for the reply.
    ///
    /// # Errors
    /// [`Error::Method`]: the callee answered with an error; `ServiceUnknown` if no connection has the name and no service provides it;
    /// `NoReply` after the timeout, or at once when the callee is gone. Otherwise the bus or this connection has ended.
    pub fn call(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<Reply> {
        self.call_and_wait(&Callee { destination, path, interface, member }, body.into())
    }

    #[inline]
    pub(super) fn call_and_wait(&mut self, callee: &Callee<'_>, payload: Payload) -> Result<Reply> {
        let serial = self.send_call(0, callee, payload)?;
        self.await_reply(serial, Some(self.port.sent_ns()), self.options.call_timeout)
    }

    /// Begins a call; returns its serial for [`Connection::finish_call`]. Several can be under way. Where no connection
    /// has the name, the bus gets the call: it may start a service that takes the name, and passes the call on then.
    pub fn start_call(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<u32> {
        self.send_call(0, &Callee { destination, path, interface, member }, body.into())
    }

    /// Calls a method and wants no reply.
    pub fn call_without_reply(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<()> {
        let callee = Callee { destination, path, interface, member };
        self.send_call(FLAG_NO_REPLY_EXPECTED, &callee, body.into()).map(drop)
    }

    fn send_call(
        &mut self,
        flags: u8,
        callee: &Callee<'_>,
        Payload { body, descriptors }: Payload,
    ) -> Result<u32> {
        let call = self.build_call(flags, callee, body, descriptors.len())?;
        if let Err(error) = self.send_built(call, descriptors) {
            self.drop_call(call.serial);
            return Err(error);
        }
        // If the callee has left meanwhile, its end stands in the log behind what this member has read, and ends the
        // call.
        Ok(call.serial)
    }

    /// A call, ready to be sent. Its reply, if it wants one, is waited for from here on, until
    /// [`Connection::drop_call`].
    #[cfg(feature = "tokio")]
    pub(crate) fn prepare_call(
        &mut self,
        flags: u8,
        callee: &Callee<'_>,
        Payload { body, descriptors }: Payload,
    ) -> Result<Outgoing> {
        let call = self.build_call(flags, callee, body, descriptors.len())?;
        Ok(self.writer.take(call, descriptors))
    }

    /// The flags of each call of this connection.
    #[inline]
    pub(super) fn call_flags(&self) -> u8 {
        if self.options.auto_start { 0 } else { FLAG_NO_AUTO_START }
    }

    #[inline]
    fn build_call(
        &mut self,
        flags: u8,
        &Callee { destination, path, interface, member }: &Callee<'_>,
        body: Body,
        descriptors: usize,
    ) -> Result<Built> {
        let flags = flags | self.call_flags();
        let to = self.resolve_call(destination, flags)?;
        let expects_reply = flags & FLAG_NO_REPLY_EXPECTED == 0;
        if expects_reply {
            self.check_pending()?;
        }
        let serial = self.next_serial();
        let call = Builder::call(path, member).interface(interface).destination(destination).flags(flags);
        let call = call.sender(&self.name).unix_fds(descriptors as u32).body(body);
        let built = self.writer.build(to, &call, serial)?;
        call.recycle();
        if expects_reply {
            // Before it is sent: the reply may come while this thread waits for space.
            self.expect_reply(serial, to, destination);
        }
        Ok(built)
    }

    /// The reply to the message with this serial counts if it comes from where that message goes.
    pub(super) fn expect_reply(&mut self, serial: u32, to: To, destination: &str) {
        if let To::Peer { id, .. } = to {
            self.pending.insert(serial, Pending::new(id, destination));
            self.publish_pending();
        }
    }

    /// Fails if as many calls are under way as may be; replies that nobody has asked for yet count, too.
    pub(super) fn check_pending(&self) -> Result<()> {
        let (open, most) = (self.pending.len() + self.replies.len(), self.options.pending_calls);
        if open < most {
            return Ok(());
        }
        Err(Error::method(
            name::LIMITS_EXCEEDED,
            format!(
                "too many pending calls: this connection has {open} of at most {most} (ConnectionOptions::pending_calls)"
            ),
        ))
    }

    /// Waits for the reply to a call, at most for `timeout`; [`Error::Invalid`] if no such call is under way.
    pub fn finish_call(&mut self, serial: u32, timeout: Duration) -> Result<Reply> {
        self.await_reply(serial, None, timeout)
    }

    /// Waits from this moment on; without one from when the reply is found not to be there, so that no clock is read
    /// for one that is.
    fn await_reply(&mut self, serial: u32, start_ns: Option<u64>, timeout: Duration) -> Result<Reply> {
        let mut end = start_ns.map(|start_ns| end_after(start_ns, timeout));
        loop {
            if let Some(reply) = self.replies.remove(serial) {
                return reply.and_then(outcome);
            }
            let Some(callee) = self.pending.get(serial).map(|pending| pending.callee) else {
                return Err(Error::Invalid(format!("no pending call has serial {serial}")));
            };
            let has_read = self.drain(usize::MAX)? > 0;
            if has_read && self.replies.get(serial).is_some() {
                continue;
            }
            let end = *end.get_or_insert_with(|| end_after(clock::monotonic_ns(), timeout));
            // Others may send faster than this reads: the deadline holds all the same.
            if has_read && !has_passed(end) {
                continue;
            }
            if self.has_ended() && self.needs_authority(callee) {
                self.drop_call(serial);
                return Err(self.link.end());
            }
            if self.has_refusals() {
                self.answer_undeliverable()?;
                // It may have taken the reply.
                continue;
            }
            if !self.sleep_until(end)? {
                self.drop_call(serial);
                return Err(Error::timed_out(timeout));
            }
        }
    }

    /// Is there no reply of this connection without the authority? It carries the bus and clients, and hands out new
    /// outboxes.
    pub(super) fn needs_authority(&self, id: u64) -> bool {
        let directory = self.port.directory();
        let carrier = directory.find(id).and_then(|peer| directory.active_carrier(peer, id));
        carrier.is_none_or(|slot| slot == AUTHORITY || !self.port.exchanges_with(slot, id))
    }

    /// Is the reply there already, so that [`Connection::finish_call`] does not wait?
    pub fn is_finished(&mut self, serial: u32) -> Result<bool> {
        self.drain(usize::MAX)?;
        Ok(self.replies.get(serial).is_some() || self.pending.get(serial).is_none())
    }

    /// Forgets a call: its reply is nobody's.
    pub(crate) fn drop_call(&mut self, serial: u32) {
        self.pending.remove(serial);
        self.replies.remove(serial);
        self.publish_pending();
    }

    /// Answers a call. A caller that is gone is not an error. The answer to a `Set` of a property that the library
    /// keeps ([`Connection::set_property`]) changes that property.
    pub fn reply(&mut self, call: &Call, body: impl Into<Payload>) -> Result<()> {
        if let Some(changed) = self.apply_set(call)? {
            self.send(changed)?;
        }
        self.answer(call, Ok(body.into()))
    }

    /// Answers a call with an error of a valid name. Where this library can answer what is refused with `UnknownMethod`
    /// it does: `Ping` and `GetMachineId` of `org.freedesktop.DBus.Peer`, `Introspect` as for [`Connection::serve`].
    pub fn reply_error(&mut self, call: &Call, error: &str, text: &str) -> Result<()> {
        self.answer(call, Err(Refusal::new(error, text)))
    }

    #[inline]
    pub(super) fn answer(&mut self, call: &Call, answer: Outcome) -> Result<()> {
        match self.build_answer(call, answer)? {
            Some((answer, descriptors)) => self.send_built(answer, descriptors),
            None => Ok(()),
        }
    }

    /// An answer, ready to be sent; `None` if the caller wants none or is gone.
    #[cfg(feature = "tokio")]
    pub(crate) fn prepare_answer(&mut self, call: &Call, answer: Outcome) -> Result<Option<Outgoing>> {
        let built = self.build_answer(call, answer)?;
        Ok(built.map(|(answer, descriptors)| self.writer.take(answer, descriptors)))
    }

    #[inline]
    fn build_answer(&mut self, call: &Call, answer: Outcome) -> Result<Option<(Built, Vec<OwnedFd>)>> {
        if let Err(Refusal { name, .. }) = &answer {
            check(name, names::is_interface, "error name")?;
        }
        if call.bus_header().flags & FLAG_NO_REPLY_EXPECTED != 0 {
            return Ok(None);
        }
        let answered = call.bus_header().serial;
        // Its header, which was checked, has the name that goes with the number.
        let mut caller = std::mem::take(&mut self.answered);
        if caller.0 != call.sender_id() {
            caller = (call.sender_id(), name_of(call.sender_id()));
        }
        let to = self.find_sender(call, &caller.1);
        let serial = self.next_serial();
        let refusal;
        let (reply, descriptors) = match answer {
            Ok(Payload { body, descriptors }) => (Builder::reply(answered).body(body), descriptors),
            Err(error) => {
                refusal = error;
                let Refusal { name, text } = &refusal;
                let is_unknown = name == name::UNKNOWN_METHOD;
                let reply = match is_unknown.then(|| self.answer_to_refused(call)).flatten() {
                    Some(body) => Builder::reply(answered).body(body),
                    None => Builder::error(answered, name).body(Body::default().text(text)),
                };
                (reply, Vec::new())
            }
        };
        let reply = reply.destination(&caller.1).sender(&self.name).unix_fds(descriptors.len() as u32);
        let built = self.writer.build(to, &reply, serial);
        reply.recycle();
        self.answered = caller;
        Ok(Some((built?, descriptors)))
    }

    /// Shows the authority whose end ends a call of this connection.
    pub(super) fn publish_pending(&self) {
        let (order, slot) = (self.port.order(), self.port.slot());
        order.show_calls(slot, self.pending.awaited(), self.pending.len() as u64);
    }

    /// A reply counts only with the serial of a call that waits, from the one that was called, or from whom the bus has
    /// passed it on to. The bus itself says with an error that a call ends without a reply.
    pub(super) fn handle_reply(&mut self, message: Message) {
        let (serial, sender) = (message.bus_header().reply_serial, message.sender_id());
        let Some(pending) = self.pending.get(serial) else { return };
        let is_refusal = sender == AUTHORITY_ID && message.bus_header().kind == Kind::Error.number();
        if pending.callee != sender && !pending.is_passed_on && !is_refusal {
            return;
        }
        self.pending.remove(serial);
        self.publish_pending();
        match self.raw.remove(serial) {
            Some(call) => self.put_reply(call, message),
            None => self.keep_reply(serial, Ok(message)),
        }
    }

    #[inline]
    fn keep_reply(&mut self, serial: u32, reply: Result<Message>) {
        self.delivered += 1;
        self.replies.insert(serial, reply);
    }

    /// Ends a call of the one that was called, because its reply cannot be had.
    pub(super) fn fail_call(&mut self, serial: u32, callee: u64, why: &str) {
        if self.pending.get(serial).is_some_and(|pending| pending.callee == callee || pending.is_passed_on) {
            self.end_call(serial, name::LIMITS_EXCEEDED, why, self.port.cursor());
            self.publish_pending();
        }
    }

    /// The bus says to which member it passes a call on, before that member gets it.
    pub(super) fn follow_call(&mut self, message: &Message) {
        let [Arg::U32(serial), Arg::Text(callee)] = message.rule_args()[..] else { return };
        if let (Some(_), Some(callee)) = (self.pending.get(serial), unique_number(callee)) {
            self.pending.insert(serial, Pending { callee, is_passed_on: false });
            self.publish_pending();
        }
    }

    /// A member says that it cannot read what this one sends: it answers no call.
    pub(super) fn end_unread_calls(&mut self, callee: u64, position: u64) {
        self.port.note_cannot_read_us(callee);
        let why = "the callee cannot read the call, because the process that serves the bus is gone";
        self.end_calls(|pending| pending.callee == callee, why, position);
    }

    pub(super) fn end_calls(&mut self, which: impl Fn(&Pending) -> bool, why: &str, position: u64) {
        for serial in self.pending.serials(which) {
            self.end_call(serial, name::NO_REPLY, why, position);
        }
        self.publish_pending();
    }

    /// Ends a call without a reply, as of this position in the log.
    fn end_call(&mut self, serial: u32, error: &str, why: &str, position: u64) {
        self.pending.remove(serial);
        match self.raw.remove(serial) {
            Some(call) => self.put_error(call, serial, error, why, position),
            None => self.keep_reply(serial, Err(Error::method(error, why))),
        }
    }
}

/// What an answer means to the caller: an error is one.
pub(crate) fn outcome(answer: Message) -> Result<Reply> {
    if answer.bus_header().kind != Kind::Error.number() {
        return Ok(answer);
    }
    let name = answer.header().error_name.unwrap_or_default();
    Err(Error::method(name, answer.text().unwrap_or_default()))
}
