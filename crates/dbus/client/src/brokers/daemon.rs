//! dbus-daemon, or a program that can take its place, with a configuration of ours, which it reads from a file in memory.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use causeway_os::memory::memfd;
use causeway_os::process::{Child, Spawn};

use super::{Broker, Limits, SILENT, Started, listening, socket_name};

/// The type `session` lets in this user and no other.
fn config(name: &str, limits: &Limits) -> String {
    let Limits { queued_bytes, match_rules, read_bytes } = limits;
    let reading = read_bytes.map_or(String::new(), |bytes| {
        format!("<limit name=\"max_bytes_read_per_iteration\">{bytes}</limit>")
    });
    format!(
        "<busconfig><type>session</type><listen>unix:abstract={name}</listen><auth>EXTERNAL</auth>\
         <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/>\
         <allow own=\"*\"/></policy>\
         <limit name=\"max_outgoing_bytes\">{queued_bytes}</limit>\
         <limit name=\"max_match_rules_per_connection\">{match_rules}</limit>\
         {reading}\
         <limit name=\"max_replies_per_connection\">100000</limit>\
         <limit name=\"max_completed_connections\">20000</limit>\
         <limit name=\"max_connections_per_user\">20000</limit></busconfig>"
    )
}

/// A configuration file in memory, of a bus that listens on a name in the abstract namespace.
pub fn config_file(name: &str, limits: &Limits) -> Result<OwnedFd, Box<dyn Error>> {
    let config = config(name, limits);
    let mut file = std::fs::File::from(memfd("bus.conf", config.len() as u64)?);
    file.write_all(config.as_bytes())?;
    Ok(file.into())
}

pub fn start(path: PathBuf, limits: &Limits) -> Started {
    let (ours, theirs) = std::io::pipe()?;
    let spawn = Spawn::new(path)
        .arg("--config-file=/proc/self/fd/3")
        .args(["--print-address=4", "--nofork", "--nopidfile", "--nosyslog"])
        .fd(config_file(&socket_name(), limits)?)
        .fd(theirs.into());
    let child = Child::spawn(spawn.stderr(SILENT).dies_with_parent())?;
    // It writes its address when it listens; at the end of the pipe it has ended.
    let mut address = String::new();
    let said = listening(ours, "it does not say its address")?.take(4096);
    match BufReader::new(said).read_line(&mut address) {
        Ok(bytes) if bytes > 0 => Ok(Broker::new(address.trim().into(), child)),
        _ => Err("it ends at once; with --session --nofork its own message says why".into()),
    }
}
