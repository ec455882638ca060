//! `stat`: what each connection has done and what it waits for.

use std::collections::BTreeSet;
use std::io::{self, Write};

use causeway_bus::Monitor;
use causeway_bus::client::{Error, TIMEOUT};
use causeway_bus::wire::{Body, Builder, Header, Value, values};
use serde_json::{Map, json};

use super::client::{DRIVER, DRIVER_PATH};
use super::list::{connection_name, of_dbus};
use super::show;
use super::which::{Place, connect, not_joined};
use crate::failure::Failure;

/// Prints the statistics: at a native socket those of the members, at a D-Bus socket those that the bus keeps of its connections.
pub fn stat(place: &Place, json: bool) -> Result<(), Failure> {
    match place {
        Place::Native(path) => {
            of_native(&Monitor::open(path).map_err(|error| not_joined(path, error))?, json)
        }
        Place::Dbus(address) => of_connections(address, json),
    }
}

fn of_native(monitor: &Monitor, json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let members = monitor.members();
    if json {
        let rows: Vec<_> = members
            .iter()
            .map(|(peer, _, of)| {
                json!({
                    "unique": connection_name(peer.id), "pid": peer.pid, "lag": of.lag, "received": of.received,
                    "sent": of.sent, "sent_bytes": of.sent_bytes, "wakes": of.wakes, "empty_wakes": of.empty_wakes,
                    "space_wakes": of.space_wakes, "calls_open": of.calls_open, "gone": of.gone,
                    "incomplete": of.incomplete,
                })
            })
            .collect();
        writeln!(out, "{}", json!({ "messages": monitor.messages(), "connections": rows }))?;
        return Ok(());
    }
    writeln!(out, "{} messages so far; the order log holds {}", monitor.messages(), monitor.order_entries())?;
    let rows: Vec<Vec<String>> = members
        .iter()
        .map(|(peer, _, of)| {
            let numbers = [
                u64::from(peer.pid),
                of.lag,
                of.received,
                of.sent,
                of.sent_bytes,
                of.wakes,
                of.empty_wakes,
                of.space_wakes,
                of.calls_open,
                of.gone,
                of.incomplete,
            ];
            std::iter::once(connection_name(peer.id)).chain(numbers.iter().map(u64::to_string)).collect()
        })
        .collect();
    let headings = [
        "CONNECTION",
        "PID",
        "LAG",
        "RECEIVED",
        "SENT",
        "SENT BYTES",
        "WAKES",
        "FOR NOTHING",
        "FOR SPACE",
        "CALLS OPEN",
        "GONE",
        "INCOMPLETE",
    ];
    Ok(show::table(&mut out, &headings, &rows)?)
}

fn of_connections(address: &str, json: bool) -> Result<(), Failure> {
    let mut connection = connect(address)?;
    let of_bus = connection.call(&statistics("GetStats"), TIMEOUT).map_err(untold)?;
    let of_bus = entries(&of_bus)?;
    let mut rows: Vec<(String, Option<u32>, Map<String, serde_json::Value>)> = Vec::new();
    for peer in of_dbus(&mut connection)?.into_iter().filter(|peer| peer.unique != DRIVER) {
        let ask = statistics("GetConnectionStats").body(Body::default().text(&peer.unique));
        match connection.call(&ask, TIMEOUT) {
            Ok(reply) => rows.push((peer.unique, peer.pid, entries(&reply)?)),
            Err(Error::Refused { name, .. }) if name.ends_with(".NameHasNoOwner") => {}
            Err(error) => return Err(untold(error)),
        }
    }
    let mut out = io::stdout().lock();
    if json {
        let rows: Vec<_> = rows
            .into_iter()
            .map(
                |(unique, pid, statistics)| json!({ "unique": unique, "pid": pid, "statistics": statistics }),
            )
            .collect();
        writeln!(out, "{}", json!({ "bus": of_bus, "connections": rows }))?;
        return Ok(());
    }
    let words = |statistics: &Map<String, serde_json::Value>| {
        statistics.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    };
    writeln!(out, "bus: {}", words(&of_bus))?;
    // Brokers count different things, and some of them not of every connection.
    let counted: BTreeSet<&str> = rows.iter().flat_map(|(.., of)| of.keys().map(String::as_str)).collect();
    let headings: Vec<&str> = ["CONNECTION", "PID"].into_iter().chain(counted.iter().copied()).collect();
    let absent = || "-".to_owned();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|(unique, pid, of)| {
            let numbers = counted.iter().map(|name| of.get(*name).map_or_else(absent, ToString::to_string));
            [unique.clone(), pid.map_or_else(absent, |pid| pid.to_string())]
                .into_iter()
                .chain(numbers)
                .collect()
        })
        .collect();
    Ok(show::table(&mut out, &headings, &cells)?)
}

/// A question to the bus about its statistics.
fn statistics(member: &str) -> Builder<'_> {
    Builder::call(DRIVER_PATH, member).interface("org.freedesktop.DBus.Debug.Stats").destination(DRIVER)
}

/// Why there are no statistics.
fn untold(error: Error) -> Failure {
    match error {
        Error::Refused { .. } => Failure::Usage(format!(
            "this bus tells no statistics at its D-Bus socket ({error}); a native socket tells them: --socket PATH"
        )),
        other => other.into(),
    }
}

/// The numbers of a reply of type `a{sv}`.
fn entries(reply: &[u8]) -> Result<Map<String, serde_json::Value>, Failure> {
    let header = Header::parse(reply).map_err(Error::Protocol)?;
    let values = values(&header, &reply[header.header_bytes..]).map_err(Error::Protocol)?;
    let Some(Value::Dictionary(entries)) = values.into_iter().next() else { return Ok(Map::new()) };
    Ok(entries
        .iter()
        .filter_map(|(key, value)| match (key, value) {
            (Value::Text(key), Value::Variant(_, value)) if !matches!(**value, Value::Text(_)) => {
                Some(((*key).to_owned(), show::as_json(value)))
            }
            _ => None,
        })
        .collect())
}
