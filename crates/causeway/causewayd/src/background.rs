//! Going on in the background: this program is started again, and the one that was called returns when that one serves.
//!
//! What is started is `/proc/self/exe`: the same program, also after its file was replaced. The kernel calls a process so that was started by
//! this path `exe`, so the process names itself.
//!
//! The new process says that it serves by a byte into its standard input, which is a pipe to the old one.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Starts this program again with `--detached`, and waits until it serves.
///
/// # Errors
/// It cannot be started, or has ended; its own message says why.
pub fn start_again() -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot run in the background: {error}");
    let (mut ours, theirs) = std::io::pipe().map_err(failed)?;
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = std::env::args_os().next() {
        again.arg0(name);
    }
    again.args(std::env::args_os().skip(1).filter(|arg| arg != "--fork")).args(["--nofork", "--detached"]);
    let child = again.stdin(Stdio::from(theirs)).spawn();
    drop(again);
    child.map_err(failed)?;
    match ours.read(&mut [0]) {
        Ok(1) => Ok(()),
        _ => Err("the background process has exited".into()),
    }
}

/// Leaves terminal and session behind, and tells the process that was called that clients can connect.
pub fn detach() -> Result<(), String> {
    let failed = |error: rustix::io::Errno| format!("cannot run in the background: {error}");
    // What `ps`, `pgrep` and lists of connections show.
    rustix::thread::set_name(c"causewayd").map_err(failed)?;
    // It is not the leader of its process group, unless somebody has made it one.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    let null = File::options().read(true).write(true).open("/dev/null").map_err(|error| error.to_string())?;
    rustix::io::write(std::io::stdin(), &[1]).map_err(failed)?;
    rustix::stdio::dup2_stdin(&null).map_err(failed)?;
    rustix::stdio::dup2_stdout(&null).map_err(failed)?;
    rustix::stdio::dup2_stderr(&null).map_err(failed)
}
