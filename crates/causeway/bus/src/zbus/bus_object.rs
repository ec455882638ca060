//! What zbus asks of the bus itself and the directory answers, without a message.

use causeway_dbus_wire::wire::{Arg, Args, Body, Builder, Endian, Header, Kind};

use crate::authority::DRIVER;
use crate::connection::Connection;
use crate::error::{Error, name};

/// The name in the first argument of a call.
fn first_text<'a>(header: &Header<'a>, message: &'a [u8]) -> Option<&'a str> {
    match Args::new(header, &message[header.header_bytes..]).next() {
        Some(Ok(Arg::Text(text))) => Some(text),
        _ => None,
    }
}

/// The answer to a call of the bus; `None` if the authority has to give it. Hello is answered once.
pub(super) fn answer(
    connection: &Connection,
    has_said_hello: &mut bool,
    header: &Header<'_>,
    message: &[u8],
) -> Option<Body> {
    let is_for_bus = header.kind == Kind::MethodCall
        && header.destination.is_none_or(|name| name == DRIVER)
        && header.interface.is_none_or(|interface| interface == DRIVER);
    if !is_for_bus {
        return None;
    }
    let name = || first_text(header, message);
    Some(match header.member? {
        // The authority refuses a second one.
        "Hello" if !std::mem::replace(has_said_hello, true) => Body::default().text(connection.unique_name()),
        // Of names beyond the directory the authority knows.
        "GetNameOwner" => Body::default().text(&connection.name_owner(name()?)?),
        "NameHasOwner" => {
            connection.name_owner(name()?)?;
            Body::marshalled(Endian::NATIVE, "b", &u32::from(true).to_ne_bytes())
        }
        "GetId" => Body::default().text(&connection.bus_id()),
        _ => return None,
    })
}

/// A message that this library gives zbus in the name of the bus: the answer to the call with this serial.
pub(super) fn reply(connection: &Connection, to: u32, outcome: Result<Body, Error>) -> Vec<u8> {
    let text;
    let message = match outcome {
        Ok(body) => Builder::reply(to).body(body),
        Err(error) => {
            text = match &error {
                Error::Method { message, .. } => message.clone(),
                other => other.to_string(),
            };
            let name = match &error {
                Error::TooLong { .. } => name::LIMITS_EXCEEDED,
                Error::Invalid(_) => name::INVALID_ARGS,
                Error::AuthorityGone | Error::Disconnected(_) => name::NO_REPLY,
                other => other.name().unwrap_or("org.freedesktop.DBus.Error.Failed"),
            };
            let name = name.to_owned();
            return build(
                Builder::error(to, &name).body(Body::default().text(&text)),
                connection.unique_name(),
            );
        }
    };
    build(message, connection.unique_name())
}

fn build(message: Builder<'_>, destination: &str) -> Vec<u8> {
    // Its serial is nobody's: replies are not answered.
    let built = message.sender(DRIVER).destination(destination).build(u32::MAX);
    built.unwrap_or_else(|_| unreachable!("an answer of the bus is short"))
}
