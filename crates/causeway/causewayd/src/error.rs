//! Names of errors. Source: D-Bus Specification and the reference implementation.

macro_rules! errors {
    ($($constant:ident = $name:literal;)*) => {
        $(#[doc = concat!("`org.freedesktop.DBus.Error.", $name, "`")]
        pub const $constant: &str = concat!("org.freedesktop.DBus.Error.", $name);)*
    };
}

errors! {
    ACCESS_DENIED = "AccessDenied";
    ADT_AUDIT_DATA_UNKNOWN = "AdtAuditDataUnknown";
    FAILED = "Failed";
    INVALID_ARGS = "InvalidArgs";
    LIMITS_EXCEEDED = "LimitsExceeded";
    MATCH_RULE_INVALID = "MatchRuleInvalid";
    MATCH_RULE_NOT_FOUND = "MatchRuleNotFound";
    NAME_HAS_NO_OWNER = "NameHasNoOwner";
    NO_REPLY = "NoReply";
    NOT_SUPPORTED = "NotSupported";
    PROPERTY_READ_ONLY = "PropertyReadOnly";
    SELINUX_CONTEXT_UNKNOWN = "SELinuxSecurityContextUnknown";
    SERVICE_UNKNOWN = "ServiceUnknown";
    SPAWN_CHILD_EXITED = "Spawn.ChildExited";
    SPAWN_CHILD_SIGNALED = "Spawn.ChildSignaled";
    SPAWN_EXEC_FAILED = "Spawn.ExecFailed";
    SPAWN_PERMISSIONS_INVALID = "Spawn.PermissionsInvalid";
    TIMED_OUT = "TimedOut";
    UNKNOWN_INTERFACE = "UnknownInterface";
    UNKNOWN_METHOD = "UnknownMethod";
    UNKNOWN_PROPERTY = "UnknownProperty";
    UNIX_PROCESS_ID_UNKNOWN = "UnixProcessIdUnknown";
}
