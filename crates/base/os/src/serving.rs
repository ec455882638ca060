//! One process serves at a path: the lock that decides which, and the files that it removes at its end.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{self, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Context, Result};

/// A file that this process made. Its drop removes it, unless another file has taken its place.
#[derive(Debug)]
pub struct OwnFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl OwnFile {
    /// The file that is at a path now, which must be absolute: the process may change its folder.
    ///
    /// # Errors
    /// There is none, or its folder cannot be searched.
    pub fn at(path: PathBuf) -> Result<OwnFile> {
        let found = fs::lstat(&path).context("find", || path.display().to_string())?;
        Ok(OwnFile { identity: identity(&found), path })
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if fs::lstat(&self.path).is_ok_and(|found| identity(&found) == self.identity) {
            let _ = fs::unlink(&self.path);
        }
    }
}

/// Device and inode.
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// The right to serve at a path: a lock on the file with `.lock` behind that path. The file goes with it.
///
/// A server that finds an abandoned socket replaces it, and two of them must not replace each other's.
#[derive(Debug)]
pub struct PathLock {
    /// Removed while the lock is held, so that no other process has it by then.
    _file: OwnFile,
    _fd: OwnedFd,
}

impl PathLock {
    /// Takes the lock of an absolute path; `None` if another holder has it.
    ///
    /// # Errors
    /// The file cannot be opened, locked or looked at.
    pub fn take(path: &Path) -> Result<Option<PathLock>> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let on = || lock.display().to_string();
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let fd = fs::open(&lock, flags, Mode::RUSR | Mode::WUSR).context("open", on)?;
            match fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Ok(None),
                locked => locked.context("lock", on)?,
            }
            let locked = identity(&fs::fstat(&fd).context("stat", on)?);
            // Its last holder may have removed the file between the two calls: then it locks nothing.
            match fs::lstat(&lock) {
                Ok(found) if identity(&found) == locked => {
                    let file = OwnFile { path: lock, identity: locked };
                    return Ok(Some(PathLock { _file: file, _fd: fd }));
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error).context("stat", on),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_has_the_lock_and_its_file_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("bus"), folder.path().join("bus.lock"));
        let first = PathLock::take(&path).unwrap().unwrap();
        assert!(file.exists() && PathLock::take(&path).unwrap().is_none());
        assert!(file.exists(), "one that was refused removes nothing");
        drop(first);
        assert!(!file.exists());
        assert!(PathLock::take(&path).unwrap().is_some());
        let nowhere = PathLock::take(&folder.path().join("no/bus")).unwrap_err().to_string();
        assert!(nowhere.starts_with("cannot open ") && nowhere.contains("bus.lock"), "{nowhere}");
    }

    #[test]
    fn a_lock_whose_file_was_removed_leaves_the_file_of_the_next_holder() {
        let folder = tempfile::tempdir().unwrap();
        let (path, file) = (folder.path().join("bus"), folder.path().join("bus.lock"));
        let first = PathLock::take(&path).unwrap().unwrap();
        std::fs::remove_file(&file).unwrap();
        let second = PathLock::take(&path).unwrap().expect("the file that it locked has no name any more");
        drop(first);
        assert!(file.exists() && PathLock::take(&path).unwrap().is_none());
        drop(second);
        assert!(!file.exists());
    }

    #[test]
    fn only_the_file_that_was_made_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("socket"), folder.path().join("other"));
        std::fs::write(&path, "own").unwrap();
        std::fs::write(&other, "other").unwrap();
        let own = OwnFile::at(path.clone()).unwrap();
        std::fs::rename(&other, &path).unwrap();
        drop(own);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
        drop(OwnFile::at(path.clone()).unwrap());
        assert!(!path.exists() && OwnFile::at(path).is_err());
    }
}
