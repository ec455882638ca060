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

/// All that have not ended, by the numbers of their starts.
#[derive(Debug)]
pub struct Children {
    running: FxHashMap<u64, (Child, OwnedFd)>,
    descriptors: Rlimit,
}

impl Children {
    /// None yet. They will have this limit of descriptors, not the one to which the bus raises its own: programs that use `select`
    /// break with a high one.
    pub fn new(descriptors: Rlimit) -> Children {
        Children { running: FxHashMap::default(), descriptors }
    }

    /// Starts a program, and returns what becomes readable when it ends.
    ///
    /// # Errors
    /// In a sentence: it cannot be started, or not be watched.
    pub fn start(
        &mut self,
        number: u64,
        command: &[String],
        environment: Vec<(OsString, OsString)>,
    ) -> Result<BorrowedFd<'_>, String> {
        let (program, args) = command.split_first().expect("a service has a program");
        let mut starting = Command::new(program);
        starting.args(args).env_clear().envs(environment).process_group(0);
        // Its output must not go where the address of the bus is read.
        starting.stdin(Stdio::null()).stdout(std::io::stderr());
        set_nofile_of(&mut starting, self.descriptors);
        // The bus reads its own signals from a descriptor, and has them blocked for that.
        reset_signals_of(&mut starting);
        let child = starting.spawn().map_err(|error| format!("{program}: {error}"))?;
        match pidfd_open(child.id()) {
            Ok(pidfd) => Ok(self.running.entry(number).insert_entry((child, pidfd)).into_mut().1.as_fd()),
            Err(error) => {
                end(child);
                Err(error.to_string())
            }
        }
    }

    /// Ends a program that the loop cannot watch.
    pub fn abandon(&mut self, number: u64) {
        if let Some((child, _)) = self.running.remove(&number) {
            end(child);
        }
    }

    /// How a program has ended, if it has.
    pub fn reap(&mut self, number: u64) -> Option<Ended> {
        let (child, _) = self.running.get_mut(&number)?;
        let status = child.try_wait().ok()??;
        self.running.remove(&number);
        Some(match status.code() {
            Some(code) => Ended::Exited(code),
            None => Ended::Signaled(status.signal().unwrap_or(0)),
        })
    }
}

/// A process that is not watched would stay for ever once it has ended.
fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}
