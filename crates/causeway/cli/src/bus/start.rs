//! `start`: causewayd in the background.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use causeway_bus::{AUTHORITY_ID, Monitor, native_socket_beside};
use causeway_dbus_wire::address::escaped;
use serde_json::json;

use super::which::{DEFAULT_NAME, Which, path_in};
use super::{folder, server};
use crate::failure::Failure;

/// Starts a bus, and prints where it serves when it does.
pub fn start(which: &Which, config_file: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let program = server::find()?;
    let Places { address, native } = Places::of(which, config_file.is_none())?;
    let output = Command::new(&program)
        .args(server::arguments(&address, native.as_deref(), config_file))
        .args(["--fork", "--print-address", "--print-native", "--print-pid"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::Failed(format!("cannot start {}: {error}", program.display())))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    let (true, [address, native, pid]) = (output.status.success(), &lines[..]) else {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let why = complaint.lines().next().unwrap_or("causewayd has ended and does not say why");
        let why = why.trim_start_matches("causewayd: ");
        let is_busy = why.contains("another process serves there");
        let way_out = if is_busy { of_running(&address, native.as_deref()) } else { String::new() };
        return Err(Failure::Failed(format!("{why}{way_out}")));
    };
    let mut out = io::stdout().lock();
    if json {
        let object = json!({ "address": address, "native": native, "pid": pid.parse::<u32>().ok() });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "export DBUS_SESSION_BUS_ADDRESS={}", quoted(address))?;
    writeln!(out, "export CAUSEWAY_BUS={}", quoted(native))?;
    writeln!(out, "export CAUSEWAYD_PID={pid}")?;
    Ok(())
}

/// What to do about a bus that runs already: words that follow the sentence that it does.
fn of_running(address: &str, native: Option<&Path>) -> String {
    let monitor = native.and_then(|native| Monitor::open(native).ok());
    let members = monitor.map(|monitor| monitor.members()).unwrap_or_default();
    let own = members.iter().find(|(peer, ..)| peer.id == AUTHORITY_ID);
    let use_it = match (native, own) {
        (Some(native), Some((peer, ..))) => {
            format!("--socket {} uses it, `kill {}` ends it", native.display(), peer.pid)
        }
        _ => format!("--address {address} uses it"),
    };
    format!("; {use_it}, and `causeway bus start --address unix:path=PATH` starts another one")
}

/// Where a bus is to serve.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    address: String,
    /// Where causewayd chooses for a session if it is nothing.
    native: Option<PathBuf>,
}

impl Places {
    fn of(which: &Which, is_session: bool) -> Result<Places, Failure> {
        let native_of = |address: &str| {
            let next_to_it = path_in(address).map(|path| native_socket_beside(&path));
            which.socket.clone().or(next_to_it)
        };
        if let Some(address) = &which.address {
            let mut native = native_of(address);
            // A session chooses in the folder of the session, if there is one; what is no session serves natively only where it is told to.
            if native.is_none() && !(is_session && folder::of_session().is_some()) {
                native = Some(folder::for_sockets()?.join(server::unused_name("causeway-")));
            }
            return Ok(Places { address: address.clone(), native });
        }
        let path = folder::for_sockets()?.join(DEFAULT_NAME);
        let address = format!("unix:path={}", escaped(path.as_os_str().as_encoded_bytes()));
        Ok(Places { native: native_of(&address), address })
    }
}

/// A word for a shell that stands for this text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_serves_where_it_is_told_and_natively_next_to_it() {
        let places = |socket: Option<&str>, address: &str| {
            let which = Which { socket: socket.map(PathBuf::from), address: Some(address.to_owned()) };
            let places = Places::of(&which, true).map_err(|why| why.to_string()).unwrap();
            (places.address, places.native.unwrap())
        };
        for (socket, address, native) in [
            (Some("/n"), "unix:tmpdir=/tmp", "/n"),
            (None, "unix:path=/c%20d,guid=1", "/c d.native"),
            (Some("/n"), "unix:path=/c%20d", "/n"),
        ] {
            assert_eq!(places(socket, address), (address.to_owned(), PathBuf::from(native)));
        }
    }

    #[test]
    fn a_quoted_word_is_one_word() {
        assert_eq!(quoted("a b'c"), "'a b'\\''c'");
    }
}
