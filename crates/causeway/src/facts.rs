//! The promises of the kernel that safety rests on, tried out on the kernel that runs.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use causeway_os::futex;
use causeway_os::memory::{self, Access, Mapping, Seals};

use crate::error::{Error, Result};

/// Fails where this kernel does not keep what the design needs. Tried once per process.
pub fn check() -> Result<()> {
    static MISSING: OnceLock<Option<&'static str>> = OnceLock::new();
    match MISSING.get_or_init(|| try_out().err()) {
        None => Ok(()),
        Some(missing) => Err(Error::Kernel(missing)),
    }
}

fn try_out() -> std::result::Result<(), &'static str> {
    let fd =
        memory::memfd("causeway-facts", 4096).map_err(|_| "it gives no memory files (memfd_create, 3.17)")?;
    let mapping = Mapping::shared(&fd, 4096, Access::ReadWrite).map_err(|_| "it maps no memory files")?;
    memory::add_seals(&fd, Seals::SHRINK | Seals::GROW | Seals::FUTURE_WRITE | Seals::SEAL)
        .map_err(|_| "it does not know F_SEAL_FUTURE_WRITE (Linux 5.1)")?;
    mapping.atomic_u32(0).store(1, std::sync::atomic::Ordering::Relaxed);
    if Mapping::shared(&fd, 4096, Access::ReadWrite).is_ok() || reopened_is_writable(&fd) {
        return Err("F_SEAL_FUTURE_WRITE does not keep others from writing");
    }
    if rustix::io::pwrite(&fd, &[1], 0).is_ok() {
        return Err("F_SEAL_FUTURE_WRITE does not keep others from writing");
    }
    let reader = Mapping::shared(&fd, 4096, Access::ReadOnly).map_err(|_| "it maps no sealed files")?;
    match reader.load_u32(0).wait(1, Some(Duration::from_nanos(1))) {
        Ok(futex::Outcome::TimedOut | futex::Outcome::Interrupted) => {}
        _ => return Err("it does not let readers wait (FUTEX_WAIT on memory mapped for reading)"),
    }
    causeway_os::process::pidfd_open(std::process::id()).map_err(|_| "it has no pidfd (Linux 5.3)")?;
    Ok(())
}

/// A read-only descriptor can be opened again for writing; the seal has to hold there too.
fn reopened_is_writable(fd: &OwnedFd) -> bool {
    use rustix::fs::{Mode, OFlags};
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .is_ok_and(|again| Mapping::shared(&again, 4096, Access::ReadWrite).is_ok())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_that_runs_this_test_keeps_its_promises() {
        super::check().unwrap();
    }
}
