//! A child process that cannot be forgotten: dropped, it is killed and reaped.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, waitid, waitpid};

use super::launch::{Launch, launch};
use super::{own_program, pidfd_open, poll, wait_readable};
use crate::error::{Context, Result};

/// Where a child's standard error goes.
#[derive(Debug, Default)]
pub enum Stderr {
    /// Where ours goes.
    #[default]
    Inherit,
    /// Standard error goes to /dev/null.
    Null,
    /// Into this descriptor.
    Fd(OwnedFd),
}

/// What to start. Standard input and output of the child are `/dev/null`, unless it inherits ours.
#[derive(Debug, Default)]
pub struct Spawn {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    without_env: Vec<OsString>,
    fds: Vec<OwnedFd>,
    stderr: Stderr,
    inherits: bool,
    own_session: bool,
    death_signal: Option<i32>,
}

impl Spawn {
    /// The file at `program` (`/proc/self/exe` is this program; `PATH` is not searched), with our environment and nothing else.
    pub fn new(program: impl Into<PathBuf>) -> Spawn {
        Spawn { program: program.into(), ..Spawn::default() }
    }

    /// Adds an argument.
    pub fn arg(self, arg: impl Into<OsString>) -> Spawn {
        self.args([arg])
    }

    /// Adds several arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Spawn {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a variable to the environment; the last one of a name counts.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Spawn {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Leaves a variable of our environment out.
    pub fn without_env(mut self, name: impl Into<OsString>) -> Spawn {
        self.without_env.push(name.into());
        self
    }

    /// Hands over a descriptor; the child finds them as 3, 4, … in this order. They are closed here when it has started.
    pub fn fd(mut self, fd: OwnedFd) -> Spawn {
        self.fds.push(fd);
        self
    }

    /// Says where standard error goes.
    pub fn stderr(self, stderr: Stderr) -> Spawn {
        Spawn { stderr, ..self }
    }

    /// Has the kernel kill it when the thread that starts it ends, however that happens; see [`super::die_with`].
    pub fn dies_with_parent(self) -> Spawn {
        self.told_of_parents_death(libc::SIGKILL)
    }

    /// Has the kernel send it this signal when the thread that starts it ends, so that it can clean up.
    pub fn told_of_parents_death(self, signal: i32) -> Spawn {
        Spawn { death_signal: Some(signal), ..self }
    }

    /// Gives it our standard input and output, and what we have inherited ourselves, except where [`Spawn::fd`] puts another.
    pub fn inherits(self) -> Spawn {
        Spawn { inherits: true, ..self }
    }

    /// Makes it the leader of a session of its own: then signals of our terminal do not reach it.
    pub fn own_session(self) -> Spawn {
        Spawn { own_session: true, ..self }
    }

    fn into_launch(self) -> io::Result<Launch> {
        let environment = self.environment()?;
        let program = if self.program == Path::new("/proc/self/exe") { own_program()? } else { self.program };
        let program = c_string(program.into_os_string())?;
        let null = || rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let stderr = match self.stderr {
            Stderr::Inherit => io::stderr().as_fd().try_clone_to_owned()?,
            Stderr::Null => null()?,
            Stderr::Fd(fd) => fd,
        };
        let (stdin, stdout) = if self.inherits {
            (io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?)
        } else {
            (null()?, null()?)
        };
        let mut fds = vec![stdin, stdout, stderr];
        fds.extend(self.fds);
        let args = std::iter::once(Ok(program.clone())).chain(self.args.into_iter().map(c_string));
        let args = args.collect::<io::Result<_>>()?;
        let death_signal = self.death_signal.map(|signal| (std::process::id(), signal));
        Ok(Launch {
            program,
            args,
            environment,
            fds,
            keeps_others: self.inherits,
            own_session: self.own_session,
            death_signal,
        })
    }

    fn environment(&self) -> io::Result<Vec<CString>> {
        let is_kept = |name: &OsString| !self.without_env.contains(name);
        let ours = std::env::vars_os().filter(|(name, _)| is_kept(name));
        let mut all: Vec<(OsString, OsString)> = Vec::new();
        for (name, value) in ours.chain(self.env.iter().cloned()) {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = value,
                None => all.push((name, value)),
            }
        }
        all.into_iter()
            .map(|(name, value)| c_string([name.as_os_str(), value.as_os_str()].join(OsStr::new("="))))
            .collect()
    }
}

fn c_string(text: OsString) -> io::Result<CString> {
    CString::new(text.into_vec()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(signal) => match nix::sys::signal::Signal::try_from(signal) {
                Ok(name) => write!(f, "signal {signal} ({name})"),
                Err(_) => write!(f, "signal {signal}"),
            },
        }
    }
}

/// A running or ended child. Dropped before its end was seen, it is killed, and always reaped.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    pidfd: OwnedFd,
    exit: Option<Exit>,
}

impl Child {
    /// Starts a process. In it no signal is blocked, SIGPIPE has its default action, and unless it inherits others no
    /// descriptor is open but those it was given (before Linux 5.11 also those that this process itself inherited). If
    /// it does not start, be it that the program cannot be executed, there is no process.
    pub fn spawn(spawn: Spawn) -> Result<Child> {
        let program = spawn.program.display().to_string();
        let ready = spawn.into_launch().context("start", || program.as_str())?;
        let pid = launch(&ready).context("start", || program.as_str())?;
        // The number is safe to use: it stays taken until we reap the child.
        match pidfd_open(pid) {
            Ok(pidfd) => Ok(Child { pid, pidfd, exit: None }),
            Err(error) => {
                kill_and_reap(pid);
                Err(error)
            }
        }
    }

    /// Its process id; another process may have the number once this one was waited for.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The descriptor that becomes readable when it ends.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether it has ended. Its exit is still there for [`Child::wait`].
    pub fn has_exited(&self) -> Result<bool> {
        Ok(self.exit.is_some() || poll(&[self.pidfd()], Some(Duration::ZERO))?[0])
    }

    /// Sends a signal. Fails with `ESRCH` once its end was waited for, `EINVAL` for an invalid signal number.
    pub fn kill(&self, signal: i32) -> Result<()> {
        let on = || format!("signal {signal} to process {}", self.pid);
        // Number 0 would be a question, not a signal; real-time signals of the C library are not ours to send.
        let signal = Signal::from_named_raw(signal).ok_or(rustix::io::Errno::INVAL).context("send", on)?;
        rustix::process::pidfd_send_signal(&self.pidfd, signal).context("send", on)
    }

    /// Waits for its end, at most for `timeout`; `None` when the time was over first. Once it has ended, every further
    /// call says the same. Fails with `ECHILD` when somebody else has reaped it.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<Exit>> {
        if self.exit.is_some() {
            return Ok(self.exit);
        }
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        if !wait_readable(self.pidfd(), end)? {
            return Ok(None);
        }
        let status = rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(self.pidfd()), WaitIdOptions::EXITED))
            .context("wait for", || format!("process {}", self.pid))?;
        self.exit = status.map(|status| match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        });
        Ok(self.exit)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.exit.is_none() {
            // Neither can fail for a child that has not been reaped, and for one that has there is nothing to do.
            let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
            let _ = rustix::io::retry_on_intr(|| {
                waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED)
            });
        }
    }
}

/// Ends a child that has no descriptor.
fn kill_and_reap(pid: u32) {
    let Some(pid) = Pid::from_raw(pid as i32) else { return };
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    let _ = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::memfd;
    use crate::socket::{recv_with_fds, stream_pair};
    use rustix::io::Errno;
    use std::os::fd::AsRawFd;

    const LONG: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Spawn {
        Spawn::new("/bin/sh").arg("-c").arg(script)
    }

    /// Runs `script` with a socket as descriptor 3 and `more` after it; returns what it wrote to the socket.
    fn output_of(script: &str, arrange: impl FnOnce(Spawn) -> Spawn) -> String {
        let (ours, theirs) = stream_pair().unwrap();
        let mut child = Child::spawn(arrange(shell(script).fd(theirs))).unwrap();
        let mut text = Vec::new();
        loop {
            assert_eq!(poll(&[ours.as_fd()], Some(LONG)).unwrap(), [true], "the child is silent");
            let mut buf = [0; 4096];
            match recv_with_fds(&ours, &mut buf, 0).unwrap().0 {
                0 => break,
                len => text.extend_from_slice(&buf[..len]),
            }
        }
        assert_eq!(child.wait(Some(LONG)).unwrap(), Some(Exit::Code(0)));
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn an_exit_is_told_as_it_was() {
        for (script, exit, text) in [
            ("exit 0", Exit::Code(0), "exit code 0"),
            ("exit 37", Exit::Code(37), "exit code 37"),
            ("kill -TERM $$", Exit::Signal(libc::SIGTERM), "signal 15 (SIGTERM)"),
            ("kill -KILL $$", Exit::Signal(libc::SIGKILL), "signal 9 (SIGKILL)"),
            // Ignored in Rust programs; a child must not inherit that.
            ("kill -PIPE $$; exit 1", Exit::Signal(libc::SIGPIPE), "signal 13 (SIGPIPE)"),
        ] {
            let mut child = Child::spawn(shell(script)).unwrap();
            assert_eq!(child.wait(Some(LONG)).unwrap(), Some(exit), "{script}");
            assert_eq!(child.wait(None).unwrap(), Some(exit), "{script}");
            assert!(child.has_exited().unwrap());
            assert_eq!(exit.to_string(), text);
        }
    }

    #[test]
    fn waiting_ends_with_its_time_and_a_signal_ends_the_child() {
        let mut child = Child::spawn(shell("exec sleep 1000")).unwrap();
        assert_eq!(child.wait(Some(Duration::from_millis(5))).unwrap(), None);
        assert_eq!(child.wait(Some(Duration::ZERO)).unwrap(), None);
        assert!(!child.has_exited().unwrap());
        assert_eq!(child.kill(0).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        // Not SIGINT: a shell lets what it starts in the background ignore that.
        child.kill(libc::SIGTERM).unwrap();
        assert_eq!(child.wait(Some(LONG)).unwrap(), Some(Exit::Signal(libc::SIGTERM)));
        assert_eq!(child.kill(libc::SIGTERM).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error_with_its_name() {
        // Enough descriptors that one would fall on whatever reports the failure, were it not kept apart.
        let mut spawn = Spawn::new("/nowhere/nothing");
        for i in 0..40 {
            spawn = spawn.fd(memfd("extra", i).unwrap());
        }
        let error = Child::spawn(spawn).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(error.to_string().contains("/nowhere/nothing"), "{error}");
        assert_eq!(Child::spawn(Spawn::new("/")).unwrap_err().raw_os_error(), Some(libc::EACCES));
        let error = Child::spawn(shell("exit 0").arg("a\0b")).unwrap_err();
        assert_eq!(error.os().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_child_has_exactly_the_descriptors_it_was_given() {
        let (_near, far) = stream_pair().unwrap();
        // One that exec would not close by itself.
        rustix::io::fcntl_setfd(&far, rustix::io::FdFlags::empty()).unwrap();
        // `ls` opens the directory it lists, which takes the number after the last one.
        let list = "ls /proc/self/fd >&3";
        assert_eq!(output_of(list, |spawn| spawn), "0\n1\n2\n3\n4\n");
        let more = |spawn: Spawn| (0..5).fold(spawn, |spawn, i| spawn.fd(memfd("more", i).unwrap()));
        assert_eq!(output_of(list, more), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        assert_eq!(
            output_of("readlink /proc/self/fd/0 /proc/self/fd/1 >&3", |s| s).lines().next(),
            Some("/dev/null")
        );
    }

    #[test]
    fn a_child_may_lead_a_session_and_inherit_our_input_and_output() {
        let script = "read -r pid _ _ _ group session _ < /proc/$$/stat; echo \"$((pid == session))\" >&3";
        assert_eq!(output_of(script, Spawn::own_session), "1\n");
        assert_eq!(output_of(script, |spawn| spawn), "0\n");
        let own = |number: u32| std::fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
        let shared =
            output_of("links=$(readlink /proc/$$/fd/0 /proc/$$/fd/1); echo \"$links\" >&3", Spawn::inherits);
        assert_eq!(shared, format!("{}\n{}\n", own(0).display(), own(1).display()));
    }

    #[test]
    fn descriptors_keep_their_order_whatever_their_numbers_were() {
        // In reverse order of their numbers, so that sources and targets overlap crosswise.
        let mut files: Vec<OwnedFd> = (0..8).map(|i| memfd("order", 100 + i).unwrap()).collect();
        files.sort_by_key(|fd| std::cmp::Reverse(fd.as_raw_fd()));
        let lengths: String =
            files.iter().map(|fd| format!("{}\n", rustix::fs::fstat(fd).unwrap().st_size)).collect();
        let script = "for i in 4 5 6 7 8 9 10 11; do stat -L -c %s /proc/self/fd/$i >&3; done";
        assert_eq!(output_of(script, |spawn| files.into_iter().fold(spawn, Spawn::fd)), lengths);
    }

    #[test]
    fn the_environment_is_ours_with_what_was_added_and_without_what_was_left_out() {
        let script = "echo \"$ADDED,$CARGO_MANIFEST_DIR\" >&3";
        let added = |spawn: Spawn| spawn.env("ADDED", "old").env("ADDED", "new value");
        // Cargo sets this for tests; where somebody runs the file by hand it is empty both times.
        let ours = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        assert_eq!(output_of(script, added), format!("new value,{ours}\n"));
        assert_eq!(output_of(script, |spawn| added(spawn).without_env("CARGO_MANIFEST_DIR")), "new value,\n");
    }

    #[test]
    fn standard_error_goes_where_it_was_sent() {
        let (ours, theirs) = stream_pair().unwrap();
        let mut child = Child::spawn(shell("echo complaint >&2").stderr(Stderr::Fd(theirs))).unwrap();
        assert_eq!(child.wait(Some(LONG)).unwrap(), Some(Exit::Code(0)));
        let mut buf = [0; 64];
        let len = recv_with_fds(&ours, &mut buf, 0).unwrap().0;
        assert_eq!(&buf[..len], b"complaint\n");
        let script = "readlink /proc/self/fd/2 >&3";
        assert_eq!(output_of(script, |spawn| spawn.stderr(Stderr::Null)), "/dev/null\n");
    }

    #[test]
    fn the_child_starts_with_no_signal_blocked() {
        let masks = std::thread::spawn(|| {
            let _fd = super::super::block_signals(&[libc::SIGTERM, libc::SIGUSR1]).unwrap();
            let in_child = output_of("grep SigBlk /proc/self/status >&3", |spawn| spawn);
            let here = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            (in_child, here)
        });
        let (in_child, here) = masks.join().unwrap();
        assert_eq!(in_child, "SigBlk:\t0000000000000000\n");
        // Ours is as it was before: those two and no more.
        assert!(here.contains("SigBlk:\t0000000000004200\n"), "{here}");
    }

    #[test]
    fn a_stopped_child_can_be_dropped() {
        let mut child = Child::spawn(shell("exec sleep 1000")).unwrap();
        child.kill(libc::SIGSTOP).unwrap();
        assert_eq!(child.wait(Some(Duration::from_millis(2))).unwrap(), None);
        let pid = Pid::from_raw(child.pid() as i32).unwrap();
        drop(child);
        assert_eq!(waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).unwrap_err(), Errno::CHILD);
    }
}
