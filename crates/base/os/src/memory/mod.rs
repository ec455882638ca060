//! Memory that processes share: files that live in memory, their seals, and mappings.
//!
//! The files made here have no name that another process could find. What a peer may do with one is settled by [`Seals`], not
//! by the access mode of its descriptor: it can be opened again through `/proc/self/fd`.

pub mod copy;
mod lease;
mod load;
mod mapping;

pub use lease::is_open_elsewhere;
pub use load::{LoadU32, LoadU64};
pub use mapping::{Access, Mapping};
/// What can no longer be done to a memory file, by anybody, for as long as it exists.
pub use rustix::fs::SealFlags as Seals;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, MemfdFlags, Mode, OFlags};

use rustix::io::Errno;

use crate::error::{Context, Error, Result};

/// Bytes of a page of this machine.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// A file in memory of `len` zero bytes that can be sealed and never be executed.
///
/// `name` is only shown in `/proc/PID/maps`. The mode is 0600, so that a process of another user that is handed the
/// descriptor cannot open the file again for writing. The descriptor is closed on exec. Fails for a `name` longer than
/// 249 bytes, and with `EFBIG` for a `len` above what a file may have, `RLIMIT_FSIZE` included.
pub fn memfd(name: &str, len: u64) -> Result<OwnedFd> {
    let on = || format!("memory file {name:?} of {len} bytes");
    // Asked before the kernel is: it would send SIGXFSZ as well, which ends the process.
    if rustix::process::getrlimit(rustix::process::Resource::Fsize).current.is_some_and(|limit| len > limit) {
        return Err(Error::new("create", on(), Errno::FBIG));
    }
    let base = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = match fs::memfd_create(name, base | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know the flag; there the mode below is what forbids execution.
        Err(Errno::INVAL) => fs::memfd_create(name, base),
        other => other,
    }
    .context("create", on)?;
    fs::fchmod(&fd, Mode::RUSR | Mode::WUSR).context("restrict the mode of", on)?;
    fs::ftruncate(&fd, len).context("set the length of", on)?;
    Ok(fd)
}

/// A file of `len` zero bytes in directory `dir` that has no name and can never be given one.
///
/// It lives on the file system of `dir`, and is gone with its last descriptor and mapping, whatever kills its users.
/// Fails with `EOPNOTSUPP` where the file system cannot make a file without a name.
pub fn unnamed_file(dir: &Path, len: u64) -> Result<OwnedFd> {
    let on = || format!("unnamed file of {len} bytes in {}", dir.display());
    // EXCL beside TMPFILE means that linkat() cannot name it later.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = fs::open(dir, flags, Mode::RUSR | Mode::WUSR).context("create", on)?;
    fs::ftruncate(&fd, len).context("set the length of", on)?;
    Ok(fd)
}

/// Adds seals to a memory file. Fails with `EPERM` when it is sealed against that or the descriptor is read-only, `EBUSY` for
/// [`Seals::WRITE`] while a writable mapping exists, `EINVAL` for a file or a seal for which the kernel has none.
pub fn add_seals(fd: impl AsFd, seals: Seals) -> Result<()> {
    fs::fcntl_add_seals(fd, seals).context("add seals", || format!("{:#x} to a memory file", seals.bits()))
}

/// The seals of memory file `fd`. Fails with `EINVAL` when it is none.
pub fn seals(fd: impl AsFd) -> Result<Seals> {
    fs::fcntl_get_seals(fd).context("read the seals of", || "a descriptor")
}

#[cfg(test)]
mod tests {
    use causeway_testkit::{Cause, skipped};

    use super::*;

    #[test]
    fn a_memory_file_has_its_length_is_private_and_can_be_sealed() {
        let fd = memfd("weighed", 10_000).unwrap();
        let stat = fs::fstat(&fd).unwrap();
        assert_eq!(stat.st_size, 10_000);
        assert_eq!(stat.st_mode & 0o777, 0o600);
        assert!(rustix::io::fcntl_getfd(&fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        assert!(!seals(&fd).unwrap().contains(Seals::SHRINK));
        add_seals(&fd, Seals::SHRINK | Seals::GROW).unwrap();
        assert!(seals(&fd).unwrap().contains(Seals::SHRINK | Seals::GROW));
        assert!(!seals(&fd).unwrap().contains(Seals::WRITE));
    }

    #[test]
    fn seals_of_what_cannot_be_sealed_are_an_error() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(seals(&reader).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn an_unnamed_file_has_its_length_and_leaves_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let fd = match unnamed_file(dir.path(), 4096) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return skipped(Cause::Kernel("O_TMPFILE"), error);
            }
            other => other.unwrap(),
        };
        assert_eq!(fs::fstat(&fd).unwrap().st_size, 4096);
        assert_eq!(fs::fstat(&fd).unwrap().st_nlink, 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
