//! A process under ptrace: stepped instruction by instruction, or stopped at every system call.
//!
//! A tracer is a thread: what one thread has seized, only that thread can step, inspect and reap.
//!
//! # Safety
//! The kernel says what a system call stop is about in a union, and beside it which of its members it filled. Only that
//! one is read.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::env;
use std::fmt::Display;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, gettid};

use crate::alarm::Alarm;
use crate::watchdog::describe;
use crate::{Cause, PATIENCE, Running, eventually, eventually_some, proc, skipped, temp_file};

/// The variable with the file to which a role writes the number of the thread that its tracer gets.
const THREAD: &str = "TESTKIT_THREAD";

/// How long an operation may take: roles give up earlier, after [`PATIENCE`], and have more to report; the watchdog gives up later.
const LIMIT: Duration = PATIENCE.saturating_add(Duration::from_secs(30));

/// A thread that this thread traces. Dropped, its process is killed.
#[derive(Debug)]
pub struct Traced {
    thread: Pid,
    process: Pid,
    /// Kills the process when an operation takes longer than `limit`.
    alarm: Alarm,
    limit: Duration,
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

/// Hands this thread over to the tracer that started the process with [`Traced::start`]: stops until the tracer lets it run.
///
/// # Panics
/// Another function started the process.
pub fn stop_for_tracer() {
    let file =
        env::var_os(THREAD).unwrap_or_else(|| panic!("{THREAD} is not set: no tracer started this process"));
    fs::write(&file, format!("{}\n", gettid())).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    raise(Signal::SIGSTOP).unwrap();
}

/// Whether this process may trace another one; prints the skip of the current test if not.
pub fn has_ptrace() -> bool {
    let process = Running::start(Command::new("sleep").arg("1000"));
    match ptrace::seize(Pid::from_raw(process.pid().cast_signed()), ptrace::Options::empty()) {
        Ok(()) => true,
        Err(error) => {
            skipped(Cause::Rights("ptrace"), error);
            false
        }
    }
}

impl Traced {
    /// Starts a process and takes over its thread that calls [`stop_for_tracer`]. The tracer must be dropped before the process, as it is where
    /// both are bound in this order.
    #[track_caller]
    pub fn start(command: &mut Command) -> (Running, Traced) {
        let file = temp_file();
        let mut running = Running::start(command.env(THREAD, file.path()));
        let thread = eventually_some("no thread is handed over to its tracer", || {
            let ended = running.0.try_wait().unwrap();
            assert!(ended.is_none(), "{command:?} ends without handing over a thread: {ended:?}");
            // Complete once it ends with a new line.
            fs::read_to_string(file.path()).ok()?.strip_suffix('\n')?.parse().ok()
        });
        let traced = Traced::seize_stopped(running.pid().cast_signed(), thread);
        (running, traced)
    }

    /// Takes over the first thread of a forked child, which is the one that has called `fork`, once it has stopped itself with SIGSTOP.
    pub fn seize_forked(pid: i32) -> Traced {
        Traced::seize_stopped(pid, pid)
    }

    /// Stops a process, and takes over its first thread, which does most of its work.
    pub fn seize_running(pid: i32) -> Traced {
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        Traced::seize_stopped(pid, pid)
    }

    /// As [`Traced::seize_running`], for the only thread with this name.
    pub fn seize_running_thread(pid: i32, name: &str) -> Traced {
        // The kernel cuts the rest.
        assert!(name.len() < 16, "no thread has a name as long as {name}");
        let thread = eventually_some(&format!("process {pid} has not one thread named {name}"), || {
            let threads = proc::threads_named(pid.cast_unsigned(), name);
            // A new thread has the name of the thread that started it until it sets its own.
            <[u32; 1]>::try_from(threads).ok()
        });
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        Traced::seize_stopped(pid, thread[0].cast_signed())
    }

    fn seize_stopped(pid: i32, thread: i32) -> Traced {
        eventually(&format!("thread {thread} of process {pid} does not stop"), || {
            proc::thread_state(pid.cast_unsigned(), thread.cast_unsigned()) == Some('T')
        });
        let (process, thread) = (Pid::from_raw(pid), Pid::from_raw(thread));
        ptrace::seize(thread, ptrace::Options::PTRACE_O_TRACESYSGOOD)
            .unwrap_or_else(|error| panic!("ptrace of thread {thread} of process {process}: {error}"));
        let alarm = Alarm::new(rustix::process::Pid::from_raw(pid).expect("a process has a number"));
        let (gone, asleep) = (Cell::new(false), Cell::new(false));
        let traced = Traced { thread, process, alarm, limit: LIMIT, gone, asleep };
        let operation = traced.alarm.operation(traced.limit);
        match traced.wait() {
            WaitStatus::PtraceEvent(_, Signal::SIGSTOP, _) => {}
            other => panic!("seized, it is {other:?}"),
        }
        drop(operation);
        // The other threads of the process go on, and with them this one as soon as its tracer lets it.
        kill(traced.process, Signal::SIGCONT).unwrap();
        traced
    }

    /// The next stop or the end, which the alarm of the operation brings about if nothing else does.
    fn wait(&self) -> WaitStatus {
        self.seen(waitpid(self.thread, Some(WaitPidFlag::__WALL)))
    }

    /// A stop or the end, if there is one by now.
    fn look(&self) -> WaitStatus {
        self.seen(waitpid(self.thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)))
    }

    fn seen(&self, status: nix::Result<WaitStatus>) -> WaitStatus {
        let status = self.done("waitpid", status);
        if matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..)) {
            self.gone.set(true);
            self.assert_in_time();
        }
        status
    }

    /// The result of a request that fails once the process is killed.
    fn done<T, E: Display>(&self, request: &str, result: Result<T, E>) -> T {
        result.unwrap_or_else(|error| {
            self.assert_in_time();
            panic!("{request} of thread {} of process {}: {error}", self.thread, self.process)
        })
    }

    fn assert_in_time(&self) {
        if let Some(report) = self.alarm.report() {
            panic!(
                "traced process {} was killed, because its tracer has waited {:?} for it:\n{report}",
                self.process, self.limit
            );
        }
    }

    /// Lets it run to its next stop.
    fn go(&self, request: fn(Pid, Option<Signal>) -> nix::Result<()>) -> WaitStatus {
        self.done("ptrace", request(self.thread, None));
        self.wait()
    }

    /// Lets it run until it stops itself again; its exit code if it ends before.
    pub fn run(&self) -> Option<i32> {
        let _operation = self.alarm.operation(self.limit);
        if self.asleep.take() {
            // The step that put it to sleep ends with what wakes it.
            match self.wait() {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                other => panic!("after its sleep: {other:?}"),
            }
        }
        loop {
            match self.go(ptrace::cont) {
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
        let _operation = self.alarm.operation(self.limit);
        (0..count).all(|_| self.has_stepped())
    }

    /// Executes an instruction. False if it stopped itself before.
    fn has_stepped(&self) -> bool {
        match self.go(ptrace::step) {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => true,
            WaitStatus::Stopped(_, Signal::SIGSTOP) => false,
            other => panic!("while stepping: {other:?}"),
        }
    }

    /// Executes instructions until the next one is a system call, which is not made. Returns how many were executed; nothing if it has stopped
    /// itself before.
    pub fn step_to_call(&self) -> Option<u64> {
        let _operation = self.alarm.operation(self.limit);
        (0..).find(|_| self.is_at_call() || !self.has_stepped()).filter(|_| self.is_at_call())
    }

    /// Is the next instruction a system call?
    fn is_at_call(&self) -> bool {
        const CALL: &[u8] = if cfg!(target_arch = "x86_64") { &[0x0f, 0x05] } else { &[1, 0, 0, 0xd4] };
        // For one that is stopped outside of a call: -1, its stack and where it is.
        let path = format!("/proc/{}/task/{}/syscall", self.process, self.thread);
        let text = self.done(&path, fs::read_to_string(&path));
        let at = text.split_whitespace().nth(2).filter(|_| text.starts_with("-1 "));
        let at = at.and_then(|at| usize::from_str_radix(at.strip_prefix("0x")?, 16).ok());
        at.is_some_and(|at| {
            let word = self.done("PTRACE_PEEKTEXT", ptrace::read(self.thread, at as ptrace::AddressType));
            word.to_ne_bytes().starts_with(CALL)
        })
    }

    /// Executes up to `most` instructions, but none after the thread has fallen asleep in the kernel, or has stopped itself. Returns how many were
    /// executed: fewer than `most` if it was either. One that sleeps goes on with [`Traced::run`].
    pub fn step_awake(&self, most: u64) -> u64 {
        let _operation = self.alarm.operation(self.limit);
        for executed in 0..most {
            self.done("PTRACE_SINGLESTEP", ptrace::step(self.thread, None));
            let mut looks = 0_u32;
            let status = loop {
                match self.look() {
                    WaitStatus::StillAlive if looks > 200 && self.sleeps() => {
                        self.asleep.set(true);
                        return executed;
                    }
                    WaitStatus::StillAlive => {
                        looks += 1;
                        // Tracer and traced may share a CPU.
                        thread::yield_now();
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
        let [process, thread] = [self.process, self.thread].map(|pid| pid.as_raw().cast_unsigned());
        proc::thread_state(process, thread) == Some('S')
    }

    /// Lets it run until it stops itself again, and notes every system call on the way.
    pub fn calls(&self) -> Vec<Call> {
        let _operation = self.alarm.operation(self.limit);
        let mut calls: Vec<Call> = Vec::new();
        loop {
            match self.go(ptrace::syscall) {
                WaitStatus::PtraceSyscall(_) => {
                    let info = self.done("PTRACE_GET_SYSCALL_INFO", ptrace::syscall_info(self.thread));
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
        let _operation = self.alarm.operation(self.limit);
        loop {
            match self.go(ptrace::syscall) {
                WaitStatus::PtraceSyscall(_) => {
                    let info = self.done("PTRACE_GET_SYSCALL_INFO", ptrace::syscall_info(self.thread));
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
            self.done("PTRACE_SYSCALL", ptrace::syscall(self.thread, None));
            let Some(status) = self.wait_unless(&is_over) else { return returned };
            match status {
                WaitStatus::PtraceSyscall(_) => {
                    let op = self.done("PTRACE_GET_SYSCALL_INFO", ptrace::syscall_info(self.thread)).op;
                    returned += u64::from(op == libc::PTRACE_SYSCALL_INFO_EXIT);
                }
                WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(_, Signal::SIGCONT) => {}
                WaitStatus::Stopped(_, Signal::SIGSTOP) => return returned,
                other => panic!("after {returned} system calls: {other:?}"),
            }
        }
        returned
    }

    /// The next stop; nothing if it is over before. Between two stops may lie as much time as an operation may take.
    fn wait_unless(&self, is_over: impl Fn() -> bool) -> Option<WaitStatus> {
        let start = Instant::now();
        loop {
            match self.look() {
                WaitStatus::StillAlive if is_over() => return None,
                WaitStatus::StillAlive if start.elapsed() > self.limit => {
                    let report = describe(self.process.as_raw().cast_unsigned());
                    panic!("no stop of a traced thread in {:?}:\n{report}", self.limit);
                }
                WaitStatus::StillAlive => thread::sleep(Duration::from_micros(20)),
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
            self.done("PTRACE_SYSCALL", ptrace::syscall(self.thread, None));
            match self.wait_unless(&is_over) {
                None => return None,
                Some(WaitStatus::PtraceSyscall(_)) => {
                    let info = self.done("PTRACE_GET_SYSCALL_INFO", ptrace::syscall_info(self.thread));
                    let mut registers = self.done("PTRACE_GETREGS", ptrace::getregs(self.thread));
                    if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
                        // SAFETY: the kernel says that it filled this member.
                        let entry = unsafe { info.u.entry };
                        failing = fails(&Call { number: entry.nr, arguments: entry.args, result: 0 });
                        if failing.is_some() {
                            // No call has this number.
                            registers.orig_rax = u64::MAX;
                            self.done("PTRACE_SETREGS", ptrace::setregs(self.thread, registers));
                        }
                    } else if let Some(errno) = failing.take() {
                        registers.rax = i64::from(-errno) as u64;
                        self.done("PTRACE_SETREGS", ptrace::setregs(self.thread, registers));
                    }
                }
                Some(WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(_, Signal::SIGCONT)) => {}
                Some(WaitStatus::Stopped(_, Signal::SIGCHLD)) => {}
                Some(WaitStatus::Exited(_, code)) => return Some(code),
                Some(other) => panic!("while system calls fail: {other:?}"),
            }
        }
    }

    /// SIGKILL, and the tracer's goodbye: a traced thread is not gone before.
    pub fn kill(&self) {
        if self.gone.get() {
            return;
        }
        self.alarm.kill();
        let start = Instant::now();
        while !self.gone.get() {
            match waitpid(self.thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                // The owner of the process has reaped it.
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => self.gone.set(true),
                // As in a call to a file system that does not answer.
                Ok(WaitStatus::StillAlive) if start.elapsed() > self.limit => {
                    let report = describe(self.process.as_raw().cast_unsigned());
                    assert!(thread::panicking(), "process {} outlives SIGKILL:\n{report}", self.process);
                    return;
                }
                Ok(WaitStatus::StillAlive) => thread::sleep(Duration::from_micros(20)),
                Ok(_) => {}
            }
        }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::Stdio;

    use super::*;
    use crate::rerun;

    const ROLE: &str = "TESTKIT_TRACED";

    fn traced(role: &str) -> (Running, Traced) {
        Traced::start(rerun(module_path!(), "role").env(ROLE, role).stdout(Stdio::null()))
    }

    fn sleep() {
        thread::sleep(Duration::from_secs(1000));
    }

    fn named(name: &str, run: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
        thread::Builder::new().name(name.into()).spawn(run).unwrap()
    }

    #[test]
    fn role() {
        let Ok(role) = env::var(ROLE) else { return };
        if role == "several threads" {
            // Older and younger than the thread that is handed over, and all of them are stopped with it.
            named("role", sleep);
            let thread = named("handed over", || {
                named("role", sleep);
                stop_for_tracer();
                raise(Signal::SIGSTOP).unwrap();
                std::process::exit(7);
            });
            thread.join().unwrap();
        }
        stop_for_tracer();
        raise(Signal::SIGSTOP).unwrap();
        match role.as_str() {
            "sleeps" => sleep(),
            "spins" => loop {
                std::hint::spin_loop();
            },
            "calls" => loop {
                nix::unistd::getppid();
            },
            other => panic!("{other}"),
        }
    }

    #[test]
    fn tracer_gets_the_thread_that_stopped_for_it() {
        let (_process, traced) = traced("several threads");
        assert_ne!(traced.thread, traced.process);
        assert_eq!(traced.run(), None);
        assert_eq!(traced.run(), Some(7));
    }

    #[test]
    fn operation_without_end_is_reported_and_its_process_killed() {
        type Operation = fn(&Traced) -> String;
        let operations: [(&str, Operation, &str); 7] = [
            ("sleeps", |traced| format!("{:?}", traced.run()), "nanosleep"),
            ("sleeps", |traced| format!("{:?}", traced.calls()), "nanosleep"),
            ("sleeps", |traced| format!("{:?}", traced.run_calls(u64::MAX, || false)), "nanosleep"),
            ("calls", |traced| format!("{:?}", traced.calls()), "state"),
            ("calls", |traced| format!("{:?}", traced.run_into(|_| false)), "state"),
            ("spins", |traced| format!("{:?}", traced.step_to_call()), "state"),
            ("spins", |traced| format!("{:?}", traced.step_awake(u64::MAX)), "state"),
        ];
        for (role, operation, expected) in operations {
            let (process, mut traced) = traced(role);
            assert_eq!(traced.run(), None);
            traced.limit = Duration::from_millis(300);
            let panic = catch_unwind(AssertUnwindSafe(|| operation(&traced))).unwrap_err();
            let report = panic.downcast_ref::<String>().unwrap();
            for expected in ["traced", "300ms", "thread", &process.pid().to_string(), expected] {
                assert!(report.contains(expected), "{role}: {expected} is missing in {report}");
            }
            drop(traced);
            eventually("the process is left", || matches!(proc::state(process.pid()), None | Some('Z')));
        }
    }
}
