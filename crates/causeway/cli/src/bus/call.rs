//! `call` and `emit`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use causeway_bus::client::Error;
use causeway_bus::wire::{Body, Builder, json as wire_json};

use super::client::{check_member, within};
use super::show;
use super::which::Place;
use crate::failure::Failure;

/// Calls a method and prints the reply.
pub fn call(place: &Place, call: &Builder<'_>, timeout: Duration, json: bool) -> Result<(), Failure> {
    let (start, place) = (Instant::now(), place.clone());
    let mut bus = within(Some(timeout), move || place.open())?;
    let reply = bus.call(call, timeout.saturating_sub(start.elapsed()))?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", wire_json::arguments(&reply).map_err(Error::Protocol)?)?;
        return Ok(());
    }
    for argument in show::arguments(&reply).map_err(Error::Protocol)? {
        writeln!(out, "{argument}")?;
    }
    Ok(())
}

/// Emits a signal.
pub fn emit(place: &Place, path: &str, interface: &str, member: &str, body: Body) -> Result<(), Failure> {
    check_member(path, interface, member)?;
    let mut bus = place.open()?;
    bus.send(&Builder::signal(path, interface, member).body(body))?;
    // The bus has read a signal at a socket when it answers to what was sent after it. That of a member stands in the log.
    if !bus.is_native() {
        bus.ask_driver("GetId", Body::default())?;
    }
    Ok(())
}
