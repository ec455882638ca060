//! The methods about services that are started, and about settings.

use causeway_dbus_wire::wire::Body;

use super::request::{Answer, Refusal, Request, refused};
use crate::activation::{Waiting, Wants};
use crate::bus::Bus;
use crate::error;

pub fn list_activatable_names(bus: &mut Bus, request: Request<'_>) -> Answer {
    let waiting = hold(bus, request)?;
    bus.list_services(waiting);
    Ok(None)
}

pub fn start_service_by_name(bus: &mut Bus, request: Request<'_>) -> Answer {
    bus.wait_for_service(request.from, request.text(0), request.routed, Wants::Start);
    Ok(None)
}

pub fn update_environment(bus: &mut Bus, request: Request<'_>) -> Answer {
    let texts = request.texts();
    let pairs: Vec<(&str, &str)> = texts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    if let Some((name, _)) = pairs.iter().find(|(name, _)| name.is_empty() || name.contains('=')) {
        return refused(error::INVALID_ARGS, format!("invalid variable name `{name}`"));
    }
    // Both have it or none.
    let told = bus.tell_systemd_environment(&pairs);
    told.map_err(|limit| Refusal(error::LIMITS_EXCEEDED, limit.to_string()))?;
    bus.environment.extend(pairs.iter().map(|(name, value)| (name.into(), value.into())));
    Ok(Some(Body::default()))
}

/// Open to all whom the policy lets call it, as with dbus-daemon, whose files restrict nobody: whatever reads its files again has the
/// same settings as before. What that costs is bounded: a thread reads, once for all who ask meanwhile.
pub fn reload_config(bus: &mut Bus, request: Request<'_>) -> Answer {
    let waiting = hold(bus, request)?;
    bus.reload(Some(waiting));
    Ok(None)
}

/// Lets a call wait for files to be read.
fn hold(bus: &mut Bus, request: Request<'_>) -> Result<Waiting, Refusal> {
    let held = bus.hold_call(request.from, request.routed);
    held.map_err(|limit| Refusal(error::LIMITS_EXCEEDED, limit.to_string()))
}
