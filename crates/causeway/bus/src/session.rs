//! Which native socket is that of the session.
//!
//! In this order:
//!
//! 1. The one that belongs to the D-Bus socket of `DBUS_SESSION_BUS_ADDRESS`: `PATH.native` for `unix:path=PATH`, else
//!    `$XDG_RUNTIME_DIR/causeway-GUID.native` for an address with that `guid`. D-Bus programs go by this variable, and whatever begins a session inside
//!    another one sets it, while `CAUSEWAY_BUS` may be inherited: so the two halves of a program meet on one bus.
//! 2. The one that `CAUSEWAY_BUS` names. If the address has a GUID, the bus must have the same.
//! 3. `$XDG_RUNTIME_DIR/bus.native`, if neither variable is set, as D-Bus programs take `$XDG_RUNTIME_DIR/bus`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use causeway_dbus_wire::address::text;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::monitor::Monitor;

/// The environment variable that names the native socket of the session's bus.
pub const ADDRESS_VARIABLE: &str = "CAUSEWAY_BUS";
const DBUS_VARIABLE: &str = "DBUS_SESSION_BUS_ADDRESS";

/// Where a bus with a D-Bus socket at this path serves natively, by default: next to it.
///
/// ```
/// assert_eq!(causeway_bus::native_socket_beside("/run/bus".as_ref()).as_os_str(), "/run/bus.native");
/// ```
pub fn native_socket_beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".native");
    name.into()
}

/// The name, in `$XDG_RUNTIME_DIR`, of the native socket of a bus with this GUID whose D-Bus socket has no file.
pub fn native_socket_name(guid: &str) -> String {
    format!("causeway-{guid}.native")
}

/// The native socket of the session's bus as the environment names it, in the order above; nothing if it names none.
/// One that `CAUSEWAY_BUS` names need not be served. Fails if `CAUSEWAY_BUS` names another bus than
/// `DBUS_SESSION_BUS_ADDRESS`.
pub fn session_socket() -> Result<Option<PathBuf>> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let addresses = variable(DBUS_VARIABLE).and_then(|text| text.into_string().ok());
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let named = variable(ADDRESS_VARIABLE).map(PathBuf::from);
    let Some(addresses) = addresses else {
        let default = runtime.map(|folder| native_socket_beside(&folder.join("bus")));
        return Ok(named.or(default.filter(|path| is_own(path) && served_guid(path).is_some())));
    };
    let candidates: Vec<Candidate> =
        addresses.split(';').filter_map(|address| Candidate::of(address, runtime.as_deref())).collect();
    let is_same = |guid: &Option<String>, served: &str| guid.as_ref().is_none_or(|guid| guid == served);
    let served = candidates.iter().find_map(|Candidate { path, guid }| {
        let path = path.as_ref().filter(|path| is_own(path))?;
        served_guid(path).filter(|served| is_same(guid, served)).map(|_| path.clone())
    });
    if served.is_some() {
        return Ok(served);
    }
    let Some(named) = named else { return Ok(None) };
    match served_guid(&named) {
        Some(served) if !candidates.iter().all(|candidate| is_same(&candidate.guid, &served)) => {
            Err(Error::Invalid(format!(
                "{ADDRESS_VARIABLE} ({}) and {DBUS_VARIABLE} ({addresses}) refer to different buses; unset one of them",
                named.display()
            )))
        }
        _ => Ok(Some(named)),
    }
}

impl Connection {
    /// Joins the bus of the session, whose native socket [`session_socket`] finds. Fails if the environment names none, or two.
    pub fn session() -> Result<Connection> {
        Connection::open(session_path()?)
    }
}

impl Monitor {
    /// Watches the bus of the session; see [`Connection::session`].
    pub fn session() -> Result<Monitor> {
        Monitor::open(session_path()?)
    }
}

fn session_path() -> Result<PathBuf> {
    session_socket()?.ok_or_else(|| {
        Error::Invalid(format!(
            "no native socket found for the session bus: {ADDRESS_VARIABLE} is not set, and no causewayd serves next to {DBUS_VARIABLE} or $XDG_RUNTIME_DIR/bus"
        ))
    })
}

/// What one D-Bus address says of the bus.
#[derive(Debug, PartialEq, Eq)]
struct Candidate {
    /// Where it serves natively unless it was told otherwise.
    path: Option<PathBuf>,
    guid: Option<String>,
}

impl Candidate {
    /// Reads an address such as `unix:path=/run/bus,guid=…`; nothing for one of no Unix socket.
    fn of(address: &str, runtime: Option<&Path>) -> Option<Candidate> {
        if !address.starts_with("unix:") {
            return None;
        }
        let value = |key: &str| text(address, "unix", key);
        let is_guid = |guid: &String| guid.len() == 32 && guid.bytes().all(|byte| byte.is_ascii_hexdigit());
        let guid = value("guid").filter(is_guid).map(|guid| guid.to_ascii_lowercase());
        let beside = match (value("path"), value("runtime").as_deref()) {
            (Some(path), _) => Some(PathBuf::from(path)),
            (None, Some("yes")) => runtime.map(|folder| folder.join("bus")),
            _ => None,
        };
        let of_guid = || Some(runtime?.join(native_socket_name(guid.as_ref()?)));
        let path = beside.map(|path| native_socket_beside(&path)).or_else(of_guid);
        Some(Candidate { path, guid })
    }
}

/// Does the file belong to this user? Beside a socket in a folder for all, such as `/tmp`, another user may have made one.
fn is_own(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
}

/// The GUID of the bus that is served at a path; nothing if none is. The bus does not learn of it.
fn served_guid(path: &Path) -> Option<String> {
    Monitor::open(path).ok().map(|monitor| monitor.bus_id())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn a_file_of_another_user_is_none_of_ours() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(is_own(file.path()) && !is_own(Path::new("/no/such/file")));
        // Root can give a file away, if the container has another user; to all others files of root belong to somebody else.
        if std::os::unix::fs::chown(file.path(), Some(1), None).is_ok() {
            assert!(!is_own(file.path()));
        } else if !rustix::process::geteuid().is_root() {
            assert!(!is_own(Path::new("/")));
        }
    }

    #[test]
    fn an_address_says_where_its_bus_serves_natively() {
        let guid = "00112233445566778899aabbccddeeff";
        let of = |address: &str, runtime: Option<&str>| {
            let candidate = Candidate::of(address, runtime.map(Path::new))?;
            Some((candidate.path.map(OsString::from), candidate.guid.is_some()))
        };
        let at = |path: &str, has_guid| Some((Some(path.into()), has_guid));
        assert_eq!(of("unix:path=/a%20b", None), at("/a b.native", false));
        assert_eq!(of(&format!("unix:path=/a,guid={guid}"), None), at("/a.native", true));
        assert_eq!(of("unix:runtime=yes", Some("/run")), at("/run/bus.native", false));
        let of_guid = format!("/run/causeway-{guid}.native");
        assert_eq!(of(&format!("unix:abstract=/tmp/x,guid={guid}"), Some("/run")), at(&of_guid, true));
        assert_eq!(of(&format!("unix:abstract=/tmp/x,guid={guid}"), None), Some((None, true)));
        assert_eq!(of("unix:abstract=/tmp/x,guid=../../bus", Some("/run")), Some((None, false)));
        assert_eq!(of("tcp:host=x", Some("/run")), None);
    }
}
