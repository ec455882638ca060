//! The socket of a group in the file system: who serves there, and what is removed at the end.
//!
//! A lock file beside the socket decides which process serves: a server that finds an abandoned socket replaces it, and two of
//! them must not replace each other's. The file and the socket are removed by their absolute path, and only if they are still
//! the ones that were made here.

use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use causeway_os::serving::{OwnFile, PathLock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, listen, socket_with, sockopt,
};

use crate::error::{Error, Result};
use crate::foreign::ForeignSocket;
use crate::wire::ANSWER_TIME;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;
/// The longest path of a Unix socket.
const PATH_BYTES_MAX: usize = 107;

/// A listening socket, and the files to remove with it.
#[derive(Debug)]
pub struct Listener {
    socket: ForeignSocket,
    /// Removed before the lock is released.
    _file: OwnFile,
    _lock: PathLock,
}

impl Listener {
    /// Listens at `path`. A socket that a dead server left is replaced; no other file is.
    pub fn bind(path: &Path, admits_other_users: bool) -> Result<Listener> {
        let on = |op: &'static str| move |error: Errno| Error::os(op, path.display().to_string(), error);
        let address = SocketAddrUnix::new(path).map_err(on("use as a socket's path"))?;
        let absolute = std::path::absolute(path)
            .map_err(|error| Error::os("find", path.display().to_string(), error))?;
        reject_other_files(path, std::fs::symlink_metadata(path))?;
        let lock = PathLock::take(&absolute)?.ok_or_else(|| on("serve at")(Errno::ADDRINUSE))?;
        let socket = ForeignSocket::new(unix_socket()?);
        let mode = if admits_other_users { 0o666 } else { 0o600 };
        match causeway_os::socket::bind_with_mode(&socket, path, mode) {
            Err(error) if error.raw_os_error() == Some(Errno::ADDRINUSE.raw_os_error()) => {
                reject_other_files(path, std::fs::symlink_metadata(path))?;
                if !is_abandoned(&address)? {
                    return Err(error.into());
                }
                rustix::fs::unlink(path).map_err(on("remove the abandoned socket"))?;
                causeway_os::socket::bind_with_mode(&socket, path, mode)?;
            }
            bound => bound?,
        }
        let file = OwnFile::at(absolute)?;
        listen(&socket, BACKLOG).map_err(on("listen on"))?;
        Ok(Listener { socket, _file: file, _lock: lock })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket whose calls wait at most [`ANSWER_TIME`] for a server that hangs, be it to connect or to send.
fn unix_socket() -> Result<OwnedFd> {
    let failed = |error| Error::os("make", "a Unix socket", error);
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(failed)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(ANSWER_TIME)).map_err(failed)?;
    Ok(socket)
}

/// Whether no process listens on this socket any more.
fn is_abandoned(address: &SocketAddrUnix) -> Result<bool> {
    Ok(matches!(connect(unix_socket()?.as_fd(), address), Err(Errno::CONNREFUSED)))
}

/// Fails if there is a file that is not a socket: no group is served there, and it must not be removed.
fn reject_other_files(path: &Path, metadata: io::Result<Metadata>) -> Result<()> {
    let kind = match metadata.map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_socket() => return Ok(()),
        Ok(kind) if kind.is_dir() => "is a directory",
        Ok(kind) if kind.is_symlink() => "is a symbolic link",
        Ok(_) => "is a file",
        Err(_) => return Ok(()),
    };
    Err(Error::invalid("path", format!("{} {kind} and not a socket; use another path", path.display())))
}

/// The path as it is found from any directory, unless it becomes too long for a socket.
pub fn absolute(path: &Path) -> PathBuf {
    let short = |path: &PathBuf| path.as_os_str().len() <= PATH_BYTES_MAX;
    std::path::absolute(path).ok().filter(short).unwrap_or_else(|| path.to_owned())
}

/// Connects to the server of a group.
pub fn connect_to(path: &Path) -> Result<OwnedFd> {
    let on = |error: Errno| Error::os("connect to the group at", path.display().to_string(), error);
    let socket = unix_socket()?;
    match connect(&socket, &SocketAddrUnix::new(path).map_err(on)?) {
        Err(Errno::AGAIN) => Err(Error::NoAnswer),
        Err(Errno::CONNREFUSED) => {
            reject_other_files(path, std::fs::metadata(path))?;
            Err(on(Errno::CONNREFUSED))
        }
        other => other.map(|()| socket).map_err(on),
    }
}
