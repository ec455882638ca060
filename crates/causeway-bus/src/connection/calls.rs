//! Calls and replies.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weighbridge_dbus::wire::{Body, Builder, FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Kind, names};

use super::message::body_of;
use super::{Call, Connection, Message, Pending, Reply, build, check};
use crate::authority::DRIVER;
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, AUTHORITY_ID, To};
use crate::shared::filter::unique_number;
use crate::shared::order::Statistic;

/// The bus itself.
const BUS: To = To::Peer { slot: AUTHORITY, id: AUTHORITY_ID };

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
        body: Body,
    ) -> Result<Reply> {
        let serial = self.start_call(destination, path, interface, member, body)?;
        self.finish_call(serial, self.options.call_timeout)
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

    /// Begins a call; returns its serial for [`Connection::finish_call`]. Several can be under way. Where no connection has the name,
    /// the bus gets the call: it may start a service that takes the name, and passes the call on then.
    ///
    /// # Errors
    /// As [`Connection::call`], as far as it is known at once.
    pub fn start_call(
        &mut self,
        destination: &str,
        path: &str,
        interface: &str,
        member: &str,
        body: Body,
    ) -> Result<u32> {
        self.send_call(0, destination, path, (interface, member), body)
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
        body: Body,
    ) -> Result<()> {
        self.send_call(FLAG_NO_REPLY_EXPECTED, destination, path, (interface, member), body).map(drop)
    }

    fn send_call(
        &mut self,
        flags: u8,
        destination: &str,
        path: &str,
        (interface, member): (&str, &str),
        body: Body,
    ) -> Result<u32> {
        check(path, names::is_path, "object path")?;
        check(interface, names::is_interface, "interface")?;
        check(member, names::is_member, "member")?;
        let flags = if self.options.auto_start { flags } else { flags | FLAG_NO_AUTO_START };
        let to = match self.resolve(destination) {
            // The bus decides: it may start a service, and knows connections that the directory does not show.
            Err(Error::Method { .. }) if self.options.auto_start => BUS,
            other => other?,
        };
        let serial = self.next_serial();
        let call = Builder::call(path, member).interface(interface).destination(destination).flags(flags);
        let bytes = build(call.sender(&self.name).body(body), serial)?;
        let expects_reply = flags & FLAG_NO_REPLY_EXPECTED == 0;
        if let (true, To::Peer { id, .. }) = (expects_reply, to) {
            // Before it is sent: the reply may come while this thread waits for space.
            let awaited = (to == BUS && destination != DRIVER).then(|| destination.into());
            self.pending.insert(serial, Pending { callee: id, awaited });
            self.show_pending();
        }
        if let Err(error) = self.send(to, &bytes) {
            self.drop_call(serial);
            return Err(error);
        }
        // If the callee has left meanwhile, its end stands in the log behind what this member has read, and ends the call.
        Ok(serial)
    }

    /// Waits for the reply to a call, at most for `timeout`.
    ///
    /// # Errors
    /// As [`Connection::call`]; [`Error::Invalid`] if no such call is under way.
    pub fn finish_call(&mut self, serial: u32, timeout: Duration) -> Result<Reply> {
        let end = Instant::now().checked_add(timeout);
        loop {
            if let Some(reply) = self.replies.remove(&serial) {
                return reply;
            }
            let Some(callee) = self.pending.get(&serial).map(|pending| pending.callee) else {
                return Err(Error::Invalid(format!("no call with serial {serial} is under way")));
            };
            // Others may send faster than this reads: the deadline holds all the same.
            if self.take_all()? > 0 && end.is_none_or(|end| Instant::now() < end) {
                continue;
            }
            if self.has_ended() && callee == AUTHORITY_ID {
                self.drop_call(serial);
                return Err(self.link.end());
            }
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
    pub fn reply(&mut self, call: &Call, body: Body) -> Result<()> {
        self.answer(call, Ok(body))
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
        outcome: std::result::Result<Body, (&str, &str)>,
    ) -> Result<()> {
        if call.bus_header().flags & FLAG_NO_REPLY_EXPECTED != 0 {
            return Ok(());
        }
        let answered = call.bus_header().serial;
        let caller = call.sender_id();
        // One that the directory does not show has left, or is a client that the bus knows.
        let to = self.resolve_id(caller).unwrap_or(BUS);
        let serial = self.next_serial();
        let destination = crate::authority::name_of(caller);
        let reply = match outcome {
            Ok(body) => Builder::reply(answered).body(body),
            Err((error, text)) => Builder::error(answered, error).body(Body::default().text(text)),
        };
        let bytes = build(reply.sender(&self.name).destination(&destination), serial)?;
        self.send(to, &bytes)
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

    /// Where messages for a name go, without a system call.
    pub(super) fn resolve(&mut self, name: &str) -> Result<To> {
        if name == DRIVER {
            return Ok(BUS);
        }
        check(name, names::is_bus_name, "bus name")?;
        let unknown = || Error::method(name::SERVICE_UNKNOWN, format!("no connection has the name {name}"));
        if let Some(id) = unique_number(name) {
            return self.resolve_id(id).map_err(|_| unknown());
        }
        let owner = self.port.directory().owner(name).ok_or_else(unknown)?;
        self.known.insert(owner.id, owner.peer);
        self.resolve_id(owner.id).map_err(|_| unknown())
    }

    pub(super) fn resolve_id(&mut self, id: u64) -> Result<To> {
        if id == AUTHORITY_ID {
            return Ok(BUS);
        }
        let directory = self.port.directory();
        let known = self.known.get(&id).copied().filter(|peer| directory.is_active(*peer, id));
        let Some(peer) = known.or_else(|| directory.find(id)) else {
            self.known.remove(&id);
            return Err(Error::method(name::SERVICE_UNKNOWN, "the connection is gone"));
        };
        let to = To::Peer { slot: directory.carrier(peer), id };
        self.known.insert(id, peer);
        Ok(to)
    }

    /// A reply counts only with the serial of a call that waits, from the one that was called, or from whom the bus has passed it on
    /// to. The bus itself says with an error that a call ends without a reply.
    pub(super) fn handle_reply(&mut self, message: Message) {
        let (serial, sender) = (message.bus_header().reply_serial, message.sender_id());
        let Some(pending) = self.pending.get(&serial) else { return };
        let is_refusal = sender == AUTHORITY_ID && message.bus_header().kind == Kind::Error.number();
        if pending.callee != sender && pending.awaited.is_none() && !is_refusal {
            return;
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

    pub(super) fn end_calls(&mut self, which: impl Fn(&Pending) -> bool, why: &str) {
        let ended: Vec<u32> =
            self.pending.iter().filter(|(_, pending)| which(pending)).map(|(serial, _)| *serial).collect();
        for serial in ended {
            self.pending.remove(&serial);
            self.delivered += 1;
            self.replies.insert(serial, Err(Error::method(name::NO_REPLY, why)));
        }
        self.show_pending();
    }
}
