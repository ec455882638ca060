//! What programs that were killed have left behind.
//!
//! Nearly everything here has no name, or none for longer than two system calls. Where the machine forbids that, names
//! carry the process id of their maker, and the next start of this program removes those of processes that no longer exist.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The beginning of every name that we give.
pub(crate) const PREFIX: &str = "weighbridge-";

/// A name of ours: what it is for, our process id, and which of ours it is.
pub(crate) fn name(what: &str, count: u64) -> String {
    name_by(std::process::id(), what, count)
}

/// As [`name`], of another process: a peer names what its coordinator has made.
pub(crate) fn name_by(maker: u32, what: &str, count: u64) -> String {
    format!("{PREFIX}{what}-{maker}-{count}")
}

/// Calls `remove` for every entry of `dir` that [`name`] gave `what` in a process that is dead.
pub(crate) fn clean_up_dir(dir: &Path, what: &str, remove: impl Fn(&Path)) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        let maker = file_name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.strip_prefix(what)?.strip_prefix('-'))
            .and_then(|rest| rest.split('-').next()?.parse().ok());
        if maker.is_some_and(is_dead) {
            remove(&entry.path());
        }
    }
}

/// Is there no process with this number?
pub(crate) fn is_dead(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}
