//! dbus-daemon, or a program that can take its place, with a configuration of ours, which it reads from a file in memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use causeway_os::memory::memfd;
use causeway_os::process::{Child, Spawn, Stderr, poll};

use super::{Broker, Limits, PATIENCE, socket_name};

/// The type `session` lets in this user and no other.
fn config(name: &str, limits: &Limits) -> String {
    let Limits { queued_bytes, match_rules } = limits;
    format!(
        "<busconfig><type>session</type><listen>unix:abstract={name}</listen><auth>EXTERNAL</auth>\
         <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/>\
         <allow own=\"*\"/></policy>\
         <limit name=\"max_outgoing_bytes\">{queued_bytes}</limit>\
         <limit name=\"max_match_rules_per_connection\">{match_rules}</limit>\
         <limit name=\"max_replies_per_connection\">100000</limit>\
         <limit name=\"max_completed_connections\">20000</limit>\
         <limit name=\"max_connections_per_user\">20000</limit></busconfig>"
    )
}

/// A configuration file in memory, of a bus that listens on a name in the abstract namespace.
pub fn config_file(name: &str, limits: &Limits) -> Result<OwnedFd, String> {
    let config = config(name, limits);
    let file = memfd("bus.conf", config.len() as u64).map_err(|error| error.to_string())?;
    let mut file = std::fs::File::from(file);
    file.write_all(config.as_bytes()).map_err(|error| error.to_string())?;
    Ok(file.into())
}

pub fn start(path: PathBuf, limits: &Limits) -> Result<Broker, String> {
    let file = config_file(&socket_name(), limits)?;
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let (ours, theirs) = std::io::pipe().map_err(|error| failed(&error))?;
    let spawn = Spawn::new(path)
        .arg("--config-file=/proc/self/fd/3")
        .args(["--print-address=4", "--nofork", "--nopidfile", "--nosyslog"])
        .fd(file)
        .fd(theirs.into())
        .stderr(Stderr::Null)
        .dies_with_parent();
    let child = Child::spawn(spawn).map_err(|error| failed(&error))?;
    // It writes its address when it listens; at the end of the pipe it has ended.
    if !poll(&[ours.as_fd()], Some(PATIENCE)).map_err(|error| failed(&error))?[0] {
        return Err("it does not say its address".into());
    }
    let mut address = String::new();
    let said = BufReader::new(ours.take(4096)).read_line(&mut address);
    match said {
        Ok(bytes) if bytes > 0 => {
            Ok(Broker { address: address.trim().into(), child, _controller: None, _folder: None })
        }
        _ => Err("it ends at once; with --session --nofork its own message says why".into()),
    }
}
