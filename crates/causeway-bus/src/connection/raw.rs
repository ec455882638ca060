//! Whole messages, for programs that build and read messages themselves: other libraries, and tools that play or examine traffic.

use std::os::fd::OwnedFd;
use std::time::Duration;

use weighbridge_dbus::rule::MatchRule;
use weighbridge_dbus::wire::{
    Arg, Args, Body, Builder, FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Header, Kind, Layout, stamped,
};

use super::sending::Outgoing;
use super::{Call, Connection, Incoming, Message};
use crate::authority::DRIVER;
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, AUTHORITY_ID, Received, TO_BUS, To};
use crate::shared::header::BusHeader;

/// What the reply to a message of the program changes in this connection.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Nothing,
    /// An error takes this rule back.
    Added(MatchRule),
    /// A success removes this rule.
    Removed(MatchRule),
}

impl Connection {
    /// Sends a message that the program has built, and returns its serial. The `SENDER` is filled in, whatever the message says.
    ///
    /// The reply to a call comes as [`Incoming::Reply`], in its place among the other messages. That is also what says that nobody has
    /// the name (`ServiceUnknown`), or that the callee has left (`NoReply`); a call has no timeout. `AddMatch` and
    /// `RemoveMatch` change the rules of this connection as [`Connection::add_match`] and [`Connection::remove_match`] do.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no message, or has no destination and is no signal; [`Error::Method`] with `LimitsExceeded` for what
    /// is too long, for too many calls under way or too much on its way beside the log; the bus or this connection has ended.
    ///
    /// # Panics
    /// As [`Builder::build`], for names that are none.
    pub fn send_message(&mut self, message: &Builder<'_>) -> Result<u32> {
        self.send_message_with_descriptors(message, Vec::new())
    }

    /// As [`Connection::send_message`], with descriptors. How many there are is filled in, too.
    ///
    /// # Errors
    /// As [`Connection::send_message`].
    ///
    /// # Panics
    /// As [`Connection::send_message`].
    pub fn send_message_with_descriptors(
        &mut self,
        message: &Builder<'_>,
        descriptors: Vec<OwnedFd>,
    ) -> Result<u32> {
        let serial = self.next_serial();
        let message = message.clone().unix_fds(descriptors.len() as u32);
        let bytes = message.sender(&self.name).build(serial);
        let bytes = bytes.map_err(|long| Error::method(name::LIMITS_EXCEEDED, long.to_string()))?;
        let header = Header::parse(&bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        if header.destination.is_none() && header.kind != Kind::Signal {
            return Err(Error::Invalid("a message that is no signal needs a destination".into()));
        }
        let Some(message) = self.prepare_message(&header, &bytes, descriptors)? else { return Ok(serial) };
        if let Err(error) = self.send(message) {
            self.drop_message(serial);
            return Err(error);
        }
        Ok(serial)
    }

    /// A whole message, ready to be sent, whose sender is this connection whatever it says. A call without destination is for the bus.
    /// `None` if nobody has its destination: a caller gets the error as its reply.
    pub(crate) fn prepare_message(
        &mut self,
        header: &Header<'_>,
        bytes: &[u8],
        descriptors: Vec<OwnedFd>,
    ) -> Result<Option<Outgoing>> {
        let (serial, expects_reply) = (header.serial, header.expects_reply());
        let destination = header.destination.unwrap_or(DRIVER);
        let to = match (header.destination, header.kind) {
            (None, Kind::Signal) => To::All,
            (None, Kind::MethodReturn | Kind::Error) => {
                return Err(Error::Invalid("a reply needs a destination".into()));
            }
            _ => match self
                .resolve_call(destination, if expects_reply { header.flags } else { FLAG_NO_AUTO_START })
            {
                Ok(to) => to,
                // One that the directory does not show has left, or is a client that the bus knows.
                Err(Error::Method { .. }) if header.reply_serial.is_some() => TO_BUS,
                Err(Error::Method { name, message }) => {
                    if expects_reply {
                        let position = self.port.cursor();
                        self.put_error(serial, &name, &message, position);
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error),
            },
        };
        if expects_reply {
            self.check_pending()?;
        }
        let change = self.change_of(header, bytes);
        let bytes = match header.sender {
            Some(sender) if *sender == *self.name => bytes.to_vec(),
            _ => stamped(bytes, header, &self.name)
                .ok_or_else(|| Error::method(name::LIMITS_EXCEEDED, "the message is too long"))?,
        };

        if let Change::Added(rule) = &change {
            self.keep_rule(rule.clone());
        }
        if expects_reply {
            // Before it is sent: the reply may come while this thread waits for space.
            self.raw.insert(serial, change);
            self.expect_reply(serial, to, destination);
        }
        let stamped =
            Header::parse(&bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        let layout = Layout::of(&stamped, &bytes);
        Ok(Some(Outgoing::parsed(to, layout, bytes, descriptors, serial)))
    }

    /// A whole message was not sent after all.
    pub(crate) fn drop_message(&mut self, serial: u32) {
        if let Some(Change::Added(rule)) = self.raw.remove(&serial) {
            let last = self.rules.iter().rposition(|known| known.rule == rule);
            last.into_iter().for_each(|at| drop(self.rules.remove(at)));
            self.port.wants_signals = !self.rules.is_empty();
        }
        self.drop_call(serial);
    }

    /// The next message of any kind, at most after `timeout` (`None`: however long it takes); `Ok(None)` when the time is over.
    ///
    /// # Errors
    /// The bus or this connection has ended.
    pub fn next_message(&mut self, timeout: Option<Duration>) -> Result<Option<Message>> {
        match self.next(timeout)? {
            None => Ok(None),
            Some(Incoming::Call(Call(message)) | Incoming::Signal(message) | Incoming::Reply(message)) => {
                Ok(Some(message))
            }
            Some(Incoming::AuthorityGone) => Err(Error::AuthorityGone),
        }
    }

    /// What a message to the bus itself changes here.
    fn change_of(&self, header: &Header<'_>, bytes: &[u8]) -> Change {
        let is_for_bus = header.destination.is_none_or(|name| name == DRIVER)
            && header.interface.is_none_or(|interface| interface == DRIVER);
        let rule = || match Args::new(header, &bytes[header.header_bytes..]).next() {
            Some(Ok(Arg::Text(text))) => text.parse::<MatchRule>().ok(),
            _ => None,
        };
        match header.member.filter(|_| is_for_bus) {
            Some("AddMatch") => rule().map_or(Change::Nothing, Change::Added),
            Some("RemoveMatch") => rule().map_or(Change::Nothing, Change::Removed),
            _ => Change::Nothing,
        }
    }

    /// A reply to a message of the program has come.
    pub(super) fn put_reply(&mut self, change: &Change, message: Message) {
        let is_error = message.header().kind == Kind::Error;
        let gone = match change {
            Change::Added(rule) if is_error => self.rules.iter().rposition(|known| known.rule == *rule),
            Change::Removed(rule) if !is_error => self.rules.iter().position(|known| known.rule == *rule),
            _ => None,
        };
        if let Some(at) = gone {
            self.rules.remove(at);
            self.port.wants_signals = !self.rules.is_empty();
        }
        self.put(Incoming::Reply(message));
    }

    /// Answers a call of the program in the name of the bus.
    pub(super) fn put_error(&mut self, serial: u32, name: &str, text: &str, position: u64) {
        // What the bus did not send itself has a serial that it does not reach.
        const SERIAL: u32 = u32::MAX;
        let error = Builder::error(serial, name).sender(DRIVER).destination(&self.name);
        let error = error.flags(FLAG_NO_REPLY_EXPECTED).body(Body::default().text(text));
        let Ok(bytes) = error.build(SERIAL) else { unreachable!("a short message") };
        let header = BusHeader {
            sender: AUTHORITY_ID,
            destination: self.port.id(),
            serial: SERIAL,
            reply_serial: serial,
            message_bytes: bytes.len() as u32,
            kind: Kind::Error.number(),
            flags: FLAG_NO_REPLY_EXPECTED,
            ..BusHeader::default()
        };
        match Message::checked(Received {
            position,
            slot: AUTHORITY,
            header,
            bytes: bytes.into(),
            descriptors: Vec::new().into(),
        }) {
            Some(message) => self.put(Incoming::Reply(message)),
            None => unreachable!("header and message say the same"),
        }
    }
}
