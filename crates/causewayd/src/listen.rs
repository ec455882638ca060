//! Addresses to listen on, and sockets that leave nothing behind.
//!
//! Source: D-Bus Specification, section "Server Addresses".

use std::fmt::Write;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use causeway_os::socket::bind_with_mode;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use weighbridge_dbus::address::{escaped, unescaped};

/// Where native members join.
#[derive(Debug)]
pub struct NativePlace {
    /// The path of the socket.
    pub path: PathBuf,
    /// The socket, if a service manager listens there already.
    pub socket: Option<OwnedFd>,
}

/// A socket that listens. Dropped, its file is removed, if it is still the one that was made.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    /// Where clients find it, with the identity of the bus.
    pub address: String,
    file: Option<(PathBuf, u64)>,
}

impl Listener {
    /// Listens at an address of a server, such as `unix:path=/run/bus`. The identity of the bus is put into the address for clients.
    ///
    /// # Errors
    /// In a sentence: the address is none, another bus listens there, or the kernel refuses.
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
                let socket = bind(&path).map_err(failed)?;
                let inode = std::fs::symlink_metadata(&path).map_err(failed)?.ino();
                let written = escaped(path.as_os_str().as_encoded_bytes());
                (socket, format!("unix:path={written}"), Some((path, inode)))
            }
        };
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Listener { socket, address: format!("{written},guid={guid}"), file })
    }

    /// A socket that listens already. Its file, if it has one, stays when this is dropped.
    ///
    /// # Errors
    /// In a sentence: it is no Unix socket that listens and has a name.
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
    #[must_use]
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
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {
                    Ok(None)
                }
                _ => Err(error),
            },
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
        if let Some((path, inode)) = &self.file
            && std::fs::symlink_metadata(path).is_ok_and(|data| data.ino() == *inode)
        {
            let _ = std::fs::remove_file(path);
        }
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
    format!("dbus-{}", hexadecimal(&random_bytes::<8>()))
}

/// An identity for a bus: 32 hexadecimal digits.
#[must_use]
pub fn new_guid() -> String {
    hexadecimal(&random_bytes::<16>())
}

fn random_bytes<const COUNT: usize>() -> [u8; COUNT] {
    let mut random = [0; COUNT];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())
        .expect("the kernel gives a few random bytes");
    random
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes of the longest path of a socket: `sun_path` of the kernel less its final zero.
const MOST_PATH_BYTES: usize = 107;
/// Connections that may wait to be accepted; the kernel limits it to `net.core.somaxconn`.
const MOST_WAITING: i32 = 4096;
/// How long another process may keep the lock of a folder.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Locks the folder of a path: a socket that is bound does not listen yet, and must not be taken for one that was left. Nothing if it cannot be
/// locked, also because any process that may read the folder can keep the lock.
fn locked_folder(path: &Path) -> Option<OwnedFd> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder =
        rustix::fs::open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let folder = folder.ok()?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2))
            }
            Err(_) => return None,
        }
    }
}

/// Binds a socket at a path. What another bus has left there is removed, and only that: a socket of this user, on which nobody listens.
fn bind(path: &Path) -> io::Result<UnixListener> {
    const TRIES: usize = 3;
    let _lock = locked_folder(path);
    let bytes = path.as_os_str().len();
    if bytes > MOST_PATH_BYTES {
        return Err(io::Error::other(format!(
            "the path has {bytes} bytes, and that of a socket may have {MOST_PATH_BYTES}"
        )));
    }
    for _ in 0..TRIES {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // Every user may ask to be let in, as with dbus-daemon: authentication and the policy decide.
        match bind_with_mode(&socket, path, 0o777) {
            Ok(()) => {
                rustix::net::listen(&socket, MOST_WAITING)?;
                return Ok(socket.into());
            }
            Err(error) => match error.os().kind() {
                io::ErrorKind::AddrInUse => {}
                kind => return Err(io::Error::new(kind, error.os().to_string())),
            },
        }
        let found = std::fs::symlink_metadata(path)?;
        if !found.file_type().is_socket() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                "there is a file that is no socket of this user; remove it, or choose another path",
            ));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                remove_stale(path, found.ino())?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            _ => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another bus listens there")),
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "other processes take this path again and again"))
}

/// Removes a socket that was found without a listener. Another process may have done the same meanwhile and listen there now: so
/// the file is moved away first, and moved back if it is another one.
fn remove_stale(path: &Path, inode: u64) -> io::Result<()> {
    let aside = path.with_file_name(format!(".{}", random_name()));
    std::fs::rename(path, &aside)?;
    if std::fs::symlink_metadata(&aside)?.ino() == inode {
        return std::fs::remove_file(&aside);
    }
    std::fs::hard_link(&aside, path)?;
    std::fs::remove_file(&aside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn addresses_of_servers_are_read() {
        assert_eq!(Place::parse("unix:path=/a%20b"), Ok(Place::Path("/a b".into())));
        assert_eq!(Place::parse("unix:abstract=x,guid=1"), Ok(Place::Abstract(b"x".to_vec())));
        assert!(
            matches!(Place::parse("unix:tmpdir=/tmp"), Ok(Place::Abstract(name)) if name.starts_with(b"/tmp/dbus-"))
        );
        for bad in ["tcp:host=localhost", "unix:", "unix:path=%zz", "unix:runtime=no"] {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_socket_that_was_left_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bus");
        let address = format!("unix:path={}", path.display());
        // A listener that ends without removing its file leaves it.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let listener = Listener::open(&address, "12").unwrap();
        assert_eq!(listener.address, format!("{address},guid=12"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o777);
        let second = Listener::open(&address, "12").unwrap_err();
        assert!(second.contains("another bus listens there"), "{second}");
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        let third = Listener::open(&address, "12").unwrap_err();
        assert!(third.contains("no socket of this user"), "{third}");
        let long = Listener::open(&format!("unix:path=/{}", "x".repeat(107)), "12").unwrap_err();
        assert!(long.contains("has 108 bytes, and that of a socket may have 107"), "{long}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }
}
