//! Life cycles of address ranges, threads and processes.
//!
//! # Safety
//! What is mapped is written inside its length and unmapped; no other code knows of it. The thread touches nothing. The
//! forked child calls `_exit` and nothing else. Arrays given to `posix_spawn` end with null and live across the call.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Op, OpContext};
use crate::sys::{self, check_code};
use weighbridge_harness::axis::{Axis, Choice, Values, choice};
use weighbridge_harness::contract::{Facts, Unsupported};
use weighbridge_harness::counter_check::Quiet;
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;

/// `mmap(2)`, one write to each page, `munmap(2)`.
#[derive(Debug)]
pub struct MmapTouchMunmap {
    pages: usize,
    page_bytes: usize,
}

fn pages(params: &CaseParams) -> usize {
    params.number("pages").unwrap_or(1)
}

impl Op for MmapTouchMunmap {
    const ID: &'static str = "mmap-touch-munmap";
    const ABOUT: &'static str = "mmap of anonymous memory without huge pages, one write to each page, munmap";
    const AXES: &'static [Axis] =
        &[Axis { name: "pages", default: "1", values: Values::Count, about: "how many pages are mapped" }];

    fn setup(context: &OpContext<'_>) -> io::Result<MmapTouchMunmap> {
        Ok(MmapTouchMunmap { pages: pages(context.params), page_bytes: causeway_os::memory::page_bytes() })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let len = self.pages * self.page_bytes;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses the address; every write lies inside the mapping, which is ours.
        unsafe {
            let base = libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0);
            sys::check_mapping(base)?;
            if self.pages > 1 {
                // A kernel without huge pages does not know the advice, and needs none.
                libc::madvise(base, len, libc::MADV_NOHUGEPAGE);
            }
            for page in 0..self.pages {
                base.cast::<u8>().add(page * self.page_bytes).write_volatile(1);
            }
            sys::check(libc::munmap(base, len))?;
        }
        Ok(self.pages as u64)
    }

    fn each(&self) -> Option<u64> {
        Some(self.pages as u64)
    }

    fn faults(params: &CaseParams) -> Option<f64> {
        Some(pages(params) as f64)
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

    fn setup(_seat: &OpContext<'_>) -> io::Result<ThreadCycle> {
        Ok(ThreadCycle)
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let mut thread = MaybeUninit::uninit();
        let mut result = ptr::null_mut();
        let argument = ptr::without_provenance_mut(7);
        // SAFETY: the thread is joined before anything that it was given ends.
        unsafe {
            check_code(libc::pthread_create(thread.as_mut_ptr(), ptr::null(), nothing, argument))?;
            check_code(libc::pthread_join(thread.assume_init(), &mut result))?;
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
    // SAFETY: a child of ours that no other code waits for; `status` is ours.
    sys::retry(|| sys::check(unsafe { libc::waitpid(pid, &mut status, 0) }))?;
    if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status) as u64)
    } else {
        Err(io::Error::other(format!("a child ended with status {status:#x}")))
    }
}

/// `fork(2)`, `_exit(2)`, `waitpid(2)`.
#[derive(Debug)]
pub struct ForkCycle;

impl Op for ForkCycle {
    const ID: &'static str = "fork-cycle";
    const ABOUT: &'static str = "fork of a child that calls _exit at once, and waitpid";
    const QUIET: Quiet = WAITS;

    fn setup(_seat: &OpContext<'_>) -> io::Result<ForkCycle> {
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
        sys::check(pid)?;
        reap(pid)
    }

    fn each(&self) -> Option<u64> {
        Some(7)
    }
}

choice! {
    /// What is spawned.
    enum Program { Tiny = "tiny", True = "true" }
    axis "program", default Tiny: "what is spawned: a program of 132 bytes in memory, which ends at once, or /bin/true, which \
        loads the C library"
}

/// The program of coreutils.
const TRUE: &CStr = c"/bin/true";
/// What the tiny program exits with.
const TINY_CODE: u8 = 7;
/// Address at which the tiny program is mapped.
const TINY_BASE: u64 = 0x40_0000;

/// `exit(7)`, and the number of the architecture in an ELF header.
#[cfg(target_arch = "x86_64")]
const TINY: (u16, &[u8]) = (
    62,
    &[
        0xb8, 60, 0, 0, 0, // mov eax, SYS_exit
        0xbf, TINY_CODE, 0, 0, 0, // mov edi, 7
        0x0f, 0x05, // syscall
    ],
);
#[cfg(target_arch = "aarch64")]
const TINY: (u16, &[u8]) = (
    183,
    &[
        0xe0, 0x00, 0x80, 0xd2, // mov x0, #7
        0xa8, 0x0b, 0x80, 0xd2, // mov x8, #SYS_exit
        0x01, 0x00, 0x00, 0xd4, // svc #0
    ],
);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const TINY: (u16, &[u8]) = (0, &[]);

/// A program with one segment, as the kernel takes it: no interpreter, no library, nothing that would be measured too.
/// The fields are those of `Elf64_Ehdr` and `Elf64_Phdr` in elf(5).
fn tiny_program() -> Vec<u8> {
    let (machine, code) = TINY;
    let (header, segment) = (64u16, 56u16);
    let all = u64::from(header + segment) + code.len() as u64;
    let mut bytes = b"\x7fELF".to_vec();
    // 64 bits, the byte order of this machine, version 1.
    bytes.extend([2, if cfg!(target_endian = "little") { 1 } else { 2 }, 1]);
    bytes.resize(16, 0);
    bytes.extend([2u16, machine].map(u16::to_ne_bytes).concat());
    bytes.extend(1u32.to_ne_bytes());
    // Entry, place of the segments' table, no table of sections.
    bytes.extend(
        [TINY_BASE + u64::from(header + segment), u64::from(header), 0].map(u64::to_ne_bytes).concat(),
    );
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend([header, segment, 1, 0, 0, 0].map(u16::to_ne_bytes).concat());
    // To be loaded, read and run; all of the file, aligned to the largest page that a machine may have.
    bytes.extend([1u32, 5].map(u32::to_ne_bytes).concat());
    bytes.extend([0, TINY_BASE, TINY_BASE, all, all, 0x1_0000].map(u64::to_ne_bytes).concat());
    bytes.extend(code);
    bytes
}

/// A file in memory with this content that can be executed and no longer be written.
fn executable(content: &[u8]) -> io::Result<OwnedFd> {
    let new = |flags| rustix::fs::memfd_create("weighbridge-tiny", flags);
    let flags = MemfdFlags::CLOEXEC;
    let written = match new(flags | MemfdFlags::EXEC) {
        // Before Linux 6.3 every such file could be run.
        Err(Errno::INVAL) => new(flags)?,
        made => made?,
    };
    let mut file = std::fs::File::from(written);
    file.write_all(content)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // The kernel runs nothing that is open for writing.
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// `posix_spawn(3)` and `waitpid(2)`.
#[derive(Debug)]
pub struct PosixSpawnCycle {
    path: CString,
    code: u8,
    bytes: u64,
    /// What the path leads to.
    _program: Option<OwnedFd>,
}

impl Op for PosixSpawnCycle {
    const ID: &'static str = "posix-spawn-cycle";
    const ABOUT: &'static str =
        "posix_spawn of a program that ends at once, with an empty environment, and waitpid";
    const AXES: &'static [Axis] = &[Program::AXIS];
    const QUIET: Quiet = WAITS;

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        match params.choice() {
            Program::Tiny if TINY.1.is_empty() => {
                Err(Unsupported("the tiny program is not known for this processor; use program=true".into()))
            }
            Program::True if !Path::new("/bin/true").exists() => Err(Unsupported(
                "there is no /bin/true here; the package coreutils has it; use program=tiny".into(),
            )),
            Program::Tiny | Program::True => Ok(()),
        }
    }

    fn setup(context: &OpContext<'_>) -> io::Result<PosixSpawnCycle> {
        if context.params.choice::<Program>() == Program::True {
            let bytes = std::fs::metadata("/bin/true")?.len();
            return Ok(PosixSpawnCycle { path: TRUE.to_owned(), code: 0, bytes, _program: None });
        }
        let content = tiny_program();
        let program = executable(&content).map_err(|error| {
            let hint = "a file in memory cannot be run here, see sysctl vm.memfd_noexec; use program=true";
            io::Error::new(error.kind(), format!("{error}: {hint}"))
        })?;
        let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))?;
        Ok(PosixSpawnCycle { path, code: TINY_CODE, bytes: content.len() as u64, _program: Some(program) })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let arguments = [self.path.as_ptr().cast_mut(), ptr::null_mut()];
        let environment = [ptr::null_mut()];
        let mut pid = 0;
        // SAFETY: both arrays end with null; neither attributes nor file actions are asked for.
        check_code(unsafe {
            libc::posix_spawn(
                &mut pid,
                self.path.as_ptr(),
                ptr::null(),
                ptr::null(),
                arguments.as_ptr(),
                environment.as_ptr(),
            )
        })?;
        reap(pid)
    }

    fn each(&self) -> Option<u64> {
        Some(self.code.into())
    }

    fn finish(&mut self) -> io::Result<Facts> {
        Ok(Facts::from([("program_bytes".into(), self.bytes.to_string())]))
    }
}
