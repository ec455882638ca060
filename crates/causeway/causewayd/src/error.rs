//! Names of errors. Source: D-Bus Specification and the reference implementation.

pub use causeway_bus::name::{
    FAILED, INVALID_ARGS, LIMITS_EXCEEDED, MATCH_RULE_INVALID, MATCH_RULE_NOT_FOUND, NAME_HAS_NO_OWNER,
    NO_REPLY, SERVICE_UNKNOWN, UNKNOWN_METHOD,
};

pub const ACCESS_DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";
pub const ADT_AUDIT_DATA_UNKNOWN: &str = "org.freedesktop.DBus.Error.AdtAuditDataUnknown";
pub const NOT_SUPPORTED: &str = "org.freedesktop.DBus.Error.NotSupported";
pub const PROPERTY_READ_ONLY: &str = "org.freedesktop.DBus.Error.PropertyReadOnly";
pub const SELINUX_CONTEXT_UNKNOWN: &str = "org.freedesktop.DBus.Error.SELinuxSecurityContextUnknown";
pub const SPAWN_CHILD_EXITED: &str = "org.freedesktop.DBus.Error.Spawn.ChildExited";
pub const SPAWN_CHILD_SIGNALED: &str = "org.freedesktop.DBus.Error.Spawn.ChildSignaled";
pub const SPAWN_EXEC_FAILED: &str = "org.freedesktop.DBus.Error.Spawn.ExecFailed";
pub const SPAWN_PERMISSIONS_INVALID: &str = "org.freedesktop.DBus.Error.Spawn.PermissionsInvalid";
pub const TIMED_OUT: &str = "org.freedesktop.DBus.Error.TimedOut";
pub const UNKNOWN_INTERFACE: &str = "org.freedesktop.DBus.Error.UnknownInterface";
pub const UNKNOWN_PROPERTY: &str = "org.freedesktop.DBus.Error.UnknownProperty";
pub const UNIX_PROCESS_ID_UNKNOWN: &str = "org.freedesktop.DBus.Error.UnixProcessIdUnknown";
