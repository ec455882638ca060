//! `stat`: what each connection has done and what it waits for.

use std::io::{self, Write};

use causeway_bus::Monitor;
use causeway_bus::wire::{Body, Builder, Header, Value, values};
use serde_json::{Map, json};
use std::time::Duration;
use weighbridge_dbus_client::{Connection, Error};

use super::client::{DRIVER, DRIVER_PATH};
use super::list::of_gateway;
use super::show;
use super::which::{Bus, not_joined};
use crate::Failure;

const PATIENCE: Duration = Duration::from_secs(25);

/// Prints the statistics: at a native socket those of the members, at a D-Bus socket those that the bus keeps of its connections.
pub fn stat(bus: &Bus, json: bool) -> Result<(), Failure> {
    match bus {
        Bus::Native(path) => of_native(&Monitor::open(path).map_err(|error| not_joined(path, error))?, json),
        Bus::Gateway(address) => of_connections(address, json),
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
                    "unique": format!(":1.{}", peer.id), "pid": peer.pid, "lag": of.lag, "received": of.received,
                    "sent": of.sent, "sent_bytes": of.sent_bytes, "wakes": of.wakes, "empty_wakes": of.empty_wakes,
                    "space_wakes": of.space_wakes, "calls_open": of.calls_open, "gone": of.gone,
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
            ];
            std::iter::once(format!(":1.{}", peer.id)).chain(numbers.iter().map(u64::to_string)).collect()
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
    ];
    Ok(show::table(&mut out, &headings, &rows)?)
}

fn of_connections(address: &str, json: bool) -> Result<(), Failure> {
    let mut connection = Connection::open(address)?;
    let mut rows: Vec<(String, Option<u32>, Map<String, serde_json::Value>)> = Vec::new();
    for peer in of_gateway(&mut connection)?.into_iter().filter(|peer| peer.unique != DRIVER) {
        let ask = Builder::call(DRIVER_PATH, "GetConnectionStats")
            .interface("org.freedesktop.DBus.Debug.Stats")
            .destination(DRIVER)
            .body(Body::default().text(&peer.unique));
        match connection.call(&ask, PATIENCE) {
            Ok(reply) => rows.push((peer.unique, peer.pid, entries(&reply)?)),
            Err(Error::Refused { name, .. }) if name.ends_with(".NameHasNoOwner") => {}
            Err(error @ Error::Refused { .. }) => {
                return Err(Failure::Usage(format!(
                    "this bus tells no statistics at its D-Bus socket ({error}); a native socket tells them: --socket PATH"
                )));
            }
            Err(other) => return Err(other.into()),
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
        writeln!(out, "{}", json!({ "connections": rows }))?;
        return Ok(());
    }
    for (unique, pid, statistics) in rows {
        let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let statistics: Vec<String> =
            statistics.iter().map(|(name, value)| format!("{name} {value}")).collect();
        writeln!(out, "{unique} pid {pid}: {}", statistics.join(", "))?;
    }
    Ok(())
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
