//! `monitor` and `match`: messages as they pass.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use causeway_bus::client::{Error, TIMEOUT};
use causeway_bus::wire::{Body, Builder, Kind};
use causeway_bus::{MatchRule, Monitor, Observed};

use super::client::{LONG, is_for, next_signal, within};
use super::show::{self, Stamp};
use super::which::{self, Place, connect};
use crate::failure::Failure;

fn parsed(rule: &str) -> Result<MatchRule, Failure> {
    rule.parse().map_err(|error| Failure::Usage(format!("{rule:?} is not a match rule: {error}")))
}

/// Prints messages that one of the rules matches, or all if there is none.
pub fn monitor(at: &Place, rules: &[String], json: bool, limit: u64) -> Result<(), Failure> {
    let parsed: Vec<MatchRule> = rules.iter().map(|rule| parsed(rule)).collect::<Result<_, _>>()?;
    match at {
        Place::Native(path) => {
            monitor_native(parsed.into_iter().fold(which::monitor(path)?, Monitor::filter), json, limit)
        }
        Place::Dbus(address) => monitor_dbus(address, rules, json, limit),
    }
}

fn monitor_native(mut monitor: Monitor, json: bool, limit: u64) -> Result<(), Failure> {
    let mut left = limit;
    while left > 0 {
        match monitor.next(None)? {
            Some(Observed::Message(message)) => {
                let stamp = Stamp::in_order(message.position(), message.sent_ns());
                show::message(&mut io::stdout().lock(), message.bytes(), Some(stamp), json)?;
                left -= 1;
            }
            Some(Observed::Lost { messages }) => eprintln!("causeway: messages lost: {messages}"),
            None => {}
        }
    }
    Ok(())
}

fn monitor_dbus(address: &str, rules: &[String], json: bool, limit: u64) -> Result<(), Failure> {
    let mut connection = connect(address)?;
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let become_monitor = Builder::of_driver("BecomeMonitor").interface("org.freedesktop.DBus.Monitoring");
    let become_monitor = become_monitor.body(Body::default().texts(&rules).u32(0));
    connection.call(&become_monitor, TIMEOUT).map_err(|error| match error {
        Error::Refused { .. } => Failure::Failed(format!(
            "the bus does not let this connection monitor: {error}; `causeway bus match` shows signals that are for all"
        )),
        other => other.into(),
    })?;
    let mut left = limit;
    while left > 0 {
        // The bus tells this connection that it has a name, and then that it has lost it; nobody else can address a monitor.
        if let Some(message) = connection.receive(LONG)?
            && !is_for(&message, connection.unique_name())
        {
            show::message(&mut io::stdout().lock(), &message, Some(Stamp::now()), json)?;
            left -= 1;
        }
    }
    Ok(())
}

/// Prints signals that a rule matches. The exit code says whether the time was over before the limit was reached.
pub fn signals(
    at: &Place,
    rule: &str,
    json: bool,
    limit: Option<u64>,
    timeout: Option<Duration>,
) -> Result<ExitCode, Failure> {
    let parsed = parsed(rule)?;
    if parsed.kind.is_some_and(|kind| kind != Kind::Signal) {
        return Err(Failure::Usage(format!(
            "{rule:?} matches no signals; `causeway bus monitor` shows messages of all types"
        )));
    }
    if parsed.eavesdrop && matches!(at, Place::Native(_)) {
        return Err(Failure::Usage(
            "a member of the bus sees signals for all and for itself only, so it has no rules with eavesdrop; use `causeway bus monitor`".into(),
        ));
    }
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let (at, rule) = (at.clone(), rule.to_owned());
    let opened = within(timeout, move || {
        let mut bus = at.open()?;
        bus.add_match(&rule)?;
        Ok(bus)
    });
    let mut bus = match opened {
        Err(failure @ Failure::NoAnswer(_)) if limit.is_some() => {
            eprintln!("causeway: {failure}");
            return Ok(ExitCode::FAILURE);
        }
        other => other?,
    };
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(signal) = next_signal(&mut bus, deadline)? else {
            return Ok(if limit.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        };
        // Signals for this connection alone, such as NameAcquired, are not what was asked for.
        if parsed.destination.is_some() || !is_for(&signal, bus.unique_name()) {
            show::message(&mut io::stdout().lock(), &signal, None, json)?;
            left -= 1;
        }
    }
    Ok(ExitCode::SUCCESS)
}
