//! What a process can do to a group that is hostile or merely unlucky, one file for each kind of harm.
//!
//! Attackers run as another user where the test has the right to become one (root), and say so where not.
#![cfg(not(loom))]
#![allow(clippy::print_stderr, reason = "a test says there why it is skipped")]

mod common;
#[path = "neighbours/descriptors.rs"]
mod descriptors;
#[path = "neighbours/support.rs"]
mod support;

use std::path::Path;

/// The processes that a test starts, by name.
const ROLES: &[(&str, fn(&Path, u64))] = &[("without-passrights", descriptors::without_passrights)];

#[test]
fn role() {
    let Some((role, socket, number)) = common::play() else { return };
    let (_, run) =
        ROLES.iter().find(|(name, _)| *name == role).unwrap_or_else(|| panic!("unknown role {role}"));
    run(&socket, number);
}
