//! Processes that stand still together: by a signal to their process group, or by the freezer of a control group.

use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{eventually, proc};

/// How processes are stopped and go on together.
#[derive(Debug)]
pub enum Freezer {
    /// SIGSTOP to the process group with this number: its processes, and who leads it.
    Signal(u32, Vec<u32>),
    /// `cgroup.freeze`.
    ControlGroup(ControlGroup),
}

impl Freezer {
    /// All of them stand still when this returns.
    #[track_caller]
    pub fn freeze(&self) {
        match self {
            Freezer::Signal(group, members) => {
                kill_process_group(pid(*group), Signal::STOP).unwrap();
                eventually("all processes of the group stop", || {
                    members.iter().copied().all(proc::is_stopped)
                });
            }
            Freezer::ControlGroup(group) => group.set(true),
        }
    }

    /// All of them go on.
    #[track_caller]
    pub fn thaw(&self) {
        match self {
            Freezer::Signal(group, _) => kill_process_group(pid(*group), Signal::CONT).unwrap(),
            Freezer::ControlGroup(group) => group.set(false),
        }
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number as i32).expect("a process has a number")
}

/// A control group of version 2 below the root of the hierarchy, removed when it is dropped and empty.
#[derive(Debug)]
pub struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// One with these processes; the error says why this machine, or this user, has none.
    pub fn of(processes: &[u32]) -> Result<ControlGroup, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
        let root = mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            after.starts_with("cgroup2 ").then(|| before.split(' ').nth(4))?
        });
        let root = PathBuf::from(root.ok_or("no control groups of version 2 are mounted")?);
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let folder = root.join(own).join(format!("causeway-test-{:x}", fastrand::u64(..)));
        let said = |error: io::Error| format!("{} cannot be made or used: {error}", folder.display());
        fs::create_dir(&folder).map_err(said)?;
        let group = ControlGroup { folder: folder.clone() };
        for process in processes {
            fs::write(folder.join("cgroup.procs"), process.to_string()).map_err(said)?;
        }
        fs::metadata(folder.join("cgroup.freeze")).map_err(said)?;
        Ok(group)
    }

    #[track_caller]
    fn set(&self, frozen: bool) {
        let number = u8::from(frozen);
        fs::write(self.folder.join("cgroup.freeze"), number.to_string()).unwrap();
        let line = format!("frozen {number}");
        eventually("the control group stops or goes on", || {
            fs::read_to_string(self.folder.join("cgroup.events")).unwrap().lines().any(|found| found == line)
        });
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // What is killed while it is frozen ends all the same.
        let _ = fs::write(self.folder.join("cgroup.freeze"), "0");
        let procs = self.folder.join("cgroup.procs");
        // A process that was reaped is gone from there; others go back to where this one is.
        for process in fs::read_to_string(&procs).unwrap_or_default().lines() {
            if let Some(parent) = self.folder.parent() {
                let _ = fs::write(parent.join("cgroup.procs"), process);
            }
        }
        let _ = fs::remove_dir(&self.folder);
    }
}
