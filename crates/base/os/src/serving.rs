//! One process serves at a path: the lock that decides which, the socket that is bound there, and the files that are removed at the end.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags, connect, listen, socket_with, sockopt};

use crate::error::{Context, Error, Result};
use crate::socket::bind_with_mode;

/// Bytes of the longest path of a Unix socket: `sun_path` of the kernel without its final zero.
pub const PATH_BYTES_MAX: usize = 107;

/// A path at which this process serves: the file of its socket, and the lock that keeps other servers away. Both go with it.
#[derive(Debug)]
pub struct ServedPath {
    /// Removed before the lock is released.
    _file: OwnFile,
    _lock: PathLock,
}

/// Why no socket was bound at a path. Nothing is left then.
#[derive(Debug)]
pub enum ServeError {
    /// The path has this many bytes, and that of a socket at most [`PATH_BYTES_MAX`].
    PathTooLong(usize),
    /// Another process serves there.
    InUse,
    /// There is something else than a socket of this user: what. It is left alone.
    Occupied(&'static str),
    /// The kernel refused.
    Os(Error),
}

impl ServedPath {
    /// Binds `socket` to `path` with a mode, and listens. Only a socket of this user that a dead server left is replaced.
    pub fn listen(
        socket: impl AsFd,
        path: &Path,
        mode: u32,
        backlog: i32,
    ) -> std::result::Result<ServedPath, ServeError> {
        let on = || path.display().to_string();
        let bytes = path.as_os_str().len();
        if bytes > PATH_BYTES_MAX {
            return Err(ServeError::PathTooLong(bytes));
        }
        // The process may change its folder before it removes the files.
        let absolute = std::path::absolute(path).context("find", on)?;
        // Before the lock: beside the file of somebody else nothing is made.
        check_file(path)?;
        let lock = PathLock::take(&absolute)?.ok_or(ServeError::InUse)?;
        if let Err(error) = bind_with_mode(&socket, path, mode) {
            if error.raw_os_error() != Some(Errno::ADDRINUSE.raw_os_error()) {
                return Err(error.into());
            }
            check_file(path)?;
            // Not every server takes the lock.
            if !is_abandoned(&socket, path).context("look for a server at", on)? {
                return Err(ServeError::InUse);
            }
            fs::unlink(path).context("remove the abandoned socket", on)?;
            bind_with_mode(&socket, path, mode)?;
        }
        let file = OwnFile::at(absolute)?;
        listen(&socket, backlog).context("listen on", on)?;
        Ok(ServedPath { _file: file, _lock: lock })
    }
}

/// Fails if something else than a socket of this user is at a path.
fn check_file(path: &Path) -> std::result::Result<(), ServeError> {
    // What else is wrong with the path is said by what is tried there next.
    let Ok(found) = fs::lstat(path) else { return Ok(()) };
    Err(ServeError::Occupied(match FileType::from_raw_mode(found.st_mode) {
        FileType::Socket if found.st_uid == rustix::process::geteuid().as_raw() => return Ok(()),
        FileType::Socket => "a socket of another user",
        FileType::Directory => "a directory and not a socket",
        FileType::Symlink => "a symbolic link and not a socket",
        _ => "a file and not a socket",
    }))
}

/// Whether no process listens at a path any more, be it on a socket of another type than this one.
fn is_abandoned(socket: impl AsFd, path: &Path) -> rustix::io::Result<bool> {
    let kind = sockopt::socket_type(&socket)?;
    // Without waiting: a server whose backlog is full is there.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let probe = socket_with(rustix::net::AddressFamily::UNIX, kind, flags, None)?;
    Ok(connect(&probe, &SocketAddrUnix::new(path)?) == Err(Errno::CONNREFUSED))
}

impl From<Error> for ServeError {
    fn from(error: Error) -> ServeError {
        ServeError::Os(error)
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::PathTooLong(bytes) => {
                write!(f, "the path has {bytes} bytes, and that of a socket may have {PATH_BYTES_MAX}")
            }
            ServeError::InUse => f.write_str("another process serves there"),
            ServeError::Occupied(what) => write!(f, "there is {what}; remove it, or use another path"),
            ServeError::Os(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServeError {}

/// A file that this process made. Its drop removes it, unless another file has taken its place.
#[derive(Debug)]
struct OwnFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl OwnFile {
    /// The file that is at a path now, which must be absolute: the process may change its folder.
    fn at(path: PathBuf) -> Result<OwnFile> {
        let found = fs::lstat(&path).context("find", || path.display().to_string())?;
        Ok(OwnFile { identity: identity(&found), path })
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if fs::lstat(&self.path).is_ok_and(|found| identity(&found) == self.identity) {
            let _ = fs::unlink(&self.path);
        }
    }
}

/// Device and inode.
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// The right to serve at a path: a lock on the file with `.lock` behind that path. The file goes with it.
///
/// A server that finds an abandoned socket replaces it, and two of them must not replace each other's.
#[derive(Debug)]
pub struct PathLock {
    /// Removed while the lock is held, so that no other process has it by then.
    _file: OwnFile,
    _fd: OwnedFd,
}

impl PathLock {
    /// Takes the lock of an absolute path; `None` if another holder has it.
    pub fn take(path: &Path) -> Result<Option<PathLock>> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let on = || lock.display().to_string();
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let fd = fs::open(&lock, flags, Mode::RUSR | Mode::WUSR).context("open", on)?;
            match fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Ok(None),
                locked => locked.context("lock", on)?,
            }
            let locked = identity(&fs::fstat(&fd).context("stat", on)?);
            // Its last holder may have removed the file between the two calls: then it locks nothing.
            match fs::lstat(&lock) {
                Ok(found) if identity(&found) == locked => {
                    let file = OwnFile { path: lock, identity: locked };
                    return Ok(Some(PathLock { _file: file, _fd: fd }));
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error).context("stat", on),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketType};

    #[test]
    fn an_abandoned_socket_is_replaced_and_what_is_in_use_or_of_others_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let entries = || std::fs::read_dir(&folder).unwrap().count();
        let path = folder.path().join("bus");
        let serve = |path: &Path| {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
            let socket = socket.unwrap();
            ServedPath::listen(&socket, path, 0o600, 8).map(|served| (socket, served))
        };
        // A listener that ends without removing its file leaves it.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let served = serve(&path).unwrap();
        assert!(matches!(serve(&path), Err(ServeError::InUse)));
        drop(served);
        assert_eq!(entries(), 0);
        // A server that takes no lock, and sends packets.
        let other = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        bind_with_mode(other.as_ref().unwrap(), &path, 0o600).unwrap();
        listen(other.as_ref().unwrap(), 8).unwrap();
        assert!(matches!(serve(&path), Err(ServeError::InUse)));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        let refused = serve(&path).unwrap_err().to_string();
        assert_eq!(refused, "there is a file and not a socket; remove it, or use another path");
        assert!(matches!(serve(folder.path()), Err(ServeError::Occupied(_))));
        assert!(matches!(serve(&folder.path().join("x".repeat(120))), Err(ServeError::PathTooLong(_))));
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), entries()), ("precious", 1));
    }

    #[test]
    fn one_holder_has_the_lock_and_its_file_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("bus"), folder.path().join("bus.lock"));
        let first = PathLock::take(&path).unwrap().unwrap();
        assert!(file.exists() && PathLock::take(&path).unwrap().is_none());
        assert!(file.exists(), "one that was refused removes nothing");
        drop(first);
        assert!(!file.exists());
        assert!(PathLock::take(&path).unwrap().is_some());
        let nowhere = PathLock::take(&folder.path().join("no/bus")).unwrap_err().to_string();
        assert!(nowhere.starts_with("cannot open ") && nowhere.contains("bus.lock"), "{nowhere}");
    }

    #[test]
    fn a_lock_whose_file_was_removed_leaves_the_file_of_the_next_holder() {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("bus"), folder.path().join("bus.lock"));
        let first = PathLock::take(&path).unwrap().unwrap();
        std::fs::remove_file(&file).unwrap();
        let second = PathLock::take(&path).unwrap().expect("the file that it locked has no name any more");
        drop(first);
        assert!(file.exists() && PathLock::take(&path).unwrap().is_none());
        drop(second);
        assert!(!file.exists());
    }

    #[test]
    fn only_the_file_that_was_made_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("socket"), folder.path().join("other"));
        std::fs::write(&path, "own").unwrap();
        std::fs::write(&other, "other").unwrap();
        let own = OwnFile::at(path.clone()).unwrap();
        std::fs::rename(&other, &path).unwrap();
        drop(own);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
        drop(OwnFile::at(path.clone()).unwrap());
        assert!(!path.exists() && OwnFile::at(path).is_err());
    }
}
