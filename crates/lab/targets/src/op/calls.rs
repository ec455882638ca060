//! System calls that neither wait nor change anything, straight through `syscall(2)`; and nothing at all.
//!
//! # Safety
//! Each call is given numbers, a path that lives as long as the program, or a pointer to a structure or byte of its own
//! that is as large as the call expects.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::File;
use std::hint;
use std::mem::MaybeUninit;
use std::os::unix::process::parent_id;
use std::process;
use std::sync::atomic::AtomicU32;

use causeway_os::futex;
use io_uring::{IoUring, opcode};

use super::{Op, OpContext, op, value};
use crate::prelude::*;
use weighbridge_harness::counter_check::Quiet;

const PATH: &CStr = c"/";

op!(Noop, "noop", "the harness itself: the loop without any operation", { count: u64 = 1 },
    const CAPS: Caps = Caps::HARNESS,
    // Otherwise the compiler sees that nothing happens, and the loop is not a loop.
    |op| Ok(hint::black_box(op.count)), each 1);
op!(Getpid, "getpid", "getpid, as a real system call", {},
    |_op| value(libc::syscall(libc::SYS_getpid)), each process::id().into());
op!(Getppid, "getppid", "getppid, as a real system call (what perf bench syscall basic does)", {},
    |_op| value(libc::syscall(libc::SYS_getppid)), each parent_id().into());
op!(ClockVdso, "clock-vdso", "clock_gettime(CLOCK_MONOTONIC) as the C library has it: in the vDSO where the clock allows",
    { time: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 } },
    |op| value(libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut op.time)), each 0);
op!(ClockSyscall, "clock-syscall", "clock_gettime(CLOCK_MONOTONIC) as a real system call",
    { time: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 } },
    |op| value(libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut op.time)), each 0);
op!(SchedYield, "sched-yield", "sched_yield, with no task to yield to unless roles share a CPU", {},
    const CAPS: Caps = Caps::YIELDS,
    const QUIET: Quiet = Quiet { switches: false, faults: true },
    |_op| value(libc::syscall(libc::SYS_sched_yield)), each 0);
op!(ReadZero, "read-zero", "read of one byte of /dev/zero", { file: File = File::open("/dev/zero")?, byte: u8 = 1 },
    |op| value(libc::syscall(libc::SYS_read, op.file.as_raw_fd(), &raw mut op.byte, 1)), each 1);
op!(WriteNull, "write-null", "write of one byte to /dev/null",
    { file: File = File::options().write(true).open("/dev/null")?, byte: u8 = 1 },
    |op| value(libc::syscall(libc::SYS_write, op.file.as_raw_fd(), &raw const op.byte, 1)), each 1);
op!(Stat, "stat", "stat of / (the system call newfstatat)",
    { stat: Box<MaybeUninit<libc::stat>> = Box::new(MaybeUninit::uninit()) },
    |op| value(libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, PATH.as_ptr(), op.stat.as_mut_ptr(), 0)), each 0);
op!(Fstat, "fstat", "fstat of an open / (the system call fstat)",
    { file: File = File::open("/")?, stat: Box<MaybeUninit<libc::stat>> = Box::new(MaybeUninit::uninit()) },
    |op| value(libc::syscall(libc::SYS_fstat, op.file.as_raw_fd(), op.stat.as_mut_ptr())), each 0);
op!(Statfs, "statfs", "statfs of /", { stat: Box<MaybeUninit<libc::statfs>> = Box::new(MaybeUninit::uninit()) },
    |op| value(libc::syscall(libc::SYS_statfs, PATH.as_ptr(), op.stat.as_mut_ptr())), each 0);
op!(Fstatfs, "fstatfs", "fstatfs of an open /",
    { file: File = File::open("/")?, stat: Box<MaybeUninit<libc::statfs>> = Box::new(MaybeUninit::uninit()) },
    |op| value(libc::syscall(libc::SYS_fstatfs, op.file.as_raw_fd(), op.stat.as_mut_ptr())), each 0);
op!(FutexWake, "futex-wake", "FUTEX_WAKE of a word on which no thread sleeps", { word: AtomicU32 = AtomicU32::new(0) },
    |op| futex::wake(&op.word, 1).map(u64::from), each 0);

/// An entry that does nothing, submitted and waited for in one `io_uring_enter`.
pub(super) struct UringNop(IoUring);

impl Op for UringNop {
    const ID: &'static str = "uring-nop";
    const ABOUT: &'static str = "an io_uring no-op: submitted and completed in one io_uring_enter";

    fn fit(host: &Host, _params: &CaseParams) -> Result<(), Unsupported> {
        host.uring_refused.clone().map_or(Ok(()), |why| Err(Unsupported(why)))
    }

    fn setup(_context: &OpContext<'_>) -> io::Result<UringNop> {
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
}
