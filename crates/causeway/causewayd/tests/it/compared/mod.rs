//! causewayd and dbus-daemon with the same input: what one takes, the other takes, and what one delivers, the other delivers.
//!
//! Each difference stands in a table of its test, with the reason, and in `docs/bus-conformance.md`.

mod configuration;
mod decisions;
mod headers;
mod packages;
mod policies;
mod rules;
mod services;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use causeway_bus::client::{Bus as Client, Error};
use causeway_dbus_wire::wire::Body;

use crate::support::*;

const NOT_INSTALLED: &str = "dbus-daemon is not installed, so that its answers cannot be compared";

/// causewayd and then dbus-daemon with a configuration file, in this folder; nothing where dbus-daemon is not installed.
fn both(file: &Path, folder: &Path) -> Option<[Broker; 2]> {
    both_with(file, folder, &[])
}

/// As [`both`], with these variables in their environment.
fn both_with(file: &Path, folder: &Path, environment: &[(&str, &Path)]) -> Option<[Broker; 2]> {
    if !is_installed("dbus-daemon") {
        skipped(NOT_INSTALLED);
        return None;
    }
    let start = |mut command: Command| {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: a number that differs each time.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // dbus-daemon would leave a socket with a path behind.
        let address = format!("unix:abstract=causewayd-compared-{}-{number}", std::process::id());
        command.arg("--config-file").arg(file).args(["--address", &address, "--nopidfile", "--nosyslog"]);
        command.envs(environment.iter().copied());
        Broker::spawn(command.current_dir(folder).stdin(Stdio::null()).stderr(Stdio::null()))
    };
    Some([start(causewayd(&[])), start(Command::new("dbus-daemon"))])
}

/// The answer of the driver: `ok`, or the name of the error without the part that all have.
fn answer(client: &mut Client, member: &str, body: Body) -> String {
    match client.ask_driver(member, body) {
        Ok(_) => "ok".into(),
        Err(Error::Refused { name, .. }) => short(&name),
        Err(other) => panic!("{member}: {other}"),
    }
}

fn short(error: &str) -> String {
    error.trim_start_matches("org.freedesktop.DBus.Error.").to_owned()
}
