//! Other processes for tests: the test program again, told by a variable what to be.
#![allow(dead_code)]

pub mod limits;
pub mod traced;
pub mod wire;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Long enough for any machine; a test that needs it has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// The smallest log there is.
pub fn small() -> causeway::GroupOptions {
    causeway::GroupOptions::new().capacity_bytes(4096)
}

const ROLE: &str = "CAUSEWAY_TEST_ROLE";
const SOCKET: &str = "CAUSEWAY_TEST_SOCKET";
const NUMBER: &str = "CAUSEWAY_TEST_NUMBER";

/// A process of the test. Dropped, it is killed.
pub struct Peer(Child);

impl Peer {
    /// Starts this test program as `role`. It must contain a test named `role` that calls [`play`].
    pub fn start(role: &str, socket: &Path, number: u64) -> Peer {
        Peer(Peer::command(role, socket, number).spawn().unwrap())
    }

    /// As [`Peer::start`], with a pipe to its standard input.
    pub fn start_listening(role: &str) -> (Peer, ChildStdin) {
        let mut child = Peer::command(role, Path::new(""), 0).stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        (Peer(child), input)
    }

    fn command(role: &str, socket: &Path, number: u64) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "role", "--nocapture", "--test-threads=1", "--quiet"])
            .env(ROLE, role)
            .env(SOCKET, socket)
            .env(NUMBER, number.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
    }

    /// Waits for its end; fails if that takes for ever.
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < LONG, "process {} does not end", self.0.id());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for its end, which must be a success.
    pub fn succeed(&mut self) {
        let status = self.wait();
        assert!(status.success(), "a peer failed: {status} (signal {:?})", status.signal());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What this process was started to be: its role, the socket, and a number. `None` in the test itself.
pub fn play() -> Option<(String, PathBuf, u64)> {
    let role = std::env::var(ROLE).ok()?;
    let socket = std::env::var_os(SOCKET)?.into();
    let number = std::env::var(NUMBER).ok()?.parse().ok()?;
    Some((role, socket, number))
}

/// A number from the environment, for tests that have a long and a short form.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Calls `done` until it says true; fails with `what` if it never does.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Joins the group at `socket`, waiting until somebody serves it.
pub fn join(socket: &Path) -> causeway::Group {
    let start = Instant::now();
    loop {
        match causeway::Group::join(socket) {
            Ok(group) => return group,
            Err(error) => assert!(start.elapsed() < LONG, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A small generator of pseudo-random numbers (xorshift64*), enough to make trouble with.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
