//! Sends the traffic of a D-Bus capture again, over another bus.
//!
//! | module | from | to |
//! |---|---|---|
//! | [`plan`] | the packets of a capture | connections, names and messages of our own, and what each message waits for |
//! | [`player`] | a plan and an address | the messages, sent by one process in one poll loop |
//! | [`usage`] | a process | its CPU time and context switches |
//!
//! A plan is pure: the same capture gives the same plan. What a message waits for points back in the capture only, so a
//! plan cannot wait for itself.

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod plan;
pub mod player;
pub mod usage;

mod body;
mod end;
mod tape;

use std::fmt;
use std::time::Duration;

use causeway_bus::client::Error as ClientError;

/// Why a replay ended before its end.
#[derive(Debug)]
pub enum Error {
    /// A connection could not be made, set up, or be used further.
    Connection {
        /// Its name in the capture; nothing for one that only asks.
        name: Option<String>,
        /// Steps that were taken before: messages, beginnings and ends of connections.
        taken: u64,
        /// Steps of the plan.
        planned: u64,
        /// Why.
        source: ClientError,
    },
    /// A name that the plan needs belongs to another program.
    NameTaken(String),
    /// Nothing moved for the time that was allowed.
    Stalled {
        /// That time.
        after: Duration,
        /// Steps that were taken before: messages, beginnings and ends of connections.
        taken: u64,
        /// Steps of the plan.
        planned: u64,
        /// Which message waits for what.
        reason: String,
    },
    /// Waiting for sockets failed.
    Poll(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Connection { name: None, source, .. } => source.fmt(f),
            Error::Connection { name: Some(name), taken, planned, source } => {
                write!(f, "{source}; it stood for {name} of the capture, after {taken} of {planned} steps")
            }
            Error::NameTaken(name) => write!(
                f,
                "`{name}` belongs to another program on this bus; replay on a private broker, such as dbus-daemon, in place of an address"
            ),
            Error::Stalled { after, taken, planned, reason } => write!(
                f,
                "nothing moved for {} s after {taken} of {planned} steps: {reason}",
                after.as_secs_f64()
            ),
            Error::Poll(error) => write!(f, "waiting for the connections failed: {error}"),
        }
    }
}

impl std::error::Error for Error {}
