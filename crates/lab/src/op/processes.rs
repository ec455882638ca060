//! Life cycles of address ranges, threads and processes.
//!
//! # Safety
//! What is mapped is written inside its length and unmapped; nobody else knows of it. The thread touches nothing. The
//! forked child calls `_exit` and nothing else. Arrays given to `posix_spawn` end with null and live across the call.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

use super::syscalls::sys;
use super::{Op, Seat};
use crate::axis::{Axis, Values};
use crate::contract::{Facts, Fit};
use crate::host::Host;
use crate::link::Link;
use crate::shape::Quiet;
use crate::signal::check;

/// `mmap(2)`, one write to each page, `munmap(2)`.
#[derive(Debug)]
pub struct MmapTouchMunmap {
    pages: usize,
    page_bytes: usize,
}

fn pages(link: &Link) -> usize {
    link.number("pages").unwrap_or(1)
}

impl Op for MmapTouchMunmap {
    const ID: &'static str = "mmap-touch-munmap";
    const ABOUT: &'static str = "mmap of anonymous memory without huge pages, one write to each page, munmap";
    const AXES: &'static [Axis] =
        &[Axis { name: "pages", default: "1", values: Values::Count, about: "how many pages are mapped" }];

    fn setup(seat: &Seat<'_>) -> io::Result<MmapTouchMunmap> {
        Ok(MmapTouchMunmap { pages: pages(seat.link), page_bytes: causeway_os::memory::page_bytes() })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let len = self.pages * self.page_bytes;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address; every write lies inside the mapping, which is ours.
        unsafe {
            let base = libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            if self.pages > 1 {
                // A kernel without huge pages does not know the advice, and needs none.
                libc::madvise(base, len, libc::MADV_NOHUGEPAGE);
            }
            for page in 0..self.pages {
                base.cast::<u8>().add(page * self.page_bytes).write_volatile(1);
            }
            sys(libc::munmap(base, len).into())?;
        }
        Ok(self.pages as u64)
    }

    fn each(&self) -> Option<u64> {
        Some(self.pages as u64)
    }

    fn faults(link: &Link) -> Option<f64> {
        Some(pages(link) as f64)
    }
}

/// What the numbers of operations that wait for another task look like is not known beforehand.
const WAITS: Quiet = Quiet { switches: false, faults: false };

/// `pthread_create(3)` and `pthread_join(3)`.
#[derive(Debug)]
pub struct ThreadCycle;

extern "C" fn nothing(argument: *mut c_void) -> *mut c_void {
    argument
}

impl Op for ThreadCycle {
    const ID: &'static str = "thread-cycle";
    const ABOUT: &'static str = "pthread_create of a thread that ends at once, and pthread_join";
    const QUIET: Quiet = WAITS;

    fn setup(_seat: &Seat<'_>) -> io::Result<ThreadCycle> {
        Ok(ThreadCycle)
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let mut thread = MaybeUninit::uninit();
        let mut result = ptr::null_mut();
        let argument = ptr::without_provenance_mut(7);
        // SAFETY: the thread is joined before anything that it was given ends.
        unsafe {
            check(libc::pthread_create(thread.as_mut_ptr(), ptr::null(), nothing, argument))?;
            check(libc::pthread_join(thread.assume_init(), &mut result))?;
        }
        Ok(result.addr() as u64)
    }

    fn each(&self) -> Option<u64> {
        Some(7)
    }
}

/// Waits for a child, and returns its exit code.
#[inline]
fn reap(pid: libc::pid_t) -> io::Result<u64> {
    let mut status: c_int = 0;
    loop {
        // SAFETY: a child of ours that nobody else waits for; `status` is ours.
        match sys(unsafe { libc::waitpid(pid, &mut status, 0) }.into()) {
            Ok(_) if libc::WIFEXITED(status) => return Ok(libc::WEXITSTATUS(status) as u64),
            Ok(_) => return Err(io::Error::other(format!("a child ended with status {status:#x}"))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// `fork(2)`, `_exit(2)`, `waitpid(2)`.
#[derive(Debug)]
pub struct ForkCycle;

impl Op for ForkCycle {
    const ID: &'static str = "fork-cycle";
    const ABOUT: &'static str = "fork of a child that calls _exit at once, and waitpid";
    const QUIET: Quiet = WAITS;

    fn setup(_seat: &Seat<'_>) -> io::Result<ForkCycle> {
        Ok(ForkCycle)
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        // SAFETY: the child calls _exit and nothing else.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: this is the child.
            unsafe { libc::_exit(7) }
        }
        sys(pid.into())?;
        reap(pid)
    }

    fn each(&self) -> Option<u64> {
        Some(7)
    }
}

/// What is spawned: small, and on every system.
const PROGRAM: &CStr = c"/bin/true";

/// `posix_spawn(3)` and `waitpid(2)`.
#[derive(Debug)]
pub struct PosixSpawnCycle;

impl Op for PosixSpawnCycle {
    const ID: &'static str = "posix-spawn-cycle";
    const ABOUT: &'static str = "posix_spawn of /bin/true with an empty environment, and waitpid";
    const QUIET: Quiet = WAITS;

    fn fit(_host: &Host, _link: &Link) -> Fit {
        match Path::new("/bin/true").exists() {
            true => Fit::Yes,
            false => Fit::No("there is no /bin/true here; the package coreutils has it".into()),
        }
    }

    fn setup(_seat: &Seat<'_>) -> io::Result<PosixSpawnCycle> {
        Ok(PosixSpawnCycle)
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let arguments = [PROGRAM.as_ptr().cast_mut(), ptr::null_mut()];
        let environment = [ptr::null_mut()];
        let mut pid = 0;
        // SAFETY: both arrays end with null; neither attributes nor file actions are asked for.
        check(unsafe {
            libc::posix_spawn(
                &mut pid,
                PROGRAM.as_ptr(),
                ptr::null(),
                ptr::null(),
                arguments.as_ptr(),
                environment.as_ptr(),
            )
        })?;
        reap(pid)
    }

    fn each(&self) -> Option<u64> {
        Some(0)
    }

    fn finish(&mut self) -> io::Result<Facts> {
        let bytes = std::fs::metadata("/bin/true")?.len();
        Ok(Facts::from([("program_bytes".into(), bytes.to_string())]))
    }
}
