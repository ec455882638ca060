//! What zbus asks of the bus itself and the directory answers, without a message.

use causeway_dbus_wire::wire::{Args, Body, Builder, Endian, Header};

use crate::authority::DRIVER;
use crate::connection::{Connection, is_for_driver};
use crate::error::{Error, name};

/// The answer to a call of the bus; `None` if the authority has to give it. Hello is answered once.
pub(super) fn answer(
    connection: &Connection,
    has_said_hello: &mut bool,
    header: &Header<'_>,
    message: &[u8],
) -> Option<Body> {
    let name = || Args::of(message).first_text();
    Some(match header.member.filter(|_| is_for_driver(header))? {
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
    let (error, body) = match outcome {
        Ok(body) => (None, body),
        Err(Error::Method { name, message }) => (Some(name), Body::default().text(&message)),
        Err(other) => {
            let name = match &other {
                Error::TooLong { .. } => name::LIMITS_EXCEEDED,
                Error::Invalid(_) => name::INVALID_ARGS,
                Error::AuthorityGone | Error::Disconnected(_) => name::NO_REPLY,
                _ => name::FAILED,
            };
            (Some(name.to_owned()), Body::default().text(&other.to_string()))
        }
    };
    let message = error.as_deref().map_or_else(|| Builder::reply(to), |name| Builder::error(to, name));
    // Its serial is nobody's: replies are not answered.
    let built = message.sender(DRIVER).destination(connection.unique_name()).body(body).build(u32::MAX);
    built.unwrap_or_else(|_| unreachable!("an answer of the bus is short"))
}
