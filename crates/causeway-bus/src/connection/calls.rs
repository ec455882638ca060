//! Calls and replies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use causeway_os::clock;
use weighbridge_dbus::wire::{Body, Builder, FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Kind, names};

use super::message::body_of;
use super::sending::check;
use super::sleep::{end_after, has_passed};
use super::{Call, Connection, Message, Pending, Reply};
use crate::content::Payload;
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY_ID, To};
use crate::shared::order::Statistic;

impl Connection {
    /// Calls a method and waits for the reply.
    ///
    /// # Errors
    /// [`Error::Method`]: the callee answered with an error; `ServiceUnknown` if nobody has the name; `NoReply` after the
    /// timeout, or at once when the callee is gone. Otherwise the bus or this connection has ended.
    pub fn call(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<Reply> {
        let serial = self.start_call(destination, path, interface, member, body)?;
        self.await_reply(serial, self.port.sent_ns(), self.options.call_timeout)
    }

    /// Calls a method with arguments that were marshalled elsewhere, in the byte order of this machine.
    ///
    /// # Errors
    /// As [`Connection::call`]; [`Error::Invalid`] for a signature that is none.
    pub fn call_marshalled(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        (signature, body): (&str, &[u8]),
    ) -> Result<Reply> {
        self.call(destination, path, interface, member, body_of(signature, body)?)
    }

    /// Begins a call; returns its serial for [`Connection::finish_call`]. Several can be under way.
    ///
    /// # Errors
    /// As [`Connection::call`], as far as it is known at once.
    pub fn start_call(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<u32> {
        self.send_call(FLAG_NO_AUTO_START, destination, path, (interface, member), body.into())
    }

    /// Calls a method and wants no reply.
    ///
    /// # Errors
    /// As [`Connection::start_call`].
    pub fn call_without_reply(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: impl Into<Payload>,
    ) -> Result<()> {
        let flags = FLAG_NO_REPLY_EXPECTED | FLAG_NO_AUTO_START;
        self.send_call(flags, destination, path, (interface, member), body.into()).map(drop)
    }

    fn send_call(
        &mut self,
        flags: u8,
        destination: &str,
        path: &str,
        (interface, member): (&str, &str),
        Payload { body, descriptors }: Payload,
    ) -> Result<u32> {
        check(path, names::is_path, "object path")?;
        check(interface, names::is_interface, "interface")?;
        check(member, names::is_member, "member")?;
        let to = self.resolve(destination)?;
        let expects_reply = flags & FLAG_NO_REPLY_EXPECTED == 0;
        if expects_reply {
            self.check_pending()?;
        }
        let serial = self.next_serial();
        let call = Builder::call(path, member).interface(interface).destination(destination).flags(flags);
        let name = Arc::clone(&self.name);
        let call = call.sender(&name).unix_fds(descriptors.len() as u32).body(body);
        if let (true, To::Peer { id, .. }) = (expects_reply, to) {
            // Before it is sent: the reply may come while this thread waits for space.
            self.pending.insert(serial, Pending { callee: id });
            self.show_pending();
        }
        if let Err(error) = self.build_and_send(to, &call, serial, &descriptors) {
            self.drop_call(serial);
            return Err(error);
        }
        // If the callee has left meanwhile, its end stands in the log behind what this member has read, and ends the call.
        Ok(serial)
    }

    /// Fails if as many calls are under way as may be; replies that nobody has asked for yet count, too.
    fn check_pending(&self) -> Result<()> {
        let (open, most) = (self.pending.len() + self.replies.len(), self.options.pending_calls);
        if open < most {
            return Ok(());
        }
        Err(Error::method(name::LIMITS_EXCEEDED, format!("{open} calls are under way, {most} may be")))
    }

    /// Waits for the reply to a call, at most for `timeout`.
    ///
    /// # Errors
    /// As [`Connection::call`]; [`Error::Invalid`] if no such call is under way.
    pub fn finish_call(&mut self, serial: u32, timeout: Duration) -> Result<Reply> {
        self.await_reply(serial, clock::monotonic_ns(), timeout)
    }

    fn await_reply(&mut self, serial: u32, start_ns: u64, timeout: Duration) -> Result<Reply> {
        let end = end_after(start_ns, timeout);
        loop {
            if let Some(reply) = self.replies.remove(&serial) {
                return reply;
            }
            let Some(pending) = self.pending.get(&serial).copied() else {
                return Err(Error::Invalid(format!("no call with serial {serial} is under way")));
            };
            // Others may send faster than this reads: the deadline holds all the same.
            if self.take_all()? > 0 && (self.replies.contains_key(&serial) || !has_passed(end)) {
                continue;
            }
            if self.has_ended() && pending.callee == AUTHORITY_ID {
                self.drop_call(serial);
                return Err(self.link.end());
            }
            self.answer_undeliverable()?;
            if !self.sleep_until(end)? {
                self.drop_call(serial);
                let text = format!("no reply within {timeout:?}");
                return Err(Error::method(name::NO_REPLY, text));
            }
        }
    }

    /// Is the reply there already, so that [`Connection::finish_call`] does not wait?
    ///
    /// # Errors
    /// The bus or this connection has ended.
    pub fn is_finished(&mut self, serial: u32) -> Result<bool> {
        self.take_all()?;
        Ok(self.replies.contains_key(&serial) || !self.pending.contains_key(&serial))
    }

    pub(super) fn drop_call(&mut self, serial: u32) {
        self.pending.remove(&serial);
        self.show_pending();
    }

    /// Answers a call.
    ///
    /// # Errors
    /// The bus or this connection has ended. A caller that is gone is no error.
    pub fn reply(&mut self, call: &Call, body: impl Into<Payload>) -> Result<()> {
        self.answer(call, Ok(body.into()))
    }

    /// Answers a call with an error.
    ///
    /// # Errors
    /// As [`Connection::reply`]; [`Error::Invalid`] for what is no error name.
    pub fn reply_error(&mut self, call: &Call, error: &str, text: &str) -> Result<()> {
        check(error, names::is_interface, "error name")?;
        self.answer(call, Err((error, text)))
    }

    pub(super) fn answer(
        &mut self,
        call: &Call,
        outcome: std::result::Result<Payload, (&str, &str)>,
    ) -> Result<()> {
        if call.bus_header().flags & FLAG_NO_REPLY_EXPECTED != 0 {
            return Ok(());
        }
        let answered = call.bus_header().serial;
        let caller = call.sender_id();
        let Ok(to) = self.resolve_id(caller) else { return Ok(()) };
        let serial = self.next_serial();
        let (reply, descriptors) = match outcome {
            Ok(Payload { body, descriptors }) => (Builder::reply(answered).body(body), descriptors),
            Err((error, text)) => {
                (Builder::error(answered, error).body(Body::default().text(text)), Vec::new())
            }
        };
        let reply = reply.unix_fds(descriptors.len() as u32);
        let name = Arc::clone(&self.name);
        self.build_and_send(to, &reply.sender(&name).destination(call.sender_name()), serial, &descriptors)
    }

    /// Shows the authority whose end ends a call of this connection.
    pub(super) fn show_pending(&self) {
        let order = self.port.order();
        let mut callees = self.pending.values().map(|pending| pending.callee);
        let shown = match (callees.next(), callees.next()) {
            (None, _) => 0,
            (Some(one), None) => one,
            _ => u64::MAX,
        };
        order.waiting_for(self.port.slot()).store(shown, Ordering::Release);
        let open = order.statistic(self.port.slot(), Statistic::CallsOpen);
        order.count(self.port.slot(), Statistic::CallsOpen, (self.pending.len() as u64).wrapping_sub(open));
    }

    /// A reply counts only with the serial of a call that waits, from the one that was called.
    pub(super) fn handle_reply(&mut self, message: Message) {
        let serial = message.bus_header().reply_serial;
        if self.pending.get(&serial).is_none_or(|pending| pending.callee != message.sender_id()) {
            return;
        }
        if let Some(change) = self.raw.remove(&serial) {
            self.pending.remove(&serial);
            self.show_pending();
            return self.put_reply(&change, message);
        }
        let reply = match message.bus_header().kind == Kind::Error.number() {
            true => {
                let name = message.header().error_name.unwrap_or_default();
                Err(Error::method(name, message.text().unwrap_or_default()))
            }
            false => Ok(message),
        };
        self.pending.remove(&serial);
        self.show_pending();
        self.delivered += 1;
        self.replies.insert(serial, reply);
    }

    /// Ends a call of the one that was called, because its reply cannot be had.
    pub(super) fn fail_call(&mut self, serial: u32, callee: u64, error: Error) {
        if self.pending.get(&serial).is_some_and(|pending| pending.callee == callee) {
            self.pending.remove(&serial);
            self.show_pending();
            if self.raw.remove(&serial).is_some() {
                let position = self.port.cursor();
                return self.put_error(
                    serial,
                    error.name().unwrap_or(name::NO_REPLY),
                    &error.to_string(),
                    position,
                );
            }
            self.delivered += 1;
            self.replies.insert(serial, Err(error));
        }
    }

    pub(super) fn end_calls(&mut self, which: impl Fn(&Pending) -> bool, why: &str, position: u64) {
        let ended: Vec<u32> =
            self.pending.iter().filter(|(_, pending)| which(pending)).map(|(serial, _)| *serial).collect();
        for serial in ended {
            self.pending.remove(&serial);
            if self.raw.remove(&serial).is_some() {
                self.put_error(serial, name::NO_REPLY, why, position);
                continue;
            }
            self.delivered += 1;
            self.replies.insert(serial, Err(Error::method(name::NO_REPLY, why)));
        }
        self.show_pending();
    }
}
