//! fork, arrange descriptors, exec: what [`Child`](super::Child) needs and the standard library cannot promise.
//!
//! `std::process::Command` reports a failed exec through a pipe at whatever number was free. Code that puts descriptors at 3,
//! 4, … in the child may overwrite it, and the failure is lost. Here that pipe lies above all that is handed over.
//!
//! # Safety
//! Between fork and exec only functions that are safe in a signal handler run: other threads do not exist in the child
//! and may have held any lock. Everything that allocates happens before. All pointers point into values that live until
//! exec or exit.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::pipe::PipeFlags;

/// What to run, in the kernel's terms. The first three of `fds` are standard input, output and error.
pub(super) struct Launch {
    pub program: CString,
    pub args: Vec<CString>,
    pub environment: Vec<CString>,
    pub fds: Vec<OwnedFd>,
    /// Do descriptors stay open that this process has inherited?
    pub keeps_others: bool,
    pub own_session: bool,
    /// Our process id, and the signal that the child is to get when the calling thread ends.
    pub death_signal: Option<(u32, c_int)>,
}

/// Starts it; returns its process id. An exec that failed is an error here, and leaves no process behind.
pub(super) fn launch(launch: &Launch) -> io::Result<u32> {
    let targets = launch.fds.len() as c_int;
    // The child's copies start above all targets, so that putting one in its place cannot overwrite the next.
    let above = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, targets);
    let sources: Vec<OwnedFd> = launch.fds.iter().map(|fd| above(fd.as_fd())).collect::<Result<_, _>>()?;
    let numbers: Vec<c_int> = sources.iter().map(AsRawFd::as_raw_fd).collect();
    let (report, low) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let failure = above(low.as_fd())?;
    // The pipe ends when no process can write to it any more.
    drop(low);
    let argv = null_ended(&launch.args);
    let envp = null_ended(&launch.environment);

    // Our handlers must not run in the child, where our threads and locks are not what they take them for.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    // SAFETY: the child runs `become_program` only, which keeps to the rule in the module's text.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: this is the child; the arrays end with null and point to strings that live in `launch`.
        unsafe { become_program(launch, &argv, &envp, &numbers, failure.as_raw_fd()) }
    }
    let forked = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) };
    mask.thread_set_mask().expect("it fails only for another way to change a mask");
    let pid = forked?;

    drop(failure);
    match failed_with(report) {
        None => Ok(pid as u32),
        Some(error) => {
            // SAFETY: our own child, which is ending or stopped; no other code knows of it, and its number is taken
            // until it is waited for.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, ptr::null_mut(), 0);
            }
            Err(error)
        }
    }
}

fn null_ended(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// From fork to exec, a few system calls. Who takes longer was stopped by somebody.
const EXEC_DEADLINE: Duration = Duration::from_secs(10);

/// The number that the child wrote before it gave up; nothing when exec closed the pipe.
fn failed_with(report: OwnedFd) -> Option<io::Error> {
    match super::wait_readable(report.as_fd(), Some(Instant::now() + EXEC_DEADLINE)) {
        Ok(true) => {}
        Ok(false) => {
            let why = "the new process was stopped before it ran";
            return Some(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        Err(error) => return Some(error.into()),
    }
    let mut number = [0; size_of::<c_int>()];
    std::fs::File::from(report).read_exact(&mut number).ok()?;
    Some(io::Error::from_raw_os_error(c_int::from_ne_bytes(number)))
}

/// In the child: puts `numbers[i]` at `i`, and runs the program.
///
/// # Safety
/// Only to be called in a freshly forked child. `argv` and `envp` end with null.
unsafe fn become_program(
    launch: &Launch,
    argv: &[*const c_char],
    envp: &[*const c_char],
    numbers: &[c_int],
    failure: c_int,
) -> ! {
    // SAFETY: all of these are safe in a signal handler, and every pointer is valid (see above).
    unsafe {
        // What we inherited without the close-on-exec flag ends here too. Linux before 5.11 cannot; then it is passed on.
        let beyond = numbers.len() as libc::c_uint;
        if !launch.keeps_others {
            libc::syscall(libc::SYS_close_range, beyond, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
        }
        let arranged = (0..).zip(numbers).all(|(target, &source)| libc::dup2(source, target) >= 0);
        // A freshly forked process leads no group, so it may always lead a session.
        let is_apart = !launch.own_session || libc::setsid() >= 0;
        let is_tied = || launch.death_signal.is_none_or(|(parent, signal)| tie_to(parent, signal));
        if arranged && is_apart && reset_signals() && is_tied() {
            libc::execve(launch.program.as_ptr(), argv.as_ptr(), envp.as_ptr());
        }
        let number = *libc::__errno_location();
        libc::write(failure, (&raw const number).cast(), size_of::<c_int>());
        libc::_exit(127)
    }
}

/// Asks for a signal when the parent ends; false, with the error number, where the parent has ended already.
///
/// # Safety
/// Only to be called in a freshly forked child.
unsafe fn tie_to(parent: u32, signal: c_int) -> bool {
    // SAFETY: both are plain system calls, and `__errno_location` is this thread's.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) != 0 {
            return false;
        }
        // From here on the kernel watches. What happened before shows in the parent we have.
        let is_there = libc::getppid() == parent.cast_signed();
        if !is_there {
            *libc::__errno_location() = libc::ESRCH;
        }
        is_there
    }
}

/// Has a program that the standard library starts no signal blocked, and SIGPIPE as it was before the Rust runtime ignored it.
pub fn reset_signals_of(command: &mut Command) {
    // SAFETY: the closure runs in a freshly forked child and keeps to the rule in the module's text; an error is made of a number.
    unsafe {
        command.pre_exec(|| if reset_signals() { Ok(()) } else { Err(io::Error::last_os_error()) });
    }
}

/// Gives the new program no signal blocked and SIGPIPE as it was before the Rust runtime ignored it.
///
/// # Safety
/// Only to be called in a freshly forked child.
unsafe fn reset_signals() -> bool {
    // Exec resets what has a handler. Until then the handlers are ours, and with the mask opened a signal would run
    // one: they go first.
    for signal in 1..=64 {
        // SAFETY: plain data of the kernel's form, all zero where the kernel does not write.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            // Fails for the two that the C library keeps to itself.
            if libc::sigaction(signal, ptr::null(), &mut action) == 0
                && (signal == libc::SIGPIPE || action.sa_sigaction > libc::SIG_IGN)
            {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset initializes the set.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        let refused = libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
        if refused != 0 {
            *libc::__errno_location() = refused;
        }
        refused == 0
    }
}
