//! One end of a call: a member or a D-Bus client.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_bus::client::{Bus as Client, Error as ClientError};
use causeway_bus::wire::{Body, Builder, Kind as MessageKind};
use causeway_bus::{Connection as Member, Error, Incoming, Payload, name};

use crate::support::*;

/// How a process is on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Member,
    Client,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Reply,
    /// With an error of this name.
    Error(String),
    /// The caller learned that causewayd is gone.
    Gone,
    /// The message of one member to another was skipped: causewayd was gone before the other had the sender's outbox.
    OutOfReach,
}

impl End {
    /// May a call end so when its callee was killed?
    pub fn is_of_callee(&self) -> bool {
        match self {
            End::Reply => true,
            End::Error(error) => {
                [name::NO_REPLY, name::SERVICE_UNKNOWN, name::NAME_HAS_NO_OWNER].contains(&error.as_str())
            }
            End::Gone | End::OutOfReach => false,
        }
    }

    /// May it end so when causewayd was killed?
    pub fn is_of_bus(&self) -> bool {
        match self {
            End::Reply | End::Gone | End::OutOfReach => true,
            // The descriptor of the call was with causewayd.
            End::Error(error) => [name::LIMITS_EXCEEDED, name::NO_REPLY].contains(&error.as_str()),
        }
    }
}

/// What one that answers calls has met.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Answered,
    /// The connection with this unique name has left.
    Left(String),
    /// Nothing yet.
    None,
    /// There is no bus any more for this client.
    Closed,
}

pub enum Party {
    Member(Box<Member>),
    Client(Client),
}

impl Party {
    pub fn open(kind: Kind, native: &std::path::Path, address: &str) -> Party {
        match kind {
            Kind::Member => Party::Member(Box::new(Member::open(native).unwrap())),
            Kind::Client => Party::Client(Client::open(address).unwrap()),
        }
    }

    pub fn unique_name(&self) -> String {
        match self {
            Party::Member(member) => member.unique_name().to_owned(),
            Party::Client(client) => client.unique_name().to_owned(),
        }
    }

    pub fn request_name(&mut self, name: &str) {
        match self {
            Party::Member(member) => drop(member.request_name(name, 0).unwrap()),
            Party::Client(client) => drop(client.request_name(name, 0).unwrap()),
        }
    }

    pub fn watch_owners(&mut self) {
        const RULE: &str = "type='signal',member='NameOwnerChanged'";
        match self {
            Party::Member(member) => member.add_match(RULE).unwrap(),
            Party::Client(client) => client.add_match(RULE).unwrap(),
        }
    }

    /// Calls with a descriptor, and waits for the end of the call. With `is_lost`, which says that the callee has skipped the call, a member
    /// need not wait for a reply that cannot come.
    pub fn call(&mut self, to: &str, is_lost: Option<&AtomicBool>) -> End {
        let file = causeway_os::memory::memfd("kill-call", 4096).unwrap();
        match self {
            Party::Client(client) => {
                let call = Builder::call(PATH, "Ask").interface(INTERFACE).destination(to).unix_fds(1);
                match client.call_with_fds(&call, &[file.as_fd()], PATIENCE) {
                    Ok(_) => End::Reply,
                    Err(ClientError::Refused { name, .. }) => End::Error(name),
                    Err(ClientError::TimedOut) => panic!("the call of a client does not end"),
                    Err(_) => End::Gone,
                }
            }
            Party::Member(member) => {
                let payload = Payload::from(Body::default()).descriptor(file);
                let started = member.start_call(to, PATH, INTERFACE, "Ask", payload);
                let ended = started.and_then(|serial| match is_lost {
                    Some(lost) if !finishes(member, serial, lost) => Ok(End::OutOfReach),
                    _ => member.finish_call(serial, PATIENCE).map(|_| End::Reply),
                });
                ended.unwrap_or_else(|error| match error {
                    Error::Method { name, message } => {
                        assert!(!message.contains("within"), "the call of a member does not end: {message}");
                        End::Error(name)
                    }
                    Error::AuthorityGone => End::Gone,
                    other => panic!("{other}"),
                })
            }
        }
    }

    /// Takes a message, waiting for a while, and answers it if it is a call.
    pub fn step(&mut self, wait: Duration) -> Event {
        match self {
            Party::Member(member) => match member.next(Some(wait)).unwrap() {
                Some(Incoming::Call(call)) => match member.reply(&call, Body::default()) {
                    // The reply to a client goes through causewayd.
                    Ok(()) | Err(Error::AuthorityGone) => Event::Answered,
                    Err(other) => panic!("{other}"),
                },
                Some(Incoming::Signal(message)) => left(message.bytes()),
                _ => Event::None,
            },
            Party::Client(client) => {
                let message = match client.receive(wait) {
                    Ok(Some(message)) => message,
                    Ok(None) | Err(ClientError::TimedOut) => return Event::None,
                    Err(_) => return Event::Closed,
                };
                let header = header(&message);
                if header.kind != MessageKind::MethodCall {
                    return left(&message);
                }
                let reply = Builder::reply(header.serial).destination(header.sender.unwrap());
                client.send(&reply).map_or(Event::Closed, |_| Event::Answered)
            }
        }
    }

    /// Has a message for it been skipped?
    pub fn has_skipped(&mut self) -> bool {
        if let Party::Member(member) = self { member.statistics().gone > 0 } else { false }
    }
}

/// Does the call end, and not get lost on its way there or back?
fn finishes(member: &mut Member, serial: u32, is_lost: &AtomicBool) -> bool {
    let start = Instant::now();
    loop {
        // Before looking: what was not lost until then may have come.
        let is_lost = is_lost.load(Ordering::Acquire);
        if !matches!(member.is_finished(serial), Ok(false)) {
            return true;
        }
        if is_lost || member.statistics().gone > 0 {
            return false;
        }
        assert!(start.elapsed() < PATIENCE, "the call of a member to a member does not end");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The connection that has left, if the message announces an end.
fn left(message: &[u8]) -> Event {
    match (header(message).member, &texts(message)[..]) {
        (Some("NameOwnerChanged"), [name, _, new]) if new.is_empty() => Event::Left(name.clone()),
        _ => Event::None,
    }
}
