//! The control socket at a path: one process serves there, and what a killed one left is replaced.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use causeway_os::socket;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::{Error, Result};

/// A listening socket; its file goes when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Who has this lock serves at the path.
    _lock: OwnedFd,
}

impl Listener {
    /// Listens at `path`, for processes of this user.
    ///
    /// # Errors
    /// Another process serves there, or the path cannot be used.
    pub fn bind(path: &Path) -> Result<Listener> {
        let path = std::path::absolute(path)
            .map_err(|error| causeway_os::Error::new("resolve", path.display().to_string(), error))?;
        let os = |op: &'static str, error: Errno| {
            Error::Os(causeway_os::Error::new(op, path.display().to_string(), error))
        };
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(lock_path(&path), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| os("lock", error))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let path = path.display();
                return Err(Error::Refused(format!("another process serves a bus at {path}")));
            }
            other => other.map_err(|error| os("lock", error))?,
        }
        let is_socket = |path: &Path| {
            use std::os::unix::fs::FileTypeExt;
            std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
        };
        if is_socket(&path) {
            // Its server is gone, or it would have the lock.
            rustix::fs::unlink(&path).map_err(|error| os("remove", error))?;
        }
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )
        .map_err(|error| os("make a socket for", error))?;
        socket::bind_with_mode(&socket, &path, 0o600)?;
        rustix::net::listen(&socket, 1024).map_err(|error| os("listen at", error))?;
        Ok(Listener { socket, path, _lock: lock })
    }

    /// The next process that connects, if one does.
    ///
    /// # Errors
    /// There are no descriptors or no memory left.
    pub fn accept(&self) -> rustix::io::Result<Option<OwnedFd>> {
        match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(lock_path(&self.path));
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}
