//! Where buses of this command serve: a folder of this user alone.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::server;
use crate::failure::Failure;

/// The folder for sockets: that of the session if this user can make some there, which after `su`, in containers and in services is not so;
/// otherwise a private one among temporary files, which is made if it is not there.
pub fn for_sockets() -> Result<PathBuf, Failure> {
    if let Some(folder) = of_session() {
        return Ok(folder);
    }
    let private = private();
    match DirBuilder::new().mode(0o700).create(&private) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(refused(&private, &error.to_string()))
        }
        _ => check(&private).map(|()| private),
    }
}

/// The folder that [`for_sockets`] returns, if it is there.
pub fn known() -> Option<PathBuf> {
    of_session().or_else(|| Some(private()).filter(|folder| check(folder).is_ok()))
}

/// `$XDG_RUNTIME_DIR`, if it belongs to this user and sockets can be made there: its path may be too long.
pub fn of_session() -> Option<PathBuf> {
    let folder =
        std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from)?;
    let is_own = std::fs::metadata(&folder).is_ok_and(|found| found.uid() == own_uid());
    (is_own && takes_sockets(&folder)).then_some(folder)
}

/// Only the kernel knows.
fn takes_sockets(folder: &Path) -> bool {
    let path = folder.join(server::unused_name("causeway-run-"));
    UnixListener::bind(&path).is_ok() && std::fs::remove_file(&path).is_ok()
}

fn private() -> PathBuf {
    let name = format!("causeway-{}", own_uid());
    let among_others = std::env::temp_dir();
    // A long path leaves no room for a socket.
    if takes_sockets(&among_others) { among_others.join(name) } else { Path::new("/tmp").join(name) }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Anybody can make a folder with this name among temporary files.
fn check(folder: &Path) -> Result<(), Failure> {
    let found = std::fs::symlink_metadata(folder).map_err(|error| refused(folder, &error.to_string()))?;
    let (uid, mode) = (found.uid(), found.mode() & 0o7777);
    let why = if found.is_symlink() || !found.is_dir() {
        "it is not a folder".to_owned()
    } else if uid != own_uid() {
        format!("it belongs to user {uid}")
    } else if mode != 0o700 {
        format!("its mode is {mode:04o} and not 0700")
    } else {
        return Ok(());
    };
    Err(refused(folder, &why))
}

fn refused(folder: &Path, why: &str) -> Failure {
    Failure::Failed(format!(
        "XDG_RUNTIME_DIR names no folder of this user for sockets, and {} cannot be used: {why}; set XDG_RUNTIME_DIR or TMPDIR to a folder of your own",
        folder.display()
    ))
}
