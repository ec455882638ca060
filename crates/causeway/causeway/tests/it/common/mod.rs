//! Groups, publishers and subscribers for tests.
#![allow(dead_code)]

pub mod limits;
pub mod wire;

use std::path::{Path, PathBuf};
use std::thread::{Scope, ScopedJoinHandle};

use causeway::{
    Error, Group, GroupOptions, OwnedMessage, Publisher, Received, Refusal, SubscribeOptions, Subscriber,
    TryPublishError, TryRecvError,
};
pub use causeway_testkit::{
    PATIENCE as LONG, Peer, Rng, Role, TempDir, eventually, eventually_seen, setting, temp_dir,
};

/// A folder, and a path in it for a socket.
pub fn place() -> (TempDir, PathBuf) {
    let folder = temp_dir("causeway");
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

/// A group of the format with this number in the environment, 1 otherwise: proofs are made with each.
pub fn options() -> GroupOptions {
    GroupOptions::new().format(setting("CAUSEWAY_FORMAT", 1) as u32)
}

/// The smallest log there is.
pub fn small() -> GroupOptions {
    options().capacity_bytes(4096)
}

/// The smallest log of one publisher, and of several.
pub fn kinds() -> [GroupOptions; 2] {
    [small(), small().several_publishers()]
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
#[track_caller]
pub fn next(subscriber: &mut Subscriber) -> Vec<u8> {
    take(subscriber.recv_timeout(LONG).unwrap()).bytes
}

/// The next message, which is there.
#[track_caller]
pub fn taken(subscriber: &mut Subscriber) -> OwnedMessage {
    take(subscriber.try_recv().unwrap())
}

#[track_caller]
fn take(received: Received<causeway::Message<'_>>) -> OwnedMessage {
    match received {
        Received::Message(message) => message.into_owned(),
        lost => panic!("{lost:?}"),
    }
}

/// Receives until there is nothing. Returns how many messages that were, and how many were lost.
pub fn tally(subscriber: &mut Subscriber) -> (u64, u64) {
    let (mut received, mut lost) = (0, 0);
    loop {
        match subscriber.try_recv() {
            Ok(Received::Message(_)) => received += 1,
            Ok(Received::Lost { messages, .. }) => lost += messages,
            Ok(Received::Demoted) => {}
            Err(TryRecvError::Empty) => return (received, lost),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Fails unless there is nothing to receive.
#[track_caller]
pub fn nothing(subscriber: &mut Subscriber) {
    let received = subscriber.try_recv();
    assert!(matches!(received, Err(TryRecvError::Empty)), "{received:?}");
}

/// Fails unless this is what a subscriber is told at the end of its group.
#[track_caller]
pub fn is_the_end<T: std::fmt::Debug>(told: Result<T, Error>) {
    assert!(matches!(told, Err(Error::Disconnected)), "{told:?}");
}

/// How many subscribers have found their place.
pub fn subscribers(group: &Group) -> usize {
    group.report().unwrap().subscribers.len()
}

/// How many subscribers sleep.
pub fn asleep(group: &Group) -> usize {
    group.report().unwrap().subscribers.iter().filter(|subscriber| subscriber.asleep).count()
}

/// Open descriptors of this process.
pub fn descriptors() -> usize {
    causeway_testkit::proc::open_files(std::process::id())
}

/// Bytes of addresses of this process that belong to files with this in their name.
pub fn addresses(name: &str) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let files = maps.lines().filter(|line| line.contains(name));
    files
        .map(|line| {
            let (from, to) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
            hex(to) - hex(from)
        })
        .sum()
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
    tally(subscriber);
}

/// Gives the group a log of another size, unless all the logs that may be kept wait for a slow subscriber. Returns whether it did.
pub fn resized(group: &Group, capacity_bytes: u64) -> bool {
    match group.resize(capacity_bytes) {
        Ok(()) => true,
        Err(Error::Refused(Refusal::LogsHeld)) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Joins the group at `socket`, waiting until a process serves it.
pub fn join(socket: &Path) -> Group {
    eventually_seen("a server", || Group::join(socket), Result::is_ok).unwrap()
}
