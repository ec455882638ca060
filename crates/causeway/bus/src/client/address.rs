//! Server addresses: `unix:path=/run/user/1000/bus;unix:abstract=/tmp/x,guid=…`.
//!
//! Source: D-Bus Specification, section "Server Addresses".

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;

use causeway_dbus_wire::address::{escaped, text, value};

use super::Error;

/// One place where a bus may listen. Only Unix sockets are supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket in the file system.
    Path(PathBuf),
    /// A name in the abstract namespace.
    Abstract(Vec<u8>),
}

/// The addresses of the session bus of this user: `DBUS_SESSION_BUS_ADDRESS`, or `$XDG_RUNTIME_DIR/bus` if that is not set or empty.
pub fn session() -> Result<String, Error> {
    session_in(std::env::var_os("DBUS_SESSION_BUS_ADDRESS"), std::env::var_os("XDG_RUNTIME_DIR"))
}

fn session_in(address: Option<OsString>, runtime: Option<OsString>) -> Result<String, Error> {
    if let Some(address) = address.filter(|address| !address.is_empty()) {
        return address.into_string().map_err(|address| {
            Error::Address(format!("DBUS_SESSION_BUS_ADDRESS is not UTF-8: {}", address.display()))
        });
    }
    let folder = runtime.filter(|folder| !folder.is_empty());
    let socket = folder.map(|folder| PathBuf::from(folder).join("bus"));
    match socket.filter(|socket| socket.exists()) {
        Some(socket) => Ok(format!("unix:path={}", escaped(socket.as_os_str().as_encoded_bytes()))),
        None => Err(Error::Address(
            "there is no session bus: neither DBUS_SESSION_BUS_ADDRESS nor $XDG_RUNTIME_DIR/bus; name one with --address".into(),
        )),
    }
}

/// The addresses of the system bus: `DBUS_SYSTEM_BUS_ADDRESS`, or the standard one if that is not set or empty.
pub fn system() -> String {
    let standard = || "unix:path=/run/dbus/system_bus_socket".into();
    let named = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").ok();
    named.filter(|address| !address.is_empty()).unwrap_or_else(standard)
}

/// The path at which native members join the bus of an address (`causeway:path=PATH`); nothing for one of sockets.
///
/// ```
/// use causeway_bus::client::native_path;
///
/// assert_eq!(native_path("causeway:path=/tmp/a%20bus").unwrap().as_os_str(), "/tmp/a bus");
/// assert_eq!(native_path("unix:path=/tmp/bus"), None);
/// ```
pub fn native_path(addresses: &str) -> Option<PathBuf> {
    addresses.split(';').find_map(|address| text(address, "causeway", "path")).map(PathBuf::from)
}

impl Address {
    /// Reads a list of addresses; those that are not of a Unix socket are left out, and one at least must be.
    pub fn list(addresses: &str) -> Result<Vec<Address>, Error> {
        let found: Vec<Address> = addresses.split(';').filter_map(one).collect();
        if found.is_empty() {
            return Err(Error::Address(format!(
                "`{addresses}` is not an address of a Unix socket; write unix:path=PATH or unix:abstract=NAME"
            )));
        }
        Ok(found)
    }

    /// Connects; nothing is said yet. Fails if nothing listens there, or this user may not connect.
    pub fn connect(&self) -> std::io::Result<UnixStream> {
        match self {
            Address::Path(path) => UnixStream::connect(path),
            Address::Abstract(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?),
        }
    }
}

fn one(address: &str) -> Option<Address> {
    let path = || text(address, "unix", "path").map(PathBuf::from);
    let of_user = || {
        let asks = text(address, "unix", "runtime")? == "yes";
        Some(PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").filter(|_| asks)?).join("bus"))
    };
    let name = || value(address, "unix", "abstract").map(Address::Abstract);
    path().map(Address::Path).or_else(name).or_else(|| of_user().map(Address::Path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_their_escapes_and_others_left_out() {
        let list = Address::list("tcp:host=x,port=1;unix:path=/a%20b,guid=12;unix:abstract=/tmp/c").unwrap();
        assert_eq!(list, [Address::Path("/a b".into()), Address::Abstract(b"/tmp/c".to_vec())]);
        let refused = Address::list("tcp:host=x").unwrap_err().to_string();
        assert!(refused.starts_with("`tcp:host=x` is not an address"), "{refused}");
        assert!(Address::list("unix:path=%zz").is_err());
    }

    #[test]
    fn an_empty_variable_is_none_and_a_path_is_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join("a b,c");
        std::fs::create_dir(&runtime).unwrap();
        let session = |address: Option<&str>, runtime: Option<&std::path::Path>| {
            session_in(address.map(OsString::from), runtime.map(|folder| folder.as_os_str().to_owned()))
        };
        assert!(session(Some(""), Some(&runtime)).is_err());
        std::fs::write(runtime.join("bus"), "").unwrap();
        for address in [None, Some("")] {
            let found = session(address, Some(&runtime)).unwrap();
            assert!(found.ends_with("/a%20b%2cc/bus"), "{found}");
            assert_eq!(Address::list(&found).unwrap(), [Address::Path(runtime.join("bus"))]);
        }
        assert_eq!(session(Some("unix:path=/x"), Some(&runtime)).unwrap(), "unix:path=/x");
        assert!(session(None, Some(std::path::Path::new(""))).is_err());
    }
}
