//! Which bus a command is about.

use std::io;
use std::path::{Path, PathBuf};

use causeway_bus::client::{self, Address, Bus, Error};
use causeway_bus::{ConnectionOptions, Monitor, native_socket_beside, session_socket};
use clap::Args;

use super::folder;
use crate::failure::Failure;

/// The name of the D-Bus socket of `causeway bus start`, where it is told none.
pub const DEFAULT_NAME: &str = "causeway-bus";

/// The options that name a bus.
#[derive(Args)]
pub struct Which {
    /// The native socket of the bus; by default the one that belongs to DBUS_SESSION_BUS_ADDRESS, else the one that CAUSEWAY_BUS names
    #[arg(long, global = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The D-Bus socket of the bus, such as unix:path=/run/user/1000/bus; by default the one that DBUS_SESSION_BUS_ADDRESS names, or $XDG_RUNTIME_DIR/bus
    #[arg(long, global = true, value_name = "ADDRESS")]
    pub address: Option<String>,
}

/// A bus, by one of its sockets.
#[derive(Clone)]
pub enum Place {
    /// Its native socket.
    Native(PathBuf),
    /// The addresses of its D-Bus sockets.
    Dbus(String),
}

impl Place {
    /// Connects: as a member at a native socket, as a client at a D-Bus socket.
    pub fn open(&self) -> Result<Bus, Failure> {
        match self {
            Place::Native(path) => {
                Bus::join(path, ConnectionOptions::default()).map_err(|error| match error {
                    Error::Join { path, source } => not_joined(&path, source),
                    other => other.into(),
                })
            }
            Place::Dbus(address) => connect(address),
        }
    }
}

impl Which {
    /// With the options of a command that has its own of these names.
    #[must_use]
    pub fn with(self, socket: Option<PathBuf>, address: Option<String>) -> Which {
        Which { socket: socket.or(self.socket), address: address.or(self.address) }
    }

    /// The bus that the options name, or the environment.
    pub fn place(&self) -> Result<Place, Failure> {
        match (&self.socket, &self.address) {
            (Some(_), Some(_)) => Err(Failure::Usage(
                "--socket and --address name one bus each; leave one of them out".into(),
            )),
            (Some(path), None) => Ok(Place::Native(path.clone())),
            (None, Some(address)) => Ok(Place::Dbus(address.clone())),
            (None, None) => match session_socket()? {
                Some(path) => Ok(Place::Native(path)),
                None => client::session().map(Place::Dbus).map_err(|_| {
                    Failure::Usage(format!(
                        "say which bus: --socket PATH or --address ADDRESS; neither CAUSEWAY_BUS nor DBUS_SESSION_BUS_ADDRESS names one, and $XDG_RUNTIME_DIR/bus is not there{}",
                        started_one()
                    ))
                }),
            },
        }
    }
}

/// Words about a bus that `start` has made there, if it has.
fn started_one() -> String {
    let default = folder::known().map(|folder| native_socket_beside(&folder.join(DEFAULT_NAME)));
    let socket = default.filter(|socket| socket.exists());
    socket.map_or_else(String::new, |socket| {
        format!("; `causeway bus start` has made one: --socket {}", socket.display())
    })
}

// Numbers of the kernel's errors that have a way out; the same on all architectures of this program.
const ENOENT: i32 = 2;
const EPROTOTYPE: i32 = 91;
const ECONNREFUSED: i32 = 111;

/// A monitor of the bus with this native socket.
pub fn monitor(path: &Path) -> Result<Monitor, Failure> {
    Monitor::open(path).map_err(|error| not_joined(path, error))
}

/// The path of the first socket of a list of addresses that has one.
pub fn path_in(addresses: &str) -> Option<PathBuf> {
    Address::list(addresses).unwrap_or_default().into_iter().find_map(|address| match address {
        Address::Path(path) => Some(path),
        Address::Abstract(_) => None,
    })
}

/// Why a native socket cannot be joined, with what to do about it.
fn not_joined(path: &Path, error: causeway_bus::Error) -> Failure {
    let number = match &error {
        causeway_bus::Error::Os(error) => error.raw_os_error(),
        _ => None,
    };
    let shown = path.to_string_lossy();
    match number {
        Some(ENOENT) if shown.starts_with("unix:") => Failure::Failed(format!(
            "{shown} is an address and not the path of a native socket; write --address {shown}"
        )),
        Some(EPROTOTYPE) => Failure::Failed(format!(
            "{0} is not a native socket; if a D-Bus is served there, write --address unix:path={0}",
            path.display()
        )),
        Some(ENOENT | ECONNREFUSED) => {
            let is_named = std::env::var_os("CAUSEWAY_BUS").is_some_and(|named| *named == *path);
            Failure::Failed(format!(
                "no bus is served at {shown}{} ({}); `causeway bus start` starts one",
                if is_named { ", where CAUSEWAY_BUS says" } else { "" },
                io::Error::from_raw_os_error(number.unwrap_or_default())
            ))
        }
        _ => error.into(),
    }
}

/// Connects to a D-Bus socket.
pub fn connect(address: &str) -> Result<Bus, Failure> {
    Bus::connect(address).map_err(|error| {
        let Error::Connect { source, .. } = &error else { return error.into() };
        match (source.raw_os_error(), path_in(address)) {
            (Some(EPROTOTYPE), Some(path)) => Failure::Failed(format!(
                "{0} is not a D-Bus socket; if it is the native socket of a bus, write --socket {0}",
                path.display()
            )),
            (Some(ENOENT | ECONNREFUSED), _) => {
                Failure::Failed(format!("{error}; `causeway bus start` starts one"))
            }
            _ => error.into(),
        }
    })
}
