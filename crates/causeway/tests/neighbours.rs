//! What a process can do to a group that is hostile or merely unlucky, one file for each kind of harm.
//!
//! Attackers run as another user where the test has the right to become one (root), and say so where not.
#![cfg(not(loom))]
#![allow(clippy::print_stderr, reason = "a test says there why it is skipped")]

mod common;
#[path = "neighbours/descriptors.rs"]
mod descriptors;
#[path = "neighbours/invited.rs"]
mod invited;
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
#[path = "neighbours/support.rs"]
mod support;
#[path = "neighbours/threads.rs"]
mod threads;

use std::path::Path;

/// What a process of a test does, with a path and a number.
type Role = fn(&Path, u64);

/// The processes that tests start, by name.
const ROLES: &[(&str, Role)] = &[
    ("without-passrights", descriptors::without_passrights),
    ("launch", invited::launch),
    ("change-directory", path::change_directory),
    ("with-1024-files", places::with_1024_files),
];

#[test]
fn role() {
    let Some((role, socket, number)) = common::play() else { return };
    let (_, run) =
        ROLES.iter().find(|(name, _)| *name == role).unwrap_or_else(|| panic!("unknown role {role}"));
    run(&socket, number);
}
