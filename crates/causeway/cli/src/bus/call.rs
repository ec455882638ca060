//! `call` and `emit`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use causeway_bus::wire::{Body, text};
use weighbridge_dbus_client::Error;

use super::client::{Client, Method, check_member, within};
use super::show;
use super::which::Bus;
use crate::failure::Failure;

/// Arguments from words.
pub fn body(signature: &str, words: &[String]) -> Result<Body, Failure> {
    text::marshalled(signature, words).map_err(Failure::Usage)
}

/// Calls a method and prints the reply.
pub fn call(
    bus: &Bus,
    method: &Method<'_>,
    body: Body,
    timeout: Duration,
    json: bool,
) -> Result<(), Failure> {
    let (start, bus) = (Instant::now(), bus.clone());
    let mut client = within(Some(timeout), move || Client::open(&bus))?;
    let reply = client.call(method, body, timeout.saturating_sub(start.elapsed()))?;
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", show::arguments_as_json(&reply).map_err(Error::Protocol)?)?;
        return Ok(());
    }
    for argument in show::arguments(&reply).map_err(Error::Protocol)? {
        writeln!(out, "{argument}")?;
    }
    Ok(())
}

/// Emits a signal.
pub fn emit(bus: &Bus, path: &str, interface: &str, member: &str, body: Body) -> Result<(), Failure> {
    check_member(path, interface, member)?;
    Client::open(bus)?.emit(path, interface, member, body)
}
