//! What programs that use the library rely on.
//!
//! Most tests need other processes: this program again, in a role.
#![cfg(not(loom))]
#![allow(clippy::print_stderr, reason = "a test prints its seed, and what it counted")]

#[macro_use]
extern crate causeway_testkit;

#[cfg(feature = "tokio")]
mod asynchronous;
mod call;
#[cfg(feature = "tokio")]
mod call_async;
mod clocks;
mod common;
mod death;
mod disconnect;
mod document;
#[cfg(feature = "tokio")]
mod ends;
mod epochs;
mod errors;
mod exhaustion;
mod formats;
mod fuzz;
mod group;
mod idle;
mod in_place;
mod keep;
mod kill;
mod large;
mod many;
mod neighbors;
mod order;
mod reference;
mod space;
mod threads;
#[cfg(feature = "zerocopy")]
mod typed;
mod waiting;

/// What this program does where a test has started it as another process.
#[test]
fn role() {
    let Some((role, socket, number)) = causeway_testkit::play() else { return };
    let roles = [
        call::ROLES,
        clocks::ROLES,
        death::ROLES,
        disconnect::ROLES,
        epochs::ROLES,
        errors::ROLES,
        exhaustion::ROLES,
        formats::ROLES,
        idle::ROLES,
        kill::ROLES,
        kill::asleep::ROLES,
        large::ROLES,
        many::ROLES,
        neighbors::ROLES,
        order::ROLES,
        #[cfg(feature = "zerocopy")]
        typed::ROLES,
    ];
    let found = roles.concat().into_iter().find(|(name, _)| *name == role);
    let (_, run) = found.unwrap_or_else(|| panic!("unknown role {role}"));
    run(&socket, number);
}
