//! The exam, of buses and connections that have one fault and of the brokers that are installed.
#![allow(clippy::print_stdout, reason = "a test prints what it examined")]

#[macro_use]
extern crate causeway_testkit;

mod faults;
mod link;
mod real;
mod shim;

use std::time::Duration;

use causeway_testkit::{Cause, skipped};
use weighbridge_dbus_client::brokers::{Broker, Error, Limits, Program};
use weighbridge_dbus_exam::{MATCH_RULES, QUEUED_BYTES};

/// How much longer a test may take for each examination, which waits for what must not come and is repeated.
const EXAMINATION: Duration = Duration::from_secs(20);

/// A broker with the limits of an examination; `None`, with the skip printed, where it is not installed.
fn start(program: Program) -> Option<Broker> {
    match Broker::start(
        program,
        &Limits { queued_bytes: QUEUED_BYTES, match_rules: MATCH_RULES, ..Limits::default() },
    ) {
        Err(Error::Missing(_)) => {
            skipped(Cause::Missing(program.name()), program.package());
            None
        }
        started => Some(started.unwrap()),
    }
}
