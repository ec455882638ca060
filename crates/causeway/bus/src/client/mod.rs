//! A small blocking client of a D-Bus, over a socket or as a native member: [`Bus`].
//!
//! Whole messages are sent and received, calls wait for their replies, and nothing stands between the caller and the bytes. What
//! libraries add (proxies, object servers, an event loop) is not here on purpose. A program of this bus alone uses
//! [`Connection`](crate::Connection), which does more with less copying; this client is for programs that talk to any bus.
//!
//! ```no_run
//! use causeway_bus::client::{Bus, session};
//! use causeway_bus::wire::{Body, arguments_of};
//!
//! let mut bus = Bus::open(&session()?)?;
//! let reply = bus.ask_driver("ListNames", Body::default())?;
//! let names: Vec<&str> = arguments_of(&reply)?;
//! println!("{} is one of {} names", bus.unique_name(), names.len());
//! # Ok::<(), causeway_bus::client::Error>(())
//! ```

mod address;
mod bus;
mod socket;

pub use address::{Address, native_path, session, system};
pub use bus::{Bus, Layer, Observer, Seen, TIMEOUT};

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::wire::Unreadable;

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
    /// A bus cannot be joined at this native socket.
    Join {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: crate::Error,
    },
    /// The bus does not let this user in.
    Authentication(String),
    /// Reading or writing failed.
    Io(io::Error),
    /// The bus closed the connection.
    Closed,
    /// No reply came in time.
    TimedOut,
    /// What came is not a D-Bus message.
    Protocol(crate::wire::Fault),
    /// The arguments of a message are not those that were asked for.
    Arguments(Unreadable),
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
            Error::Join { path, source } => {
                write!(f, "no bus answers at `causeway:path={}`: {source}", path.display())
            }
            // What a bus says (D-Bus Specification, "Authentication Protocol").
            Error::Authentication(said) if said.starts_with("REJECTED") || said.starts_with("ERROR") => {
                write!(f, "the bus does not accept this user: {said}")
            }
            Error::Authentication(why) => f.write_str(why),
            Error::Io(error) => write!(f, "the connection to the bus failed: {error}"),
            Error::Closed => f.write_str("the bus closed the connection"),
            Error::TimedOut => f.write_str("the bus did not reply in time"),
            Error::Protocol(fault) => write!(f, "the bus sent an invalid message: {fault}"),
            Error::Arguments(why) => write!(f, "unexpected arguments: {why}"),
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

impl From<Unreadable> for Error {
    fn from(why: Unreadable) -> Error {
        match why {
            Unreadable::Fault(fault) => Error::Protocol(fault),
            mistyped => Error::Arguments(mistyped),
        }
    }
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Error {
        match error {
            crate::Error::Arguments(why) => why.into(),
            crate::Error::Method { name, message } => Error::Refused { name, message },
            crate::Error::TooLong { .. } => {
                Error::Refused { name: crate::name::LIMITS_EXCEEDED.into(), message: error.to_string() }
            }
            crate::Error::Disconnected(_) | crate::Error::AuthorityGone => Error::Closed,
            other => Error::Io(io::Error::other(other)),
        }
    }
}
