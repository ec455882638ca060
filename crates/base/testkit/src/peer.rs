//! Other processes of a test: the test program again, in a role that an environment variable names.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, ExitStatus, Stdio};

use tempfile::NamedTempFile;

use crate::{Running, Traced, at_another_time, rerun, temp_file};

/// What a process of a test does, with the socket of a group and a number.
pub type Role = fn(&Path, u64);

const ROLE: &str = "TESTKIT_ROLE";
const SOCKET: &str = "TESTKIT_SOCKET";
const NUMBER: &str = "TESTKIT_NUMBER";
const PROOF: &str = "TESTKIT_PROOF";

/// A process of the test. Dropped, it is killed.
#[derive(Debug)]
pub struct Peer {
    running: Running,
    role: String,
    /// Where [`play`] writes the role, so that a process that ran no test at all is not taken for a success.
    proof: NamedTempFile,
}

impl Peer {
    /// Starts this test program as `role`. It must contain a test named `role` that calls [`play`].
    pub fn start(role: &str, socket: &Path, number: u64) -> Peer {
        Peer::spawn(role, socket, number, Stdio::null())
    }

    /// As [`Peer::start`], with clocks that are so many seconds ahead; nothing where that is not possible.
    pub fn start_at_another_time(role: &str, socket: &Path, number: u64, seconds: i64) -> Option<Peer> {
        let command = at_another_time(&Peer::command(role, socket, number), seconds)?;
        Some(Peer::run(role, command, Stdio::null()))
    }

    /// As [`Peer::start`], with a tracer of the thread that calls [`stop_for_tracer`](crate::stop_for_tracer).
    pub fn start_traced(role: &str, socket: &Path, number: u64) -> (Peer, Traced) {
        Peer::run_by(role, Peer::command(role, socket, number), Stdio::null(), Traced::start)
    }

    fn spawn(role: &str, socket: &Path, number: u64, input: Stdio) -> Peer {
        Peer::run(role, Peer::command(role, socket, number), input)
    }

    fn run(role: &str, command: Command, input: Stdio) -> Peer {
        Peer::run_by(role, command, input, |command| (Running::start(command), ())).0
    }

    fn run_by<T>(
        role: &str,
        mut command: Command,
        input: Stdio,
        start: impl FnOnce(&mut Command) -> (Running, T),
    ) -> (Peer, T) {
        let proof = temp_file();
        let (running, more) = start(command.env(PROOF, proof.path()).stdin(input).stdout(Stdio::null()));
        (Peer { running, role: role.to_owned(), proof }, more)
    }

    /// As [`Peer::start`], with a pipe to its standard input.
    pub fn start_listening(role: &str) -> (Peer, ChildStdin) {
        let mut peer = Peer::spawn(role, Path::new(""), 0, Stdio::piped());
        let input = peer.running.0.stdin.take().unwrap();
        (peer, input)
    }

    fn command(role: &str, socket: &Path, number: u64) -> Command {
        let mut command = rerun("it", "role");
        command.arg("--quiet").env(ROLE, role).env(SOCKET, socket).env(NUMBER, number.to_string());
        command
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.running.pid() as i32
    }

    /// Kills and reaps it.
    pub fn kill(&mut self) {
        self.running.kill();
    }

    /// Stops all its threads.
    pub fn stop(&self) {
        self.running.stop();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.running.resume();
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.running.0.try_wait().unwrap().is_some()
    }

    /// Waits for its end; fails after [`PATIENCE`](crate::PATIENCE).
    pub fn wait(&mut self) -> ExitStatus {
        self.running.wait()
    }

    /// Waits for its end, which must be a success, and of a process that has played its role.
    pub fn succeed(&mut self) {
        let status = self.wait();
        assert!(status.success(), "a peer failed: {status} (signal {:?})", status.signal());
        let mut played = String::new();
        self.proof.read_to_string(&mut played).unwrap();
        assert_eq!(played, self.role, "the peer ran no test that plays its role");
    }
}

/// The role of this process, the socket, and a number. `None` in the test itself.
pub fn play() -> Option<(String, PathBuf, u64)> {
    let role = std::env::var(ROLE).ok()?;
    let socket = std::env::var_os(SOCKET)?.into();
    let number = std::env::var(NUMBER).ok()?.parse().ok()?;
    std::fs::write(std::env::var_os(PROOF)?, &role).unwrap();
    Some((role, socket, number))
}

/// A number from the environment, for tests that have a long and a short form.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
