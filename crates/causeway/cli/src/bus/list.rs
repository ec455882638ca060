//! `list`: names, their owners, and the programs of these.

use std::io::{self, Write};

use causeway_bus::client::{Bus, Error};
use causeway_bus::wire::{Body, Header, Value, names, values};
use causeway_bus::{AUTHORITY_ID, Monitor, PeerId};
use serde_json::json;

use super::client::DRIVER;
use super::show;
use super::which::{Place, connect, not_joined};
use crate::failure::Failure;

/// A connection with its names.
pub struct Peer {
    pub unique: String,
    pub names: Vec<String>,
    pub pid: Option<u32>,
    pub uid: Option<u32>,
}

/// Prints every name.
pub fn list(place: &Place, json: bool) -> Result<(), Failure> {
    let peers = match place {
        Place::Native(path) => of_native(&Monitor::open(path).map_err(|error| not_joined(path, error))?),
        Place::Dbus(address) => of_dbus(&mut connect(address)?)?,
    };
    let mut rows: Vec<(&str, &Peer)> = peers
        .iter()
        .flat_map(|peer| {
            let names = peer.names.iter().map(String::as_str);
            names
                .chain((!peer.names.contains(&peer.unique)).then_some(peer.unique.as_str()))
                .map(move |name| (name, peer))
        })
        .collect();
    // Well-known names first.
    rows.sort_by_key(|(name, _)| (name.starts_with(':'), number_of(name), *name));
    let mut out = io::stdout().lock();
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, peer)| {
                json!({
                    "name": name, "owner": peer.unique, "pid": peer.pid, "uid": peer.uid,
                    "program": peer.pid.and_then(program),
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::Value::from(rows))?;
        return Ok(());
    }
    let cell = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, peer)| {
            let program = peer.pid.and_then(program).unwrap_or_else(|| "-".into());
            vec![
                (*name).into(),
                peer.unique.clone(),
                cell(peer.pid),
                cell(peer.uid),
                program.escape_debug().to_string(),
            ]
        })
        .collect();
    Ok(show::table(&mut out, &["NAME", "OWNER", "PID", "UID", "PROGRAM"], &rows)?)
}

/// `:1.10` comes after `:1.9`.
fn number_of(name: &str) -> u64 {
    name.rsplit('.').next().filter(|_| name.starts_with(':')).and_then(|last| last.parse().ok()).unwrap_or(0)
}

/// The unique name of a connection with this number; the bus itself has its well-known name only.
pub fn connection_name(id: PeerId) -> String {
    if id == AUTHORITY_ID { DRIVER.into() } else { format!(":1.{id}") }
}

fn of_native(monitor: &Monitor) -> Vec<Peer> {
    let members = monitor.members().into_iter();
    members
        .map(|(peer, names, _)| Peer {
            unique: connection_name(peer.id),
            names,
            // A process of another namespace has no number here.
            pid: Some(peer.pid).filter(|pid| *pid > 0),
            uid: Some(peer.uid),
        })
        .collect()
}

/// All connections but this one.
pub fn of_dbus(connection: &mut Bus) -> Result<Vec<Peer>, Failure> {
    let own = connection.unique_name().to_owned();
    let names = string_array(&connection.ask_driver("ListNames", Body::default())?)?;
    let mut peers: Vec<Peer> = Vec::new();
    for name in names {
        let owner = if names::is_unique(&name) {
            name.clone()
        } else if let Some(owner) = connection.name_owner(&name)? {
            owner
        } else {
            // It has lost its owner meanwhile.
            continue;
        };
        if owner == own {
            continue;
        }
        let at = match peers.iter().position(|peer| peer.unique == owner) {
            Some(at) => at,
            None => {
                let (pid, uid) = credentials(connection, &owner)?;
                peers.push(Peer { unique: owner, names: Vec::new(), pid, uid });
                peers.len() - 1
            }
        };
        if !names::is_unique(&name) {
            peers[at].names.push(name);
        }
    }
    Ok(peers)
}

/// The process and the user of a connection, as far as the bus tells them.
fn credentials(connection: &mut Bus, name: &str) -> Result<(Option<u32>, Option<u32>), Failure> {
    let reply = match connection.ask_driver("GetConnectionCredentials", Body::default().text(name)) {
        Ok(reply) => reply,
        Err(Error::Refused { .. }) => return Ok((None, None)),
        Err(other) => return Err(other.into()),
    };
    let header = Header::parse(&reply).map_err(Error::Protocol)?;
    let values = values(&header, &reply[header.header_bytes..]).map_err(Error::Protocol)?;
    let Some(Value::Dictionary(entries)) = values.first() else { return Ok((None, None)) };
    let number = |wanted: &str| {
        entries.iter().find_map(|(key, value)| match (key, value) {
            (Value::Text(key), Value::Variant(_, value)) if *key == wanted => match **value {
                Value::U32(number) => Some(number),
                _ => None,
            },
            _ => None,
        })
    };
    Ok((number("ProcessID"), number("UnixUserID")))
}

/// The strings of a reply of type `as`.
fn string_array(reply: &[u8]) -> Result<Vec<String>, Failure> {
    let header = Header::parse(reply).map_err(Error::Protocol)?;
    let values = values(&header, &reply[header.header_bytes..]).map_err(Error::Protocol)?;
    let Some(Value::Array(elements)) = values.into_iter().next() else { return Ok(Vec::new()) };
    let text = |value| if let Value::Text(text) = value { Some(text.to_owned()) } else { None };
    Ok(elements.into_iter().filter_map(text).collect())
}

/// The name of the program of a process, as the kernel keeps it.
fn program(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}
