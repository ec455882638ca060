//! A kernel from a Debian package that lies here already: it is unpacked without root, and nothing is downloaded.

use std::collections::BTreeSet;
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
    sweep(cache);
    let stem = file.file_stem().unwrap_or_default();
    let folder = cache.join(stem);
    if folder.is_dir() {
        return Ok(folder);
    }
    let cannot = |why: String| Error::new(format!("cannot unpack `{}`: {why}", file.display()));
    // Renamed when it is whole, so that an interrupted one is never taken for the package.
    let partial = cache.join(format!("{}.{}{PARTIAL}", stem.display(), std::process::id()));
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

/// The end of the name of a folder into which a package is being unpacked; before it stands the id of the process that does so.
const PARTIAL: &str = ".partial";

/// Removes what processes have left that were killed while they unpacked a package.
fn sweep(cache: &Path) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(PARTIAL)?.rsplit_once('.')?.1.parse().ok());
        let is_left = |id: u32| !Path::new(&format!("/proc/{id}")).exists();
        if id.is_some_and(is_left) {
            // Best effort: a folder of another user stays, and nothing takes it for a package.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The package's file; of several versions the one that was downloaded last.
fn file(package: &str) -> Result<PathBuf, Error> {
    if package.ends_with(".deb") {
        let path = Some(PathBuf::from(package)).filter(|path| path.is_file());
        return path.ok_or_else(|| Error::new(format!("there is no file `{package}`")));
    }
    let here = packages(Path::new("."));
    let found: Vec<(String, PathBuf)> = here.into_iter().chain(packages(Path::new(ARCHIVES))).collect();
    let changed = |path: &PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
    let of_it = found.iter().filter(|(name, _)| name == package).map(|(_, path)| path);
    of_it.max_by_key(|path| changed(path)).cloned().ok_or_else(|| missing(package, &found))
}

/// The names of the packages whose files are in a folder, with these files: `NAME_VERSION_ARCHITECTURE.deb`.
fn packages(folder: &Path) -> Vec<(String, PathBuf)> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let package = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".deb")?.split_once('_')?.0.to_owned();
        Some((name, path))
    };
    files.filter_map(package).collect()
}

fn missing(package: &str, found: &[(String, PathBuf)]) -> Error {
    let names = found.iter().map(|(name, _)| name.as_str());
    let kernels: BTreeSet<&str> = names.filter(|name| name.starts_with("linux-image-")).collect();
    let here = match &Vec::from_iter(kernels)[..] {
        [] => "a package such as linux-image-amd64 only names the one with the kernel: see `apt-cache depends linux-image-amd64`".into(),
        kernels => format!("there is deb:{}", kernels.join(" and deb:")),
    };
    Error::new(format!(
        "no file of the package {package} is in this folder or in {ARCHIVES}; `apt-get download {package}` brings it ({here})"
    ))
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

    #[test]
    fn a_package_that_only_names_another_is_told_which_kernels_are_here() {
        let folder = tempfile::tempdir().unwrap();
        for name in
            ["linux-image-6.1.0-56-amd64_6.1.192-2_amd64.deb", "linux-headers-6.1_6.1_all.deb", "notes.txt"]
        {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = packages(folder.path());
        assert_eq!(found.len(), 2, "{found:?}");
        let why = missing("linux-image-amd64", &found).to_string();
        assert!(why.ends_with("brings it (there is deb:linux-image-6.1.0-56-amd64)"), "{why}");
    }

    #[test]
    fn what_a_killed_process_left_of_a_package_is_removed_and_what_a_living_one_unpacks_stays() {
        let cache = tempfile::tempdir().unwrap();
        let at = |name: String| cache.path().join(name);
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let dead = at(format!("linux-image_1_amd64.{}{PARTIAL}", child.id()));
        let alive = at(format!("linux-image_1_amd64.{}{PARTIAL}", std::process::id()));
        let whole = at("linux-image_1_amd64".into());
        for folder in [&dead, &alive, &whole] {
            fs::create_dir(folder).unwrap();
        }
        sweep(cache.path());
        assert!(!dead.exists() && alive.exists() && whole.exists());
    }
}
