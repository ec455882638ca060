//! A small blocking D-Bus client over a Unix socket: authentication, calls, signals, and nothing between the caller and the
//! bytes. What libraries add (proxies, object servers, an event loop) is not here on purpose: where a bus is measured or
//! recorded, only the bus should show. A native member of a bus in shared memory is used in the same way ([`Member`]).

mod address;
pub mod brokers;
mod connection;
mod member;
mod monitor;
mod notes;

pub use address::{Address, native_path, session, system};
pub use connection::Connection;
pub use member::Member;
pub use monitor::{Monitoring, become_monitor, process_of, rules_and_processes};
pub use notes::{Note, Notes};

use std::fmt;
use std::io;

/// Why a connection does not do what it was asked.
#[derive(Debug)]
pub enum Error {
    /// An address that cannot be used: which, and why.
    Address(String),
    /// No bus answers at this address.
    Connect {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The bus does not let this user in.
    Authentication(String),
    /// Reading or writing failed.
    Io(io::Error),
    /// The bus closed the connection.
    Closed,
    /// No reply came in time.
    TimedOut,
    /// What came is no D-Bus message.
    Protocol(causeway_dbus_wire::wire::Fault),
    /// The reply is an error.
    Refused {
        /// Its name.
        name: String,
        /// What it says; empty if it says nothing.
        message: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Address(why) => f.write_str(why),
            Error::Connect { address, source } => write!(f, "no bus answers at `{address}`: {source}"),
            Error::Authentication(said) => write!(f, "the bus does not accept this user: {said}"),
            Error::Io(error) => write!(f, "the connection to the bus failed: {error}"),
            Error::Closed => f.write_str("the bus closed the connection"),
            Error::TimedOut => f.write_str("the bus did not reply in time"),
            Error::Protocol(fault) => write!(f, "the bus sent something that is no message: {fault}"),
            Error::Refused { name, message } if message.is_empty() => f.write_str(name),
            Error::Refused { name, message } => write!(f, "{name}: {message}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Error::Closed,
            _ => Error::Io(error),
        }
    }
}
