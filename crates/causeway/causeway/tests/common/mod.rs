//! Other processes for tests: the test program again, in a role that an environment variable names.
#![allow(dead_code)]

pub mod limits;
pub mod traced;
pub mod wire;

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use causeway::{Publisher, Subscriber, TryPublishError, TryRecvError};
use tempfile::NamedTempFile;

/// Long enough for any machine; a test that needs it has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// The smallest log there is.
pub fn small() -> causeway::GroupOptions {
    causeway::GroupOptions::new().capacity_bytes(4096)
}

/// A group that only this process can reach.
pub fn group(options: causeway::GroupOptions) -> causeway::Group {
    causeway::Group::create("test", options).unwrap()
}

/// The next message's payload, waiting for it.
pub fn next(subscriber: &mut Subscriber) -> Vec<u8> {
    match subscriber.recv_timeout(LONG).unwrap() {
        causeway::Received::Message(message) => message.bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

const ROLE: &str = "CAUSEWAY_TEST_ROLE";
const SOCKET: &str = "CAUSEWAY_TEST_SOCKET";
const NUMBER: &str = "CAUSEWAY_TEST_NUMBER";
const PROOF: &str = "CAUSEWAY_TEST_PROOF";

/// A process of the test. Dropped, it is killed.
pub struct Peer {
    child: Child,
    role: String,
    /// Where [`play`] writes the role, so that a process that ran no test at all is not taken for a success.
    proof: NamedTempFile,
}

impl Peer {
    /// Starts this test program as `role`. It must contain a test named `role` that calls [`play`].
    pub fn start(role: &str, socket: &Path, number: u64) -> Peer {
        Peer::spawn(role, socket, number, Stdio::null())
    }

    fn spawn(role: &str, socket: &Path, number: u64, input: Stdio) -> Peer {
        let proof = NamedTempFile::new().unwrap();
        let child =
            Peer::command(role, socket, number).env(PROOF, proof.path()).stdin(input).spawn().unwrap();
        Peer { child, role: role.to_owned(), proof }
    }

    /// As [`Peer::start`], with a pipe to its standard input.
    pub fn start_listening(role: &str) -> (Peer, ChildStdin) {
        let mut peer = Peer::spawn(role, Path::new(""), 0, Stdio::piped());
        let input = peer.child.stdin.take().unwrap();
        (peer, input)
    }

    fn command(role: &str, socket: &Path, number: u64) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "role", "--nocapture", "--test-threads=1", "--quiet"])
            .env(ROLE, role)
            .env(SOCKET, socket)
            .env(NUMBER, number.to_string())
            .stdout(Stdio::null());
        command
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; fails after [`LONG`].
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < LONG, "process {} does not end", self.child.id());
            std::thread::sleep(Duration::from_millis(1));
        }
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

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

/// Publishes until the log is full.
pub fn fill(publisher: &mut Publisher, payload: &[u8]) {
    loop {
        match publisher.try_publish(payload) {
            Ok(_) => {}
            Err(TryPublishError::Full) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Receives until the log is empty.
pub fn drain(subscriber: &mut Subscriber) {
    loop {
        match subscriber.try_recv() {
            Ok(_) => {}
            Err(TryRecvError::Empty) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A number from the environment, for tests that have a long and a short form.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Calls `done` until it returns true; fails with `what` after [`LONG`].
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// As [`eventually`]; fails with what `done` saw last as well.
pub fn eventually_with<S: std::fmt::Debug>(what: &str, seen: &mut S, mut done: impl FnMut(&mut S) -> bool) {
    let start = Instant::now();
    while !done(seen) {
        assert!(start.elapsed() < LONG, "{what}: {seen:?}");
    }
}

/// Joins the group at `socket`, waiting until a process serves it.
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

/// A small generator of pseudo-random numbers (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
