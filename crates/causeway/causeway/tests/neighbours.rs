//! Hostile and unlucky neighbours: what a process with legitimate rights does to the others of its group, on purpose or not.
//!
//! Each file is one way in which a neighbour once did harm, and says what happened then. Attackers run as another user where
//! the test may do that (as root); otherwise the test says so, and the attacker has the user of the test.
//!
//! # Safety
//!
//! Attackers call the kernel with pointers to words that outlive the call, or that do no harm to this process.
#![cfg(not(loom))]
#![allow(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a test says there why it is skipped")]

mod common;

#[path = "neighbours/blame.rs"]
mod blame;
#[path = "neighbours/descriptors.rs"]
mod descriptors;
#[path = "neighbours/forged_note.rs"]
mod forged_note;
#[path = "neighbours/fork.rs"]
mod fork;
#[path = "neighbours/invited.rs"]
mod invited;
#[path = "neighbours/joins.rs"]
mod joins;
#[path = "neighbours/large_payloads.rs"]
mod large_payloads;
#[path = "neighbours/late_is_out.rs"]
mod late_is_out;
#[path = "neighbours/machine/mod.rs"]
mod machine;
#[path = "neighbours/page.rs"]
mod page;
#[path = "neighbours/path.rs"]
mod path;
#[path = "neighbours/patience.rs"]
mod patience;
#[path = "neighbours/places.rs"]
mod places;
#[path = "neighbours/rules.rs"]
mod rules;
#[cfg(feature = "tokio")]
#[path = "neighbours/runtime.rs"]
mod runtime;
#[path = "neighbours/server.rs"]
mod server;
#[path = "neighbours/shared_queue.rs"]
mod shared_queue;
#[path = "neighbours/support.rs"]
mod support;
#[path = "neighbours/threads.rs"]
mod threads;

use std::path::{Path, PathBuf};
use std::time::Duration;

use causeway::{Publisher, Received, Subscriber, Waited};
use common::{LONG, eventually, play};
use rustix::process::Uid;

/// What a process of a test does, with the socket of the group and a number.
type Role = fn(&Path, u64);

/// The processes that a test starts, by name.
const ROLES: &[(&str, Role)] = &[
    ("attack-at-random", machine::attacker::attack),
    ("follow-honestly", machine::follow_honestly),
    ("serve-nonsense", machine::attacker::serve_nonsense),
    ("hoard-payloads", large_payloads::hoard),
    ("disturb-the-shared-queue", shared_queue::disturb),
    ("drop-beside-a-child", fork::drop_beside_a_child),
    ("publish-and-end", fork::publish_and_end),
    ("publish-until-killed", fork::publish_until_killed),
    ("publish-without-descriptors", joins::publish_without_descriptors),
    ("look-in-a-child", fork::look_in_a_child),
    ("serve-for-forks", fork::serve),
    ("wait-beside-a-child", fork::wait_beside_a_child),
    ("without-passrights", descriptors::without_passrights),
    ("launch", invited::launch),
    ("change-directory", path::change_directory),
    ("with-1024-files", places::with_1024_files),
];

#[test]
fn role() {
    let Some((role, socket, number)) = play() else { return };
    let (_, run) =
        ROLES.iter().find(|(name, _)| *name == role).unwrap_or_else(|| panic!("unknown role {role}"));
    run(&socket, number);
}

/// All text of the sources below this folder.
fn sources(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let text = entries.map(|path| match path.is_dir() {
        true => sources(&path),
        false if path.extension().is_some_and(|end| end == "rs") => std::fs::read_to_string(&path).unwrap(),
        false => String::new(),
    });
    text.collect()
}

/// The table says which test holds what was once shown: one that is renamed or removed is missed here.
#[test]
fn every_test_that_the_document_names_exists() {
    let document = include_str!("../../../../docs/causeway.md");
    let (_, table) = document.split_once("## What neighbours once did").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows: Vec<_> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 20, "{} rows", rows.len());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = ["src", "tests", "../causeway-cli/src"].map(|part| sources(&folder.join(part))).concat();
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
fn public_folder() -> (tempfile::TempDir, PathBuf) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let dir = tempfile::Builder::new().permissions(mode).tempdir().unwrap();
    let socket = dir.path().join("group");
    (dir, socket)
}

/// Makes this thread, and the threads that it starts, those of another user, if it may.
fn become_another_user() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("only root can pose as another user: this attacker has the user of the test");
    }
    let user = Uid::from_raw(4242);
    rustix::thread::set_thread_res_uid(user, user, user).unwrap();
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
    let Received::Message(message) = subscriber.try_recv().unwrap() else { panic!("no message") };
    assert_eq!(message.bytes, b"get up");
}
