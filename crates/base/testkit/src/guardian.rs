//! Ends the processes that a test program leaves behind, also when the program is killed: a separate process waits for
//! its end, and then kills all processes with its mark.
//!
//! A signal at the death of the parent (`PR_SET_PDEATHSIG`) does not suffice: it comes when the starting thread ends, and
//! it does not reach grandchildren. Tests inherit much from the thread that starts a process, so another thread cannot
//! start it for them.
//!
//! # Safety
//! `fork` is called before `main`, while there is one thread, so that no lock is held in the child.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{fs, thread};

use nix::libc;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, getpid, pidfd_open, setsid};
use rustix::thread::set_name;

use crate::watchdog::{describe, kill_all, marked, print};

/// How long processes may take to end by themselves after the test program.
const GRACE: Duration = Duration::from_secs(2);

/// Starts the guardian of this process. The tests run without one where the kernel refuses it.
pub(crate) fn start(mark: &str) {
    let Ok(program) = pidfd_open(getpid(), PidfdFlags::empty()) else { return };
    // SAFETY: one thread, as described above.
    match unsafe { libc::fork() } {
        0 => {
            // The parent of the guardian ends at once, so the program never waits for the guardian as for a child.
            // SAFETY: one thread.
            if unsafe { libc::fork() } == 0 {
                guard(program, mark);
            }
            // SAFETY: ends the process without the exit handlers of the program.
            unsafe { libc::_exit(0) }
        }
        child if child > 0 => {
            // SAFETY: a child that ends at once, and a status that nobody needs.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        }
        _ => {}
    }
}

/// Waits for the end of the program.
fn guard(program: OwnedFd, mark: &str) {
    // A signal to the process group or the terminal of the program does not reach this process.
    let _ = setsid();
    let _ = set_name(c"test-guardian");
    let _ = std::env::set_current_dir("/");
    close_all_but(&program);
    while poll(&mut [PollFd::new(&program, PollFlags::IN)], None) == Err(rustix::io::Errno::INTR) {}
    let end = Instant::now();
    loop {
        let left = marked(mark);
        if left.is_empty() {
            return;
        }
        if end.elapsed() > GRACE {
            let left: String = left.into_iter().map(describe).collect();
            let count = kill_all(|| marked(mark));
            return print(&format!(
                "\nguardian: killed {count} processes that a test program left behind:\n{left}"
            ));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Closes pipes and files of the program, whose readers wait for the end; keeps standard error for a message.
fn close_all_but(program: &OwnedFd) {
    let keep = program.as_raw_fd();
    let numbers = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number != 2 && *number != keep) {
        // SAFETY: nothing in this process uses it any more; the number of the folder itself is closed already.
        unsafe { libc::close(number) };
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::io::Read;
    use std::process::{self, Command, Stdio};

    use crate::watchdog::RUN;
    use crate::{Running, eventually, eventually_some, proc, rerun, temp_file};

    use super::*;

    const LEAVE: &str = "TESTKIT_LEAVE";

    /// Starts a child, and a process whose parent has ended; their numbers go to the file.
    fn leave(file: &str) {
        let child = Running::start(Command::new("sleep").arg("1000").stderr(Stdio::null()));
        // Left behind on purpose.
        let child = std::mem::ManuallyDrop::new(child);
        let shell = Command::new("sh").args(["-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]).output().unwrap();
        let orphan = String::from_utf8(shell.stdout).unwrap();
        fs::write(file, format!("{} {}\n", child.pid(), orphan.trim())).unwrap();
    }

    #[test]
    fn nothing_outlives_a_test_program() {
        for is_killed in [true, false] {
            if let Ok(file) = env::var(LEAVE) {
                leave(&file);
                if env::var_os("TESTKIT_STAY").is_some() {
                    thread::sleep(Duration::from_secs(1000));
                }
                process::exit(0);
            }
            let file = temp_file();
            let mut program = rerun(module_path!(), "nothing_outlives_a_test_program");
            // A run of its own, not a process of this one.
            program.env_remove(RUN).env(LEAVE, file.path()).stdout(Stdio::null()).stderr(Stdio::piped());
            if is_killed {
                program.env("TESTKIT_STAY", "1");
            }
            let mut program = Running::start(&mut program);
            let processes: Vec<u32> = eventually_some("processes are left", || {
                let text = fs::read_to_string(file.path()).ok()?;
                text.strip_suffix('\n')?.split(' ').map(|number| number.parse().ok()).collect()
            });
            if is_killed {
                program.kill();
            }
            for process in processes {
                eventually("a process is left", || matches!(proc::state(process), None | Some('Z')));
            }
            let mut report = String::new();
            program.0.stderr.take().unwrap().read_to_string(&mut report).unwrap();
            assert!(report.contains("guardian: killed 2") && report.contains("sleep 1000"), "{report}");
        }
    }
}
