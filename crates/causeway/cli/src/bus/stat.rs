//! `stat`: what each connection has done and what it waits for.

use std::collections::BTreeSet;
use std::io::{self, Write};

use causeway_bus::client::{Error, TIMEOUT};
use causeway_bus::wire::{Body, Builder};
use causeway_bus::{Monitor, Statistics};
use serde_json::{Map, Value, json};

use super::client::{DRIVER, numbers};
use super::list::{connection_name, of_dbus};
use super::show;
use super::which::{Place, connect, monitor};
use crate::failure::Failure;

type Count = fn(&Statistics) -> u64;

/// What is counted of a member: heading, name in JSON.
const COLUMNS: [(&str, &str, Count); 10] = [
    ("LAG", "lag", |of| of.lag),
    ("RECEIVED", "received", |of| of.received),
    ("SENT", "sent", |of| of.sent),
    ("SENT BYTES", "sent_bytes", |of| of.sent_bytes),
    ("WAKES", "wakes", |of| of.wakes),
    ("FOR NOTHING", "empty_wakes", |of| of.empty_wakes),
    ("FOR SPACE", "space_wakes", |of| of.space_wakes),
    ("CALLS OPEN", "calls_open", |of| of.calls_open),
    ("GONE", "gone", |of| of.gone),
    ("INCOMPLETE", "incomplete", |of| of.incomplete),
];

/// Prints the statistics: at a native socket those of the members, at a D-Bus socket those that the bus keeps of its connections.
pub fn stat(place: &Place, json: bool) -> Result<(), Failure> {
    match place {
        Place::Native(path) => of_native(&monitor(path)?, json),
        Place::Dbus(address) => of_connections(address, json),
    }
}

fn of_native(monitor: &Monitor, json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let members = monitor.members();
    if json {
        let rows = members.iter().map(|(peer, _, statistics)| {
            let mut row = json!({ "unique": connection_name(peer.id), "pid": peer.pid });
            for (_, name, of) in COLUMNS {
                row[name] = of(statistics).into();
            }
            row
        });
        let rows = rows.collect::<Value>();
        writeln!(out, "{}", json!({ "messages": monitor.messages(), "connections": rows }))?;
        return Ok(());
    }
    writeln!(out, "{} messages so far; the order log holds {}", monitor.messages(), monitor.order_entries())?;
    let rows = members.iter().map(|(peer, _, statistics)| {
        let numbers = COLUMNS.iter().map(|(_, _, of)| of(statistics).to_string());
        [connection_name(peer.id), peer.pid.to_string()].into_iter().chain(numbers).collect()
    });
    let headings = COLUMNS.iter().map(|(heading, ..)| *heading);
    let headings: Vec<&str> = ["CONNECTION", "PID"].into_iter().chain(headings).collect();
    Ok(show::table(&mut out, &headings, &rows.collect::<Vec<_>>())?)
}

fn of_connections(address: &str, json: bool) -> Result<(), Failure> {
    let mut connection = connect(address)?;
    let of_bus = numbers(&connection.call(&statistics("GetStats"), TIMEOUT).map_err(untold)?)?;
    let mut rows: Vec<(String, Option<u32>, Map<String, Value>)> = Vec::new();
    for peer in of_dbus(&mut connection)?.into_iter().filter(|peer| peer.unique != DRIVER) {
        let ask = statistics("GetConnectionStats").body(Body::default().text(&peer.unique));
        match connection.call(&ask, TIMEOUT) {
            Ok(reply) => rows.push((peer.unique, peer.pid, numbers(&reply)?)),
            Err(Error::Refused { name, .. }) if name.ends_with(".NameHasNoOwner") => {}
            Err(error) => return Err(untold(error)),
        }
    }
    let mut out = io::stdout().lock();
    if json {
        let rows = rows.into_iter();
        let rows = rows.map(|(unique, pid, of)| json!({ "unique": unique, "pid": pid, "statistics": of }));
        writeln!(out, "{}", json!({ "bus": of_bus, "connections": rows.collect::<Value>() }))?;
        return Ok(());
    }
    let of_bus: Vec<String> = of_bus.iter().map(|(name, value)| format!("{name} {value}")).collect();
    writeln!(out, "bus: {}", of_bus.join(", "))?;
    // Brokers count different things, and some of them not of every connection.
    let counted: BTreeSet<&str> = rows.iter().flat_map(|(.., of)| of.keys().map(String::as_str)).collect();
    let headings: Vec<&str> = ["CONNECTION", "PID"].into_iter().chain(counted.iter().copied()).collect();
    let absent = || "-".to_owned();
    let cells = rows.iter().map(|(unique, pid, of)| {
        let numbers = counted.iter().map(|name| of.get(*name).map_or_else(absent, ToString::to_string));
        let pid = pid.map_or_else(absent, |pid| pid.to_string());
        [unique.clone(), pid].into_iter().chain(numbers).collect()
    });
    Ok(show::table(&mut out, &headings, &cells.collect::<Vec<_>>())?)
}

/// A question to the bus about its statistics.
fn statistics(member: &str) -> Builder<'_> {
    Builder::of_driver(member).interface("org.freedesktop.DBus.Debug.Stats")
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
