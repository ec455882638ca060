//! Sockets that systemd hands over, and telling it that the bus serves.
//!
//! Source: the manual pages sd_listen_fds(3) and sd_notify(3).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use causeway_os::process::inherited_fd;

use crate::listen::Listener;

/// The address that stands for all sockets of systemd.
pub const ADDRESS: &str = "systemd:";
/// What is for this process, and not for services that it starts.
pub const VARIABLES: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET"];
/// The first of the descriptors.
const FIRST: i32 = 3;
const MOST: i32 = 32;

/// Takes the sockets that systemd has handed to this process.
///
/// # Errors
/// In a sentence: there are none, or one of them is no Unix socket that listens.
pub fn listeners(guid: &str) -> Result<Vec<Listener>, String> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let is_for_us = number("LISTEN_PID") == Some(std::process::id().cast_signed());
    let count = number("LISTEN_FDS").filter(|_| is_for_us).unwrap_or(0);
    if !(1..=MOST).contains(&count) {
        return Err(format!(
            "`{ADDRESS}` stands for 1 to {MOST} sockets of a socket unit, and {count} were handed to this process; start it by its unit and with --nofork, or write unix:path=PATH"
        ));
    }
    (FIRST..FIRST + count)
        .map(|number| {
            let socket = inherited_fd(number).map_err(|error| error.to_string())?;
            Listener::inherited(socket, guid)
                .map_err(|why| format!("descriptor {number} of systemd cannot be used: {why}"))
        })
        .collect()
}

/// Says that clients can connect, where a service manager waits for that.
///
/// # Errors
/// In a sentence: it cannot be told.
pub fn say_ready() -> Result<(), String> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    send_ready(&name)
        .map_err(|error| format!("cannot tell {} that clients can connect: {error}", name.display()))
}

fn send_ready(name: &OsStr) -> std::io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A service manager that does not read must not stop the bus.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(b"READY=1\n", &address).map(drop)
}
