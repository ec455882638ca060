//! Seeing all messages of a bus, and learning from it which rules its connections have.

use causeway_bus::client::{Bus, Error, TIMEOUT};
use causeway_dbus_wire::wire::{Body, Builder, Header, Leaf, names, walk};

/// Rules that show a connection all messages on buses without monitors; the last one only broadcasts.
const EAVESDROP: &str = "eavesdrop='true'";
const BROADCASTS: &str = "type='signal'";

/// How much a connection sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Monitoring {
    /// Every message, in the order of the bus.
    Everything,
    /// Every message as far as the policy of the bus allows; why it is no monitor.
    Eavesdropping(String),
    /// Broadcasts only; why not more.
    Broadcasts(String),
}

/// Lets a connection see the messages of all others: as a monitor, or with rules that eavesdrop, or at least broadcasts.
///
/// # Errors
/// The bus allows none of them, or the connection failed.
pub fn become_monitor(connection: &mut Bus) -> Result<Monitoring, Error> {
    let why = match connection.become_monitor() {
        Ok(()) => return Ok(Monitoring::Everything),
        Err(why @ Error::Refused { .. }) => why.to_string(),
        Err(other) => return Err(other),
    };
    match connection.ask_driver("AddMatch", Body::default().text(EAVESDROP)) {
        Ok(_) => return Ok(Monitoring::Eavesdropping(why)),
        Err(Error::Refused { .. }) => {}
        Err(other) => return Err(other),
    }
    connection.ask_driver("AddMatch", Body::default().text(BROADCASTS))?;
    Ok(Monitoring::Broadcasts(why))
}

/// Asks the driver for the rules of all connections, who owns which name, and the process of each connection. A monitor
/// of the bus sees the answers. They are returned too: pairs of call and reply, in order. A refusal for one
/// connection, which may have left meanwhile, is passed over.
///
/// # Errors
/// [`Error::Refused`] when the bus does not tell rules at all; everything else was asked and answered all the same, and
/// stands in `seen`.
pub fn rules_and_processes(connection: &mut Bus, seen: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
    let names = ask(connection, &Builder::of_driver("ListNames"), seen)?;
    for name in texts(&names) {
        if names::is_unique(&name) {
            process_of(connection, &name, seen)?;
        } else {
            ask_about(connection, "GetNameOwner", &name, seen)?;
        }
    }
    let rules = Builder::of_driver("GetAllMatchRules").interface("org.freedesktop.DBus.Debug.Stats");
    ask(connection, &rules, seen).map(|_| ())
}

/// Asks the driver for the process of a connection, in the manner of [`rules_and_processes`].
///
/// # Errors
/// The connection to the bus failed. A refusal is passed over: the other connection may have left.
pub fn process_of(connection: &mut Bus, name: &str, seen: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
    ask_about(connection, "GetConnectionUnixProcessID", name, seen)
}

fn ask_about(
    connection: &mut Bus,
    member: &str,
    name: &str,
    seen: &mut dyn FnMut(&[u8]),
) -> Result<(), Error> {
    match ask(connection, &Builder::of_driver(member).body(Body::default().text(name)), seen) {
        Ok(_) | Err(Error::Refused { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// Calls, and shows call and reply as a monitor would see them.
fn ask(connection: &mut Bus, call: &Builder<'_>, seen: &mut dyn FnMut(&[u8])) -> Result<Vec<u8>, Error> {
    let reply = connection.call(call, TIMEOUT)?;
    let serial = Header::parse(&reply).map_err(Error::Protocol)?.reply_serial.unwrap_or(1);
    let sent = call.clone().sender(connection.unique_name()).build(serial);
    seen(&sent.map_err(|long| Error::Io(std::io::Error::other(long)))?);
    seen(&reply);
    Ok(reply)
}

/// All strings of a body.
fn texts(bytes: &[u8]) -> Vec<String> {
    let Ok(header) = Header::parse(bytes) else { return Vec::new() };
    let mut texts = Vec::new();
    let _ = walk(&header, &bytes[header.header_bytes..], &mut |leaf, _| {
        if let Leaf::Text(text) = leaf {
            texts.push(text.to_owned());
        }
    });
    texts
}
