//! Programs of other people: found, run for a limited time, and taken away with everything that they started.
//!
//! Each runs under a [`supervisor`], which is told to end when the program has had its time or the user has had enough, and
//! ends by itself when this program is gone.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use causeway_os::process::{pidfd_open, poll};
use rustix::process::{Signal, pidfd_send_signal};
use weighbridge_harness::interrupt::Interrupt;

use super::definition::Tool;
use super::parse::Captured;
use super::supervisor;

/// More than any of these tools writes; what comes after it is not kept.
const MOST_OUTPUT_BYTES: usize = 1 << 20;
/// From the end of a program to the end of its output.
const DRAIN: Duration = Duration::from_secs(1);
/// The supervisor's own deadline comes after ours, so that a late end has our sentence.
const AFTER_US: Duration = Duration::from_secs(2);
/// How long the supervisor may take to end everything, which it does itself within 5 s.
const SUPERVISORS_END: Duration = Duration::from_secs(8);

/// Why there is no output.
#[derive(Debug)]
pub enum Stopped {
    /// By the user.
    Interrupted,
    /// A sentence about the program.
    Failed(String),
}

/// The program with this name: in the folders of `PATH`, then in those of the tool's package.
pub fn find(program: &str, tool: &Tool) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = tool.folders.iter().flat_map(|folder| expand(folder));
    std::env::split_paths(&path).chain(own).map(|folder| folder.join(program)).find(|file| can_run(file))
}

/// A folder in whose path one `*` stands for any name.
fn expand(folder: &str) -> Vec<PathBuf> {
    let Some((parent, rest)) = folder.split_once('*') else { return vec![folder.into()] };
    let names = fs::read_dir(parent).into_iter().flatten().flatten();
    names.map(|entry| entry.path().join(rest.trim_start_matches('/'))).collect()
}

fn can_run(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// A program at work. Dropped, it is killed with all that it started.
#[derive(Debug)]
pub struct Running<'a> {
    name: String,
    supervisor: Child,
    is_reaped: bool,
    pidfd: OwnedFd,
    deadline: Instant,
    limit: Duration,
    outputs: [Output; 2],
    interrupt: &'a Interrupt,
}

/// One of the two outputs.
#[derive(Debug)]
struct Output {
    /// `None` once it has ended.
    pipe: Option<fs::File>,
    bytes: Vec<u8>,
}

impl<'a> Running<'a> {
    /// Starts `program` on `cpus`, for at most `limit`.
    pub fn start(
        program: &Path,
        args: &[String],
        cpus: &[u32],
        limit: Duration,
        interrupt: &'a Interrupt,
    ) -> Result<Running<'a>, Stopped> {
        let name = program.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned();
        let failed =
            |error: &dyn std::fmt::Display| Stopped::Failed(format!("{name} cannot be started: {error}"));
        let mut supervisor = supervisor::command(program, args, cpus, limit + AFTER_US)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| failed(&error))?;
        let outputs = [
            Output::new(supervisor.stdout.take().map(OwnedFd::from)),
            Output::new(supervisor.stderr.take().map(OwnedFd::from)),
        ];
        match pidfd_open(supervisor.id()) {
            Ok(pidfd) => {
                let deadline = Instant::now() + limit;
                Ok(Running { name, supervisor, is_reaped: false, pidfd, deadline, limit, outputs, interrupt })
            }
            Err(error) => {
                let _ = supervisor.kill();
                let _ = supervisor.wait();
                Err(failed(&error))
            }
        }
    }

    /// Waits until it has written `words`. To end or to need more time before that is to fail.
    pub fn wait_for(&mut self, words: &str) -> Result<(), Stopped> {
        let has_written = |running: &Self| running.captured().stdout.contains(words);
        while !has_written(self) {
            if self.step()? {
                // It may have written its last words just before it ended.
                self.drain()?;
                if has_written(self) {
                    break;
                }
                let last = self.captured();
                let (name, last) = (&self.name, last.last_line());
                return Err(Stopped::Failed(format!("{name} ended before it wrote `{words}`: {last}")));
            }
        }
        Ok(())
    }

    /// Waits for its end, with code 0. Nothing that it started is left then.
    pub fn finish(mut self) -> Result<Captured, Stopped> {
        while !self.step()? {}
        self.drain()?;
        let status = self.reap().map_err(|error| self.failed(&error))?;
        let captured = self.captured();
        if status.success() {
            return Ok(captured);
        }
        let how = match (status.code(), status.signal()) {
            (Some(code @ 129..), _) => format!("signal {}", code - 128),
            (Some(code), _) => format!("code {code}"),
            (None, signal) => format!("its supervisor, by signal {}", signal.unwrap_or_default()),
        };
        Err(Stopped::Failed(format!("{} ended with {how}: {}", self.name, captured.last_line())))
    }

    /// Takes what is still in the pipes of a program that has ended.
    fn drain(&mut self) -> Result<(), Stopped> {
        let until = Instant::now() + DRAIN;
        while self.outputs.iter().any(|output| output.pipe.is_some()) && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            read_ready(&[], &mut self.outputs, left).map_err(|error| self.failed(&error))?;
        }
        Ok(())
    }

    /// Takes the supervisor's end. Killed, it could not end what it watched over; the program died with it, its children did
    /// not.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        let has_failed = rustix::process::waitid(
            rustix::process::WaitId::PidFd(self.pidfd.as_fd()),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )?
        .is_none_or(|status| !status.exited());
        if has_failed {
            // Its number is still its own, so it is that of no other session.
            supervisor::kill_session(self.supervisor.id());
        }
        let status = self.supervisor.wait()?;
        self.is_reaped = true;
        Ok(status)
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Stopped {
        Stopped::Failed(format!("{} cannot be waited for: {error}", self.name))
    }

    /// Sleeps until there is output or it has ended, and takes the output. Has it ended?
    fn step(&mut self) -> Result<bool, Stopped> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let (name, limit) = (&self.name, self.limit.as_secs());
            return Err(Stopped::Failed(format!("{name} did not end within {limit} s and was killed")));
        }
        let ready = read_ready(&[self.interrupt.fd(), self.pidfd.as_fd()], &mut self.outputs, left)
            .map_err(|error| self.failed(&error))?;
        if ready[0] && self.interrupt.take().map_err(|error| self.failed(&error))? {
            return Err(Stopped::Interrupted);
        }
        Ok(ready[1])
    }

    fn captured(&self) -> Captured {
        let text = |output: &Output| String::from_utf8_lossy(&output.bytes).into_owned();
        Captured { stdout: text(&self.outputs[0]), stderr: text(&self.outputs[1]) }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_reaped {
            return;
        }
        // The supervisor takes everything along. One that does not end is killed, and the program dies with it.
        let _ = pidfd_send_signal(&self.pidfd, Signal::TERM);
        if !poll(&[self.pidfd.as_fd()], Some(SUPERVISORS_END)).is_ok_and(|ready| ready[0]) {
            let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        }
        let _ = self.reap();
    }
}

impl Output {
    fn new(pipe: Option<OwnedFd>) -> Output {
        Output { pipe: pipe.map(fs::File::from), bytes: Vec::new() }
    }

    /// Takes what is there.
    fn read(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let mut chunk = [0; 1 << 14];
        let count = pipe.read(&mut chunk)?;
        let room = MOST_OUTPUT_BYTES - self.bytes.len();
        self.bytes.extend_from_slice(&chunk[..count.min(room)]);
        if count == 0 {
            self.pipe = None;
        }
        Ok(())
    }
}

/// Waits for one of `fds` or an output, and reads the outputs that have something. Says which of `fds` are ready.
fn read_ready(fds: &[BorrowedFd<'_>], outputs: &mut [Output], left: Duration) -> io::Result<Vec<bool>> {
    let open: Vec<usize> = (0..outputs.len()).filter(|index| outputs[*index].pipe.is_some()).collect();
    let pipes = outputs.iter().filter_map(|output| output.pipe.as_ref()).map(AsFd::as_fd);
    let all: Vec<BorrowedFd<'_>> = fds.iter().copied().chain(pipes).collect();
    let mut ready = poll(&all, Some(left))?;
    for (index, has_some) in open.into_iter().zip(ready.split_off(fds.len())) {
        if has_some {
            outputs[index].read()?;
        }
    }
    Ok(ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_a_folder_stands_for_any_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("bin/x86_64")).unwrap();
        let pattern = format!("{}/bin/*", folder.path().display());
        assert_eq!(expand(&pattern), [folder.path().join("bin/x86_64")]);
        assert_eq!(expand("/usr/lib/x"), [PathBuf::from("/usr/lib/x")]);
    }
}
