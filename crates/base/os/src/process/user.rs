//! Becoming another user for good.

use crate::error::{Error, Result};

/// Has this process, all its threads, be of that user, its group and these further groups from now on, without a way back. Only root may.
///
/// # Errors
/// `EPERM` for another user. After an error the process may be half-way: end it.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> Result<()> {
    // In words that are there already: to make some may change errno.
    let failed = |what: &'static str| Error::last("become", what);
    // SAFETY: the kernel reads as many numbers as the slice has. The library's functions, other than the system calls, do it for all threads.
    if unsafe { libc::setgroups(groups.len(), groups.as_ptr()) } != 0 {
        return Err(failed("another user (setgroups)"));
    }
    // SAFETY: numbers alone. The group first: afterwards it could not be changed. Real, effective and saved one.
    if unsafe { libc::setresgid(gid, gid, gid) } != 0 {
        return Err(failed("another user (setresgid)"));
    }
    // SAFETY: numbers alone.
    if unsafe { libc::setresuid(uid, uid, uid) } != 0 {
        return Err(failed("another user (setresuid)"));
    }
    Ok(())
}
