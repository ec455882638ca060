//! A process that removes a directory when this process has ended, whatever ended it.
//!
//! # Safety
//!
//! The child of a process with threads calls nothing but the kernel: other threads do not exist in it and may have held any lock. What it
//! points to was made before the fork.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use causeway_os::process::pidfd_open;
use causeway_os::{Error, Result};

/// A removal is tried this often, at intervals of [`PAUSE_NS`]: a killed process may still be closing its files.
const TRIES: u32 = 500;
const PAUSE_NS: i64 = 20_000_000;

/// The process. It is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct Guard(Pid);

impl Guard {
    /// Starts the process, which removes the directory `name` of `parent` once this process has ended.
    pub fn start(parent: BorrowedFd<'_>, name: &str) -> Result<Guard> {
        let on = || format!("the process that removes {name}");
        let name = CString::new(name).map_err(|error| Error::new("start", on(), io::Error::from(error)))?;
        let us = pidfd_open(std::process::id())?;
        // SAFETY: the child runs `wait_and_remove` only; see the module's text.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: this is the child, and the descriptors and the name live as long as it.
            unsafe { wait_and_remove(us.as_fd().as_raw_fd(), parent.as_raw_fd(), &name) }
        }
        Pid::from_raw(pid).map(Guard).ok_or_else(|| Error::last("start", on()))
    }

    /// Lets the process live on, so that it removes the directory when this process has ended.
    pub fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // It is our child and has not been waited for, so the number is still its own.
        let _ = kill_process(self.0, Signal::KILL);
        let _ = rustix::io::retry_on_intr(|| waitpid(Some(self.0), WaitOptions::empty()));
    }
}

/// In the child: holds nothing but the two descriptors, waits for the end of the process of `us`, and removes the directory.
///
/// # Safety
///
/// Only to be called in a freshly forked child.
unsafe fn wait_and_remove(us: libc::c_int, parent: libc::c_int, name: &CString) -> ! {
    // SAFETY: plain system calls; every pointer is to a value of this frame or to `name`.
    unsafe {
        // A terminal's signals, and a kill of our process group, are not for this process.
        libc::setsid();
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        libc::prctl(libc::PR_SET_NAME, c"wb-trace-guard".as_ptr());
        let (low, high) = (us.min(parent).cast_unsigned(), us.max(parent).cast_unsigned());
        for (first, last) in [(0, low.wrapping_sub(1)), (low + 1, high - 1), (high + 1, libc::c_uint::MAX)] {
            if first <= last && last.wrapping_add(1) != first {
                libc::syscall(libc::SYS_close_range, first, last, 0);
            }
        }
        let mut ended = libc::pollfd { fd: us, events: libc::POLLIN, revents: 0 };
        while libc::poll(&raw mut ended, 1, -1) < 1 {}
        let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE_NS };
        for _ in 0..TRIES {
            if libc::unlinkat(parent, name.as_ptr(), libc::AT_REMOVEDIR) == 0
                || *libc::__errno_location() == libc::ENOENT
            {
                break;
            }
            libc::nanosleep(&raw const pause, std::ptr::null_mut());
        }
        libc::_exit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_is_dropped_removes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("kept")).unwrap();
        let parent = std::fs::File::open(folder.path()).unwrap();
        let guard = Guard::start(parent.as_fd(), "kept").unwrap();
        let pid = guard.0;
        drop(guard);
        assert!(folder.path().join("kept").exists());
        assert!(rustix::process::test_kill_process(pid).is_err(), "it was waited for");
    }
}
