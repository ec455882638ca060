//! `causewayd`: where it is, and how it is asked to serve.

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Finds causewayd next to this program or in `PATH`.
pub fn find() -> Result<PathBuf, Failure> {
    let sibling = std::env::current_exe().ok().map(|own| own.with_file_name("causewayd"));
    sibling.filter(|path| is_program(path)).or_else(|| in_path("causewayd".as_ref())).ok_or_else(|| {
        Failure::Failed(
            "causewayd is neither next to this program nor in PATH; `cargo install --path crates/causeway/causewayd` installs it".into(),
        )
    })
}

/// The arguments by which it serves a bus at an address and a native socket; without a path, a session serves natively where it chooses.
pub fn arguments(address: &str, native: Option<&Path>, config_file: Option<PathBuf>) -> Vec<OsString> {
    let mut arguments = match config_file {
        Some(file) => vec!["--config-file".into(), file.into_os_string()],
        None => vec!["--session".into()],
    };
    arguments.extend(["--address".into(), address.into(), "--nopidfile".into()]);
    if let Some(native) = native {
        arguments.extend(["--native".into(), native.as_os_str().to_owned()]);
    }
    arguments
}

/// A name that no other process uses.
pub fn unused_name(prefix: &str) -> String {
    // Seeded by the kernel for each process.
    format!("{prefix}{:016x}", RandomState::new().build_hasher().finish())
}

/// A program by its name, as a shell finds it; a name with a slash is a path.
pub fn in_path(name: &Path) -> Option<PathBuf> {
    if name.as_os_str().as_encoded_bytes().contains(&b'/') {
        return name.exists().then(|| name.to_owned());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
