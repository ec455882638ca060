//! The driver of a bus: its name, its object, and the numbers with which it is asked for names and answers.
//!
//! Source: D-Bus Specification, `org.freedesktop.DBus.RequestName` and `ReleaseName`.

/// The name, and the interface, of the driver.
pub const DRIVER: &str = "org.freedesktop.DBus";
/// The object of the driver.
pub const DRIVER_PATH: &str = "/org/freedesktop/DBus";

/// Flag of a request for a name: another connection may take the name over (`DBUS_NAME_FLAG_ALLOW_REPLACEMENT`).
pub const ALLOW_REPLACEMENT: u32 = 1;
/// Flag of a request for a name: take the name over if its owner allows that (`DBUS_NAME_FLAG_REPLACE_EXISTING`).
pub const REPLACE_EXISTING: u32 = 2;
/// Flag of a request for a name: do not wait for the name (`DBUS_NAME_FLAG_DO_NOT_QUEUE`).
pub const DO_NOT_QUEUE: u32 = 4;

/// The answer to a request for a name; its numbers are those of the reply.
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

/// The answer to the release of a name; its numbers are those of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// The caller neither owns the name nor waits for it any more.
    Released = 1,
    /// Nobody had it.
    NonExistent = 2,
    /// Another connection has it.
    NotOwner = 3,
}
