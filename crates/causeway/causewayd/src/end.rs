//! Why the bus ends a connection.

use std::fmt;

use causeway_bus::LeaveReason;
use causeway_dbus_wire::wire::Fault;

use crate::limit::Reached;

/// Why a connection must end, or has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The client closed it, or the kernel did.
    Closed,
    /// It is not accepted, for this reason.
    NotAuthenticated(&'static str),
    Invalid(Fault),
    /// Its descriptors are not those that its messages say.
    Descriptors(&'static str),
    /// The bus cannot keep what it sends.
    Kept(&'static str),
    /// It has more than the bus allows.
    Limit(Reached),
    /// More waits for it than the bus allows.
    Stalled(Reached),
    /// It does what no connection may.
    Protocol(String),
    /// It has kept other members waiting for too long.
    Laggard(String),
}

impl End {
    /// What it is counted under.
    pub fn reason(&self) -> &'static str {
        match self {
            End::Closed => "closed",
            End::NotAuthenticated(_) => "authentication",
            End::Invalid(_) => "invalid-message",
            End::Descriptors(_) => "descriptors",
            End::Kept(_) => "out-of-memory",
            End::Limit(limit) | End::Stalled(limit) => limit.lever.name(),
            End::Protocol(_) => "protocol",
            End::Laggard(_) => "laggard-deadline",
        }
    }
}

impl From<LeaveReason> for End {
    fn from(why: LeaveReason) -> End {
        match why {
            LeaveReason::Laggard(why) => End::Laggard(why),
            LeaveReason::Protocol(why) => End::Protocol(why),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Closed => f.write_str("its connection is closed"),
            End::NotAuthenticated(why) | End::Descriptors(why) | End::Kept(why) => f.write_str(why),
            End::Invalid(fault) => write!(f, "it sent an invalid message: {fault}"),
            End::Limit(limit) => limit.fmt(f),
            End::Stalled(limit) => write!(f, "it does not read, and its queue is full: {limit}"),
            End::Protocol(why) | End::Laggard(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_has_left_for_is_counted_by_its_kind_and_said_in_its_words() {
        let late = || "it did not read within the laggard deadline".to_owned();
        let end = End::from(LeaveReason::Laggard(late()));
        assert_eq!((end.reason(), end.to_string()), ("laggard-deadline", late()));
        // The kind decides, not the words.
        let end = End::from(LeaveReason::Protocol(late()));
        assert_eq!((end.reason(), end.to_string()), ("protocol", late()));
    }
}
