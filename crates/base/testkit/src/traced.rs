//! A process under ptrace: stepped instruction by instruction, or stopped at every system call.
//!
//! A tracer is a thread: what one thread has seized, only that thread can step, inspect and reap.
//!
//! # Safety
//! The kernel says what a system call stop is about in a union, and beside it which of its members it filled. Only that
//! one is read.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::eventually;

/// A thread that this thread traces. Dropped, its process is killed.
#[derive(Debug)]
pub struct Traced {
    thread: Pid,
    process: Pid,
    /// Whether the tracer has seen its end.
    gone: Cell<bool>,
    /// Whether a step has not ended, because the thread sleeps in the kernel.
    asleep: Cell<bool>,
}

/// A system call that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: u64,
    /// What it was given.
    pub arguments: [u64; 6],
    /// What it gave back.
    pub result: i64,
}

impl Traced {
    /// Takes over the thread of process `pid` that has stopped itself with SIGSTOP, waiting for it to do so.
    pub fn seize_stopped(pid: i32) -> Traced {
        let tasks = format!("/proc/{pid}/task");
        let mut stopped = None;
        eventually("the process to be traced does not stop", || {
            // A stop signal stops all threads; the one that raised it has the name of the test, or is the youngest.
            let threads = std::fs::read_dir(&tasks).unwrap().map(|task| task.unwrap().path());
            let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
            let (named, others): (Vec<_>, Vec<_>) =
                threads.partition(|task| read(&task.join("comm")).trim_end() == "role");
            let in_stop = |task: &PathBuf| read(&task.join("status")).contains("State:\tT");
            let number = |task: PathBuf| task.file_name()?.to_str()?.parse().ok();
            // A thread has the name of the one that started it until it has set its own.
            stopped = if named.is_empty() {
                others.into_iter().filter(in_stop).filter_map(number).max()
            } else {
                let first = named.into_iter().filter_map(number).min();
                first.filter(|first: &i32| in_stop(&Path::new(&tasks).join(first.to_string())))
            };
            stopped.is_some()
        });
        Traced::seize(pid, stopped.unwrap())
    }

    /// As [`Traced::seize_stopped`], for a forked child: there the first thread stops itself, and others are the library's.
    pub fn seize_forked(pid: i32) -> Traced {
        eventually("the forked process does not stop", || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains("State:\tT")
        });
        Traced::seize(pid, pid)
    }

    /// Stops a process, and takes over its first thread, which does most of its work.
    pub fn seize_running(pid: i32) -> Traced {
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        Traced::seize_forked(pid)
    }

    /// As [`Traced::seize_running`], for the thread of this name.
    pub fn seize_running_thread(pid: i32, name: &str) -> Traced {
        let thread = crate::eventually_some("the process has no such thread", || {
            let mut threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            let thread = threads.find_map(|thread| {
                let thread = thread.ok()?.path();
                let its_name = std::fs::read_to_string(thread.join("comm")).ok()?;
                Some(thread).filter(|_| its_name.trim_end() == name)
            })?;
            thread.file_name()?.to_str()?.parse().ok()
        });
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        Traced::seize(pid, thread)
    }

    fn seize(pid: i32, thread: i32) -> Traced {
        let thread = Pid::from_raw(thread);
        ptrace::seize(thread, ptrace::Options::PTRACE_O_TRACESYSGOOD).unwrap();
        let traced =
            Traced { thread, process: Pid::from_raw(pid), gone: Cell::new(false), asleep: Cell::new(false) };
        match traced.wait() {
            WaitStatus::PtraceEvent(_, Signal::SIGSTOP, _) => {}
            other => panic!("seized, it is {other:?}"),
        }
        // The other threads of the process go on, and with them this one as soon as its tracer lets it.
        kill(traced.process, Signal::SIGCONT).unwrap();
        traced
    }

    /// The next stop or the end.
    pub fn wait(&self) -> WaitStatus {
        let status = waitpid(self.thread, Some(WaitPidFlag::__WALL)).unwrap();
        self.gone.set(matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)));
        status
    }

    /// Lets it run until it stops itself again; its exit code if it ends before.
    pub fn run(&self) -> Option<i32> {
        if self.asleep.take() {
            // The step that put it to sleep ends with what wakes it.
            match self.wait() {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                other => panic!("after its sleep: {other:?}"),
            }
        }
        loop {
            ptrace::cont(self.thread, None).unwrap();
            match self.wait() {
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return None,
                WaitStatus::Exited(_, code) => return Some(code),
                // What is left of the first stop and of its end.
                WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(_, Signal::SIGCONT) => {}
                other => panic!("while running: {other:?}"),
            }
        }
    }

    /// Executes up to `count` instructions. False if it stopped itself before.
    pub fn step(&self, count: u64) -> bool {
        for _ in 0..count {
            ptrace::step(self.thread, None).unwrap();
            match self.wait() {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return false,
                other => panic!("while stepping: {other:?}"),
            }
        }
        true
    }

    /// Executes instructions until the next one is a system call, which is not made. Returns how many were executed; nothing if it has stopped
    /// itself before.
    pub fn step_to_call(&self) -> Option<u64> {
        (0..).find(|_| self.is_at_call() || !self.step(1)).filter(|_| self.is_at_call())
    }

    /// Is the next instruction a system call?
    fn is_at_call(&self) -> bool {
        const CALL: &[u8] = if cfg!(target_arch = "x86_64") { &[0x0f, 0x05] } else { &[1, 0, 0, 0xd4] };
        // For one that is stopped outside of a call: -1, its stack and where it is.
        let path = format!("/proc/{}/task/{}/syscall", self.process, self.thread);
        let text = std::fs::read_to_string(path).unwrap();
        let at = text.split_whitespace().nth(2).filter(|_| text.starts_with("-1 "));
        let at = at.and_then(|at| usize::from_str_radix(at.strip_prefix("0x")?, 16).ok());
        at.is_some_and(|at| {
            let word = ptrace::read(self.thread, at as ptrace::AddressType).unwrap();
            word.to_ne_bytes().starts_with(CALL)
        })
    }

    /// Executes up to `most` instructions, but none after the thread has fallen asleep in the kernel, or has stopped itself. Returns how many were
    /// executed: fewer than `most` if it was either. One that sleeps goes on with [`Traced::run`].
    pub fn step_awake(&self, most: u64) -> u64 {
        for executed in 0..most {
            ptrace::step(self.thread, None).unwrap();
            let mut looks = 0_u32;
            let status = loop {
                match waitpid(self.thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)).unwrap() {
                    WaitStatus::StillAlive if looks > 200 && self.sleeps() => {
                        self.asleep.set(true);
                        return executed;
                    }
                    WaitStatus::StillAlive => {
                        looks += 1;
                        // Tracer and traced may share a CPU.
                        std::thread::yield_now();
                    }
                    status => break status,
                }
            };
            match status {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return executed,
                other => panic!("after {executed} instructions: {other:?}"),
            }
        }
        most
    }

    /// Does the thread wait in the kernel, and not for its tracer?
    fn sleeps(&self) -> bool {
        let (process, thread) = (self.process, self.thread);
        crate::proc::thread_state(process.as_raw() as u32, thread.as_raw() as u32) == Some('S')
    }

    /// Lets it run until it stops itself again, and notes every system call on the way.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls: Vec<Call> = Vec::new();
        loop {
            ptrace::syscall(self.thread, None).unwrap();
            match self.wait() {
                WaitStatus::PtraceSyscall(_) => {
                    let info = ptrace::syscall_info(self.thread).unwrap();
                    match info.op {
                        libc::PTRACE_SYSCALL_INFO_ENTRY => {
                            // SAFETY: the kernel says that it filled this member.
                            let entry = unsafe { info.u.entry };
                            calls.push(Call { number: entry.nr, arguments: entry.args, result: 0 });
                        }
                        // The end of a call that began before is not ours.
                        libc::PTRACE_SYSCALL_INFO_EXIT => {
                            if let Some(call) = calls.last_mut() {
                                // SAFETY: as above.
                                call.result = unsafe { info.u.exit }.sval;
                            }
                        }
                        other => panic!("a stop of kind {other}"),
                    }
                }
                WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(_, Signal::SIGCONT) => {}
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return calls,
                other => panic!("while counting calls: {other:?}"),
            }
        }
    }

    /// Lets it run until it is about to make a system call that `is_it`, and leaves it there.
    pub fn run_into(&self, is_it: impl Fn(&Call) -> bool) {
        loop {
            ptrace::syscall(self.thread, None).unwrap();
            match self.wait() {
                WaitStatus::PtraceSyscall(_) => {
                    let info = ptrace::syscall_info(self.thread).unwrap();
                    if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
                        // SAFETY: the kernel says that it filled this member.
                        let entry = unsafe { info.u.entry };
                        if is_it(&Call { number: entry.nr, arguments: entry.args, result: 0 }) {
                            return;
                        }
                    }
                }
                WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(_, Signal::SIGCONT) => {}
                other => panic!("on its way to a system call: {other:?}"),
            }
        }
    }

    /// Lets it run until it has returned from `most` system calls, has stopped itself, or `is_over`; returns from how many it has returned.
    pub fn run_calls(&self, most: u64, is_over: impl Fn() -> bool) -> u64 {
        let mut returned = 0;
        while returned < most {
            ptrace::syscall(self.thread, None).unwrap();
            let Some(status) = self.wait_unless(&is_over) else { return returned };
            match status {
                WaitStatus::PtraceSyscall(_) => {
                    let op = ptrace::syscall_info(self.thread).unwrap().op;
                    returned += u64::from(op == libc::PTRACE_SYSCALL_INFO_EXIT);
                }
                WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(_, Signal::SIGCONT) => {}
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return returned,
                other => panic!("after {returned} system calls: {other:?}"),
            }
        }
        returned
    }

    /// The next stop; nothing if it is over before.
    fn wait_unless(&self, is_over: impl Fn() -> bool) -> Option<WaitStatus> {
        loop {
            match waitpid(self.thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)).unwrap() {
                WaitStatus::StillAlive if is_over() => return None,
                WaitStatus::StillAlive => std::thread::sleep(std::time::Duration::from_micros(20)),
                status => return Some(status),
            }
        }
    }

    /// Lets it run until it is over or has ended, and system calls fail, without being made, with the number of the error that `fails` says. Its exit
    /// code if it has ended.
    #[cfg(target_arch = "x86_64")]
    pub fn run_failing(
        &self,
        mut fails: impl FnMut(&Call) -> Option<i32>,
        is_over: impl Fn() -> bool,
    ) -> Option<i32> {
        let mut failing = None;
        loop {
            ptrace::syscall(self.thread, None).unwrap();
            match self.wait_unless(&is_over) {
                None => return None,
                Some(WaitStatus::PtraceSyscall(_)) => {
                    let info = ptrace::syscall_info(self.thread).unwrap();
                    let mut registers = ptrace::getregs(self.thread).unwrap();
                    if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
                        // SAFETY: the kernel says that it filled this member.
                        let entry = unsafe { info.u.entry };
                        failing = fails(&Call { number: entry.nr, arguments: entry.args, result: 0 });
                        if failing.is_some() {
                            // No call has this number.
                            registers.orig_rax = u64::MAX;
                            ptrace::setregs(self.thread, registers).unwrap();
                        }
                    } else if let Some(errno) = failing.take() {
                        registers.rax = i64::from(-errno) as u64;
                        ptrace::setregs(self.thread, registers).unwrap();
                    }
                }
                Some(WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(_, Signal::SIGCONT)) => {}
                Some(WaitStatus::Stopped(_, Signal::SIGCHLD)) => {}
                Some(WaitStatus::Exited(_, code)) => {
                    self.gone.set(true);
                    return Some(code);
                }
                Some(other) => panic!("while system calls fail: {other:?}"),
            }
        }
    }

    /// SIGKILL, and the tracer's goodbye: a traced thread is not gone before.
    pub fn kill(&self) {
        if self.gone.get() {
            return;
        }
        kill(self.process, Signal::SIGKILL).unwrap();
        while !self.gone.get() {
            self.wait();
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.kill();
    }
}
