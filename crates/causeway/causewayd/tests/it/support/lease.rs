//! Files that whoever opens them waits for, as for those of a file system that does not answer.
//!
//! # Safety
//! Plain system calls about a descriptor that is open.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use causeway_testkit::{Cause, skipped};
use nix::libc;

/// Source: fcntl(2).
const F_SETSIG: i32 = 10;

/// While it lives, who opens its file waits: for 45 seconds at most, after which the kernel takes it away
/// (`/proc/sys/fs/lease-break-time`).
pub struct Lease(File);

impl Lease {
    /// `None`, with the skip printed, where the file system has no leases.
    pub fn on(path: &Path) -> Option<Lease> {
        let file = File::open(path).unwrap();
        // SAFETY: see above. The signal that tells of somebody who waits is one that is ignored.
        let leased = unsafe {
            libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG);
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
        };
        if leased != 0 {
            let error = std::io::Error::last_os_error();
            skipped(Cause::Kernel("file leases"), format!("{}: {error}", path.display()));
            return None;
        }
        Some(Lease(file))
    }

    /// Does somebody wait to open the file?
    pub fn is_waited_for(&self) -> bool {
        // SAFETY: see above.
        unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_GETLEASE) != libc::F_WRLCK }
    }
}
