//! `causewayd`: where it is, and how it is asked to serve.

use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::program;

/// Finds causewayd next to this program or in `PATH`.
pub fn find() -> Result<PathBuf, Failure> {
    program::find("causewayd", "crates/causeway/causewayd")
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
