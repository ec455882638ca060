//! Programs that were started to provide a name. They outlive the bus if they wish.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;

use causeway_os::process::pidfd_open;
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::process::{Pid, Rlimit, Signal};

use crate::bus::Ended;
use crate::launch::Launcher;

/// One that was started. Dropped before it is [`add`](Children::add)ed, it is ended, and that waited for.
#[derive(Debug)]
pub struct Started {
    child: Option<Child>,
    pidfd: OwnedFd,
}

impl Drop for Started {
    /// A process that is not watched would stay for ever once it has ended.
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            end(child);
        }
    }
}

/// All that have not ended, by the numbers of their starts.
#[derive(Debug)]
pub struct Children {
    /// Starts for which a thread starts a program that is still wanted.
    launching: FxHashSet<u64>,
    running: FxHashMap<u64, Started>,
    launcher: Launcher,
}

impl Drop for Children {
    fn drop(&mut self) {
        self.running.values_mut().for_each(|started| drop(started.child.take()));
    }
}

/// Starts a program. Returns when the kernel has found and mapped it, which may take as long as its file system does not answer: it is for a
/// thread that keeps nobody waiting.
///
/// # Errors
/// In a sentence: it cannot be started, or not be watched.
pub fn launch(
    command: &[String],
    environment: &[(OsString, OsString)],
    launcher: Launcher,
) -> Result<Started, String> {
    let child = launcher.start(command, environment).map_err(|error| format!("{}: {error}", command[0]))?;
    match pidfd_open(child.id()) {
        Ok(pidfd) => Ok(Started { child: Some(child), pidfd }),
        Err(error) => {
            end(child);
            Err(error.to_string())
        }
    }
}

impl Children {
    /// None yet. They will have this limit of descriptors, not the one to which the bus raises its own: programs that use `select`
    /// break with a high one.
    pub fn new(descriptors: Rlimit) -> Children {
        let launcher = Launcher { descriptors, can_become: false };
        Children { launching: FxHashSet::default(), running: FxHashMap::default(), launcher }
    }

    /// This process runs `causewayd`, and calls [`become_service`](crate::launch::become_service) first.
    pub fn that_can_become(mut self) -> Children {
        self.launcher.can_become = true;
        self
    }

    /// A thread starts a program for the start with this number, with what this returns.
    pub(crate) fn begin(&mut self, number: u64) -> Launcher {
        self.launching.insert(number);
        self.launcher
    }

    /// The thread has started it, or cannot: is it still wanted?
    pub(crate) fn settle_launch(&mut self, number: u64) -> bool {
        self.launching.remove(&number)
    }

    /// Looks after one that was started; returns what becomes readable when it ends.
    pub(crate) fn add(&mut self, number: u64, started: Started) -> BorrowedFd<'_> {
        self.running.entry(number).insert_entry(started).into_mut().pidfd.as_fd()
    }

    /// Gives up a program that the loop cannot watch.
    pub(crate) fn abandon(&mut self, number: u64) -> Option<Started> {
        self.running.remove(&number)
    }

    /// Kills a program that is not wanted any more; its end is seen as that of others. One that is being started is not wanted when it comes.
    pub(crate) fn kill(&mut self, number: u64) {
        self.launching.remove(&number);
        if let Some(child) = self.running.get_mut(&number).and_then(|started| started.child.as_mut()) {
            kill(child);
        }
    }

    /// How a program has ended, if it has.
    pub(crate) fn reap(&mut self, number: u64) -> Option<Ended> {
        let child = self.running.get_mut(&number)?.child.as_mut()?;
        let ended = match child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => match status.code() {
                Some(code) => Ended::Exited(code),
                None => Ended::Signaled(status.signal().unwrap_or(0)),
            },
            // Somebody else has taken its status. The name may still come, as after success.
            Err(_) => Ended::Exited(0),
        };
        self.running.remove(&number).and_then(|mut started| started.child.take());
        Some(ended)
    }
}

/// Kills a program and what it has started in its group, such as the command of a shell.
fn kill(child: &mut Child) {
    // It has its number until it is waited for, and a group of this number is its own.
    let _ = rustix::process::kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.kill();
}

fn end(mut child: Child) {
    kill(&mut child);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_children() -> Children {
        Children::new(rustix::process::getrlimit(rustix::process::Resource::Nofile))
    }

    fn launched(command: &[&str]) -> Started {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        launch(&command, &[], no_children().launcher).unwrap()
    }

    /// Otherwise its descriptor would be readable for ever.
    #[test]
    fn a_program_whose_status_another_has_taken_has_ended() {
        let mut children = no_children();
        let started = launched(&["/bin/true"]);
        let pid = Pid::from_child(started.child.as_ref().unwrap());
        children.add(7, started);
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
        assert_eq!(children.reap(7), Some(Ended::Exited(0)));
        assert_eq!(children.reap(7), None);
    }
}
