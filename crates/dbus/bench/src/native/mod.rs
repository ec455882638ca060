//! Native members of the bus in place of connections to a broker: the ends share memory, and the process that serves the bus is in
//! no message's path.
//!
//! A member is used as an ordinary program uses `causeway-bus`, so it stands among the libraries ([`crate::libraries`]): it connects
//! by itself from the process of its role, and what is timed is the same as with them.

pub mod fan_in;
mod mixed;
pub mod pair;
pub mod signals;
pub mod solo;

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use causeway_bus::client::native_path;
use causeway_bus::{Connection, ConnectionOptions, Error, Incoming, Message};
use causeway_dbus_wire::driver::{DRIVER, DRIVER_PATH};
use causeway_dbus_wire::wire::Body;
use weighbridge_dbus_client::brokers::Program;
use weighbridge_harness::choice;
use weighbridge_harness::params::{CaseParams, Wait};
use weighbridge_record::{Across, Properties, Property};

use crate::broker::Kind;
use crate::client::{INTERFACE, MEMBER, PATH};
use crate::fan_out::own_rule;
use crate::libraries::{Client, Connected, Role};
use mixed::{DbusClient, SocketClient};

choice! {
    /// What a member sleeps on.
    pub enum SleepsOn {
        /// A word of shared memory, as a thread that does nothing else.
        Futex = "futex",
        /// A descriptor, as a program with an event loop.
        Descriptor = "descriptor",
    }
    axis "sleeps-on", default Futex: "what a native member sleeps on: futex, a word of shared memory, or descriptor, as in an event loop"
}

/// A member waits as the library does.
pub const WAITS: &[Wait] = &[Wait::Block];

/// Of members: an end is announced, and its messages are in memory that nobody else writes. The socket of the bus is a path.
pub const PROPERTIES: Properties = Properties::of(&[Property::SurvivesKill], Across::SharedPath);

#[derive(Debug)]
pub struct CausewayBus;

impl Kind for CausewayBus {
    const PROGRAM: Program = Program::CausewayBus;
    const ABOUT: &'static str = "native members of a private bus in shared memory, by the library causeway-bus; the process that serves the bus is in no message's \
         path";

    fn connect(
        params: &CaseParams,
        address: &str,
        role: Role,
        partner: &str,
    ) -> io::Result<Box<dyn Connected>> {
        if DbusClient::of(params).is(role) {
            Ok(Box::new(SocketClient::connect(params, address, role, partner)?))
        } else if !Client::of(params).is_raw() {
            Client::of(params).connect(address, role, partner)
        } else {
            Ok(Box::new(Member::join(params, address, role, partner)?))
        }
    }
}

/// A message waits in its sender's outbox until those it is for have passed it; the longest is a quarter.
const LONGEST_PER_OUTBOX: usize = 4;
/// Of a message in addition to its payload, generously.
const HEADER_BYTES: usize = 1024;
/// On a busy machine a role may be away for long; it is not evicted for that.
const LAGGARD_DEADLINE: Duration = Duration::from_secs(20);
/// A call that has no reply then has lost it.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Joins the bus at an address that the coordinator has handed over, with an outbox for messages of the case.
pub fn join(params: &CaseParams, address: &str) -> io::Result<Connection> {
    let path = native_path(address)
        .ok_or_else(|| io::Error::other(format!("no native member can join at `{address}`")))?;
    let defaults = ConnectionOptions::default();
    let least = (LONGEST_PER_OUTBOX * (params.payload_bytes + HEADER_BYTES)).next_power_of_two();
    let options = ConnectionOptions {
        outbox_bytes: defaults.outbox_bytes.max(least as u64),
        call_timeout: CALL_TIMEOUT,
        laggard_deadline: Some(LAGGARD_DEADLINE),
        ..defaults
    };
    Connection::open_with(path, options).map_err(failed)
}

/// An error of the library as one of the laboratory.
pub fn failed(error: Error) -> io::Error {
    io::Error::other(error)
}

/// The array of bytes that is the body of a message.
#[inline]
pub fn payload(received: &Incoming) -> io::Result<&[u8]> {
    let body = received.message().map(Message::body).unwrap_or_default();
    match body.split_first_chunk() {
        Some((len, bytes)) if u32::from_ne_bytes(*len) as usize == bytes.len() => Ok(bytes),
        _ if *received == Incoming::AuthorityGone => Err(failed(Error::AuthorityGone)),
        _ => Err(io::Error::other(format!("the body of {received:?} is not an array of bytes"))),
    }
}

/// A native member in a role.
pub struct Member {
    connection: Connection,
    role: Role,
    sleeps_on: SleepsOn,
    partner: String,
    /// The serial of a caller's open call.
    serial: u32,
    /// What came last; a server answers it.
    received: Option<Incoming>,
}

impl Member {
    fn join(params: &CaseParams, address: &str, role: Role, partner: &str) -> io::Result<Member> {
        let mut connection = join(params, address)?;
        if role == Role::Subscriber {
            connection.add_match(&own_rule()).map_err(failed)?;
        }
        let sleeps_on = params.choice_if_declared().unwrap_or(SleepsOn::Futex);
        if sleeps_on == SleepsOn::Descriptor {
            connection.use_descriptor().map_err(failed)?;
        }
        Ok(Member { connection, role, sleeps_on, partner: partner.into(), serial: 0, received: None })
    }

    /// The next message, slept for on a descriptor.
    fn receive_by_descriptor(&mut self) -> io::Result<&[u8]> {
        let connection = &mut self.connection;
        let received = loop {
            let received = match self.role {
                Role::Caller if connection.is_finished(self.serial).map_err(failed)? => {
                    let reply = connection.finish_call(self.serial, CALL_TIMEOUT).map_err(failed)?;
                    Some(Incoming::Reply(reply))
                }
                Role::Caller => None,
                _ => connection.next_now().map_err(failed)?,
            };
            match received {
                Some(Incoming::Signal(message)) if message.interface() != Some(INTERFACE) => {}
                Some(received) => break received,
                None if connection.prepare_to_wait() => {
                    causeway_os::process::poll(&[connection.as_fd()], None)?;
                }
                None => {}
            }
        };
        payload(self.received.insert(received))
    }
}

impl Connected for Member {
    fn unique_name(&self) -> io::Result<String> {
        Ok(self.connection.unique_name().to_owned())
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Member { connection, partner, .. } = self;
        let body = Body::default().blob(bytes);
        match self.role {
            Role::Caller => {
                self.serial =
                    connection.start_call(partner, PATH, INTERFACE, MEMBER, body).map_err(failed)?;
                Ok(())
            }
            Role::Sender => {
                connection.call_without_reply(partner, PATH, INTERFACE, MEMBER, body).map_err(failed)
            }
            Role::Emitter => connection.emit(PATH, INTERFACE, MEMBER, body).map_err(failed),
            Role::Server => match &self.received {
                Some(Incoming::Call(call)) => connection.reply(call, body).map_err(failed),
                other => Err(io::Error::other(format!("{other:?} is not a call to reply to"))),
            },
            Role::Subscriber | Role::Asker => Err(io::Error::other("this role sends no payload")),
        }
    }

    #[inline]
    fn receive(&mut self) -> io::Result<&[u8]> {
        if self.sleeps_on == SleepsOn::Descriptor {
            return self.receive_by_descriptor();
        }
        let received = match self.role {
            Role::Caller => {
                Incoming::Reply(self.connection.finish_call(self.serial, CALL_TIMEOUT).map_err(failed)?)
            }
            _ => next(&mut self.connection)?,
        };
        payload(self.received.insert(received))
    }

    fn ask(&mut self, method: &CStr, argument: Option<&CStr>) -> io::Result<()> {
        let text = |text: &CStr| text.to_str().map(str::to_owned).map_err(io::Error::other);
        let (method, argument) = (text(method)?, argument.map(text).transpose()?);
        let connection = &mut self.connection;
        let body = argument.iter().fold(Body::default(), |body, argument| body.text(argument));
        let answered = match (method.as_str(), argument) {
            ("AddMatch", Some(rule)) => connection.add_match(&rule),
            ("RemoveMatch", Some(rule)) => connection.remove_match(&rule),
            _ => connection.call(DRIVER, DRIVER_PATH, DRIVER, &method, body).map(drop),
        };
        answered.map_err(failed)
    }
}

/// What comes next, however long it takes. What the bus says of itself is passed over.
pub fn next(connection: &mut Connection) -> io::Result<Incoming> {
    loop {
        match connection.next(None).map_err(failed)? {
            Some(Incoming::Signal(message)) if message.interface() != Some(INTERFACE) => {}
            Some(incoming) => return Ok(incoming),
            None => {}
        }
    }
}
