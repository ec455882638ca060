//! The control socket: at a path, where one process serves and what a killed one left is replaced, or one of a service manager.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use causeway_os::serving::{OwnFile, PathLock};
use causeway_os::socket;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::{Error, Result};

/// Bytes of the longest path of a socket: `sun_path` of the kernel less its final zero.
const MOST_PATH_BYTES: usize = 107;

/// A listening socket; a file that was made for it goes when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// Removed before the lock is released.
    _file: Option<(OwnFile, PathLock)>,
}

impl Listener {
    /// Listens at `path`, for processes of this user.
    ///
    /// # Errors
    /// Another process serves there, a file is there that is no socket of this user, or the path cannot be used. Nothing is left then.
    pub fn bind(path: &Path) -> Result<Listener> {
        let path = std::path::absolute(path)
            .map_err(|error| causeway_os::Error::new("resolve", path.display().to_string(), error))?;
        let os = |op: &'static str, error: Errno| {
            Error::Os(causeway_os::Error::new(op, path.display().to_string(), error))
        };
        let bytes = path.as_os_str().len();
        if bytes > MOST_PATH_BYTES {
            return Err(Error::Refused(format!(
                "the path has {bytes} bytes, and that of a socket may have {MOST_PATH_BYTES}"
            )));
        }
        // Before the lock: beside the file of somebody else nothing is made.
        is_left_socket(&path)?;
        let Some(lock) = PathLock::take(&path)? else {
            return Err(Error::Refused(format!("another process serves a bus at {}", path.display())));
        };
        if is_left_socket(&path)? {
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
        let file = (OwnFile::at(path.clone())?, lock);
        rustix::net::listen(&socket, 1024).map_err(|error| os("listen at", error))?;
        Ok(Listener { socket, _file: Some(file) })
    }

    /// A socket that listens already.
    ///
    /// # Errors
    /// It is no Unix socket of packets that listens.
    pub fn inherited(socket: OwnedFd) -> Result<Listener> {
        use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
        let is_ours = socket_domain(&socket) == Ok(AddressFamily::UNIX)
            && socket_type(&socket) == Ok(SocketType::SEQPACKET)
            && socket_acceptconn(&socket) == Ok(true);
        if !is_ours {
            return Err(Error::Refused("not a listening Unix socket of type SOCK_SEQPACKET".into()));
        }
        rustix::io::ioctl_fionbio(&socket, true)
            .map_err(|error| causeway_os::Error::new("listen at", "a socket of a service manager", error))?;
        Ok(Listener { socket, _file: None })
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

/// Is there a socket of this user at a path, rather than nothing?
fn is_left_socket(path: &Path) -> Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() && found.uid() == rustix::process::geteuid().as_raw() => {
            Ok(true)
        }
        Ok(_) => Err(Error::Refused(
            "there is a file that is no socket of this user; remove it, or choose another path".into(),
        )),
        // What else is wrong with the path is said by what is tried there next.
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_a_file_of_others_nothing_is_made_and_a_failure_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let entries = || std::fs::read_dir(&folder).unwrap().count();
        let file = folder.path().join("precious");
        std::fs::write(&file, "precious").unwrap();
        let refused = Listener::bind(&file).unwrap_err().to_string();
        assert_eq!(
            refused,
            "there is a file that is no socket of this user; remove it, or choose another path"
        );
        assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), entries()), ("precious", 1));
        let long = Listener::bind(&folder.path().join("x".repeat(120))).unwrap_err().to_string();
        assert!(long.contains("may have 107"), "{long}");
        assert_eq!(entries(), 1);

        let path = folder.path().join("bus");
        let listener = Listener::bind(&path).unwrap();
        let second = Listener::bind(&path).unwrap_err().to_string();
        assert!(second.contains("another process serves"), "{second}");
        drop(listener);
        assert_eq!(entries(), 1);
    }
}
