//! The driver's description of itself, and its properties.

use std::fmt::Write;

use causeway_dbus_wire::introspection::{Objects, document};
use causeway_dbus_wire::wire::{Body, Marshal, names, signature};

use super::request::{Answer, Refusal, Request, refused};
use super::{METHODS, MONITORING, STATS};
use crate::bus::{Bus, DRIVER, DRIVER_PATH};
use crate::error;

const SIGNALS: &[(&str, &str)] = &[("NameOwnerChanged", "sss"), ("NameLost", "s"), ("NameAcquired", "s")];

/// All properties of the interface `org.freedesktop.DBus`, each an `as`: what this bus does beyond the oldest specification, and
/// interfaces of the driver beyond those of every bus.
const PROPERTIES: &[(&str, &[&str])] =
    &[("Features", &["HeaderFiltering", SYSTEMD_ACTIVATION]), ("Interfaces", &[MONITORING, STATS])];

/// A feature of a bus that was told so.
const SYSTEMD_ACTIVATION: &str = "SystemdActivation";

/// Those of these values that this bus has.
fn here<'a>(bus: &Bus, values: &'a [&'static str]) -> impl Iterator<Item = &'static str> + use<'a> {
    let has_systemd_activation = bus.has_systemd_activation;
    values.iter().copied().filter(move |value| has_systemd_activation || *value != SYSTEMD_ACTIVATION)
}

pub fn introspect(_: &mut Bus, request: Request<'_>) -> Answer {
    Ok(Some(Body::default().text(&at(request.routed.header.path.unwrap_or("/")))))
}

/// The object at a path. Those that are not on the way to that of the driver are empty: its methods can be called on any path.
fn at(path: &str) -> String {
    let mut objects = Objects::default();
    objects.insert(DRIVER_PATH, &interfaces());
    objects.document(path, "").unwrap_or_else(|| document(&[], []))
}

/// The description of the driver's object.
pub fn own() -> String {
    at(DRIVER_PATH)
}

fn interfaces() -> String {
    let mut out = String::new();
    let mut interfaces: Vec<&str> = METHODS.iter().map(|method| method.interface).collect();
    interfaces.dedup();
    for interface in interfaces {
        let _ = writeln!(out, "  <interface name=\"{interface}\">");
        for method in METHODS.iter().filter(|method| method.interface == interface) {
            let _ = writeln!(out, "    <method name=\"{}\">", method.member);
            for (direction, types) in [("in", method.input), ("out", method.output)] {
                for one in signature::types(types) {
                    let _ = writeln!(out, "      <arg direction=\"{direction}\" type=\"{one}\"/>");
                }
            }
            out.push_str("    </method>\n");
        }
        if interface == DRIVER {
            for (name, _) in PROPERTIES {
                let _ = writeln!(out, "    <property name=\"{name}\" type=\"as\" access=\"read\">");
                out.push_str("      <annotation name=\"org.freedesktop.DBus.Property.EmitsChangedSignal\" value=\"const\"/>\n");
                out.push_str("    </property>\n");
            }
            for (name, types) in SIGNALS {
                let _ = writeln!(out, "    <signal name=\"{name}\">");
                for one in signature::types(types) {
                    let _ = writeln!(out, "      <arg type=\"{one}\"/>");
                }
                out.push_str("    </signal>\n");
            }
        }
        out.push_str("  </interface>\n");
    }
    out
}

fn of_interface(interface: &str) -> Result<&'static [(&'static str, &'static [&'static str])], Refusal> {
    // No interface is any of them.
    if interface.is_empty() || interface == DRIVER {
        return Ok(PROPERTIES);
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

pub fn get(bus: &mut Bus, request: Request<'_>) -> Answer {
    let value = one(request.text(0), request.text(1))?;
    let mut out = Marshal::default();
    out.signature("as");
    out.texts(here(bus, value));
    Ok(Some(out.into_body("v")))
}

pub fn get_all(bus: &mut Bus, request: Request<'_>) -> Answer {
    let all = of_interface(request.text(0))?;
    let mut out = Marshal::default();
    out.array(8, |out| {
        for (name, value) in all {
            out.entry(name, "as", |out| out.texts(here(bus, value)));
        }
    });
    Ok(Some(out.into_body("a{sv}")))
}

pub fn set(_: &mut Bus, request: Request<'_>) -> Answer {
    let name = request.text(1);
    one(request.text(0), name)?;
    refused(error::PROPERTY_READ_ONLY, format!("{name} is read-only"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_xml_with_every_method_and_interface_once() {
        let text = own();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&text, options).unwrap();
        let elements = |tag| document.descendants().filter(move |node| node.has_tag_name(tag));
        assert_eq!(elements("method").count(), METHODS.len());
        let interfaces = elements("interface").filter_map(|node| node.attribute("name"));
        let distinct: std::collections::BTreeSet<&str> = interfaces.clone().collect();
        assert_eq!(interfaces.count(), distinct.len());
    }

    #[test]
    fn the_driver_is_found_from_the_root() {
        assert!(at("/").contains("name=\"org\"") && at("/org").contains("name=\"freedesktop\""));
        assert!(at("/org/freedesktop").contains("name=\"DBus\"") && !at("/or").contains("name="));
        assert!(!at("/org/freedesktop/DBus/x").contains("name="));
    }
}
