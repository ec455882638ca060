//! Where a session serves native members if it was not told, and what killed ones have left there.

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use causeway_bus::{native_socket_beside, native_socket_name};
use causeway_os::serving::PathLock;

/// Beside the D-Bus socket if that has a file, else in this folder under a name with the GUID of the bus. What causewayds that were killed have left in
/// the folder is removed then: nobody else would.
pub fn of_session(dbus_socket: Option<&Path>, folder: Option<&Path>, guid: &str) -> Option<PathBuf> {
    if let Some(path) = dbus_socket {
        return Some(native_socket_beside(path));
    }
    let folder = folder?;
    remove_stale(folder);
    Some(folder.join(native_socket_name(guid)))
}

/// Removes the native sockets of this folder whose locks nobody has, with the locks. A GUID is used once: nobody will serve there again.
fn remove_stale(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for lock in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let Some(socket) = lock.to_str().and_then(|path| path.strip_suffix(".lock")).map(Path::new) else {
            continue;
        };
        // A socket is made after its lock is taken, so one that is just being made is not stale.
        let is_socket = std::fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket());
        let name = socket.file_name().unwrap_or_default().to_string_lossy();
        if is_socket
            && is_of_a_guid(&name)
            && let Ok(Some(_lock)) = PathLock::take(socket)
        {
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// Is it a name that [`native_socket_name`] makes?
fn is_of_a_guid(name: &str) -> bool {
    let digits = |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let guid = name.split(['-', '.']).find(|part| digits(part));
    guid.is_some_and(|guid| native_socket_name(guid) == name)
}
