//! A program that is started and ends at once.
//!
//! # Safety
//! Arrays given to `posix_spawn` end with null and live across the call.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io::Write;
use std::path::Path;
use std::ptr;

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;

use super::cycles::{WAITS, reap};
use super::{Op, OpContext};
use crate::prelude::*;
use crate::sys::check_code;
use weighbridge_harness::counter_check::Quiet;

choice! {
    enum Program { Tiny = "tiny", True = "true" }
    axis "program", default Tiny: "what is spawned: a program of 132 bytes in memory, which ends at once, or /bin/true, which \
        loads the C library"
}

const TRUE: &str = "/bin/true";
const TINY_CODE: u8 = 7;
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

pub(super) struct PosixSpawnCycle {
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
            Program::True if !Path::new(TRUE).exists() => Err(Unsupported(
                "there is no /bin/true here; the package coreutils has it; use program=tiny".into(),
            )),
            Program::Tiny | Program::True => Ok(()),
        }
    }

    fn setup(context: &OpContext<'_>) -> io::Result<PosixSpawnCycle> {
        if context.params.choice::<Program>() == Program::True {
            let bytes = std::fs::metadata(TRUE)?.len();
            return Ok(PosixSpawnCycle { path: CString::new(TRUE)?, code: 0, bytes, _program: None });
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
        let (path, none) = (self.path.as_ptr(), ptr::null());
        // SAFETY: both arrays end with null; neither attributes nor file actions are asked for.
        check_code(unsafe {
            libc::posix_spawn(&mut pid, path, none, ptr::null(), arguments.as_ptr(), environment.as_ptr())
        })?;
        reap(pid)
    }

    fn each(&self) -> u64 {
        self.code.into()
    }

    fn finish(&mut self) -> io::Result<Facts> {
        Ok(Facts::from([("program_bytes".into(), self.bytes.to_string())]))
    }
}
