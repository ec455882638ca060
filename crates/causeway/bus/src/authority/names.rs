//! Names of connections and of the bus itself.

use crate::port::AUTHORITY_ID;

pub use causeway_dbus_wire::driver::{
    ALLOW_REPLACEMENT, DO_NOT_QUEUE, DRIVER, DRIVER_PATH, NameReply, REPLACE_EXISTING, ReleaseReply,
};

/// Interface of what libraries of members hear from the bus and from each other, and programs do not see.
pub const BUS_INTERFACE: &str = "causeway.Bus";
/// A signal to the caller of a method: its call (the serial) has no receiver that the caller knew, and goes to this member now (its unique
/// name). It comes before the call in the log, so that the caller knows whose end ends the call.
pub const PASSED_ON: &str = "PassedOn";

/// A signal from one member to another, after the end of the authority: the sender lacks the outbox of the other one, whose descriptor
/// nobody has any more, and has skipped a message. It will skip all others, too.
pub(crate) const UNREAD: &str = "Unread";

pub fn unique_name(id: u64) -> String {
    format!(":1.{id}")
}

/// The name by which messages name a sender: the bus itself has its well-known name only.
pub fn name_of(id: u64) -> String {
    if id == AUTHORITY_ID { DRIVER.into() } else { unique_name(id) }
}
