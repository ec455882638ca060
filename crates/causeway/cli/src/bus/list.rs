//! `list`: names, their owners, and the programs of these.

use std::io::{self, Write};

use causeway_bus::client::{Bus, Error};
use causeway_bus::wire::{Body, arguments_of, names};
use causeway_bus::{Monitor, name_of};
use causeway_os::process::program;
use serde_json::json;

use super::client::numbers;
use super::show;
use super::which::{Place, connect, monitor};
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
        Place::Native(path) => of_native(&monitor(path)?),
        Place::Dbus(address) => of_dbus(&mut connect(address)?)?,
    };
    let mut rows: Vec<(&str, &Peer)> = Vec::new();
    for peer in &peers {
        rows.extend(peer.names.iter().map(|name| (name.as_str(), peer)));
        if !peer.names.contains(&peer.unique) {
            rows.push((&peer.unique, peer));
        }
    }
    // Well-known names first, and `:1.10` after `:1.9`.
    rows.sort_by_key(|(name, _)| {
        let last = name.rsplit('.').next().filter(|_| name.starts_with(':'));
        (name.starts_with(':'), last.and_then(|last| last.parse::<u64>().ok()).unwrap_or(0), *name)
    });
    let mut out = io::stdout().lock();
    if json {
        let rows = rows.iter().map(|(name, peer)| {
            json!({
                "name": name, "owner": peer.unique, "pid": peer.pid, "uid": peer.uid,
                "program": peer.pid.and_then(program),
            })
        });
        writeln!(out, "{}", rows.collect::<serde_json::Value>())?;
        return Ok(());
    }
    let cell = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let rows = rows.iter().map(|(name, peer)| {
        let program = peer.pid.and_then(program).unwrap_or_else(|| "-".into());
        let program = program.escape_debug().to_string();
        vec![(*name).into(), peer.unique.clone(), show::process(peer.pid, peer.uid), cell(peer.uid), program]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    Ok(show::table(&mut out, &["NAME", "OWNER", "PID", "UID", "PROGRAM"], &rows)?)
}

fn of_native(monitor: &Monitor) -> Vec<Peer> {
    let members = monitor.members().into_iter();
    let peers = members.map(|(peer, names, _)| Peer {
        unique: name_of(peer.id),
        names,
        // A process of another namespace has no number here.
        pid: Some(peer.pid).filter(|pid| *pid > 0),
        uid: Some(peer.uid),
    });
    peers.collect()
}

/// All connections but this one.
pub fn of_dbus(connection: &mut Bus) -> Result<Vec<Peer>, Failure> {
    let own = connection.unique_name().to_owned();
    let names = connection.ask_driver("ListNames", Body::default())?;
    let names: Vec<&str> = arguments_of(&names).map_err(Error::from)?;
    let mut peers: Vec<Peer> = Vec::new();
    for name in names {
        let is_unique = names::is_unique(name);
        // It may have lost its owner meanwhile.
        let owner = if is_unique { Some(name.to_owned()) } else { connection.name_owner(name)? };
        let Some(owner) = owner.filter(|owner| *owner != own) else { continue };
        let at = match peers.iter().position(|peer| peer.unique == owner) {
            Some(at) => at,
            None => {
                let (pid, uid) = credentials(connection, &owner)?;
                peers.push(Peer { unique: owner, names: Vec::new(), pid, uid });
                peers.len() - 1
            }
        };
        if !is_unique {
            peers[at].names.push(name.to_owned());
        }
    }
    Ok(peers)
}

/// The process and the user of a connection, as far as the bus tells them.
fn credentials(connection: &mut Bus, name: &str) -> Result<(Option<u32>, Option<u32>), Failure> {
    let reply = match connection.ask_driver("GetConnectionCredentials", Body::default().text(name)) {
        Err(Error::Refused { .. }) => return Ok((None, None)),
        reply => reply?,
    };
    let numbers = numbers(&reply)?;
    let number = |name: &str| numbers.get(name)?.as_u64()?.try_into().ok();
    Ok((number("ProcessID"), number("UnixUserID")))
}
