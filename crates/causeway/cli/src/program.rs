//! Where other programs are.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Finds a program of this project next to this one or in `PATH`. `package` is its folder in the repository.
pub fn find(name: &str, package: &str) -> Result<PathBuf, Failure> {
    let sibling = std::env::current_exe().ok().map(|own| own.with_file_name(name));
    sibling.filter(|path| is_program(path)).or_else(|| in_path(name.as_ref())).ok_or_else(|| {
        Failure::Failed(format!(
            "{name} is neither next to this program nor in PATH; `cargo install --path {package}` installs it"
        ))
    })
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
