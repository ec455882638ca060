//! The bus's own object, `org.freedesktop.DBus`, for members: what it can answer from names, rules and peers.

use weighbridge_dbus::rule::MatchRule;
use weighbridge_dbus::wire::{Arg, Args, Body, Header, names};

use super::Authority;
use crate::error::{Error, Result, name};

/// Name of the bus itself.
pub const DRIVER: &str = "org.freedesktop.DBus";
/// Its object.
pub const DRIVER_PATH: &str = "/org/freedesktop/DBus";

/// What a call to the driver comes to.
pub enum Answer {
    /// A reply with these arguments.
    Reply(Body),
    /// An error.
    Error(Error),
    /// A method that this library does not implement.
    Unknown,
}

impl From<Result<Body>> for Answer {
    fn from(result: Result<Body>) -> Answer {
        result.map_or_else(Answer::Error, Answer::Reply)
    }
}

/// Answers a call of `caller`.
pub fn answer(authority: &mut Authority, caller: u64, header: &Header<'_>, body: &[u8]) -> Answer {
    let args: Vec<Arg<'_>> = Args::new(header, body).map_while(|arg| arg.ok()).collect();
    let text = || match args.first() {
        Some(Arg::Text(text)) => Ok(*text),
        _ => Err(Error::method(name::INVALID_ARGS, "the first argument is a string")),
    };
    let flags = match args.get(1) {
        Some(Arg::U32(flags)) => *flags,
        _ => 0,
    };
    let empty = Body::default;
    let interface = header.interface.unwrap_or(DRIVER);
    match (interface, header.member.unwrap_or_default()) {
        ("org.freedesktop.DBus.Peer", "Ping") => Answer::Reply(empty()),
        (DRIVER, "RequestName") => text()
            .and_then(|name| authority.request_name(caller, name, flags))
            .map(|reply| empty().u32(reply as u32))
            .into(),
        (DRIVER, "ReleaseName") => text()
            .and_then(|name| authority.release_name(caller, name))
            .map(|reply| empty().u32(reply as u32))
            .into(),
        (DRIVER, "AddMatch") => {
            text().and_then(|rule| authority.add_match(caller, rule)).map(|()| empty()).into()
        }
        (DRIVER, "RemoveMatch") => {
            text().and_then(|rule| authority.remove_match(caller, rule)).map(|()| empty()).into()
        }
        (DRIVER, "ListNames") => {
            let names = authority.list_names();
            Answer::Reply(empty().texts(&names.iter().map(String::as_str).collect::<Vec<_>>()))
        }
        (DRIVER, "ListQueuedOwners") => text()
            .and_then(|name| authority.queued_owners(name))
            .map(|ids| {
                let ids: Vec<String> = ids.into_iter().map(unique_name).collect();
                empty().texts(&ids.iter().map(String::as_str).collect::<Vec<_>>())
            })
            .into(),
        (DRIVER, "NameHasOwner") => match text() {
            Ok(name) => {
                let has = u32::from(authority.owner_of(name).is_some());
                Answer::Reply(Body::marshalled(
                    weighbridge_dbus::wire::Endian::NATIVE,
                    "b",
                    &has.to_ne_bytes(),
                ))
            }
            Err(error) => Answer::Error(error),
        },
        (DRIVER, "GetNameOwner") => {
            text().and_then(|name| owner(authority, name)).map(|id| empty().text(&name_of(id))).into()
        }
        (DRIVER, "GetConnectionUnixUser") => {
            text().and_then(|name| credentials(authority, name)).map(|(uid, _)| empty().u32(uid)).into()
        }
        (DRIVER, "GetConnectionUnixProcessID") => {
            text().and_then(|name| credentials(authority, name)).map(|(_, pid)| empty().u32(pid)).into()
        }
        (DRIVER, "GetId") => Answer::Reply(empty().text(&authority.guid())),
        _ => Answer::Unknown,
    }
}

/// The unique name of a number.
pub fn unique_name(id: u64) -> String {
    format!(":1.{id}")
}

/// As D-Bus shows it: the bus itself has its well-known name only.
pub fn name_of(id: u64) -> String {
    if id == crate::port::AUTHORITY_ID { DRIVER.into() } else { unique_name(id) }
}

fn owner(authority: &Authority, name: &str) -> Result<u64> {
    authority
        .owner_of(name)
        .ok_or_else(|| Error::method(name::NAME_HAS_NO_OWNER, format!("no connection has the name {name}")))
}

fn credentials(authority: &Authority, name: &str) -> Result<(u32, u32)> {
    let id = owner(authority, name)?;
    Ok(authority.credentials(id).unwrap_or((rustix::process::geteuid().as_raw(), std::process::id())))
}

/// A rule from its text.
pub fn parse_rule(text: &str) -> Result<MatchRule> {
    text.parse().map_err(|error| {
        Error::method(name::MATCH_RULE_INVALID, format!("{text:?} is no match rule: {error}"))
    })
}

/// Fails for what cannot be owned.
pub fn check_ownable(name: &str) -> Result<()> {
    if names::is_well_known(name) && name != DRIVER {
        return Ok(());
    }
    Err(Error::method(name::INVALID_ARGS, format!("{name:?} is no name that a connection can own")))
}
