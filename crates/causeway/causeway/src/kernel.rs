//! The kernel features that safety depends on, tested on the running kernel.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use causeway_os::futex;
use causeway_os::memory::{self, Access, Mapping, Seals};

use rustix::io::Errno;

use crate::error::{Error, Result, errno};

/// Fails if this kernel lacks a feature that the design needs. Tested once per process, unless the process was out of
/// descriptors or memory: that shows nothing about the kernel.
pub fn check() -> Result<()> {
    static MISSING: OnceLock<Option<&'static str>> = OnceLock::new();
    if MISSING.get().is_none() {
        let missing = match test_features() {
            Ok(()) => None,
            Err(Obstacle::Missing(missing)) => Some(missing),
            Err(Obstacle::Exhausted(error)) => return Err(error.into()),
        };
        let _ = MISSING.set(missing);
    }
    match MISSING.get() {
        Some(Some(missing)) => Err(Error::Kernel(missing)),
        _ => Ok(()),
    }
}

/// Why the test did not succeed.
enum Obstacle {
    /// The kernel lacks a feature.
    Missing(&'static str),
    /// This process is out of a resource.
    Exhausted(causeway_os::Error),
}

impl From<&'static str> for Obstacle {
    fn from(missing: &'static str) -> Obstacle {
        Obstacle::Missing(missing)
    }
}

/// Distinguishes a call that the kernel lacks from one that fails for lack of a resource.
fn lacks(missing: &'static str) -> impl Fn(causeway_os::Error) -> Obstacle {
    move |error| match errno(&error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOSPC | Errno::FBIG) => {
            Obstacle::Exhausted(error)
        }
        _ => Obstacle::Missing(missing),
    }
}

fn test_features() -> std::result::Result<(), Obstacle> {
    let fd = memory::memfd("causeway-kernel-test", 4096)
        .map_err(lacks("it has no memory files (memfd_create, Linux 3.17)"))?;
    crate::reservation::reserve(&fd, 4096)
        .map_err(lacks("it cannot reserve memory for memory files (fallocate, Linux 3.5)"))?;
    let mapping =
        Mapping::shared(&fd, 4096, Access::ReadWrite).map_err(lacks("it cannot map memory files"))?;
    memory::add_seals(&fd, Seals::SHRINK | Seals::GROW | Seals::FUTURE_WRITE | Seals::SEAL)
        .map_err(lacks("it lacks F_SEAL_FUTURE_WRITE (Linux 5.1)"))?;
    mapping.atomic_u32(0).store(1, std::sync::atomic::Ordering::Relaxed);
    let is_writable = Mapping::shared(&fd, 4096, Access::ReadWrite).is_ok() || reopened_is_writable(&fd);
    if is_writable || rustix::io::pwrite(&fd, &[1], 0).is_ok() {
        return Err("F_SEAL_FUTURE_WRITE does not stop other writers".into());
    }
    let reader = Mapping::shared(&fd, 4096, Access::ReadOnly).map_err(lacks("it cannot map sealed files"))?;
    match reader.load_u32(0).wait(1, Some(Duration::from_nanos(1))) {
        Ok(futex::Outcome::TimedOut | futex::Outcome::Interrupted) => {}
        _ => return Err("it lacks FUTEX_WAIT on memory that is mapped for reading".into()),
    }
    causeway_os::process::pidfd_open(std::process::id())
        .map_err(lacks("it has no pidfd, which tells which process died (Linux 5.3)"))?;
    Ok(())
}

/// A read-only descriptor can be opened again for writing; the seal must hold there too.
fn reopened_is_writable(fd: &OwnedFd) -> bool {
    use rustix::fs::{Mode, OFlags};
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .is_ok_and(|again| Mapping::shared(&again, 4096, Access::ReadWrite).is_ok())
}
