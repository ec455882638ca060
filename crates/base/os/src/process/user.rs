//! Users: who is this process's, and becoming another one for good.

use std::fs::read_to_string;
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// Whether a peer with this number is the user of this process.
///
/// In a user namespace, every user that has no number there is shown with the same one (65534). A process that runs with
/// that number itself cannot tell itself from them ([`is_overflow_user`]), and takes them all for others.
pub fn is_own_user(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw() && !is_overflow_user()
}

/// Whether this process runs with the number that stands for all users without a number in its user namespace, and there are
/// such.
pub fn is_overflow_user() -> bool {
    rustix::process::geteuid().as_raw() == unmapped_user() && !every_user_is_mapped()
}

/// Why a process that [`is_overflow_user`] can serve nobody, and what to do.
pub fn overflow_user_refused() -> String {
    format!(
        "this process runs as user {}, which stands for every user without a number in this user namespace, so it cannot tell its own \
         processes from those of strangers; run it as another user, such as 65532",
        rustix::process::geteuid().as_raw()
    )
}

/// The number that stands for users without a number in this namespace.
fn unmapped_user() -> u32 {
    static UNMAPPED: OnceLock<u32> = OnceLock::new();
    *UNMAPPED.get_or_init(|| {
        let text = read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
        text.trim().parse().unwrap_or(65534)
    })
}

/// Whether every user has a number in the user namespace of this process.
fn every_user_is_mapped() -> bool {
    let text = read_to_string("/proc/self/uid_map").unwrap_or_default();
    let lengths = text.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    lengths.sum::<u64>() >= u64::from(u32::MAX)
}

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
