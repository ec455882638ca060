//! Groups, publishers and subscribers for tests.
#![allow(dead_code)]

pub mod limits;
pub mod wire;

use std::path::{Path, PathBuf};
use std::thread::{Scope, ScopedJoinHandle};

use causeway::{Group, GroupOptions, Publisher, SubscribeOptions, Subscriber, TryPublishError, TryRecvError};
pub use causeway_testkit::{PATIENCE as LONG, Peer, Rng, Role, eventually, eventually_seen, setting};
use tempfile::TempDir;

/// A folder, and a path in it for a socket.
pub fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("group");
    (folder, socket)
}

/// A group that other processes can join.
pub fn served(options: GroupOptions) -> (TempDir, PathBuf, Group) {
    let (folder, socket) = place();
    let group = group(options);
    group.serve_at(&socket).unwrap();
    (folder, socket, group)
}

/// The smallest log there is.
pub fn small() -> GroupOptions {
    GroupOptions::new().capacity_bytes(4096)
}

/// A group that only this process can reach.
pub fn group(options: GroupOptions) -> Group {
    Group::create("test", options).unwrap()
}

/// A group that only this process can reach, with one publisher and one subscriber.
pub fn trio(
    options: GroupOptions,
    subscriber: impl Into<SubscribeOptions>,
) -> (Group, Publisher, Subscriber) {
    let group = group(options);
    let (publisher, subscriber) = (group.publisher().unwrap(), group.subscribe(subscriber).unwrap());
    (group, publisher, subscriber)
}

/// The next message's payload, waiting for it.
pub fn next(subscriber: &mut Subscriber) -> Vec<u8> {
    match subscriber.recv_timeout(LONG).unwrap() {
        causeway::Received::Message(message) => message.bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Runs `work` in a thread, and returns once that is asleep in the kernel.
pub fn spawn_until_blocked<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = scope.spawn(move || {
        tell.send(nix::unistd::gettid()).unwrap();
        work()
    });
    let path = format!("/proc/self/task/{}/stat", told.recv().unwrap());
    eventually("the thread blocks", || {
        std::fs::read_to_string(&path).is_ok_and(|stat| stat.contains(") S "))
    });
    thread
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

/// Joins the group at `socket`, waiting until a process serves it.
pub fn join(socket: &Path) -> Group {
    eventually_seen("a server", || Group::join(socket), Result::is_ok).unwrap()
}
