//! Whole messages, for programs that build and read messages themselves: other libraries, and tools that play or
//! examine traffic.

use std::os::fd::OwnedFd;
use std::time::Duration;

use causeway_dbus_wire::rule::MatchRule;
use causeway_dbus_wire::wire::{
    Args, Body, Builder, FLAG_NO_AUTO_START, FLAG_NO_REPLY_EXPECTED, Header, Kind, Layout, stamped,
};

use super::sending::{Built, Outgoing};
use super::{Call, Connection, Incoming, Message};
use crate::authority::DRIVER;
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY, AUTHORITY_ID, Received, TO_BUS, To};
use crate::shared::header::BusHeader;

const FLAGS_AT: usize = 2;

/// A call that the program has built, until its reply comes.
#[derive(Debug)]
pub(super) struct RawCall {
    change: Change,
    /// Does the program want the reply? Otherwise it is for this library alone.
    is_reply_wanted: bool,
}

/// What the reply to a call changes in this connection.
#[derive(Debug)]
enum Change {
    Nothing,
    /// An error takes the rule with this key back.
    Added(u64),
    /// A success removes a rule that is equal to this one.
    Removed(MatchRule),
}

impl Connection {
    /// Sends a message that the program has built, and returns its serial. The `SENDER` is filled in, whatever the
    /// message says.
    ///
    /// The reply to a call comes as [`Incoming::Reply`], in its place among other messages, also where nobody has the
    /// name (`ServiceUnknown`) or the callee has left (`NoReply`); there is no timeout. `AddMatch` and `RemoveMatch`
    /// change the rules of this connection as [`Connection::add_match`] and [`Connection::remove_match`] do.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid message, or one without destination that is not a signal; [`Error::Method`] with
    /// `LimitsExceeded` for what is too long, for too many pending calls or too much in flight outside of the log.
    pub fn send_message(&mut self, message: &Builder<'_>) -> Result<u32> {
        self.send_message_with_descriptors(message, Vec::new())
    }

    /// As [`Connection::send_message`], with descriptors. How many there are is filled in, too.
    pub fn send_message_with_descriptors(
        &mut self,
        message: &Builder<'_>,
        descriptors: Vec<OwnedFd>,
    ) -> Result<u32> {
        let serial = self.next_serial();
        let message = message.clone().unix_fds(descriptors.len() as u32);
        let bytes = message.sender(&self.name).build(serial);
        let bytes = bytes.map_err(|long| Error::method(name::LIMITS_EXCEEDED, long.to_string()))?;
        let header = Header::parse(&bytes)?;
        if header.destination.is_none() && header.kind != Kind::Signal {
            return Err(Error::Invalid("only a signal may have no destination".into()));
        }
        let Some(message) = self.prepare_message(&header, &bytes, descriptors)? else { return Ok(serial) };
        if let Err(error) = self.send(message) {
            self.drop_message(serial);
            return Err(error);
        }
        Ok(serial)
    }

    /// A whole message, ready to be sent, whose sender is this connection whatever it says. A call without destination
    /// is for the bus. `None` if nobody has its destination: a caller gets the error as its reply.
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
                        let call = RawCall { change: Change::Nothing, is_reply_wanted: true };
                        self.put_error(call, serial, &name, &message, position);
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error),
            },
        };
        let rule = rule_of(header, bytes);
        // Whether a rule was added or removed says only the reply, also where the program wants none.
        let needs_reply = expects_reply || rule.is_some();
        if needs_reply {
            self.check_pending()?;
        }
        let mut bytes = match header.sender {
            Some(sender) if *sender == *self.name => bytes.to_vec(),
            _ => stamped(bytes, header, &self.name)
                .ok_or_else(|| Error::method(name::LIMITS_EXCEEDED, "the message is too long"))?,
        };
        if rule.is_some() {
            bytes[FLAGS_AT] &= !FLAG_NO_REPLY_EXPECTED;
        }
        let layout = Layout::of(&Header::parse(&bytes)?, &bytes);
        if needs_reply {
            let change = match rule {
                None => Change::Nothing,
                Some((Method::AddMatch, rule)) => Change::Added(self.keep_rule(rule)),
                Some((Method::RemoveMatch, rule)) => Change::Removed(rule),
            };
            // Before it is sent: the reply may come while this thread waits for space.
            self.raw.insert(serial, RawCall { change, is_reply_wanted: expects_reply });
            self.expect_reply(serial, to, destination);
        }
        Ok(Some(Outgoing::parsed(Built { to, serial }, layout, bytes, descriptors)))
    }

    /// A whole message was not sent after all.
    pub(crate) fn drop_message(&mut self, serial: u32) {
        if let Some(RawCall { change: Change::Added(key), .. }) = self.raw.remove(serial) {
            self.remove_rule(key);
        }
        self.drop_call(serial);
    }

    /// Forgets a call that was begun with [`Connection::send_message`] or [`Connection::start_call`]: its reply is discarded,
    /// if it comes at all. For programs with timeouts of their own.
    pub fn forget_call(&mut self, serial: u32) {
        self.drop_message(serial);
    }

    /// The next message of any kind, at most after `timeout` (`None`: however long it takes); `Ok(None)` when the time
    /// is over.
    ///
    /// # Errors
    /// As [`Connection::next`].
    pub fn next_message(&mut self, timeout: Option<Duration>) -> Result<Option<Message>> {
        match self.next(timeout)? {
            None => Ok(None),
            Some(Incoming::Call(Call(message)) | Incoming::Signal(message) | Incoming::Reply(message)) => {
                Ok(Some(message))
            }
            Some(Incoming::AuthorityGone) => Err(Error::AuthorityGone),
        }
    }

    /// A call that the program has built has ended with this reply.
    pub(super) fn put_reply(&mut self, call: RawCall, message: Message) {
        match (call.change, message.header().kind == Kind::Error) {
            (Change::Added(key), true) => self.remove_rule(key),
            (Change::Removed(rule), false) => self.remove_equal_rule(&rule),
            _ => {}
        }
        if call.is_reply_wanted {
            self.put(Incoming::Reply(message));
        }
    }

    /// Answers a call that the program has built in the name of the bus.
    pub(super) fn put_error(&mut self, call: RawCall, serial: u32, name: &str, text: &str, position: u64) {
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
        match Message::of(Received {
            position,
            slot: AUTHORITY,
            header,
            bytes: bytes.into(),
            descriptors: Vec::new().into(),
        }) {
            Some(message) => self.put_reply(call, message),
            None => unreachable!("header and message say the same"),
        }
    }
}

/// Methods of the bus that change the rules of their caller.
enum Method {
    AddMatch,
    RemoveMatch,
}

/// The rule that a call of the bus adds or removes.
fn rule_of(header: &Header<'_>, bytes: &[u8]) -> Option<(Method, MatchRule)> {
    let method = match header.member.filter(|_| is_for_driver(header))? {
        "AddMatch" => Method::AddMatch,
        "RemoveMatch" => Method::RemoveMatch,
        _ => return None,
    };
    Some((method, Args::of(bytes).first_text()?.parse().ok()?))
}

/// Is this a call of the bus itself?
pub(crate) fn is_for_driver(header: &Header<'_>) -> bool {
    header.kind == Kind::MethodCall
        && header.destination.is_none_or(|name| name == DRIVER)
        && header.interface.is_none_or(|interface| interface == DRIVER)
}
