//! The steps of sending and receiving, none of which waits: calls that block, and the tasks of a runtime, are built of them.

use std::sync::atomic::Ordering;
use std::time::Instant;

use weighbridge_dbus::rule::MatchRule;

use super::{Connection, Rule};
use crate::authority::DRIVER;
use crate::connection::message::{Call, Incoming};
use crate::error::{Error, Result, name};
use crate::port::{AUTHORITY_ID, NotSent, To};
use crate::shared::filter::unique_number;
use weighbridge_dbus::wire::Header;

/// A message that is ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// For whom it is.
    pub to: To,
    /// The D-Bus message.
    pub bytes: Vec<u8>,
    /// Its serial.
    pub serial: u32,
}

/// Who stands in the way of a message: a member, at which cursor, since when.
#[derive(Debug, Default)]
pub(crate) struct Blocked(Option<(u16, u64, Instant)>);

impl Blocked {
    /// Must another member read first?
    pub(crate) fn is_by_another(&self) -> bool {
        self.0.is_some()
    }
}

/// What was taken from the bus.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub(crate) enum Taken {
    /// A call, a signal, or the end of the authority.
    Incoming(Incoming),
    /// The end of the call with this serial: a reply or an error reply, or none.
    Answer(u32, Result<super::Message>),
}

impl Connection {
    /// Sends if there is space; otherwise wakes the member in the way, and puts it out after the deadline. The caller takes what has come, and tries again.
    pub(crate) fn try_send(&mut self, to: To, bytes: &[u8], blocked: &mut Blocked) -> Result<bool> {
        let header = Header::parse(bytes).map_err(|fault| Error::Invalid(format!("no message: {fault}")))?;
        let id = self.port.id();
        let slot = match self.port.send(&mut self.link, to, id, &header, bytes) {
            Ok(_) => return Ok(true),
            Err(NotSent::Failed(error)) => return Err(error),
            Err(NotSent::Full(slot)) => slot,
        };
        if slot == self.port.slot() {
            *blocked = Blocked::default();
            return Ok(false);
        }
        self.port.ring(&mut self.link, slot);
        let cursor = self.port.order().cursor(slot).load(Ordering::Acquire);
        match blocked.0 {
            Some((who, at, since)) if (who, at) == (slot, cursor) => {
                if since.elapsed() >= self.options.laggard_deadline {
                    self.port.evict(&mut self.link, slot);
                    *blocked = Blocked::default();
                }
            }
            _ => blocked.0 = Some((slot, cursor, Instant::now())),
        }
        Ok(false)
    }

    /// Adds a rule to those that this connection matches itself; returns its key. The authority does not know it yet.
    pub(crate) fn insert_rule(&mut self, rule: &str) -> Result<u64> {
        let rule: MatchRule = rule.parse().map_err(|error| {
            Error::method(name::MATCH_RULE_INVALID, format!("{rule:?} is no match rule: {error}"))
        })?;
        let owner = rule.sender.as_deref().and_then(|wanted| match wanted {
            DRIVER => Some(AUTHORITY_ID),
            _ => unique_number(wanted).or_else(|| self.port.directory().owner(wanted).map(|owner| owner.id)),
        });
        let key = self.next_rule;
        self.next_rule += 1;
        self.rules.push(Rule { key, rule, owner });
        self.port.wants_signals = true;
        Ok(key)
    }

    /// Removes a rule from those that this connection matches itself.
    pub(crate) fn remove_rule(&mut self, key: u64) {
        self.rules.retain(|rule| rule.key != key);
        self.port.wants_signals = !self.rules.is_empty();
    }

    pub(super) fn take_from_inbox(&mut self) -> Option<Incoming> {
        let incoming = self.inbox.pop_front();
        if let Some(Incoming::Call(Call(message)) | Incoming::Signal(message)) = &incoming {
            self.inbox_bytes -= message.bytes().len();
        }
        incoming
    }

    /// The end of the authority or of this connection, if it was not told yet.
    pub(super) fn take_end(&mut self) -> Result<Option<Incoming>> {
        if !self.has_ended() || self.has_told_end {
            return Ok(None);
        }
        (self.has_told_end, self.has_noticed_end) = (true, true);
        match self.link.end() {
            Error::AuthorityGone => Ok(Some(Incoming::AuthorityGone)),
            why => Err(why),
        }
    }

    /// Ends this connection if the program leaves more bytes than it may.
    pub(crate) fn check_inbox(&mut self, bytes: usize) -> Result<()> {
        let most = self.options.inbox_bytes;
        if bytes <= most {
            return Ok(());
        }
        let slot = self.port.slot();
        self.port.evict(&mut self.link, slot);
        Err(Error::Disconnected(format!("more than {most} bytes of messages were not taken")))
    }
}

/// For the tasks of a runtime.
#[cfg(feature = "tokio")]
impl Connection {
    /// How long a call waits for its reply.
    pub(crate) fn call_timeout(&self) -> std::time::Duration {
        self.options.call_timeout
    }

    /// The next thing, in the order of the bus. It does not end an announced sleep: one that is over already costs an empty wake-up.
    pub(crate) fn take_next(&mut self) -> Result<Option<Taken>> {
        loop {
            if let Some(incoming) = self.take_from_inbox() {
                return Ok(Some(Taken::Incoming(incoming)));
            }
            if let Some(serial) = self.replies.keys().next().copied() {
                return Ok(self.replies.remove(&serial).map(|answer| Taken::Answer(serial, answer)));
            }
            match self.port.next(&mut self.link)? {
                Some(received) => self.handle(received),
                None => return Ok(self.take_end()?.map(Taken::Incoming)),
            }
        }
    }

    /// Keys of the rules that a signal matches which was taken just now.
    pub(crate) fn matching_rules(&self, signal: &super::Message) -> Vec<u64> {
        let (header, args) = (signal.header(), signal.args());
        self.rules.iter().filter(|rule| rule.matches(&header, &args)).map(|rule| rule.key).collect()
    }

    /// Fails for a call of the bus itself that nobody will answer.
    pub(crate) fn check_callee(&mut self, to: To) -> Result<()> {
        match to {
            To::Peer { id: AUTHORITY_ID, .. } if self.has_ended() => Err(self.link.end()),
            _ => Ok(()),
        }
    }

    /// Serials of the calls that only the authority can answer.
    pub(crate) fn calls_of_the_bus(&self) -> Vec<u32> {
        let of_bus = self.pending.iter().filter(|(_, pending)| pending.callee == AUTHORITY_ID);
        of_bus.map(|(serial, _)| *serial).collect()
    }
}
