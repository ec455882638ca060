//! What a broker does for each message of a capture, and sums of it in classes that cost alike.

use serde::Serialize;

use crate::bus::Unmatched;
use causeway_dbus_wire::wire::Header;

/// What a broker does for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Lets a connection in, and later go: authentication, Hello, and telling of both, to nobody.
    Connection,
    /// Gives a name to a connection or takes it back, answers, and tells of it, to nobody.
    Name,
    /// Answers a call to itself that changes no match rule and no name. The reply is part of it.
    DriverCall,
    /// Adds or removes a match rule, and answers.
    MatchRule,
    /// Takes a message and gives it to one connection.
    Relay,
    /// Compares a broadcast with match rules, and gives it to those that want it.
    Broadcast,
    /// The same with a signal of the driver, which nobody has sent: what it tells of is counted as what it is.
    DriverSignal,
}

/// What the broker did for one message, when, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handled<'a> {
    /// Time in the capture, nanoseconds since 1970.
    pub time_ns: u64,
    /// What it did.
    pub work: Work,
    /// Bytes behind the header.
    pub body_bytes: u64,
    /// Rules in force that a broadcast does not match.
    pub unmatched: Unmatched,
    /// The connection that sent it, as a number; of a signal of the driver, 0.
    pub sender: u32,
    /// The connections that the broker gave something: the message, or the answer to it.
    pub receivers: &'a [u32],
}

/// Messages for which a broker does the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// What it does.
    pub work: Work,
    /// Bytes behind the header, on average: at least a half and at most the whole of the largest in the class.
    pub body_bytes: u64,
    /// Connections that get each message; 1 but for broadcasts.
    pub recipients: u64,
    /// Number of messages.
    pub messages: u64,
}

impl Work {
    /// What the broker does for a message; nothing where that belongs to another one.
    pub(super) fn of(header: &Header<'_>, is_from_driver: bool, is_to_driver: bool) -> Option<Work> {
        match header.member {
            _ if is_from_driver && header.is_broadcast() => Some(Work::DriverSignal),
            _ if is_from_driver => None,
            _ if header.is_broadcast() => Some(Work::Broadcast),
            _ if !is_to_driver => Some(Work::Relay),
            Some("Hello") => Some(Work::Connection),
            Some("AddMatch" | "RemoveMatch") => Some(Work::MatchRule),
            Some("RequestName" | "ReleaseName") => Some(Work::Name),
            _ => Some(Work::DriverCall),
        }
    }
}
