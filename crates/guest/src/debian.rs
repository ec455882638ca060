//! A kernel from a Debian package that lies here already: it is unpacked without root, and nothing is downloaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// Where apt keeps what it has downloaded.
const ARCHIVES: &str = "/var/cache/apt/archives";

/// The folder with the contents of `package`: the path of a `.deb` file, or the name of a package whose file is in the current
/// folder or in apt's cache. What was unpacked before is used again.
///
/// # Errors
/// There is no such file, with the command that brings it; or it cannot be unpacked.
pub fn unpacked(package: &str, cache: &Path) -> Result<PathBuf, Error> {
    let file = file(package)?;
    let stem = file.file_stem().unwrap_or_default();
    let folder = cache.join(stem);
    if folder.is_dir() {
        return Ok(folder);
    }
    let cannot = |why: String| Error::new(format!("cannot unpack `{}`: {why}", file.display()));
    // Renamed when it is whole, so that an interrupted one is never taken for the package.
    let partial = cache.join(format!("{}.{}.partial", stem.display(), std::process::id()));
    fs::create_dir_all(&partial).map_err(|error| cannot(error.to_string()))?;
    let output =
        Command::new("dpkg-deb").arg("--extract").args([&file, &partial]).stdin(Stdio::null()).output();
    let why = match output {
        Ok(output) if output.status.success() => match fs::rename(&partial, &folder) {
            Ok(()) => return Ok(folder),
            // Another process was faster with the same package.
            Err(_) if folder.is_dir() => None,
            Err(error) => Some(error.to_string()),
        },
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")),
        Err(error) => Some(format!("dpkg-deb cannot be started: {error}; it is in the package dpkg")),
    };
    // Best effort: what is left has a name that nothing takes for a package.
    let _ = fs::remove_dir_all(&partial);
    why.map_or(Ok(folder), |why| Err(cannot(why)))
}

/// The package's file; of several versions the one that was downloaded last.
fn file(package: &str) -> Result<PathBuf, Error> {
    if package.ends_with(".deb") {
        let path = PathBuf::from(package);
        return match path.is_file() {
            true => Ok(path),
            false => Err(Error::new(format!("there is no file `{package}`"))),
        };
    }
    let prefix = format!("{package}_");
    let of = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_it = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with(&prefix) && name.ends_with(".deb")
    };
    let changed = |path: &PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
    of(".").chain(of(ARCHIVES)).filter(is_it).max_by_key(changed).ok_or_else(|| {
        Error::new(format!(
            "no file of the package {package} is in this folder or in {ARCHIVES}; `apt-get download {package}` brings it \
             (a package such as linux-image-amd64 only names the one with the kernel: see `apt-cache depends {package}`)"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_is_not_here_is_named_with_the_command_that_brings_it() {
        let why = unpacked("linux-image-9.9.9-none", Path::new("/nothing")).unwrap_err().to_string();
        assert!(why.contains("apt-get download linux-image-9.9.9-none"), "{why}");
        let why = unpacked("/nothing/a.deb", Path::new("/nothing")).unwrap_err().to_string();
        assert_eq!(why, "there is no file `/nothing/a.deb`");
    }
}
