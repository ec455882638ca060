//! Processes that tests start.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Output};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

use crate::watchdog::{self, describe};
use crate::{Cause, PATIENCE, eventually, proc, skip, skipped};

/// This test program once more, to run one test and print what it prints: `rerun(module_path!(), "role")` for a test
/// `role` of the same module. What the test does there, it reads from variables of the environment; without them it
/// returns.
pub fn rerun(module: &str, test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test_name(module, test), "--nocapture", "--test-threads=1"]);
    // Its own watchdog prints more than that of this program, which would kill it.
    command.env(watchdog::LIMIT, (watchdog::limit().as_secs() * 9 / 10).max(1).to_string());
    command.env(skip::TEST, skip::test());
    command
}

/// How the test program calls a test: without the name of its crate.
fn test_name(module: &str, test: &str) -> String {
    let inner = module.split_once("::").map(|(_, inner)| format!("{inner}::"));
    inner.unwrap_or_default() + test
}

/// That a test program has run one test, which passed: a name that no test has passes, too, but runs none.
#[track_caller]
pub fn assert_ran(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{}\n{text}\n{says}", output.status);
}

/// The command of a process whose clocks, but that of the day, are so many seconds ahead of those here: with a time
/// namespace of its own. Its program, arguments and environment are those of `command`. Nothing, and a sentence, where
/// that is not possible or not allowed.
pub fn at_another_time(command: &Command, seconds: i64) -> Option<Command> {
    let unshared = |program: &OsStr| {
        let (mut unshare, seconds) = (Command::new("unshare"), seconds.to_string());
        unshare.args(["--time", "--monotonic", &seconds, "--boottime", &seconds, "--"]).arg(program);
        unshare
    };
    let uptime = |text: &str| text.split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok());
    let here = uptime(&std::fs::read_to_string("/proc/uptime").ok()?)?;
    let there = unshared("cat".as_ref()).arg("/proc/uptime").output();
    let there = there.ok().and_then(|output| uptime(&String::from_utf8_lossy(&output.stdout)));
    if there.is_none_or(|there| ((there - here) - seconds as f64).abs() > seconds.abs() as f64 / 2.0) {
        skipped(Cause::Rights("a time namespace"), "needs root, Linux 5.6, and unshare of util-linux");
        return None;
    }
    let mut shifted = unshared(command.get_program());
    shifted.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shifted.env(name, value),
            None => shifted.env_remove(name),
        };
    }
    Some(shifted)
}

/// A process that is killed and reaped when it is dropped.
///
/// Signals go to its file descriptor: its tracer may have reaped it, and another process may have its number by then.
#[derive(Debug)]
pub struct Running(pub Child, OwnedFd);

impl Running {
    /// Starts it.
    #[track_caller]
    pub fn start(command: &mut Command) -> Running {
        command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")).into()
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal; fails if it is reaped already.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.1, signal)?)
    }

    /// Kills and reaps it; fine if it has ended already.
    pub fn kill(&mut self) {
        let _ = self.signal(Signal::KILL);
        if self.has_ended_in_time() {
            if self.is_to_be_reaped() {
                let _ = self.0.wait();
            }
        } else {
            assert!(thread::panicking(), "it outlives SIGKILL: {}", describe(self.pid()));
        }
    }

    /// Stops it, and returns when all its threads stand still.
    #[track_caller]
    pub fn stop(&self) {
        self.signal(Signal::STOP).unwrap();
        eventually("all threads stop", || proc::is_stopped(self.pid()));
    }

    /// Lets one that was stopped go on.
    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::CONT).unwrap();
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not end within [`PATIENCE`]: with the state of its threads.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        assert!(self.has_ended_in_time(), "it does not end in {PATIENCE:?}: {}", describe(self.pid()));
        self.0.wait().unwrap()
    }

    /// Waits for its end at most [`PATIENCE`].
    fn has_ended_in_time(&self) -> bool {
        let limit = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        loop {
            match poll(&mut [PollFd::new(&self.1, PollFlags::IN)], Some(&limit)) {
                Err(rustix::io::Errno::INTR) => {}
                ready => return ready.unwrap() > 0,
            }
        }
    }

    /// Whether it has ended, and neither its owner nor its tracer has taken its status.
    fn is_to_be_reaped(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        waitid(WaitId::PidFd(self.1.as_fd()), options).is_ok()
    }
}

impl From<Child> for Running {
    #[track_caller]
    fn from(child: Child) -> Running {
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let pidfd =
            pidfd.unwrap_or_else(|error| panic!("no file descriptor of process {}: {error}", child.id()));
        Running(child, pidfd)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_of_this_program_runs_in_another_process() {
        let ours = std::process::id().to_string();
        if let Some(parent) = std::env::var_os("TESTKIT_PARENT") {
            return assert_ne!(parent.to_str(), Some(&*ours));
        }
        let again = |test| rerun(module_path!(), test).env("TESTKIT_PARENT", &ours).output().unwrap();
        assert_ran(&again("a_test_of_this_program_runs_in_another_process"));
        assert!(std::panic::catch_unwind(|| assert_ran(&again("no_such_test"))).is_err());
    }

    #[test]
    fn a_process_is_stopped_and_ends_with_its_owner() {
        let running = Running::start(Command::new("sleep").arg("1000"));
        let pid = running.pid();
        running.stop();
        assert_eq!(proc::state(pid), Some('T'));
        running.resume();
        eventually("it sleeps again", || proc::state(pid) == Some('S'));
        drop(running);
        assert_eq!(proc::state(pid), None);
    }
}
