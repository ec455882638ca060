//! busd at an address of ours.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;

use causeway_os::process::{Child, Spawn, Stderr, poll};

use super::{Broker, PATIENCE, socket_name};

pub fn start(path: PathBuf) -> Result<Broker, String> {
    let address = format!("unix:abstract={}", socket_name());
    let (mut ours, theirs) = std::io::pipe().map_err(|error| error.to_string())?;
    let spawn = Spawn::new(path)
        .args(["--address", &address, "--ready-fd", "3"])
        .fd(theirs.into())
        .stderr(Stderr::Null)
        .dies_with_parent();
    let child = Child::spawn(spawn).map_err(|error| error.to_string())?;
    if !poll(&[ours.as_fd()], Some(PATIENCE)).map_err(|error| error.to_string())?[0] {
        return Err("it does not say that it is ready".into());
    }
    let mut ready = [0; 16];
    match ours.read(&mut ready) {
        Ok(bytes) if bytes > 0 => Ok(Broker { address, child, _controller: None, _folder: None }),
        _ => Err("it ends at once".into()),
    }
}
