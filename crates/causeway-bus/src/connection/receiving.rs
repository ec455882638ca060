//! What comes: read from the bus, sorted into replies, calls and signals, and handed to the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_os::clock;
use weighbridge_dbus::wire::{Body, Kind};

use super::sleep::end_after;
use super::{Call, Connection, Incoming, Message};
use crate::error::{Error, Result};
use crate::port::{AUTHORITY_ID, Received};

impl Connection {
    /// What comes next, at most after `timeout` (`None`: however long it takes); `Ok(None)` when the time is over.
    ///
    /// # Errors
    /// The bus or this connection has ended.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Incoming>> {
        let end = timeout.and_then(|timeout| end_after(clock::monotonic_ns(), timeout));
        loop {
            if let Some(incoming) = self.next_now()? {
                return Ok(Some(incoming));
            }
            if !self.sleep_until(end)? {
                return Ok(None);
            }
        }
    }

    /// What is there already. For event loops: see [`Connection::as_fd`](AsFd::as_fd).
    ///
    /// # Errors
    /// As [`Connection::next`].
    pub fn next_now(&mut self) -> Result<Option<Incoming>> {
        self.disarm();
        if self.inbox.is_empty() {
            self.take_all()?;
            self.answer_undeliverable()?;
        }
        if self.inbox.is_empty() && self.has_ended() && !self.has_told_end {
            self.has_told_end = true;
            return match self.link.end() {
                Error::AuthorityGone => Ok(Some(Incoming::AuthorityGone)),
                why => Err(why),
            };
        }
        let incoming = self.inbox.pop_front();
        if let Some(message) = incoming.as_ref().and_then(Incoming::message) {
            self.inbox_bytes -= message.bytes().len();
        }
        Ok(incoming)
    }

    /// Answers calls, with what `handle` returns for each, until `stop` is set, which is looked at after each message. Signals
    /// are discarded. `org.freedesktop.DBus.Peer.Ping` is answered here.
    ///
    /// # Errors
    /// The bus or this connection has ended. An error of `handle` is the caller's reply.
    pub fn serve(
        &mut self,
        stop: &AtomicBool,
        mut handle: impl FnMut(&Call) -> std::result::Result<Body, (String, String)>,
    ) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            match self.next(None)? {
                Some(Incoming::Call(call)) => {
                    let header = call.header();
                    if (header.interface, header.member) == (Some("org.freedesktop.DBus.Peer"), Some("Ping"))
                    {
                        self.reply(&call, Body::default())?;
                        continue;
                    }
                    match handle(&call) {
                        Ok(body) => self.reply(&call, body)?,
                        Err((name, text)) => self.reply_error(&call, &name, &text)?,
                    }
                }
                Some(Incoming::AuthorityGone) => return Err(Error::AuthorityGone),
                Some(Incoming::Signal(_) | Incoming::Reply(_)) | None => {}
            }
        }
        Ok(())
    }

    /// Takes all that is there; returns how much.
    pub(super) fn take_all(&mut self) -> Result<usize> {
        let mut count = 0;
        while let Some(received) = self.port.next(&mut self.link)? {
            self.handle(received);
            count += 1;
            if self.inbox_bytes > self.options.inbox_bytes && self.inbox.len() > 1 {
                let bytes = self.options.inbox_bytes;
                let slot = self.port.slot();
                self.port.evict(&mut self.link, slot);
                return Err(Error::Disconnected(format!(
                    "more than {bytes} bytes of messages were not taken"
                )));
            }
        }
        Ok(count)
    }

    fn handle(&mut self, received: Received) {
        let to_us = received.header.destination == self.port.id();
        if received.header.destination != 0 && !to_us {
            // For a member that had this slot before.
            return;
        }
        let received = match received.header.token {
            0 => Some(received),
            _ => self.complete(received),
        };
        let message = received.and_then(|received| Message::checked_with(&mut self.headers, received));
        let Some(message) = message else { return };
        const CALL: u8 = Kind::MethodCall.number();
        const RETURN: u8 = Kind::MethodReturn.number();
        const ERROR: u8 = Kind::Error.number();
        const SIGNAL: u8 = Kind::Signal.number();
        match message.bus_header().kind {
            RETURN | ERROR if to_us => self.handle_reply(message),
            CALL if to_us => self.put(Incoming::Call(Call(message))),
            SIGNAL => {
                let is_of_bus = message.sender_id() == AUTHORITY_ID;
                if is_of_bus && message.header().member == Some("NameOwnerChanged") {
                    self.follow_owner(&message);
                }
                if to_us || self.wants(&message) {
                    self.put(Incoming::Signal(message));
                }
            }
            _ => {}
        }
    }

    pub(super) fn put(&mut self, incoming: Incoming) {
        if let Some(message) = incoming.message() {
            self.inbox_bytes += message.bytes().len();
        }
        self.delivered += 1;
        self.inbox.push_back(incoming);
    }
}
