//! What can go wrong on a bus.

use std::fmt;
use std::time::Duration;

use causeway_dbus_wire::wire::{Fault, Unreadable};
use rustix::io::Errno;

/// The result of a call on a bus.
pub type Result<T> = std::result::Result<T, Error>;

/// Error names of D-Bus that this library gives to its own errors.
pub mod name {
    /// No reply in time, or the callee is gone.
    pub const NO_REPLY: &str = "org.freedesktop.DBus.Error.NoReply";
    /// No connection has this name.
    pub const SERVICE_UNKNOWN: &str = "org.freedesktop.DBus.Error.ServiceUnknown";
    /// No connection has this name; for questions to the bus.
    pub const NAME_HAS_NO_OWNER: &str = "org.freedesktop.DBus.Error.NameHasNoOwner";
    /// Too many names, rules, bytes.
    pub const LIMITS_EXCEEDED: &str = "org.freedesktop.DBus.Error.LimitsExceeded";
    /// An argument is not what the method takes.
    pub const INVALID_ARGS: &str = "org.freedesktop.DBus.Error.InvalidArgs";
    /// Anything else.
    pub const FAILED: &str = "org.freedesktop.DBus.Error.Failed";
    /// The object has no such method.
    pub const UNKNOWN_METHOD: &str = "org.freedesktop.DBus.Error.UnknownMethod";
    /// The object has no such property.
    pub const UNKNOWN_PROPERTY: &str = "org.freedesktop.DBus.Error.UnknownProperty";
    /// The property cannot be set.
    pub const PROPERTY_READ_ONLY: &str = "org.freedesktop.DBus.Error.PropertyReadOnly";
    /// The text is not a match rule.
    pub const MATCH_RULE_INVALID: &str = "org.freedesktop.DBus.Error.MatchRuleInvalid";
    /// There is no such rule to remove.
    pub const MATCH_RULE_NOT_FOUND: &str = "org.freedesktop.DBus.Error.MatchRuleNotFound";
}

/// Bytes that should be a message are none.
impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Invalid(format!("invalid message: {fault}"))
    }
}

/// What was received has other arguments than those that were asked for.
impl From<Unreadable> for Error {
    fn from(why: Unreadable) -> Error {
        Error::Arguments(why)
    }
}

/// A call on a bus failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The kernel refused a call.
    Os(causeway_os::Error),
    /// The bus, or a descriptor that came from it, was refused, or the bus refused to take this process.
    Refused(String),
    /// An argument is not possible.
    Invalid(String),
    /// The arguments of a message, or a value, have other types than those that were asked for, or break the
    /// specification.
    Arguments(Unreadable),
    /// A call was answered with an error, by its callee or by this library ([`name::NO_REPLY`],
    /// [`name::SERVICE_UNKNOWN`]).
    Method {
        /// Name of the error.
        name: String,
        /// What its sender says about it.
        message: String,
    },
    /// A message is longer than the outbox of this connection allows.
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// The most that are possible.
        most: usize,
    },
    /// There is no space: a member that must read first has not done so yet. Only calls that do not wait fail so.
    Full,
    /// The bus ended this connection. The text says why.
    Disconnected(String),
    /// The authority is gone: names cannot change any more, and descriptors that it had are out of reach.
    AuthorityGone,
    /// A member wrote what no correct member writes, and the bus has ended.
    Broken {
        /// The member that the wrong entry names.
        member: String,
        /// Position in the order log.
        position: u64,
    },
}

impl Error {
    pub(crate) fn method(name: &str, message: impl Into<String>) -> Error {
        Error::Method { name: name.into(), message: message.into() }
    }

    /// A call had no reply for so long.
    pub(crate) fn timed_out(timeout: Duration) -> Error {
        Error::method(name::NO_REPLY, format!("no reply within {timeout:.0?}"))
    }

    /// Has the kernel refused a call with this number?
    pub(crate) fn is(&self, errno: Errno) -> bool {
        matches!(self, Error::Os(error) if error.raw_os_error() == Some(errno.raw_os_error()))
    }

    /// The name under which D-Bus knows a failed call, where it has one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Error::Method { name, .. } => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Os(error) => error.fmt(f),
            Error::Refused(why) | Error::Invalid(why) => f.write_str(why),
            Error::Arguments(why) => write!(f, "unexpected arguments: {why}"),
            Error::Method { name, message } => write!(f, "{name}: {message}"),
            Error::TooLong { bytes, most } => write!(
                f,
                "the message has {bytes} bytes, but the outbox of this connection takes at most {most}; open it with a larger one (ConnectionOptions::outbox_bytes)"
            ),
            Error::Full => f.write_str("no space: members that are behind must read first"),
            Error::Disconnected(why) => write!(f, "disconnected by the bus: {why}"),
            Error::AuthorityGone => f.write_str("the process that serves the bus is gone"),
            Error::Broken { member, position } => write!(
                f,
                "the bus has ended: {member} wrote an invalid entry at position {position} of the order log"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Os(error) => Some(error),
            Error::Arguments(why) => Some(why),
            _ => None,
        }
    }
}

impl From<causeway_os::Error> for Error {
    fn from(error: causeway_os::Error) -> Error {
        Error::Os(error)
    }
}
