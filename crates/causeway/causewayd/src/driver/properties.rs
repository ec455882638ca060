//! The properties of the driver.

use causeway_dbus_wire::wire::{Marshal, names};

use super::request::{Answer, MONITORING, Refusal, Request, STATS, refused};
use crate::bus::{Bus, DRIVER};
use crate::error;

/// What this bus does beyond the oldest specification.
const FEATURES: &[&str] = &["HeaderFiltering"];
/// Interfaces of the driver beyond those of every bus.
const INTERFACES: &[&str] = &[MONITORING, STATS];
/// All properties of the interface `org.freedesktop.DBus`, each an `as`.
pub(super) const ALL: &[(&str, &[&str])] = &[("Features", FEATURES), ("Interfaces", INTERFACES)];

fn of_interface(interface: &str) -> Result<&'static [(&'static str, &'static [&'static str])], Refusal> {
    // No interface is any of them.
    if interface.is_empty() || interface == DRIVER {
        return Ok(ALL);
    }
    let why = if names::is_interface(interface) {
        format!("the interface {interface} has no properties")
    } else {
        format!("invalid interface name `{interface}`")
    };
    refused(error::UNKNOWN_INTERFACE, why)
}

fn one(interface: &str, name: &str) -> Result<&'static [&'static str], Refusal> {
    match of_interface(interface)?.iter().find(|(known, _)| *known == name) {
        Some((_, value)) => Ok(value),
        None => refused(error::UNKNOWN_PROPERTY, format!("unknown property {name}")),
    }
}

pub fn get(_: &mut Bus, request: Request<'_>) -> Answer {
    let value = one(request.text(0), request.text(1))?;
    let mut out = Marshal::default();
    out.signature("as");
    out.texts(value.iter().copied());
    Ok(Some(out.into_body("v")))
}

pub fn get_all(_: &mut Bus, request: Request<'_>) -> Answer {
    let all = of_interface(request.text(0))?;
    let mut out = Marshal::default();
    out.array(8, |out| {
        for (name, value) in all {
            out.entry(name, "as", |out| out.texts(value.iter().copied()));
        }
    });
    Ok(Some(out.into_body("a{sv}")))
}

pub fn set(_: &mut Bus, request: Request<'_>) -> Answer {
    let name = request.text(1);
    one(request.text(0), name)?;
    refused(error::PROPERTY_READ_ONLY, format!("{name} is read-only"))
}
