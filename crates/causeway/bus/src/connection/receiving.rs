//! What comes: read from the bus, sorted into replies, calls and signals, and handed to the program.

use std::time::Duration;

use causeway_dbus_wire::wire::Kind;
use causeway_os::clock;

use super::sleep::end_after;
use super::{Call, Connection, Incoming, Message};
use crate::authority::{BUS_INTERFACE, PASSED_ON, UNREAD};
use crate::error::{Error, Result};
use crate::port::AUTHORITY_ID;
#[cfg(feature = "tokio")]
use crate::port::To;

/// Messages that are taken from the log at once, at most.
const TAKEN_AT_ONCE: usize = 256;
/// While so many bytes wait for the program, no more are taken from the log than the program takes: senders then wait
/// for it.
const AHEAD_BYTES: usize = 8 << 20;

impl Connection {
    /// What comes next, at most after `timeout` (`None`: however long it takes); `Ok(None)` when the time is over.
    ///
    /// # Errors
    /// The connection has ended: this member was evicted, an entry of the log makes no sense, or more waits here than
    /// [`inbox_bytes`](crate::ConnectionOptions::inbox_bytes).
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Incoming>> {
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            // No polling for what comes soon, and no sleep.
            return self.next_now();
        }
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

    /// What is there already. For event loops: see [`Connection::as_fd`](std::os::fd::AsFd::as_fd).
    ///
    /// Each call also drains the log, up to 8 MiB that the program has not taken yet: nobody
    /// waits for a program that comes back, however long it works on what it has.
    ///
    /// # Errors
    /// As [`Connection::next`].
    pub fn next_now(&mut self) -> Result<Option<Incoming>> {
        self.disarm();
        let ahead_bytes = AHEAD_BYTES.min(self.options.inbox_bytes).max(1);
        if self.inbox.is_empty() {
            self.drain(ahead_bytes)?;
            if self.has_refusals() {
                self.answer_undeliverable()?;
            }
        } else if self.port.has_entry() {
            // What could not be read is still there, and its error comes once the program has what came before it.
            let _ = self.drain(ahead_bytes);
        }
        match self.take_from_inbox() {
            Some(incoming) => Ok(Some(incoming)),
            None => self.take_end(),
        }
    }

    fn take_from_inbox(&mut self) -> Option<Incoming> {
        let incoming = self.inbox.pop_front();
        if let Some(message) = incoming.as_ref().and_then(Incoming::message) {
            self.inbox_bytes -= message.bytes().len();
        }
        incoming
    }

    /// The end of the authority or of this connection, if it was not told yet.
    fn take_end(&mut self) -> Result<Option<Incoming>> {
        if !self.has_ended() || self.has_told_end {
            return Ok(None);
        }
        (self.has_told_end, self.has_noticed_end) = (true, true);
        match self.link.end() {
            Error::AuthorityGone => Ok(Some(Incoming::AuthorityGone)),
            why => Err(why),
        }
    }

    /// Takes what is there: some hundred messages at most, and none while `ahead_bytes` wait for the program. Returns
    /// how many.
    pub(super) fn drain(&mut self, ahead_bytes: usize) -> Result<usize> {
        let mut count = 0;
        while count < TAKEN_AT_ONCE && self.inbox_bytes < ahead_bytes {
            // Whether this member is on a whole bus is asked where the log is empty at once.
            let is_there =
                if count == 0 { self.port.find_entry(&mut self.link)? } else { self.port.has_entry() };
            if !is_there {
                break;
            }
            let mut message = Message::unread();
            if !self.port.next(&mut self.link, message.place())? {
                break;
            }
            self.check_inbox(self.inbox_bytes)?;
            self.handle(message);
            count += 1;
        }
        if self.port.has_missed_bus {
            self.catch_up();
        }
        if self.may_miss_ends {
            self.end_missed_calls();
        }
        // Nobody can know when this thread comes back.
        self.port.publish_cursor();
        Ok(count)
    }

    /// Ends this connection if the program leaves more bytes of messages than it may, when one more comes: that may
    /// have any length.
    #[inline]
    pub(crate) fn check_inbox(&mut self, bytes: usize) -> Result<()> {
        if bytes <= self.options.inbox_bytes { Ok(()) } else { Err(self.end_by_inbox(bytes)) }
    }

    #[cold]
    fn end_by_inbox(&mut self, bytes: usize) -> Error {
        let most = self.options.inbox_bytes;
        let slot = self.port.slot();
        self.port.evict(&mut self.link, slot);
        let why = format!(
            "more than {most} bytes of messages wait unread, {bytes} (ConnectionOptions::inbox_bytes)"
        );
        Error::Disconnected(why)
    }

    /// Handles a message that was read.
    #[inline]
    fn handle(&mut self, mut message: Message) {
        if self.port.has_missed_bus {
            self.catch_up();
        }
        let received = message.place();
        let to_us = received.header.destination == self.port.id();
        if received.header.destination != 0 && !to_us {
            // For a member that had this slot before.
            return;
        }
        if received.header.token != 0 && !self.complete(received) {
            return;
        }
        let Some(place) = message.check(&mut self.headers) else { return };
        const CALL: u8 = Kind::MethodCall.number();
        const RETURN: u8 = Kind::MethodReturn.number();
        const ERROR: u8 = Kind::Error.number();
        const SIGNAL: u8 = Kind::Signal.number();
        match message.bus_header().kind {
            RETURN | ERROR if to_us => self.handle_reply(message),
            CALL if to_us => self.put(Incoming::Call(Call(message))),
            SIGNAL => {
                let is_of_bus = message.sender_id() == AUTHORITY_ID;
                if (to_us || is_of_bus) && self.follow(&message, to_us, is_of_bus) {
                    return;
                }
                if to_us || self.wants(&message, place) {
                    self.put(Incoming::Signal(message));
                }
            }
            _ => {}
        }
    }

    /// Follows what a signal says of the bus. Is it for this library alone?
    #[inline(never)]
    fn follow(&mut self, signal: &Message, to_us: bool, is_of_bus: bool) -> bool {
        if to_us && signal.interface() == Some(BUS_INTERFACE) {
            match (signal.member(), is_of_bus) {
                (Some(PASSED_ON), true) => {
                    self.follow_call(signal);
                    return true;
                }
                (Some(UNREAD), false) => {
                    self.end_unread_calls(signal.sender_id(), signal.position());
                    return true;
                }
                _ => {}
            }
        }
        if is_of_bus && signal.member() == Some("NameOwnerChanged") {
            self.follow_owner(signal);
        }
        false
    }

    pub(super) fn put(&mut self, incoming: Incoming) {
        if let Some(message) = incoming.message() {
            self.inbox_bytes += message.bytes().len();
        }
        self.delivered += 1;
        self.inbox.push_back(incoming);
    }
}

/// For the tasks of a runtime, which take one message after the other.
#[cfg(feature = "tokio")]
impl Connection {
    pub(crate) fn call_timeout(&self) -> Duration {
        self.options.call_timeout
    }

    /// The next thing, in the order of the bus. It does not end an announced sleep: one that is over already costs an
    /// empty wake-up.
    pub(crate) fn take_next(&mut self) -> Result<Option<Taken>> {
        loop {
            if let Some(incoming) = self.take_from_inbox() {
                return Ok(Some(Taken::Incoming(incoming)));
            }
            let answered = self.replies.iter().next().map(|(serial, _)| serial);
            if let Some(serial) = answered {
                return Ok(self.replies.remove(serial).map(|answer| Taken::Answer(serial, answer)));
            }
            if let Some(refusal) = self.prepare_refusal()? {
                return Ok(Some(Taken::Refusal(refusal)));
            }
            let mut message = Message::unread();
            if self.port.next(&mut self.link, message.place())? {
                self.handle(message);
            } else if self.port.has_missed_bus {
                self.catch_up();
            } else if self.may_miss_ends && !self.port.has_entry() {
                self.end_missed_calls();
            } else {
                return Ok(self.take_end()?.map(Taken::Incoming));
            }
        }
    }

    /// Fails for a call that nobody will answer, because the authority is gone.
    pub(crate) fn check_callee(&mut self, to: To) -> Result<()> {
        match to {
            To::Peer { id, .. } if self.has_ended() && self.needs_authority(id) => Err(self.link.end()),
            _ => Ok(()),
        }
    }

    /// Serials of the calls whose answers only the authority can bring.
    pub(crate) fn calls_of_the_bus(&self) -> Vec<u32> {
        self.pending.serials(|pending| self.needs_authority(pending.callee))
    }
}

#[cfg(feature = "tokio")]
#[derive(Debug)]
pub(crate) enum Taken {
    /// A call, a signal, or the end of the authority.
    Incoming(Incoming),
    /// The end of the call with this serial: a reply or an error reply, or neither.
    Answer(u32, Result<Message>),
    /// The answer to a call that could not be delivered, which is to be sent.
    Refusal(super::Outgoing),
}
