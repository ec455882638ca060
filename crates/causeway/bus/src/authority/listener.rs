//! The control socket: at a path, where one process serves and what a killed one left is replaced, or one of a service manager.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use causeway_os::Context;
use causeway_os::serving::{ServeError, ServedPath};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::{Error, Result};

const BACKLOG: i32 = 1024;

/// A listening socket; a file that was made for it goes when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    _path: Option<ServedPath>,
}

impl Listener {
    /// Listens at `path`, for processes of this user. Fails if another process serves there, a file is there that is
    /// not a socket of this user, or the path cannot be used. Nothing is left then.
    pub fn bind(path: &Path) -> Result<Listener> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .context("make a socket for", || path.display().to_string())?;
        let path = ServedPath::listen(&socket, path, 0o600, BACKLOG).map_err(|error| match error {
            ServeError::Os(error) => Error::Os(error),
            refused => Error::Refused(refused.to_string()),
        })?;
        Ok(Listener { socket, _path: Some(path) })
    }

    /// A socket that listens already. Fails if it is not a listening Unix socket of type `SOCK_SEQPACKET`.
    pub fn inherited(socket: OwnedFd) -> Result<Listener> {
        use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
        let is_ours = socket_domain(&socket) == Ok(AddressFamily::UNIX)
            && socket_type(&socket) == Ok(SocketType::SEQPACKET)
            && socket_acceptconn(&socket) == Ok(true);
        if !is_ours {
            return Err(Error::Refused("not a listening Unix socket of type SOCK_SEQPACKET".into()));
        }
        rustix::io::ioctl_fionbio(&socket, true).context("listen at", || "a socket of a service manager")?;
        Ok(Listener { socket, _path: None })
    }

    /// The socket, for one who closes it: connections that were not accepted are closed with it, and what is in them. Its file goes now.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

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
