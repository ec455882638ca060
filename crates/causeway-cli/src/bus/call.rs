//! `call` and `emit`.

use std::io::{self, Write};
use std::time::Duration;

use causeway_bus::wire::{Body, text};
use weighbridge_dbus_client::Error;

use super::client::{Client, Method, check_member};
use super::show;
use super::which::Bus;
use crate::Failure;

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
    let reply = Client::open(bus)?.call(method, body, timeout)?;
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
