//! Processes: starting one with chosen descriptors, knowing when it is gone, taking it along when we go.
//!
//! A process is held by a pidfd, never by its number alone, which may belong to somebody else a moment later.
//!
//! # Safety
//! `prctl`, `fcntl` and the functions that change users are only given numbers here, and a slice of them. A descriptor that was inherited is taken over at most once, so it
//! has one owner.
#![allow(unsafe_code)]

mod child;
mod facts;
mod launch;
mod signals;
mod trace;
mod user;

pub use child::{Child, Exit, Spawn, Stderr};
pub use facts::{cgroup, program};
pub use launch::reset_signals_of;
pub use signals::{
    Origin, block_signals, is_pending, read_signal, read_signal_and_origin, reset_child_signal,
    without_signals,
};
pub use trace::Tracer;
pub use user::{become_user, is_overflow_user, is_own_user, overflow_user_refused};

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use rustix::time::Timespec;

use crate::error::{Context, Error, Result};

/// A descriptor of process `pid` that becomes readable when the process ends. Closed on exec.
///
/// It means the process that has this number now. For a process that is not our child, that may be another one than the
/// caller had in mind; see [`peer_pidfd`](crate::socket::peer_pidfd). Fails with `ESRCH` for no such process, `EINVAL`
/// for 0 or above `i32::MAX`, `ENOSYS` before Linux 5.3.
pub fn pidfd_open(pid: u32) -> Result<OwnedFd> {
    let number = i32::try_from(pid).ok().filter(|&pid| pid > 0).and_then(Pid::from_raw);
    number
        .ok_or(Errno::INVAL)
        .and_then(|number| rustix::process::pidfd_open(number, PidfdFlags::empty()))
        .context("open a descriptor of", || format!("process {pid}"))
}

/// Takes over descriptor `number` that the parent handed to this process (see [`Spawn::fd`]), and closes it on exec.
/// Fails with `EBADF` when there is no such descriptor, when it is outside 3 … 34, or when it was taken before.
pub fn inherited_fd(number: i32) -> Result<OwnedFd> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let on = || format!("inherited descriptor {number}");
    let bit = u32::try_from(number - 3)
        .ok()
        .filter(|bit| *bit < u32::BITS)
        .ok_or(Errno::BADF)
        .context("take", on)?;
    // SAFETY: F_SETFD takes a number; on a descriptor that does not exist it fails.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(Error::last("take", on()));
    }
    // Relaxed: the bit guards nothing but itself.
    if TAKEN.fetch_or(1 << bit, Ordering::Relaxed) & (1 << bit) != 0 {
        return Err(Errno::BADF).context("take", on);
    }
    // SAFETY: the descriptor exists, came from the parent, and is handed out here only once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Ties the calling process to its parent: it is killed when that ends, and exits with code 1 when it has another
/// already.
///
/// The signal comes when the *thread* that started this process ends: a parent starts such children from one that lives
/// as long as they shall. A program with changed privileges (setuid) is not tied.
pub fn die_with(parent_pid: u32) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .context("die with", || format!("parent {parent_pid}"))?;
    // From here on the kernel watches. What happened before shows in the parent we have.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get() as u32) != Some(parent_pid) {
        std::process::exit(1);
    }
    Ok(())
}

/// Lets every process of this user trace the calling one, where the Yama security module would only let its ancestors.
pub fn allow_tracing_by_any() -> Result<()> {
    match rustix::process::set_ptracer(rustix::process::PTracer::Any) {
        Err(Errno::INVAL) => Ok(()),
        other => other.context("allow tracing of", || "this process"),
    }
}

/// Waits until one of `fds` can be read, is at its end or broken, at most for `timeout`, and says which. All are false
/// when the time is over, and when a signal came.
pub fn poll(fds: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Result<Vec<bool>> {
    let mut set: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    // A time that does not fit is longer than any machine runs.
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match rustix::event::poll(&mut set, timeout.as_ref()) {
        Ok(_) => Ok(set.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; fds.len()]),
        Err(error) => Err(Error::new("wait for", format!("{} descriptors", fds.len()), error)),
    }
}

/// Waits until a descriptor can be read, is at its end or broken; false when `end` comes first.
pub fn wait_readable(fd: BorrowedFd<'_>, end: Option<Instant>) -> Result<bool> {
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if poll(&[fd], left)?[0] {
            return Ok(true);
        }
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
    }
}

/// The file that this process runs, by its path where that still leads to it.
///
/// A program that was rebuilt or removed while it ran is still what `/proc/self/exe` opens.
fn own_program() -> io::Result<std::path::PathBuf> {
    use std::os::unix::fs::MetadataExt;
    const SELF: &str = "/proc/self/exe";
    let path = std::fs::read_link(SELF)?;
    let own = std::fs::metadata(SELF)?;
    let same =
        std::fs::metadata(&path).is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino()));
    Ok(if same { path } else { SELF.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_number_that_is_no_process_has_no_descriptor() {
        assert_eq!(pidfd_open(0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(pidfd_open(u32::MAX).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        // Above what the kernel ever gives out (PID_MAX_LIMIT).
        assert_eq!(pidfd_open(1 << 22).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn poll_says_which_descriptor_is_ready() {
        let (quiet, _quiet_far) = crate::socket::stream_pair().unwrap();
        let (ready, far) = crate::socket::stream_pair().unwrap();
        let (ended, ended_far) = crate::socket::stream_pair().unwrap();
        let own = pidfd_open(std::process::id()).unwrap();
        crate::socket::send_with_fds(&far, b"x", &[]).unwrap();
        drop(ended_far);
        let fds = [quiet.as_fd(), ready.as_fd(), ended.as_fd(), own.as_fd()];
        assert_eq!(poll(&fds, None).unwrap(), [false, true, true, false]);
        assert_eq!(poll(&fds[..1], Some(Duration::from_millis(1))).unwrap(), [false]);
        assert_eq!(poll(&[], Some(Duration::ZERO)).unwrap(), []);
    }

    #[test]
    fn tracing_can_be_allowed_with_and_without_yama() {
        allow_tracing_by_any().unwrap();
    }

    #[test]
    fn our_own_program_is_found_by_its_path() {
        assert_eq!(own_program().unwrap(), std::env::current_exe().unwrap());
    }
}
