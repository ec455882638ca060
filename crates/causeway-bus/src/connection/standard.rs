//! `org.freedesktop.DBus.Peer`, which a connection answers for all its objects, whatever the program has.

use causeway_os::machine_id;
use weighbridge_dbus::wire::{Body, Header};

use crate::error::name;

/// What this library answers to a call of that interface; `None` for calls of others, which are the program's.
pub(crate) fn answer(call: &Header<'_>) -> Option<Result<Body, (&'static str, &'static str)>> {
    if call.interface != Some("org.freedesktop.DBus.Peer") {
        return None;
    }
    Some(match call.member {
        Some("Ping") => Ok(Body::default()),
        Some("GetMachineId") => machine_id::machine_id()
            .map(|id| Body::default().text(&id))
            .ok_or((name::FAILED, "this machine has no id")),
        _ => Err((name::UNKNOWN_METHOD, "the interface has two methods: Ping and GetMachineId")),
    })
}
