//! System calls of a child, seen one by one (ptrace).
//!
//! A traced process stops twice at each system call, so its times mean nothing. Its calls are exact, also without tracepoints.

use std::marker::PhantomData;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::error::{Context, Result};

/// The calling thread as the tracer of one child and all its threads. The kernel binds a tracer to its thread.
#[derive(Debug)]
pub struct Tracer {
    child: Pid,
    of_this_thread: PhantomData<*const ()>,
}

impl Tracer {
    /// Begins to trace the child `pid`, which goes on until its next system call. It is killed if the calling thread
    /// ends first. Fails with `EPERM` where tracing is forbidden (`kernel.yama.ptrace_scope` of 2 without
    /// `CAP_SYS_PTRACE`, or 3; a container's filter) or another tracer is there; `ESRCH` for no such process.
    pub fn seize(pid: u32) -> Result<Tracer> {
        let on = || format!("process {pid}");
        let child = Pid::from_raw(pid as i32);
        let options =
            Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
        ptrace::seize(child, options).context("trace", on)?;
        ptrace::interrupt(child).context("stop", on)?;
        Ok(Tracer { child, of_this_thread: PhantomData })
    }

    /// Tells the number and first argument of each system call when a thread begins it, until the child has ended, whose end is
    /// left to be waited for. Before Linux 5.3 the kernel does not say which call it is (`EIO`).
    pub fn run(self, mut on_call: impl FnMut(u64, u64)) -> Result<()> {
        let on = || format!("process {}", self.child);
        // Tracees of this thread alone, clones included. A child is left to whom it belongs.
        let any = WaitPidFlag::WEXITED
            | WaitPidFlag::WSTOPPED
            | WaitPidFlag::WNOWAIT
            | WaitPidFlag::__WALL
            | WaitPidFlag::__WNOTHREAD;
        loop {
            let status = match waitid(Id::All, any) {
                Err(Errno::EINTR) => continue,
                // Somebody has waited for it.
                Err(Errno::ECHILD) => return Ok(()),
                status => status.context("wait for", on)?,
            };
            let (stopped, signal) = match status {
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) if pid == self.child => {
                    return Ok(());
                }
                WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                    reap(thread);
                    continue;
                }
                WaitStatus::PtraceSyscall(thread) => {
                    match entered(thread) {
                        Ok(Some((number, argument))) => on_call(number, argument),
                        Ok(None) | Err(Errno::ESRCH) => {}
                        Err(error) => return Err(error).context("ask for the system call of", on),
                    }
                    (thread, None)
                }
                WaitStatus::PtraceEvent(thread, ..) => (thread, None),
                WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
                WaitStatus::Continued(_) | WaitStatus::StillAlive => continue,
            };
            match ptrace::syscall(stopped, signal) {
                // Killed meanwhile; its end is told next.
                Ok(()) | Err(Errno::ESRCH) => {}
                failed => failed.context("continue", on)?,
            }
        }
    }
}

/// A traced thread other than the first is nobody's child.
fn reap(thread: Pid) {
    let _ = waitid(Id::Pid(thread), WaitPidFlag::WEXITED | WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD);
}

/// What the kernel says of a thread that stopped (`struct ptrace_syscall_info`), as far as a call begins. The libraries have it for one C
/// library alone.
#[repr(C)]
struct SyscallInfo {
    op: u8,
    _padding: [u8; 3],
    _architecture: u32,
    _instruction_pointer: u64,
    _stack_pointer: u64,
    number: u64,
    arguments: [u64; 6],
}

/// The number and first argument of the system call at whose beginning a thread stopped; `None` at its end.
fn entered(thread: Pid) -> nix::Result<Option<(u64, u64)>> {
    const GET_SYSCALL_INFO: libc::c_long = 0x420e;
    const ENTRY: u8 = 1;
    let mut info = std::mem::MaybeUninit::<SyscallInfo>::zeroed();
    // SAFETY: the kernel writes at most as many bytes as the structure has, all of which are numbers.
    let said = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            GET_SYSCALL_INFO,
            thread.as_raw(),
            size_of::<SyscallInfo>(),
            info.as_mut_ptr(),
        )
    };
    Errno::result(said)?;
    // SAFETY: it was zeroes before, and any bytes are a value of it.
    let info = unsafe { info.assume_init() };
    Ok((info.op == ENTRY).then_some((info.number, info.arguments[0])))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::thread;
    use std::time::Duration;

    use causeway_testkit::{Cause, skipped};

    use super::*;
    use crate::error::Error;
    use crate::process::{Child, Exit, Spawn};

    /// Traces a program from before its first instruction on; `None` where tracing is forbidden.
    fn traced(program: &str, args: &[&str]) -> Option<(BTreeMap<u64, u64>, Exit)> {
        let mut child = Child::spawn(Spawn::new(program).args(args)).unwrap();
        let pid = child.pid();
        let counts = thread::spawn(move || -> Result<_> {
            let tracer = Tracer::seize(pid)?;
            let mut counts = BTreeMap::new();
            tracer.run(|number, _| *counts.entry(number).or_default() += 1)?;
            Ok(counts)
        });
        let exit = child.wait(Some(Duration::from_secs(60))).unwrap().expect("an end");
        let counts = counts.join().unwrap().map_err(may_not_trace).ok()?;
        Some((counts, exit))
    }

    fn may_not_trace(error: Error) {
        assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
        skipped(Cause::Rights("ptrace"), error);
    }

    #[test]
    fn each_call_is_told_until_the_end_which_is_left_to_the_parent() {
        // The first read comes after a nap, when the tracer is there.
        let script = "sleep 0.3; i=0; while [ $i -lt 50 ]; do read line </dev/null; i=$((i+1)); done; exit 7";
        let Some((counts, exit)) = traced("/bin/sh", &["-c", script]) else { return };
        assert_eq!(exit, Exit::Code(7));
        let read = counts.get(&(libc::SYS_read as u64)).copied().unwrap_or(0);
        assert!((50..70).contains(&read), "{counts:?}");
    }

    #[test]
    fn a_child_that_is_killed_ends_the_tracer() {
        let child = Child::spawn(Spawn::new("/bin/sleep").arg("60")).unwrap();
        let pid = child.pid();
        let tracer = thread::spawn(move || Tracer::seize(pid).map(|tracer| tracer.run(|_, _| {})));
        thread::sleep(Duration::from_millis(50));
        drop(child);
        match tracer.join().unwrap() {
            Ok(ended) => ended.unwrap(),
            Err(error) => may_not_trace(error),
        }
    }
}
