//! The methods about services that are started, and about settings.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

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
    check_environment(&bus.environment, &pairs)?;
    // Both have it or none.
    let told = bus.tell_systemd_environment(&pairs);
    told.map_err(|limit| Refusal(error::LIMITS_EXCEEDED, limit.to_string()))?;
    bus.environment.extend(pairs.iter().map(|(name, value)| (name.into(), value.into())));
    Ok(Some(Body::default()))
}

/// Most variables that services are given, and most bytes of their names and values. All are copied for each program that is started; the
/// kernel starts none with more than twice these bytes.
const VARIABLES_MAX: usize = 4096;
const VARIABLE_BYTES_MAX: usize = 1 << 20;

/// May these variables be added to those that there are?
fn check_environment(now: &BTreeMap<OsString, OsString>, pairs: &[(&str, &str)]) -> Result<(), Refusal> {
    let allow = |what: &str, wanted: usize, most: usize| match wanted > most {
        true => {
            let why = format!("the environment of services would have {wanted} {what}, of at most {most}");
            refused(error::LIMITS_EXCEEDED, why)
        }
        false => Ok(()),
    };
    allow("variables", pairs.len(), VARIABLES_MAX)?;
    let size = |(name, value): (&OsStr, &OsStr)| name.len() + value.len();
    let added: BTreeMap<&OsStr, &OsStr> =
        pairs.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
    let kept =
        || now.iter().map(|(name, value)| (&**name, &**value)).filter(|(name, _)| !added.contains_key(name));
    allow("variables", kept().count() + added.len(), VARIABLES_MAX)?;
    let bytes: usize = kept().chain(added.iter().map(|(name, value)| (*name, *value))).map(size).sum();
    allow("bytes", bytes, VARIABLE_BYTES_MAX)
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
