//! `start`: causewayd in the background.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;
use weighbridge_dbus::address::escaped;

use super::server;
use super::which::Which;
use crate::Failure;

/// Starts a bus, and prints where it serves when it does.
pub fn start(which: &Which, config_file: Option<PathBuf>, json: bool) -> Result<(), Failure> {
    let program = server::find()?;
    let Places { address, native } = Places::of(which)?;
    let native = native.filter(|_| program.is_native);
    let output = Command::new(&program.path)
        .args(server::arguments(&address, native.as_deref(), config_file))
        .args(["--fork", "--print-address", "--print-pid"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::Usage(format!("cannot start {}: {error}", program.path.display())))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    let (true, [address, .., pid]) = (output.status.success(), &lines[..]) else {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let why = complaint.lines().next().unwrap_or("causewayd has ended and does not say why");
        return Err(Failure::Usage(why.trim_start_matches("causewayd: ").to_owned()));
    };
    let mut out = io::stdout().lock();
    if json {
        let object = json!({ "address": address, "native": native, "pid": pid.parse::<u32>().ok() });
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "export DBUS_SESSION_BUS_ADDRESS={}", quoted(address))?;
    if let Some(native) = native {
        writeln!(out, "export CAUSEWAY_BUS={}", quoted(&native.display().to_string()))?;
    }
    writeln!(out, "export CAUSEWAYD_PID={pid}")?;
    Ok(())
}

/// Where a bus is to serve.
#[derive(Debug, PartialEq, Eq)]
struct Places {
    address: String,
    native: Option<PathBuf>,
}

impl Places {
    fn of(which: &Which) -> Result<Places, Failure> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
        let default = runtime.map(|folder| PathBuf::from(folder).join("causeway-bus"));
        Places::with_default(which, default)
    }

    fn with_default(which: &Which, default: Option<PathBuf>) -> Result<Places, Failure> {
        let address = match (&which.address, &default) {
            (Some(address), _) => address.clone(),
            (None, Some(path)) => {
                format!("unix:path={}", escaped(path.as_os_str().as_encoded_bytes()))
            }
            (None, None) => {
                return Err(Failure::Usage(
                    "say where to serve: --address unix:path=PATH --socket PATH; XDG_RUNTIME_DIR is not set"
                        .into(),
                ));
            }
        };
        let beside_default = || default.map(|path| path.with_extension("native"));
        Ok(Places { address, native: which.socket.clone().or_else(beside_default) })
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
        let native = |path: &str| Some(PathBuf::from(path));
        let default = Some("/run/a b/causeway-bus");
        assert_eq!(
            places(which(None, None), default),
            Some(("unix:path=/run/a%20b/causeway-bus".into(), native("/run/a b/causeway-bus.native")))
        );
        assert_eq!(
            places(which(Some("/n"), Some("unix:tmpdir=/tmp")), None),
            Some(("unix:tmpdir=/tmp".into(), native("/n")))
        );
        assert_eq!(places(which(Some("/n"), None), None), None);
    }

    #[test]
    fn a_quoted_word_is_one_word() {
        assert_eq!(quoted("a b'c"), "'a b'\\''c'");
    }
}
