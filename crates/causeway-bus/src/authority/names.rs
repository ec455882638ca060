//! Names of connections and of the bus itself, and the numbers with which D-Bus answers requests for names.

use crate::port::AUTHORITY_ID;

pub use weighbridge_dbus::bus::DRIVER;

/// Object of the bus itself.
pub const DRIVER_PATH: &str = "/org/freedesktop/DBus";

/// Flag of a request for a name: another connection may take the name over.
pub const ALLOW_REPLACEMENT: u32 = 1;
/// Flag of a request for a name: take the name over if its owner allows that.
pub const REPLACE_EXISTING: u32 = 2;
/// Flag of a request for a name: do not wait for the name.
pub const DO_NOT_QUEUE: u32 = 4;

/// The answer to a request for a name, as D-Bus numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameReply {
    /// The caller owns the name now.
    PrimaryOwner = 1,
    /// The caller waits for the name.
    InQueue = 2,
    /// Another connection owns it, and the caller does not wait.
    Exists = 3,
    /// The caller owned it before.
    AlreadyOwner = 4,
}

/// The answer to the release of a name, as D-Bus numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// The caller neither owns the name nor waits for it any more.
    Released = 1,
    /// Nobody had it.
    NonExistent = 2,
    /// Another connection has it.
    NotOwner = 3,
}

/// The unique name of a number.
pub fn unique_name(id: u64) -> String {
    format!(":1.{id}")
}

/// The name by which messages name a sender: the bus itself has its well-known name only.
pub fn name_of(id: u64) -> String {
    if id == AUTHORITY_ID { DRIVER.into() } else { unique_name(id) }
}
