//! System calls that neither wait nor change anything, straight through `syscall(2)`.
//!
//! # Safety
//! Each call is given numbers, a path that lives as long as the program, or a pointer to a structure or byte of its own
//! that is as large as the call expects.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::process;

use io_uring::{IoUring, opcode};

use super::{Op, OpContext};
use crate::sys;
use weighbridge_harness::contract::{Caps, Unsupported};
use weighbridge_harness::counter_check::Quiet;
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;

/// What the calls that take a path are given.
const PATH: &CStr = c"/";

/// An operation that is one system call: its name, what it is, its fields and how they are made, the call, and what the
/// call returns each time.
macro_rules! call {
    ($(#[$doc:meta])* $name:ident, $id:literal, $about:literal, { $($field:ident: $type:ty = $init:expr),* }, |$op:ident| $call:expr, $each:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            $($field: $type,)*
        }

        impl Op for $name {
            const ID: &'static str = $id;
            const ABOUT: &'static str = $about;

            fn setup(_seat: &OpContext<'_>) -> io::Result<$name> {
                Ok($name { $($field: $init,)* })
            }

            #[inline]
            fn once(&mut self) -> io::Result<u64> {
                let $op = self;
                // SAFETY: see the module's text.
                sys::check(unsafe { $call }).map(|result| result as u64)
            }

            fn each(&self) -> Option<u64> {
                let $op = self;
                $each($op)
            }
        }
    };
}

call!(
    /// `getpid(2)`.
    Getpid, "getpid", "getpid, as a real system call", {},
    |_op| libc::syscall(libc::SYS_getpid), |_: &Getpid| Some(u64::from(process::id()))
);
call!(
    /// `getppid(2)`.
    Getppid, "getppid", "getppid, as a real system call (what perf bench syscall basic does)", {},
    |_op| libc::syscall(libc::SYS_getppid), |_: &Getppid| Some(u64::from(std::os::unix::process::parent_id()))
);
call!(
    /// `clock_gettime(2)`, in the kernel.
    ClockSyscall, "clock-syscall", "clock_gettime(CLOCK_MONOTONIC) as a real system call",
    { time: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 } },
    |op| libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut op.time), |_: &ClockSyscall| Some(0)
);
call!(
    /// `read(2)`.
    ReadZero, "read-zero", "read of one byte of /dev/zero",
    { file: File = File::open("/dev/zero")?, byte: u8 = 1 },
    |op| libc::syscall(libc::SYS_read, op.file.as_raw_fd(), &raw mut op.byte, 1), |_: &ReadZero| Some(1)
);
call!(
    /// `write(2)`.
    WriteNull, "write-null", "write of one byte to /dev/null",
    { file: File = File::options().write(true).open("/dev/null")?, byte: u8 = 1 },
    |op| libc::syscall(libc::SYS_write, op.file.as_raw_fd(), &raw const op.byte, 1), |_: &WriteNull| Some(1)
);
call!(
    /// `fstatat(2)`.
    Stat, "stat", "stat of / (the system call newfstatat)",
    { stat: Box<MaybeUninit<libc::stat>> = Box::new(MaybeUninit::uninit()) },
    |op| libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, PATH.as_ptr(), op.stat.as_mut_ptr(), 0), |_: &Stat| Some(0)
);
call!(
    /// `statfs(2)`.
    Statfs, "statfs", "statfs of /",
    { stat: Box<MaybeUninit<libc::statfs>> = Box::new(MaybeUninit::uninit()) },
    |op| libc::syscall(libc::SYS_statfs, PATH.as_ptr(), op.stat.as_mut_ptr()), |_: &Statfs| Some(0)
);
call!(
    /// `fstatfs(2)`.
    Fstatfs, "fstatfs", "fstatfs of an open /",
    { file: File = File::open("/")?, stat: Box<MaybeUninit<libc::statfs>> = Box::new(MaybeUninit::uninit()) },
    |op| libc::syscall(libc::SYS_fstatfs, op.file.as_raw_fd(), op.stat.as_mut_ptr()), |_: &Fstatfs| Some(0)
);

/// `sched_yield(2)` where no other task wants the CPU.
#[derive(Debug)]
pub struct SchedYield;

impl Op for SchedYield {
    const ID: &'static str = "sched-yield";
    const ABOUT: &'static str = "sched_yield, with no task to yield to unless roles share a CPU";
    const CAPS: Caps = Caps::YIELDS;
    const QUIET: Quiet = Quiet { switches: false, faults: true };

    fn setup(_seat: &OpContext<'_>) -> io::Result<SchedYield> {
        Ok(SchedYield)
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        // SAFETY: no arguments.
        sys::check(unsafe { libc::syscall(libc::SYS_sched_yield) }).map(|result| result as u64)
    }

    fn each(&self) -> Option<u64> {
        Some(0)
    }
}

/// `clock_gettime(3)` as everybody calls it.
#[derive(Debug)]
pub struct ClockVdso {
    time: libc::timespec,
}

impl Op for ClockVdso {
    const ID: &'static str = "clock-vdso";
    const ABOUT: &'static str =
        "clock_gettime(CLOCK_MONOTONIC) as the C library has it: in the vDSO where the clock allows";

    fn setup(_seat: &OpContext<'_>) -> io::Result<ClockVdso> {
        Ok(ClockVdso { time: libc::timespec { tv_sec: 0, tv_nsec: 0 } })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        // SAFETY: the call fills our structure.
        sys::check(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut self.time) })
            .map(|result| result as u64)
    }

    fn each(&self) -> Option<u64> {
        Some(0)
    }
}

/// An entry that does nothing, submitted and waited for in one `io_uring_enter`.
pub struct UringNop(IoUring);

impl Op for UringNop {
    const ID: &'static str = "uring-nop";
    const ABOUT: &'static str = "an io_uring no-op: submitted and completed in one io_uring_enter";

    fn fit(host: &Host, _params: &CaseParams) -> Result<(), Unsupported> {
        host.uring_refused.clone().map_or(Ok(()), |why| Err(Unsupported(why)))
    }

    fn setup(_seat: &OpContext<'_>) -> io::Result<UringNop> {
        Ok(UringNop(IoUring::new(8)?))
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        let entry = opcode::Nop::new().build().user_data(1);
        // SAFETY: the entry refers to no memory.
        unsafe { self.0.submission().push(&entry) }.expect("the queue is empty: every entry is waited for");
        self.0.submit_and_wait(1)?;
        match self.0.completion().next() {
            Some(completion) if completion.result() == 0 => Ok(completion.user_data()),
            Some(completion) => Err(io::Error::from_raw_os_error(-completion.result())),
            None => {
                Err(io::Error::other("io_uring_enter returned without the completion that it waited for"))
            }
        }
    }

    fn each(&self) -> Option<u64> {
        Some(1)
    }
}
