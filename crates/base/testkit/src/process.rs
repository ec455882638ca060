//! Processes that tests start.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, ExitStatus, Output};

use rustix::process::{Pid, Signal, kill_process};

use crate::{Cause, eventually, eventually_some, proc, skip, skipped};

/// This test program once more, to run one test and print what it prints: `rerun(module_path!(), "role")` for a test
/// `role` of the same module. What the test does there, it reads from variables of the environment; without them it
/// returns.
pub fn rerun(module: &str, test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test_name(module, test), "--nocapture", "--test-threads=1"]);
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
#[derive(Debug)]
pub struct Running(pub Child);

impl Running {
    /// Starts it.
    #[track_caller]
    pub fn start(command: &mut Command) -> Running {
        Running(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends it a signal; to one that is reaped already, none is sent.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.0), signal)?)
    }

    /// Kills and reaps it; fine if it has ended already.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Stops it, and returns when all its threads stand still.
    #[track_caller]
    pub fn stop(&self) {
        self.signal(Signal::STOP).unwrap();
        eventually("all threads stop", || proc::thread_states(self.pid()).iter().all(|state| *state == 'T'));
    }

    /// Lets one that was stopped go on.
    #[track_caller]
    pub fn resume(&self) {
        self.signal(Signal::CONT).unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let pid = self.pid();
        eventually_some(&format!("the end of process {pid}"), || self.0.try_wait().unwrap())
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
