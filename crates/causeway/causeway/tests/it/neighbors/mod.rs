//! Hostile and unlucky neighbors: what a process with legitimate rights does to the others of its group, on purpose or not.
//!
//! Each file is one way in which a neighbor once did harm, and says what happened then. Attackers run as another user where
//! the test may do that (as root); otherwise the test prints a skip, and the attacker has the user of the test.
//!
//! # Safety
//!
//! Attackers call the kernel with pointers to words that outlive the call, or that do no harm to this process.
#![allow(unsafe_code)]

mod blame;
mod descriptors;
mod forged_note;
mod fork;
mod invited;
mod joins;
mod large_payloads;
mod late_is_out;
mod machine;
mod page;
mod path;
mod patience;
mod places;
mod rules;
#[cfg(feature = "tokio")]
mod runtime;
mod server;
mod shared_queue;
mod threads;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::wire::message;
use crate::common::{LONG, Role, eventually, subscribers, taken};
use causeway::{Group, GroupOptions, Publisher, Subscriber, Waited};
use causeway_os::socket::send_with_fds;
use causeway_testkit::is_root;
use rustix::process::Uid;

/// The processes that a test starts, by name.
pub const ROLES: &[(&str, Role)] = &[
    ("attack-at-random", machine::attacker::attack),
    ("follow-honestly", machine::follow_honestly),
    ("serve-nonsense", machine::attacker::serve_nonsense),
    ("hoard-payloads", large_payloads::hoard),
    ("disturb-the-shared-queue", shared_queue::disturb),
    ("drop-beside-a-child", fork::drop_beside_a_child),
    ("publish-and-end", fork::publish_and_end),
    ("publish-without-descriptors", joins::publish_without_descriptors),
    ("look-in-a-child", fork::look_in_a_child),
    ("wait-beside-a-child", fork::wait_beside_a_child),
    ("without-passrights", descriptors::without_passrights),
    ("launch", invited::launch),
    ("change-directory", path::change_directory),
    ("scribble", page::scribble),
    ("with-1024-files", places::with_1024_files),
];

/// All text of the sources below this folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = entries.map(|path| {
        if path.is_dir() {
            return sources(&path);
        }
        let is_source = path.extension().is_some_and(|end| end == "rs");
        if is_source { std::fs::read_to_string(&path).unwrap() } else { String::new() }
    });
    text.collect()
}

/// The table says which test holds what was once shown: one that is renamed or removed is missed here.
#[test]
fn every_test_that_the_document_names_exists() {
    let document = include_str!("../../../../../../docs/causeway.md");
    let (_, table) = document.split_once("## What neighbors once did").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 20, "{} rows", rows.len());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["src", "tests", "../cli/src"].map(|part| sources(&folder.join(part))).concat();
    for row in rows {
        let cells: Vec<_> = row.split(" |").collect();
        let names: Vec<_> = cells[1].split('`').skip(1).step_by(2).collect();
        assert!(
            !names.is_empty() || !cells[2].trim().is_empty(),
            "neither a test nor a word of what is missing: {row}"
        );
        for name in names {
            assert!(sources.contains(&format!("fn {name}()")), "no test is called {name}");
        }
    }
}

/// A folder that other users may enter, and a path in it for a group's socket.
pub fn public_folder() -> (tempfile::TempDir, PathBuf) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let dir = tempfile::Builder::new().permissions(mode).tempdir().unwrap();
    let socket = dir.path().join("group");
    (dir, socket)
}

/// A group in it.
pub fn public_group(options: GroupOptions) -> (tempfile::TempDir, PathBuf, Group) {
    let (dir, socket) = public_folder();
    let group = Group::create("public", options).unwrap();
    group.serve_at(&socket).unwrap();
    (dir, socket, group)
}

/// A user that owns nothing here.
pub const STRANGER: u32 = 4243;

/// Runs `work` in a thread of another user. `None`, with the skip printed, where this user cannot become another one.
pub fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> Option<T> {
    if !is_root() {
        return None;
    }
    let done = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let user = Uid::from_raw(user);
            // Of this thread alone; its sockets carry the user.
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            work()
        });
        thread.join()
    });
    Some(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Sends a request of the protocol by hand; the operations have the numbers of `docs/wire.md`.
pub fn request(socket: &OwnedFd, op: u32, words: &[u32]) {
    send_with_fds(socket, &message(op, words), &[]).unwrap();
}

/// Runs `work` in a thread and fails with `what` if it has not ended in time, instead of hanging.
pub fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(LONG).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Makes this thread, and the threads that it starts, those of another user, if it may. The test calls [`is_root`] before, which prints a skip.
fn become_another_user() {
    if rustix::process::geteuid().is_root() {
        let user = Uid::from_raw(4242);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
    }
}

/// Waits until all subscribers have left.
fn until_all_have_left(group: &Group) {
    eventually("the subscribers leave", || subscribers(group) == 0);
}

/// Lets the subscriber fall asleep, calls `meanwhile`, publishes, and checks that the subscriber gets the message.
fn sleeps_and_is_woken(
    subscriber: &mut Subscriber,
    publisher: &mut Publisher,
    asleep: impl Fn() -> bool,
    meanwhile: impl FnOnce(),
) {
    subscriber.spin_at_most(Duration::ZERO);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| subscriber.wait(Some(LONG)).unwrap());
        eventually("the subscriber does not fall asleep", asleep);
        meanwhile();
        publisher.try_publish(b"get up").unwrap();
        assert_eq!(sleeper.join().unwrap(), Waited::Ready, "the subscriber was not woken");
    });
    assert_eq!(taken(subscriber).bytes, b"get up");
}
