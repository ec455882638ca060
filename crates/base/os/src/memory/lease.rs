//! Whether a file is open anywhere else.
//!
//! # Safety
//! The system calls here take numbers only.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use crate::error::{Error, Result};

/// Whether a process has opened the file of `fd` besides, or maps it through another open file. `fd` was opened for reading. Copies of
/// `fd` itself and memory files as `memfd_create` returned them do not count; so hand out descriptors of files that were opened again.
///
/// The kernel grants a lease on a file (fcntl(2), `F_SETLEASE`) only to its one user. It is given back at once. Fails with
/// `EACCES` for a file of another user, with `EINVAL` where `fs.leases-enable` is 0.
pub fn is_open_elsewhere(fd: impl AsFd) -> Result<bool> {
    let fd = fd.as_fd().as_raw_fd();
    let lease = |kind: libc::c_int| {
        // SAFETY: only numbers are passed.
        match unsafe { libc::fcntl(fd, libc::F_SETLEASE, kind) } {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    match lease(libc::F_WRLCK) {
        Ok(()) => {
            lease(libc::F_UNLCK).map_err(|error| Error::new("give back a lease on", "a file", error))?;
            Ok(false)
        }
        Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => Ok(true),
        Err(error) => Err(Error::new("ask for a lease on", "a file", error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;
    use crate::memory::{Access, Mapping, memfd};

    fn open_again(fd: &OwnedFd) -> OwnedFd {
        use rustix::fs::{Mode, OFlags, open};
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    #[test]
    fn a_file_is_open_elsewhere_until_its_last_mapping_is_gone() {
        let fd = memfd("leased", 4096).unwrap();
        let own = open_again(&fd);
        drop(fd);
        assert!(!is_open_elsewhere(&own).unwrap());
        let other = open_again(&own);
        assert!(is_open_elsewhere(&own).unwrap());
        let mapping = Mapping::shared(&other, 4096, Access::ReadOnly).unwrap();
        drop(other);
        assert!(is_open_elsewhere(&own).unwrap(), "the mapping is left");
        drop(mapping);
        assert!(!is_open_elsewhere(&own).unwrap());
    }
}
