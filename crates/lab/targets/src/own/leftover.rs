//! What the code of a shared object started and did not end: it is ended with the run.
//!
//! Every process of a run has the prefix of its place in its environment, and so have those that it starts, whoever is their parent by then.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that says of which run a process is.
pub(super) const VARIABLE: &str = "WEIGHBRIDGE_PLACE";

/// What is killed is gone by then, or never.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kills the processes of a run that are still there when it is dropped.
pub(super) struct Leftover {
    /// Of its place, as its processes have it.
    prefix: String,
}

impl Leftover {
    pub(super) fn of(prefix: String) -> Leftover {
        Leftover { prefix }
    }

    /// Processes that say that they are of this run; one that has ended says nothing any more.
    fn processes(&self) -> Vec<Pid> {
        let entry = format!("{VARIABLE}={}", self.prefix);
        let is_of_it = |folder: &PathBuf| {
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == entry.as_bytes())
        };
        let folders = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
        let number = |folder: &PathBuf| folder.file_name()?.to_str()?.parse().ok().and_then(Pid::from_raw);
        folders
            .filter_map(|folder| Some((number(&folder)?, folder)))
            .filter(|(_, folder)| is_of_it(folder))
            .map(|(pid, _)| pid)
            .collect()
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        // One that forks meanwhile is found the next time.
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() > until {
                return;
            }
            for pid in left {
                // Gone between looking and killing is what is wanted.
                let _ = kill_process(pid, Signal::KILL);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
