//! Programs that were started to provide a name. They outlive the bus if they wish.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use causeway_os::limits::set_nofile_of;
use causeway_os::process::{pidfd_open, reset_signals_of};
use rustc_hash::FxHashMap;
use rustix::process::Rlimit;

use crate::bus::Ended;

/// One that was started. Dropped before it is [`add`](Children::add)ed, it is ended, and that waited for.
#[derive(Debug)]
pub struct Started {
    child: Option<Child>,
    pidfd: OwnedFd,
}

impl Drop for Started {
    /// A process that is not watched would stay for ever once it has ended.
    fn drop(&mut self) {
        self.child.take().map(end);
    }
}

/// All that have not ended, by the numbers of their starts.
#[derive(Debug)]
pub struct Children {
    running: FxHashMap<u64, Started>,
    descriptors: Rlimit,
}

/// Starts a program with this limit of descriptors. Returns when the kernel has found and mapped it, which may take as long as its
/// file system does not answer: it is for a thread that keeps nobody waiting.
///
/// # Errors
/// In a sentence: it cannot be started, or not be watched.
pub fn launch(
    command: &[String],
    environment: Vec<(OsString, OsString)>,
    descriptors: Rlimit,
) -> Result<Started, String> {
    let (program, args) = command.split_first().expect("a service has a program");
    let mut starting = Command::new(program);
    starting.args(args).env_clear().envs(environment).process_group(0);
    // Its output must not go where the address of the bus is read.
    starting.stdin(Stdio::null()).stdout(std::io::stderr());
    set_nofile_of(&mut starting, descriptors);
    // The bus reads its own signals from a descriptor, and its threads have all blocked.
    reset_signals_of(&mut starting);
    let child = starting.spawn().map_err(|error| format!("{program}: {error}"))?;
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
        Children { running: FxHashMap::default(), descriptors }
    }

    /// The limit of descriptors that they are started with.
    pub(crate) fn descriptors(&self) -> Rlimit {
        self.descriptors
    }

    /// Looks after one that was started; returns what becomes readable when it ends.
    pub(crate) fn add(&mut self, number: u64, started: Started) -> BorrowedFd<'_> {
        self.running.entry(number).insert_entry(started).into_mut().pidfd.as_fd()
    }

    /// Gives up a program that the loop cannot watch.
    pub(crate) fn abandon(&mut self, number: u64) -> Option<Started> {
        self.running.remove(&number)
    }

    /// How a program has ended, if it has.
    pub(crate) fn reap(&mut self, number: u64) -> Option<Ended> {
        let child = self.running.get_mut(&number)?.child.as_mut()?;
        let status = child.try_wait().ok()??;
        self.running.remove(&number).and_then(|mut started| started.child.take());
        Some(match status.code() {
            Some(code) => Ended::Exited(code),
            None => Ended::Signaled(status.signal().unwrap_or(0)),
        })
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
