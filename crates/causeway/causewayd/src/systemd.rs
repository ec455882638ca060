//! Sockets that systemd hands over, and telling it that the bus serves.
//!
//! Source: the manual pages sd_listen_fds(3) and sd_notify(3).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;

use causeway_os::process::inherited_fd;
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;

use crate::listen::{Listener, NativePlace};

/// The address that stands for all sockets of systemd.
pub const ADDRESS: &str = "systemd:";
/// What is for this process, and not for services that it starts.
pub const VARIABLES: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET"];
/// The first of the descriptors.
const FIRST: i32 = 3;
const SOCKETS_MAX: i32 = 32;

/// Takes the sockets that systemd has handed to this process: those of `ListenStream=` for D-Bus programs, and one of `ListenSequentialPacket=` for
/// native members.
///
/// # Errors
/// In a sentence: there are none for D-Bus programs or too many, or one of them is not a listening Unix socket.
pub fn listeners(guid: &str) -> Result<(Vec<Listener>, Option<NativePlace>), String> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let is_for_us = number("LISTEN_PID") == Some(std::process::id().cast_signed());
    let count = number("LISTEN_FDS").filter(|_| is_for_us).unwrap_or(0);
    if !(1..=SOCKETS_MAX).contains(&count) {
        return Err(format!(
            "`{ADDRESS}` takes 1 to {SOCKETS_MAX} sockets of a socket unit, but systemd passed {count}; start the unit with --nofork, or use unix:path=PATH"
        ));
    }
    let (mut listeners, mut native) = (Vec::new(), None);
    for number in FIRST..FIRST + count {
        let unusable = |why: &str| format!("descriptor {number} of systemd cannot be used: {why}");
        let socket = inherited_fd(number).map_err(|error| error.to_string())?;
        if socket_type(&socket) != Ok(SocketType::SEQPACKET) {
            listeners.push(Listener::inherited(socket, guid).map_err(|why| unusable(&why))?);
            continue;
        }
        let path = UnixStream::from(socket.try_clone().map_err(|error| unusable(&error.to_string()))?)
            .local_addr()
            .ok()
            .and_then(|name| name.as_pathname().map(Path::to_owned))
            .ok_or_else(|| unusable("native members need a socket with a path"))?;
        if native.replace(NativePlace { path, socket: Some(socket) }).is_some() {
            return Err(unusable(
                "it is the second socket for native members; keep one ListenSequentialPacket=",
            ));
        }
    }
    if listeners.is_empty() {
        return Err(
            "systemd passed no socket for D-Bus clients; add a ListenStream= to the socket unit".into()
        );
    }
    Ok((listeners, native))
}

/// Says that clients can connect, where a service manager waits for that.
pub fn notify_ready() -> Result<(), String> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    send_ready(&name).map_err(|error| format!("cannot notify {}: {error}", name.display()))
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
