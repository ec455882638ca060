//! Why the bus ends a connection.

use std::fmt;

use causeway_dbus_wire::wire::Fault;

use crate::limit::Reached;

/// Why a connection must end.
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
            End::Limit(limit) => limit.name,
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
        }
    }
}
