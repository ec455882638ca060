//! Memory that processes share: files that live in memory, their seals, and mappings.
//!
//! The files made here never have a name that another process could find. What a peer may do with one is settled by
//! [`Seals`], which travel with the file; the access mode of a descriptor does not, since a process that holds one can open
//! the file again through `/proc/self/fd`.

mod lease;
mod load;
mod mapping;

pub use lease::is_open_elsewhere;
pub use load::{LoadU32, LoadU64, WAIT_ANY_MAX, wait_any};
pub use mapping::{Access, Mapping};

use std::ops::BitOr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{self, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::error::{Context, Error, Result};

/// Bytes of a page of this machine.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// A file in memory of `len` zero bytes that can be sealed and never be executed.
///
/// `name` is only shown in `/proc/PID/maps`. The mode is 0600, so that a process of another user that is handed the
/// descriptor cannot open the file again for writing. The descriptor is closed on exec.
///
/// # Errors
///
/// The kernel's: out of descriptors, a `name` longer than 249 bytes, `EFBIG` for a `len` above what a file may have,
/// `RLIMIT_FSIZE` included.
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
///
/// # Errors
///
/// The kernel's; `EOPNOTSUPP` where the file system cannot make a file without a name.
pub fn unnamed_file(dir: &Path, len: u64) -> Result<OwnedFd> {
    let on = || format!("unnamed file of {len} bytes in {}", dir.display());
    // EXCL beside TMPFILE means that linkat() cannot name it later.
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let fd = fs::open(dir, flags, Mode::RUSR | Mode::WUSR).context("create", on)?;
    fs::ftruncate(&fd, len).context("set the length of", on)?;
    Ok(fd)
}

/// What can no longer be done to a memory file, by anybody, for as long as it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seals(u32);

impl Seals {
    /// No seal at all.
    pub const NONE: Seals = Seals(0);
    /// No further seal can be added.
    pub const SEAL: Seals = Seals(libc::F_SEAL_SEAL as u32);
    /// The file cannot get shorter: a mapping inside its length never raises SIGBUS.
    pub const SHRINK: Seals = Seals(libc::F_SEAL_SHRINK as u32);
    /// The file cannot get longer.
    pub const GROW: Seals = Seals(libc::F_SEAL_GROW as u32);
    /// The bytes cannot change; refused while a writable shared mapping exists.
    pub const WRITE: Seals = Seals(libc::F_SEAL_WRITE as u32);
    /// Only the writable mappings that exist now can change the bytes (Linux 5.1).
    pub const FUTURE_WRITE: Seals = Seals(libc::F_SEAL_FUTURE_WRITE as u32);
    /// The execute bits of the mode cannot change (Linux 6.3); [`memfd`] sets this one.
    pub const EXEC: Seals = Seals(0x20);

    /// Whether all seals of `other` are among these.
    pub const fn contains(self, other: Seals) -> bool {
        self.0 & other.0 == other.0
    }

    /// The kernel's bits, those included that this crate has no name for.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl BitOr for Seals {
    type Output = Seals;
    fn bitor(self, other: Seals) -> Seals {
        Seals(self.0 | other.0)
    }
}

/// Adds `seals` to those that memory file `fd` has.
///
/// # Errors
///
/// `EPERM` when the file is sealed against sealing or the descriptor is read-only, `EBUSY` for [`Seals::WRITE`] while
/// a writable mapping exists, `EINVAL` when the file cannot be sealed or the kernel does not know a seal.
pub fn add_seals(fd: impl AsFd, seals: Seals) -> Result<()> {
    fs::fcntl_add_seals(fd, SealFlags::from_bits_retain(seals.0))
        .context("add seals", || format!("{:#x} to a memory file", seals.0))
}

/// The seals of memory file `fd`.
///
/// # Errors
///
/// `EINVAL` when `fd` is no memory file.
pub fn seals(fd: impl AsFd) -> Result<Seals> {
    fs::fcntl_get_seals(fd).map(|flags| Seals(flags.bits())).context("read the seals of", || "a descriptor")
}

#[cfg(test)]
mod tests {
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
        assert_eq!(fs::ftruncate(&fd, 1), Err(Errno::PERM));
        assert_eq!(fs::ftruncate(&fd, 20_000), Err(Errno::PERM));
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
                eprintln!("skipped: {error}");
                return;
            }
            other => other.unwrap(),
        };
        assert_eq!(fs::fstat(&fd).unwrap().st_size, 4096);
        assert_eq!(fs::fstat(&fd).unwrap().st_nlink, 0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
