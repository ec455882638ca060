//! The driver's description of itself.

use std::fmt::Write;

use weighbridge_dbus::wire::{Body, signature};

use super::request::{Answer, Request};
use super::{METHODS, properties};
use crate::bus::{Bus, DRIVER, DRIVER_PATH};

const DOCTYPE: &str = "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n\
    \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n";
const SIGNALS: &[(&str, &str)] = &[("NameOwnerChanged", "sss"), ("NameLost", "s"), ("NameAcquired", "s")];

pub fn introspect(_: &mut Bus, request: Request<'_>) -> Answer {
    let text = match request.letter.header.path {
        Some(DRIVER_PATH) => own(),
        // Above the driver's object there is the way to it.
        Some(path) => child(path),
        None => child("/"),
    };
    Ok(Some(Body::default().text(&text)))
}

/// The object at a path above that of the driver, with the next step towards it. Other objects have no children.
fn child(path: &str) -> String {
    let rest = DRIVER_PATH.strip_prefix(path.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
    let step = rest.and_then(|rest| rest.split('/').next()).filter(|step| !step.is_empty());
    let node = step.map(|step| format!("  <node name=\"{step}\"/>\n")).unwrap_or_default();
    format!("{DOCTYPE}<node>\n{node}</node>\n")
}

/// The description of the driver's object.
pub fn own() -> String {
    let mut out = format!("{DOCTYPE}<node>\n");
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
    out.push_str("</node>\n");
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
        assert!(child("/").contains("name=\"org\"") && child("/org").contains("name=\"freedesktop\""));
        assert!(child("/org/freedesktop").contains("name=\"DBus\"") && !child("/or").contains("name="));
        assert!(!child("/org/freedesktop/DBus/x").contains("name="));
    }
}
