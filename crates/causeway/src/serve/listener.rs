//! The socket of a group in the file system: who serves there, and what is removed at the end.
//!
//! A lock file beside the socket decides which process serves: a server that finds an abandoned socket replaces it, and two of
//! them must not replace each other's. The file and the socket are removed by their absolute path, and only if they are still
//! the ones that were made here.

use std::fs::Metadata;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
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
    _lock: Lock,
}

impl Listener {
    /// Listens at `path`. A socket that a dead server left is replaced; no other file is.
    pub fn bind(path: &Path, admits_other_users: bool) -> Result<Listener> {
        let on = |op: &'static str| move |error: Errno| Error::os(op, path.display().to_string(), error);
        let address = SocketAddrUnix::new(path).map_err(on("use as a socket's path"))?;
        let absolute = std::path::absolute(path)
            .map_err(|error| Error::os("find", path.display().to_string(), error))?;
        reject_other_files(path, std::fs::symlink_metadata(path))?;
        let lock = Lock::take(&absolute)?;
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
        let file =
            OwnFile::at(absolute).map_err(|error| Error::os("find", path.display().to_string(), error))?;
        listen(&socket, BACKLOG).map_err(on("listen on"))?;
        Ok(Listener { socket, _file: file, _lock: lock })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A file that this process made. Its drop removes it, unless another file has taken its place.
#[derive(Debug)]
struct OwnFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl OwnFile {
    fn at(path: PathBuf) -> io::Result<OwnFile> {
        let identity = identity(&std::fs::symlink_metadata(&path)?);
        Ok(OwnFile { path, identity })
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// The right to serve at a path: a lock on the file with `.lock` behind that path.
#[derive(Debug)]
struct Lock {
    /// Removed while the lock is held, so that no other process has it by then.
    _file: OwnFile,
    _fd: OwnedFd,
}

impl Lock {
    fn take(path: &Path) -> Result<Lock> {
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        let shown = lock_path.display().to_string();
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let fd = rustix::fs::open(&lock_path, flags, Mode::RUSR | Mode::WUSR)
                .map_err(|error| Error::os("open", &shown, error))?;
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {
                    return Err(Error::os("serve at", path.display().to_string(), Errno::ADDRINUSE));
                }
                locked => locked.map_err(|error| Error::os("lock", &shown, error))?,
            }
            let stat = rustix::fs::fstat(&fd).map_err(|error| Error::os("stat", &shown, error))?;
            // Its last holder may have removed the file between the two calls.
            match OwnFile::at(lock_path.clone()) {
                Ok(file) if file.identity == (stat.st_dev, stat.st_ino) => {
                    return Ok(Lock { _file: file, _fd: fd });
                }
                // Not removed here: it belongs to somebody else.
                Ok(other) => std::mem::forget(other),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::os("stat", &shown, error)),
            }
        }
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
