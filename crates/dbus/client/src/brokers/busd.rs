//! busd at an address of ours.

use std::io::Read;
use std::path::PathBuf;

use causeway_os::process::{Child, Spawn};

use super::{Broker, Started, listening, socket_name};

pub fn start(path: PathBuf) -> Started {
    let address = format!("unix:abstract={}", socket_name());
    let (ours, theirs) = std::io::pipe()?;
    let spawn = Spawn::new(path).args(["--address", &address, "--ready-fd", "3"]).fd(theirs.into());
    let child = Child::spawn(spawn.stderr(super::SILENT).dies_with_parent())?;
    match listening(ours, "it does not say that it is ready")?.read(&mut [0; 16]) {
        Ok(bytes) if bytes > 0 => Ok(Broker::new(address, child)),
        _ => Err("it ends at once".into()),
    }
}
