//! `stat`: what each connection has done and what it waits for.

use std::collections::BTreeSet;
use std::io::{self, Write};

use causeway_bus::client::{Bus, Error, TIMEOUT};
use causeway_bus::wire::Body;
use causeway_bus::{Monitor, Statistics, name_of};
use causeway_os::process::program;
use serde_json::{Value, json};

use super::client::{DRIVER, numbers};
use super::facts::{self, Facts, question};
use super::list::{Peer, of_dbus};
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

/// Prints the statistics: at a native socket those of the members, at a D-Bus socket those that the bus keeps of its
/// connections.
pub fn stat(place: &Place, json: bool) -> Result<(), Failure> {
    match place {
        Place::Native(path) => of_native(place, &monitor(path)?, json),
        Place::Dbus(address) => of_connections(address, json),
    }
}

fn of_native(place: &Place, monitor: &Monitor, json: bool) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let members = monitor.members();
    if json {
        // As a member like others; where no place is left, what stands in shared memory is said all the same.
        let asked = place.open().and_then(|mut bus| facts::of_connections(&mut bus, u32::MAX));
        let known = asked.ok().flatten().unwrap_or_default();
        let rows = members.iter().map(|(peer, _, statistics)| {
            let unique = name_of(peer.id);
            let facts = known.iter().find(|facts| facts.unique == unique);
            let mut row = facts.map_or_else(|| json!({ "unique": unique }), Facts::json);
            row["pid"] = peer.pid.into();
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
        [name_of(peer.id), show::process(Some(peer.pid), Some(peer.uid))].into_iter().chain(numbers).collect()
    });
    let headings = COLUMNS.iter().map(|(heading, ..)| *heading);
    let headings: Vec<&str> = ["CONNECTION", "PID"].into_iter().chain(headings).collect();
    Ok(show::table(&mut out, &headings, &rows.collect::<Vec<_>>())?)
}

fn of_connections(address: &str, json: bool) -> Result<(), Failure> {
    let mut connection = connect(address)?;
    let of_bus = numbers(&connection.call(&question("GetStats"), TIMEOUT).map_err(untold)?)?;
    let rows = match facts::of_connections(&mut connection, u32::MAX)? {
        Some(rows) => rows,
        None => of_each(&mut connection)?,
    };
    let mut out = io::stdout().lock();
    if json {
        let rows = rows.iter().map(Facts::json);
        writeln!(out, "{}", json!({ "bus": of_bus, "connections": rows.collect::<Value>() }))?;
        return Ok(());
    }
    let of_bus = of_bus.iter().filter(|(_, value)| value.is_u64());
    let of_bus: Vec<String> = of_bus.map(|(name, value)| format!("{name} {value}")).collect();
    writeln!(out, "bus: {}", of_bus.join(", "))?;
    // Brokers count different things, and some of them not of every connection.
    let numbers = rows.iter().flat_map(|row| row.statistics.iter().filter(|(_, value)| value.is_u64()));
    let counted: BTreeSet<&str> = numbers.map(|(key, _)| key.as_str()).collect();
    // What has a peak is shown always, and the peak in JSON; all else where there is any.
    let is_shown = |key: &&str| {
        let is_main = counted.contains(format!("Peak{key}").as_str());
        !key.starts_with("Peak") && (is_main || rows.iter().any(|row| row.number(key) > 0))
    };
    let shown: Vec<&str> = counted.iter().copied().filter(is_shown).collect();
    let headings: Vec<&str> =
        ["CONNECTION", "PID", "PROGRAM"].into_iter().chain(shown.iter().copied()).collect();
    let absent = || "-".to_owned();
    let cells = rows.iter().map(|row| {
        let numbers =
            shown.iter().map(|name| row.statistics.get(*name).map_or_else(absent, ToString::to_string));
        let pid = show::process(row.pid, row.uid);
        [row.unique.clone(), pid, shown_text(&row.program)].into_iter().chain(numbers).collect()
    });
    Ok(show::table(&mut out, &headings, &cells.collect::<Vec<_>>())?)
}

/// A text of the kernel for a terminal.
pub fn shown_text(text: &Option<String>) -> String {
    text.as_ref()
        .filter(|text| !text.is_empty())
        .map_or_else(|| "-".into(), |text| text.escape_debug().to_string())
}

/// The statistics of a broker that tells them of one connection at a time.
fn of_each(connection: &mut Bus) -> Result<Vec<Facts>, Failure> {
    let mut rows = Vec::new();
    for Peer { unique, names, pid, uid } in
        of_dbus(connection)?.into_iter().filter(|peer| peer.unique != DRIVER)
    {
        let ask = question("GetConnectionStats").body(Body::default().text(&unique));
        match connection.call(&ask, TIMEOUT) {
            Ok(reply) => {
                let (statistics, program) = (numbers(&reply)?, pid.and_then(program));
                rows.push(Facts { unique, names, pid, uid, program, cgroup: None, statistics });
            }
            Err(Error::Refused { name, .. }) if name.ends_with(".NameHasNoOwner") => {}
            Err(error) => return Err(untold(error)),
        }
    }
    Ok(rows)
}

/// Why there are no statistics.
pub fn untold(error: Error) -> Failure {
    match error {
        Error::Refused { .. } => Failure::Failed(format!(
            "this bus tells no statistics at its D-Bus socket ({error}); a native socket tells them: --socket PATH"
        )),
        other => other.into(),
    }
}
