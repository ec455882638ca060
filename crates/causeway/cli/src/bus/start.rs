//! `start`: causewayd in the background.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use causeway_bus::{AUTHORITY_ID, Monitor, native_socket_beside};
use causeway_dbus_wire::address::escaped;
use serde_json::json;

use super::server;
use super::which::{Which, default_path, path_in};
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
        .map_err(|error| Failure::Usage(format!("cannot start {}: {error}", program.display())))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    let (true, [address, native, pid]) = (output.status.success(), &lines[..]) else {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let why = complaint.lines().next().unwrap_or("causewayd has ended and does not say why");
        let why = why.trim_start_matches("causewayd: ");
        let is_busy = why.contains("another process serves there");
        let way_out = if is_busy { of_running(&address, native.as_deref()) } else { String::new() };
        return Err(Failure::Usage(format!("{why}{way_out}")));
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
        let default = default_path();
        let places = Places::with_default(which, default.clone())?;
        // A bus that is no session serves natively only where it is told to.
        let unused = default.filter(|_| !is_session);
        let unused = unused.map(|path| path.with_file_name(server::unused_name("causeway-")));
        Ok(Places { native: places.native.or(unused), ..places })
    }

    /// With the path of the D-Bus socket of a session. The native socket is next to that of D-Bus, where this has a file.
    fn with_default(which: &Which, default: Option<PathBuf>) -> Result<Places, Failure> {
        const NOWHERE: &str =
            "say where to serve: --address unix:path=PATH --socket PATH; XDG_RUNTIME_DIR is not set";
        let nowhere = || Failure::Usage(NOWHERE.into());
        let can_choose = default.is_some() || which.socket.is_some();
        let (address, file) = match (&which.address, default) {
            (Some(address), _) => (address.clone(), path_in(address)),
            (None, Some(path)) => {
                (format!("unix:path={}", escaped(path.as_os_str().as_encoded_bytes())), Some(path))
            }
            (None, None) => return Err(nowhere()),
        };
        let next_to_it = file.map(|path| native_socket_beside(&path));
        let native = which.socket.clone().or(next_to_it);
        if native.is_none() && !can_choose {
            return Err(nowhere());
        }
        Ok(Places { address, native })
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
    fn a_bus_serves_where_it_is_told_and_else_in_the_folder_of_the_session() {
        let which = |socket: Option<&str>, address: Option<&str>| Which {
            socket: socket.map(PathBuf::from),
            address: address.map(str::to_owned),
        };
        let places = |which: Which, default: Option<&str>| {
            Places::with_default(&which, default.map(PathBuf::from))
                .map(|places| (places.address, places.native))
                .ok()
        };
        let default = Some("/run/a b/causeway-bus");
        for (socket, address, default, expected) in [
            (
                None,
                None,
                default,
                Some(("unix:path=/run/a%20b/causeway-bus", Some("/run/a b/causeway-bus.native"))),
            ),
            // Two buses without files do not meet.
            (None, Some("unix:tmpdir=/tmp"), default, Some(("unix:tmpdir=/tmp", None))),
            (Some("/n"), Some("unix:tmpdir=/tmp"), None, Some(("unix:tmpdir=/tmp", Some("/n")))),
            (
                None,
                Some("unix:path=/c%20d,guid=1"),
                default,
                Some(("unix:path=/c%20d,guid=1", Some("/c d.native"))),
            ),
            (Some("/n"), None, None, None),
            (None, Some("unix:tmpdir=/tmp"), None, None),
        ] {
            let expected = expected.map(|(address, native)| (address.to_owned(), native.map(PathBuf::from)));
            assert_eq!(places(which(socket, address), default), expected, "{socket:?} {address:?}");
        }
    }

    #[test]
    fn a_quoted_word_is_one_word() {
        assert_eq!(quoted("a b'c"), "'a b'\\''c'");
    }
}
