//! Addresses to listen on, and sockets that leave nothing behind.
//!
//! Source: D-Bus Specification, section "Server Addresses".

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway_dbus_wire::address::{escaped, unescaped};
use causeway_os::serving::{ServeError, ServedPath};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// How long nobody is accepted when this process has no descriptors left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where native members join.
#[derive(Debug)]
pub struct NativePlace {
    /// The path of the socket.
    pub path: PathBuf,
    /// The socket, if a service manager listens there already.
    pub socket: Option<OwnedFd>,
}

/// A socket that listens. The file that was made for it goes when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    /// Where clients find it, with the identity of the bus.
    pub address: String,
    file: Option<(PathBuf, ServedPath)>,
}

impl Listener {
    /// Listens at an address of a server, such as `unix:path=/run/bus`. The identity of the bus is put into the address for clients.
    ///
    /// # Errors
    /// In a sentence: the address is invalid, another process serves there, or the kernel refuses.
    pub fn open(address: &str, guid: &str) -> Result<Listener, String> {
        let place = Place::parse(address)?;
        let failed = |error: io::Error| format!("cannot listen on {address}: {error}");
        let (socket, written, file) = match place {
            Place::Abstract(name) => {
                let socket =
                    SocketAddr::from_abstract_name(&name).and_then(|name| UnixListener::bind_addr(&name));
                (socket.map_err(failed)?, format!("unix:abstract={}", escaped(&name)), None)
            }
            Place::Path(path) => {
                let served = bind(&path, EVERYBODY);
                let (socket, served) =
                    served.map_err(|error| format!("cannot listen on {address}: {error}"))?;
                let written = escaped(path.as_os_str().as_encoded_bytes());
                (socket, format!("unix:path={written}"), Some((path, served)))
            }
        };
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Listener { socket, address: format!("{written},guid={guid}"), file })
    }

    /// Listens at a path, where this user and root alone can connect.
    ///
    /// # Errors
    /// In a sentence: another process serves there, or the kernel refuses.
    pub fn for_owner(path: &Path) -> Result<Listener, String> {
        let (socket, served) = bind(path, OWNER).map_err(|error| error.to_string())?;
        socket.set_nonblocking(true).map_err(|error| error.to_string())?;
        let address = format!("unix:path={}", escaped(path.as_os_str().as_encoded_bytes()));
        Ok(Listener { socket, address, file: Some((path.to_owned(), served)) })
    }

    /// A socket that listens already. Its file, if it has one, stays when this is dropped.
    ///
    /// # Errors
    /// In a sentence: it is not a listening Unix socket with an address.
    pub fn inherited(socket: OwnedFd, guid: &str) -> Result<Listener, String> {
        use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
        let is_stream = socket_domain(&socket) == Ok(AddressFamily::UNIX)
            && socket_type(&socket) == Ok(SocketType::STREAM)
            && socket_acceptconn(&socket) == Ok(true);
        if !is_stream {
            return Err("not a listening Unix stream socket".into());
        }
        let socket = UnixListener::from(socket);
        let said = |error: io::Error| error.to_string();
        socket.set_nonblocking(true).map_err(said)?;
        let name = socket.local_addr().map_err(said)?;
        let written = match (name.as_pathname(), name.as_abstract_name()) {
            (Some(path), _) => format!("unix:path={}", escaped(path.as_os_str().as_encoded_bytes())),
            (_, Some(name)) => format!("unix:abstract={}", escaped(name)),
            _ => return Err("it has no address that clients could connect to".into()),
        };
        Ok(Listener { socket, address: format!("{written},guid={guid}"), file: None })
    }

    /// Its file, if it has one.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// The next connection; `None` when there is none.
    ///
    /// # Errors
    /// The kernel's; a client that has gone is none.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match self.socket.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                // An urgent byte is one like others. Without this the kernel drops it when the bytes behind it are read, and closes
                // the descriptors that came with it, in this thread: one that lingers would stop the bus.
                rustix::net::sockopt::set_socket_oobinline(&stream, true)?;
                Ok(Some(stream.into()))
            }
            Err(error) => {
                use io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
                let is_none = matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted);
                if is_none { Ok(None) } else { Err(error) }
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Path(PathBuf),
    Abstract(Vec<u8>),
}

impl Place {
    fn parse(address: &str) -> Result<Place, String> {
        let Some(keys) = address.strip_prefix("unix:") else {
            return Err(format!(
                "unsupported address `{address}`; use unix:path=PATH, unix:abstract=NAME, unix:tmpdir=FOLDER, unix:dir=FOLDER, unix:runtime=yes or systemd:"
            ));
        };
        let is_place = |pair: &&str| {
            let key = pair.split_once('=').map(|(key, _)| key);
            matches!(key, Some("path" | "abstract" | "dir" | "tmpdir" | "runtime"))
        };
        if keys.split(',').filter(is_place).count() > 1 {
            return Err(format!(
                "the address `{address}` names several sockets; use one of path, abstract, dir, tmpdir and runtime, and `;` between addresses"
            ));
        }
        for pair in keys.split(',') {
            let Some((key, value)) = pair.split_once('=') else { continue };
            let value = unescaped(value).ok_or_else(|| format!("invalid escape in `{value}`"))?;
            let path = || {
                String::from_utf8(value.clone())
                    .map(PathBuf::from)
                    .map_err(|_| format!("the path in `{address}` is not UTF-8"))
            };
            return match key {
                "path" => Ok(Place::Path(path()?)),
                "abstract" => Ok(Place::Abstract(value)),
                "dir" => Ok(Place::Path(path()?.join(random_name()))),
                // A name in no file system: nothing stays, whatever ends this process.
                "tmpdir" => {
                    Ok(Place::Abstract(path()?.join(random_name()).into_os_string().into_encoded_bytes()))
                }
                "runtime" if value == b"yes" => match std::env::var_os("XDG_RUNTIME_DIR") {
                    Some(folder) => Ok(Place::Path(PathBuf::from(folder).join("bus"))),
                    None => Err("XDG_RUNTIME_DIR is not set; write unix:path=PATH".into()),
                },
                _ => continue,
            };
        }
        Err(format!("no socket in the address `{address}`; use unix:path=PATH or unix:abstract=NAME"))
    }
}

fn random_name() -> String {
    format!("dbus-{}", &new_guid()[..16])
}

/// An identity for a bus: 32 hexadecimal digits.
pub fn new_guid() -> String {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())
        .expect("the kernel gives a few random bytes");
    format!("{:032x}", u128::from_ne_bytes(random))
}

/// Connections that may wait to be accepted; the kernel limits it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Modes of a socket's file. Every user may ask to be let in, as with dbus-daemon: authentication and the policy decide. Where neither does,
/// nobody else may.
const EVERYBODY: u32 = 0o777;
const OWNER: u32 = 0o600;

/// Listens at a path. What a dead bus has left there is removed, and only that.
fn bind(path: &Path, mode: u32) -> Result<(UnixListener, ServedPath), ServeError> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| {
                causeway_os::Error::new("make a socket for", path.display().to_string(), error)
            })?;
    let served = ServedPath::listen(&socket, path, mode, BACKLOG)?;
    Ok((socket.into(), served))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_servers_are_read() {
        assert_eq!(Place::parse("unix:path=/a%20b"), Ok(Place::Path("/a b".into())));
        assert_eq!(Place::parse("unix:abstract=x,guid=1"), Ok(Place::Abstract(b"x".to_vec())));
        assert!(
            matches!(Place::parse("unix:tmpdir=/tmp"), Ok(Place::Abstract(name)) if name.starts_with(b"/tmp/dbus-"))
        );
        for bad in
            ["tcp:host=localhost", "unix:", "unix:path=%zz", "unix:runtime=no", "unix:path=/a,abstract=b"]
        {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }
}
