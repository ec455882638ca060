//! The socket of a group in the file system: the server's end, and how a process connects to it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use causeway_os::serving::{PATH_BYTES_MAX, ServeError, ServedPath};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};

use crate::error::{Error, Result};
use crate::foreign::ForeignSocket;
use crate::wire::ANSWER_TIME;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// A listening socket, and the files to remove with it.
#[derive(Debug)]
pub struct Listener {
    socket: ForeignSocket,
    _path: ServedPath,
}

impl Listener {
    /// Listens at `path`. A socket that a dead server left is replaced; no other file is.
    pub fn bind(path: &Path, admits_other_users: bool) -> Result<Listener> {
        let socket = ForeignSocket::new(unix_socket()?);
        let mode = if admits_other_users { 0o666 } else { 0o600 };
        let on = |errno: Errno| Error::os("serve at", path.display().to_string(), errno);
        let path = ServedPath::listen(&socket, path, mode, BACKLOG).map_err(|error| match error {
            ServeError::PathTooLong(_) => on(Errno::NAMETOOLONG),
            ServeError::InUse => on(Errno::ADDRINUSE),
            ServeError::Occupied(what) => occupied(path, what),
            ServeError::Os(error) => error.into(),
        })?;
        Ok(Listener { socket, _path: path })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn occupied(path: &Path, what: &str) -> Error {
    Error::invalid("path", format!("{} is {what}; use another path", path.display()))
}

/// A socket whose calls wait at most [`ANSWER_TIME`] for a server that hangs, be it to connect or to send.
fn unix_socket() -> Result<OwnedFd> {
    let failed = |error| Error::os("make", "a Unix socket", error);
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(failed)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(ANSWER_TIME)).map_err(failed)?;
    Ok(socket)
}

/// The path as it is found from any directory, unless it becomes too long for a socket.
pub fn absolute(path: &Path) -> PathBuf {
    let short = |path: &PathBuf| path.as_os_str().len() <= PATH_BYTES_MAX;
    std::path::absolute(path).ok().filter(short).unwrap_or_else(|| path.to_owned())
}

pub fn connect_to(path: &Path) -> Result<OwnedFd> {
    let on = |error: Errno| Error::os("connect to the group at", path.display().to_string(), error);
    let socket = unix_socket()?;
    match connect(&socket, &SocketAddrUnix::new(path).map_err(on)?) {
        Err(Errno::AGAIN) => Err(Error::NoAnswer),
        Err(Errno::CONNREFUSED) => {
            let kind = rustix::fs::stat(path).map(|found| FileType::from_raw_mode(found.st_mode));
            Err(match kind {
                Ok(FileType::Directory) => occupied(path, "a directory and not a socket"),
                Ok(FileType::RegularFile) => occupied(path, "a file and not a socket"),
                _ => on(Errno::CONNREFUSED),
            })
        }
        other => other.map(|()| socket).map_err(on),
    }
}
