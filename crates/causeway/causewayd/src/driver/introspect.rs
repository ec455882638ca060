//! The driver's description of itself.

use std::fmt::Write;

use causeway_dbus_wire::introspection::{Objects, document};
use causeway_dbus_wire::wire::{Body, signature};

use super::request::{Answer, Request};
use super::{METHODS, properties};
use crate::bus::{Bus, DRIVER, DRIVER_PATH};

const SIGNALS: &[(&str, &str)] = &[("NameOwnerChanged", "sss"), ("NameLost", "s"), ("NameAcquired", "s")];

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
            for (name, _) in properties::ALL {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_is_xml_with_every_method_once() {
        let text = own();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&text, options).unwrap();
        let methods = document.descendants().filter(|node| node.has_tag_name("method")).count();
        assert_eq!(methods, METHODS.len());
        let mut interfaces: Vec<_> = document
            .descendants()
            .filter(|node| node.has_tag_name("interface"))
            .filter_map(|node| node.attribute("name"))
            .collect();
        let count = interfaces.len();
        interfaces.sort_unstable();
        interfaces.dedup();
        assert_eq!(interfaces.len(), count);
    }

    #[test]
    fn the_driver_is_found_from_the_root() {
        assert!(at("/").contains("name=\"org\"") && at("/org").contains("name=\"freedesktop\""));
        assert!(at("/org/freedesktop").contains("name=\"DBus\"") && !at("/or").contains("name="));
        assert!(!at("/org/freedesktop/DBus/x").contains("name="));
    }
}
