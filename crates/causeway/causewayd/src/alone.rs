//! A bus of the session's settings in a thread of a program: for tests and measurements.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use causeway_bus::AuthorityOptions;

use crate::bus::Bus;
use crate::children::Children;
use crate::config::Config;
use crate::listen::{self, NativePlace};
use crate::serve::Server;

/// Serves a bus for native members alone at a path until `stop` becomes readable. Calls `ready` when members can join.
///
/// # Errors
/// In a sentence: another process serves there, the path cannot be used, or the kernel refuses something.
pub fn serve_alone(
    path: &Path,
    options: AuthorityOptions,
    stop: &OwnedFd,
    ready: impl FnOnce(),
) -> Result<(), String> {
    let mut server = session()?;
    server.serve_natively(NativePlace { path: path.into(), socket: None }, options)?;
    server.stop_with(stop)?;
    ready();
    server.run()
}

/// A bus that nobody can reach yet.
pub(crate) fn session() -> Result<Server, String> {
    let load = Arc::new(|| Ok(Config::session()));
    let bus = Bus::new(Config::session(), load, listen::new_guid(), String::new());
    let children = Children::new(rustix::process::getrlimit(rustix::process::Resource::Nofile));
    Server::new(bus, Vec::new(), children)
}
