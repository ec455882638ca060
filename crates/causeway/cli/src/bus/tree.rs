//! `tree`: the objects of a service, as it describes them.

use std::io::{self, Write};
use std::time::Duration;

use causeway_bus::client::Bus;
use causeway_bus::wire::{Args, Body, names};
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::json;

use super::client::{Method, check_service, within};
use super::which::Place;
use crate::failure::Failure;

/// A service that says that it has more is not believed.
const MOST_OBJECTS: usize = 10_000;
/// Objects below each other.
const MOST_DEPTH: usize = 64;

struct Object {
    path: String,
    interfaces: Vec<serde_json::Value>,
    children: Vec<Object>,
}

/// Prints the objects of a service.
pub fn tree(place: &Place, service: &str, timeout: Duration, json: bool) -> Result<(), Failure> {
    check_service(service)?;
    let place = place.clone();
    let bus = within(Some(timeout), move || place.open())?;
    let mut asking = Asking { bus, service, timeout, objects: 0 };
    let root = asking.object("/".to_owned(), 0).map_err(|why| undescribed(service, why))?;
    if asking.objects >= MOST_OBJECTS {
        eprintln!(
            "causeway: {service} says that it has more than {MOST_OBJECTS} objects; the rest is left out"
        );
    }
    let mut out = io::stdout().lock();
    if json {
        let mut all = Vec::new();
        flatten(&root, &mut all);
        writeln!(out, "{}", serde_json::Value::from(all))?;
        return Ok(());
    }
    writeln!(out, "{}", root.path)?;
    branches(&mut out, &root, "")?;
    Ok(())
}

/// Why there is no tree: a service that has no description says only that it lacks the method.
fn undescribed(service: &str, why: Failure) -> Failure {
    match why.error_name() {
        Some(
            "org.freedesktop.DBus.Error.UnknownMethod"
            | "org.freedesktop.DBus.Error.UnknownInterface"
            | "org.freedesktop.DBus.Error.UnknownObject",
        ) => Failure::Usage(format!(
            "{service} does not describe its object /, which org.freedesktop.DBus.Introspectable would do ({why})"
        )),
        _ => why,
    }
}

struct Asking<'a> {
    bus: Bus,
    service: &'a str,
    timeout: Duration,
    objects: usize,
}

impl Asking<'_> {
    fn object(&mut self, path: String, depth: usize) -> Result<Object, Failure> {
        self.objects += 1;
        let method = Method::new(self.service, &path, "org.freedesktop.DBus.Introspectable", "Introspect")?;
        let reply = method.call(&mut self.bus, Body::default(), self.timeout)?;
        let text = Args::of(&reply).first_text().unwrap_or_default();
        // Descriptions begin with a document type.
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options).map_err(|error| {
            Failure::Usage(format!(
                "{} describes its object {path} in a way that is not XML: {error}",
                self.service
            ))
        })?;
        let root = document.root_element();
        let interfaces = elements(root, "interface").map(interface).collect();
        let mut children = Vec::new();
        for child in elements(root, "node").filter_map(|node| node.attribute("name")) {
            let below = format!("{}/{child}", path.trim_end_matches('/'));
            if depth >= MOST_DEPTH || self.objects >= MOST_OBJECTS || !names::is_path(&below) {
                continue;
            }
            match self.object(below, depth + 1) {
                Ok(object) => children.push(object),
                Err(why) => eprintln!("causeway: {why}"),
            }
        }
        Ok(Object { path, interfaces, children })
    }
}

fn elements<'a, 'input: 'a>(
    node: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(move |child| child.has_tag_name(name))
}

fn interface(node: Node<'_, '_>) -> serde_json::Value {
    let name = |node: Node<'_, '_>| node.attribute("name").unwrap_or_default().to_owned();
    let types = |node: Node<'_, '_>, direction: Option<&str>, default: &str| -> String {
        elements(node, "arg")
            .filter(|arg| {
                direction.is_none_or(|wanted| arg.attribute("direction").unwrap_or(default) == wanted)
            })
            .filter_map(|arg| arg.attribute("type"))
            .collect()
    };
    let methods: Vec<_> = elements(node, "method")
        .map(|method| json!({ "name": name(method), "in": types(method, Some("in"), "in"), "out": types(method, Some("out"), "in") }))
        .collect();
    let signals: Vec<_> = elements(node, "signal")
        .map(|signal| json!({ "name": name(signal), "type": types(signal, None, "out") }))
        .collect();
    let properties: Vec<_> = elements(node, "property")
        .map(|property| json!({ "name": name(property), "type": property.attribute("type"), "access": property.attribute("access") }))
        .collect();
    json!({ "name": name(node), "methods": methods, "signals": signals, "properties": properties })
}

fn flatten(object: &Object, all: &mut Vec<serde_json::Value>) {
    all.push(json!({ "path": object.path, "interfaces": object.interfaces }));
    object.children.iter().for_each(|child| flatten(child, all));
}

fn branches(out: &mut impl Write, object: &Object, indent: &str) -> io::Result<()> {
    for (index, child) in object.children.iter().enumerate() {
        let is_last = index + 1 == object.children.len();
        let (branch, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        writeln!(out, "{indent}{branch}{}", child.path)?;
        branches(out, child, &format!("{indent}{below}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_without_a_description_is_told_from_other_failures() {
        let why = |name: &str| {
            let name = format!("org.freedesktop.DBus.Error.{name}");
            let error = causeway_bus::Error::Method { name, message: "the clock has one method".into() };
            undescribed("com.example.Clock", error.into()).to_string()
        };
        let missing = why("UnknownMethod");
        assert!(missing.starts_with("com.example.Clock does not describe its object /"), "{missing}");
        assert!(missing.contains("one method"), "{missing}");
        assert!(!why("NoReply").contains("does not describe"));
    }
}
