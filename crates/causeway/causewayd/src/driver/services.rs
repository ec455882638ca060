//! The methods about services that are started, and about settings.

use causeway_dbus_wire::wire::Body;

use super::request::{Answer, Request, refused};
use crate::bus::{Bus, DRIVER};
use crate::error;

/// The answer where the service is there already.
const ALREADY_RUNNING: u32 = 2;

pub fn list_activatable_names(bus: &mut Bus, _: Request<'_>) -> Answer {
    let names: Vec<&str> = std::iter::once(DRIVER).chain(bus.service_names()).collect();
    Ok(Some(Body::default().texts(&names)))
}

pub fn start_service_by_name(bus: &mut Bus, request: Request<'_>) -> Answer {
    let name = request.text(0);
    // Only a name that a file provides is a service's, even if a connection owns it.
    if bus.resolve(name).is_some() && bus.is_service(name) {
        return Ok(Some(Body::default().u32(ALREADY_RUNNING)));
    }
    bus.wait_for_service(request.from, name, request.routed, true);
    Ok(None)
}

pub fn update_environment(bus: &mut Bus, request: Request<'_>) -> Answer {
    let texts = request.texts();
    let pairs: Vec<(&str, &str)> = texts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    if let Some((name, _)) = pairs.iter().find(|(name, _)| name.is_empty() || name.contains('=')) {
        return refused(error::INVALID_ARGS, format!("invalid variable name `{name}`"));
    }
    bus.environment.extend(pairs.into_iter().map(|(name, value)| (name.into(), value.into())));
    Ok(Some(Body::default()))
}

pub fn reload_config(bus: &mut Bus, _: Request<'_>) -> Answer {
    match bus.reload() {
        Ok(()) => Ok(Some(Body::default())),
        Err(why) => refused(error::FAILED, why),
    }
}
