//! Programs of other people: found, run for a limited time, and taken away with everything that they started.
//!
//! A program leads a process group of its own, and the group is killed when the program has ended, when its time is over,
//! and when the user has had enough. It runs under `timeout`, which ends the group even when this program was killed.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use causeway_os::process::{pidfd_open, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use weighbridge_lab::interrupt::Interrupt;

use super::definition::Tool;
use super::parse::Captured;

/// More than any of these tools writes; what comes after it is not kept.
const MOST_OUTPUT_BYTES: usize = 1 << 20;
/// From the end of a program to the end of its output.
const DRAIN: Duration = Duration::from_secs(1);
/// `timeout` comes after us, so that it is heard of only when we are gone.
const AFTER_US: Duration = Duration::from_secs(2);

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

/// A program at work. Dropped, it is killed with its group.
#[derive(Debug)]
pub struct Running<'a> {
    name: String,
    child: Child,
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
    ///
    /// # Errors
    /// It cannot be started.
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
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        let mut child = Command::new("timeout")
            .args(["-s", "KILL", &(limit + AFTER_US).as_secs().to_string()])
            .args(["taskset", "-c", &list.join(",")])
            .arg(program)
            .args(args)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| failed(&error))?;
        let outputs = [
            Output::new(child.stdout.take().map(OwnedFd::from)),
            Output::new(child.stderr.take().map(OwnedFd::from)),
        ];
        match pidfd_open(child.id()) {
            Ok(pidfd) => {
                let deadline = Instant::now() + limit;
                Ok(Running { name, child, is_reaped: false, pidfd, deadline, limit, outputs, interrupt })
            }
            Err(error) => {
                kill_group(&child);
                let _ = child.wait();
                Err(failed(&error))
            }
        }
    }

    /// Waits until it has written `words`.
    ///
    /// # Errors
    /// It ends or its time is over before that.
    pub fn wait_for(&mut self, words: &str) -> Result<(), Stopped> {
        while !String::from_utf8_lossy(&self.outputs[0].bytes).contains(words) {
            if self.step()? {
                let said = self.captured();
                return Err(Stopped::Failed(format!(
                    "{} ended before it wrote `{words}`: {}",
                    self.name,
                    said.last_line()
                )));
            }
        }
        Ok(())
    }

    /// Waits for its end. Nothing of its group is left then.
    ///
    /// # Errors
    /// Its time is over, it ends with a code other than 0, or the user has had enough.
    pub fn finish(mut self) -> Result<Captured, Stopped> {
        while !self.step()? {}
        // It has ended but not been reaped, so its number still names its group and nobody else's.
        kill_group(&self.child);
        let until = Instant::now() + DRAIN;
        while self.outputs.iter().any(|output| output.pipe.is_some()) && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            read_ready(&[], &mut self.outputs, left).map_err(|error| self.failed(&error))?;
        }
        let status = self.child.wait().map_err(|error| self.failed(&error))?;
        self.is_reaped = true;
        let captured = self.captured();
        if status.success() { Ok(captured) } else { Err(self.ended_badly(status, &captured)) }
    }

    fn ended_badly(&self, status: ExitStatus, captured: &Captured) -> Stopped {
        let said = captured.last_line();
        Stopped::Failed(format!("{} ended with {status}: {said}", self.name))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Stopped {
        Stopped::Failed(format!("{} cannot be waited for: {error}", self.name))
    }

    /// Sleeps until there is output or it has ended, and takes the output. Has it ended?
    fn step(&mut self) -> Result<bool, Stopped> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let limit = self.limit.as_secs();
            return Err(Stopped::Failed(format!(
                "{} did not end within {limit} s and was killed",
                self.name
            )));
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
        // Reaped, its number may belong to somebody else.
        if !self.is_reaped {
            kill_group(&self.child);
            let _ = self.child.wait();
        }
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

/// The leader must not have been reaped.
fn kill_group(leader: &Child) {
    if let Some(group) = Pid::from_raw(leader.id().cast_signed()) {
        // Nobody left is what we want.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: &str = "/bin/sh";

    fn run(script: &str, limit: Duration) -> Result<Captured, Stopped> {
        let interrupt = Interrupt::install().unwrap();
        let args = ["-c".to_owned(), script.to_owned()];
        let cpus = causeway_os::sched::allowed_cpus().unwrap();
        Running::start(Path::new(SHELL), &args, &cpus, limit, &interrupt)?.finish()
    }

    fn is_alive(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
    }

    /// A killed process is gone a moment after the kill.
    fn comes_to_an_end(pid: &str) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while is_alive(pid) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        !is_alive(pid)
    }

    #[test]
    fn both_outputs_are_kept_apart() {
        let captured = run("echo one; echo two >&2", Duration::from_secs(20)).unwrap();
        assert_eq!(captured, Captured { stdout: "one\n".into(), stderr: "two\n".into() });
    }

    #[test]
    fn what_a_program_leaves_behind_is_killed_with_it() {
        let captured = run("sleep 1000 & echo $!", Duration::from_secs(20)).unwrap();
        assert!(comes_to_an_end(&captured.stdout), "process {} still runs", captured.stdout);
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let Err(Stopped::Failed(why)) = run(&script, Duration::from_secs(1)) else { panic!("it ended") };
        assert!(why.contains("sh did not end within 1 s"), "{why}");
        assert!(comes_to_an_end(&fs::read_to_string(file).unwrap()));
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_what_it_said() {
        let Err(Stopped::Failed(why)) = run("echo no such thing >&2; exit 3", Duration::from_secs(20)) else {
            panic!("it was fine")
        };
        assert!(why.contains("exit status: 3") && why.contains("no such thing"), "{why}");
    }

    #[test]
    fn a_program_that_ends_before_it_is_ready_says_so() {
        let interrupt = Interrupt::install().unwrap();
        let args = ["-c".to_owned(), "echo starting; echo listening".to_owned()];
        let cpus = causeway_os::sched::allowed_cpus().unwrap();
        let start =
            || Running::start(Path::new(SHELL), &args, &cpus, Duration::from_secs(20), &interrupt).unwrap();
        start().wait_for("listening").unwrap();
        let Err(Stopped::Failed(why)) = start().wait_for("connected") else { panic!("it said so") };
        assert!(why.contains("before it wrote `connected`"), "{why}");
    }

    #[test]
    fn a_star_in_a_folder_stands_for_any_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("bin/x86_64")).unwrap();
        let pattern = format!("{}/bin/*", folder.path().display());
        assert_eq!(expand(&pattern), [folder.path().join("bin/x86_64")]);
        assert_eq!(expand("/usr/lib/x"), [PathBuf::from("/usr/lib/x")]);
    }
}
