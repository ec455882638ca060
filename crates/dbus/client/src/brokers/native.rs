//! The bus of native members at a path of ours: causewayd serves it, and is in no message's path between them.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use causeway_bus::Connection;
use causeway_dbus_wire::address::escaped;
use causeway_os::process::{Child, Spawn};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::daemon::config_file;
use super::{Broker, Limits, PATIENCE, SILENT, Started, socket_name};

/// What the address of a bus of native members begins with; its path follows.
const SCHEME: &str = "causeway:path=";
/// The beginning of the names of our directories; the number of the process that made it follows, and one of its own.
const PREFIX: &str = "weighbridge-native-bus-";

/// The bus at a path for native members and at a name in the abstract namespace for D-Bus programs: one bus for both.
pub fn start(program: PathBuf, limits: &Limits) -> Started {
    clean_up();
    let folder = Folder::create().map_err(|error| format!("it has no place for its socket: {error}"))?;
    let (path, name) = (folder.0.join("bus"), socket_name());
    let spawn = Spawn::new(program)
        .args(["--config-file=/proc/self/fd/3", "--nofork", "--nopidfile", "--nosyslog", "--native"])
        .arg(&path)
        .fd(config_file(&name, limits)?);
    let child = Child::spawn(spawn.stderr(SILENT).dies_with_parent())?;
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = Connection::open(&path) {
        if child.has_exited().unwrap_or(true) {
            return Err("it ends at once".into());
        }
        if Instant::now() > deadline {
            return Err(format!("nobody can join: {error}").into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let address = format!("{SCHEME}{};unix:abstract={name}", escaped(path.as_os_str().as_bytes()));
    Ok(Broker { _folder: Some(folder), ..Broker::new(address, child) })
}

/// A directory for the socket, which no other user can enter. It goes when it is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    fn create() -> io::Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            // Relaxed: nothing but the number itself is shared.
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                // A process that had our number has left it, and clean_up() takes it for ours.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|()| Folder(path)),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the sockets of buses whose starter was killed. The start of a bus does it too.
pub fn clean_up() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        let is_dead = |pid| test_kill_process(pid) == Err(Errno::SRCH);
        if maker.and_then(Pid::from_raw).is_some_and(is_dead) {
            // Another user's is not ours to remove, and cannot be.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
