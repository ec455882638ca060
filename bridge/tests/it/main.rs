//! What users of a bridge rely on. A router of Zenoh runs between the hosts: an unmodified zenohd where there is one (on PATH, or where
//! `CAUSEWAY_ZENOHD` says), otherwise this program's own, which is the same library. Hosts are folders; those of `namespaces.rs` are
//! network namespaces.
#![allow(clippy::print_stderr, reason = "a test prints what it counted")]

#[macro_use]
extern crate causeway_testkit;

mod groups;
mod hostile;
mod names;
mod namespaces;
mod pod;
mod python;
mod restarts;
mod support;
mod tls;
