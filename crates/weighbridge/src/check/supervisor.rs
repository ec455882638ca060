//! The process between this program and an external tool, which lets no process of the tool outlive this program.
//!
//! The supervisor is this program too. It adopts every process that the tool starts and leaves behind (as a
//! subreaper), and ends all of them when the tool has ended, when its time is over, when it is told to, and when this
//! program has ended, for whatever reason. The tool dies with the supervisor, so that killing the supervisor does not free it.
//!
//! The supervisor sleeps in one `poll` while the tool runs, and so costs it nothing.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use causeway_os::process::{die_with, pidfd_open, poll};
use causeway_os::sched;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group};
use weighbridge_harness::interrupt::Interrupt;

use crate::output;

/// First argument of the supervisor.
pub const ARGUMENT: &str = "__supervisor";
/// First argument of the child, the process that becomes the external tool.
pub const CHILD_ARGUMENT: &str = "__child";

/// How long killed processes are waited for. One that takes longer is in the hands of the kernel.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for processes that were left to us in the meantime.
const STEP: Duration = Duration::from_millis(1);

/// The command that runs `program` under a supervisor, on `cpus`, for at most `limit`.
pub fn command(program: &Path, args: &[String], cpus: &[u32], limit: Duration) -> Command {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(ARGUMENT)
        .arg(std::process::id().to_string())
        .arg(limit.as_millis().to_string())
        .arg(cpus.join(","))
        .arg(program)
        .args(args);
    command
}

/// Is the supervisor: parent, milliseconds, CPUs, program, arguments of the program. Ends with the program's code, or with
/// 128 and the number of the signal that ended it.
pub fn main(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = number(args.next());
    let limit = number(args.next());
    let (Some(parent), Some(limit)) = (parent, limit) else { return not_for_you(ARGUMENT) };
    match watch(parent, Duration::from_millis(limit.into()), args) {
        Ok(Some(status)) => ExitCode::from(code(status)),
        Ok(None) => ExitCode::from(2),
        Err(error) => {
            output::say(&format!("error: the program cannot be watched: {error}"));
            ExitCode::from(2)
        }
    }
}

/// Is the child, and becomes the external tool: parent, CPUs, program, arguments of the program.
pub fn child(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = number(args.next());
    let cpus = args
        .next()
        .and_then(|list| list.to_str()?.split(',').map(|cpu| cpu.parse().ok()).collect::<Option<Vec<u32>>>());
    let (Some(parent), Some(cpus), Some(program)) = (parent, cpus, args.next()) else {
        return not_for_you(CHILD_ARGUMENT);
    };
    let error = match die_with(parent).and_then(|()| sched::pin(&cpus)) {
        Ok(()) => Command::new(&program).args(args).exec(),
        Err(error) => error.into(),
    };
    output::say(&format!("error: {} cannot be started: {error}", Path::new(&program).display()));
    ExitCode::from(127)
}

fn number(argument: Option<OsString>) -> Option<u32> {
    argument?.to_str()?.parse().ok()
}

fn not_for_you(argument: &str) -> ExitCode {
    output::say(&format!("error: only this program itself uses {argument}"));
    ExitCode::from(2)
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(2)
}

/// Starts the program and ends everything of it. How the program ended; nothing when it was ended from here.
fn watch(
    parent: u32,
    limit: Duration,
    args: impl Iterator<Item = OsString>,
) -> io::Result<Option<ExitStatus>> {
    let interrupt = Interrupt::install()?;
    let deadline = Instant::now() + limit;
    // A terminal's Ctrl-C is for our parent, which tells us.
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let parent_fd = pidfd_open(parent)?;
    // If it went before it could be watched, its number may be another's.
    if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned()) != Some(parent) {
        return Ok(None);
    }
    let mut program = Command::new("/proc/self/exe")
        .arg(CHILD_ARGUMENT)
        .arg(std::process::id().to_string())
        .args(args)
        .process_group(0)
        .spawn()?;
    let group = Pid::from_child(&program);
    let program_fd = pidfd_open(program.id());
    let has_ended = program_fd.and_then(|fd| {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let ready = poll(&[parent_fd.as_fd(), interrupt.fd(), fd.as_fd()], Some(left))?;
            if ready.contains(&true) || left.is_zero() {
                return Ok(ready[2]);
            }
        }
    });
    // It has not been reaped, so its number still names its group and that of no other process.
    let _ = kill_process_group(group, Signal::KILL);
    let status = program.wait()?;
    end_the_rest();
    Ok(has_ended?.then_some(status))
}

/// Kills whatever is left to us until there is nothing more. A killed process leaves its own children to us.
fn end_the_rest() {
    let until = Instant::now() + PATIENCE;
    loop {
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        // An error says that there is no child.
        while let Ok(ended) = rustix::process::wait(WaitOptions::NOHANG) {
            if ended.is_none() {
                break;
            }
        }
        if children().is_empty() || Instant::now() > until {
            return;
        }
        std::thread::sleep(STEP);
    }
}

/// Processes whose parent is this one.
fn children() -> Vec<Pid> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    processes()
        .filter(|process| process.parent == own)
        .filter_map(|process| Pid::from_raw(process.pid))
        .collect()
}

/// Kills everything in the session that process `leader` began; for when the supervisor itself was killed.
pub fn kill_session(leader: u32) {
    for process in processes().filter(|process| process.session == leader.cast_signed()) {
        if let Some(pid) = Pid::from_raw(process.pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

struct Process {
    pid: i32,
    parent: i32,
    session: i32,
}

fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        process(pid, &fs::read_to_string(entry.path().join("stat")).ok()?)
    })
}

/// A line of `/proc/PID/stat`: state, parent, group and session come after the name, which may hold anything.
fn process(pid: i32, stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Process { pid, parent, session })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_parent_and_session_whatever_its_name() {
        let process = process(17, "17 (a) b (c)) S 5 16 15 0 -1 4194560 0").unwrap();
        assert_eq!((process.pid, process.parent, process.session), (17, 5, 15));
        assert!(super::process(17, "17 (cut").is_none());
        assert!(super::process(17, "").is_none());
    }
}
