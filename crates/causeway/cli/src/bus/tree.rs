//! `tree`: the objects of a service, as it describes them.

use std::io::{self, Write};
use std::time::Duration;

use causeway_bus::client::Bus;
use causeway_bus::wire::{Args, names};
use causeway_command_line::ascii;
use roxmltree::{Document, Node, ParsingOptions};
use serde_json::json;

use super::client::{call, check_service, within};
use super::which::Place;
use crate::failure::Failure;

/// A service that says that it has more is not believed.
const OBJECTS_MAX: usize = 10_000;
/// Objects below each other.
const DEPTH_MAX: usize = 64;

struct Object {
    path: String,
    interfaces: Vec<serde_json::Value>,
    children: Vec<Object>,
}

/// How objects are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All of it, for programs.
    Json,
    /// Lines with branches.
    Text,
    /// The same without a character that is not ASCII.
    Ascii,
}

impl Form {
    /// Text, in ASCII alone where that was typed, or by the locale.
    pub fn text(is_ascii: bool) -> Form {
        if ascii::is_wanted(is_ascii) { Form::Ascii } else { Form::Text }
    }
}

/// Prints the objects of a service.
pub fn tree(place: &Place, service: &str, timeout: Duration, form: Form) -> Result<(), Failure> {
    check_service(service)?;
    let place = place.clone();
    let bus = within(Some(timeout), move || place.open())?;
    let mut asking = Asking { bus, service, timeout, objects: 0 };
    let root = asking.object("/".to_owned(), 0).map_err(|why| undescribed(service, why))?;
    if asking.objects >= OBJECTS_MAX {
        eprintln!(
            "causeway: {service} says that it has more than {OBJECTS_MAX} objects; the rest is left out"
        );
    }
    let mut out = io::stdout().lock();
    if form == Form::Json {
        let mut all = Vec::new();
        flatten(&root, &mut all);
        writeln!(out, "{}", serde_json::Value::from(all))?;
        return Ok(());
    }
    writeln!(out, "{}", root.path)?;
    branches(&mut out, &root, "", form)?;
    Ok(())
}

/// Why there is no tree: a service that has no description says only that it lacks the method.
fn undescribed(service: &str, why: Failure) -> Failure {
    let Failure::Refused { name, .. } = &why else { return why };
    if !["UnknownMethod", "UnknownInterface", "UnknownObject"].iter().any(|error| name.ends_with(error)) {
        return why;
    }
    Failure::Failed(format!(
        "{service} does not describe its object /, which org.freedesktop.DBus.Introspectable would do ({why})"
    ))
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
        let ask = call(self.service, &path, "org.freedesktop.DBus.Introspectable", "Introspect")?;
        let reply = self.bus.call(&ask, self.timeout)?;
        let text = Args::of(&reply).first_text().unwrap_or_default();
        // Descriptions begin with a document type.
        let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
        let document = Document::parse_with_options(text, options).map_err(|error| {
            let service = self.service;
            Failure::Failed(format!(
                "{service} describes its object {path} in a way that is not XML: {error}"
            ))
        })?;
        let root = document.root_element();
        let interfaces = elements(root, "interface").map(interface).collect();
        let mut children = Vec::new();
        for child in elements(root, "node").filter_map(|node| node.attribute("name")) {
            let below = format!("{}/{child}", path.trim_end_matches('/'));
            if depth >= DEPTH_MAX || self.objects >= OBJECTS_MAX || !names::is_path(&below) {
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
    // An argument of a method goes in where nothing is said.
    let types = |node: Node<'_, '_>, wanted: Option<&str>| -> String {
        let is_wanted =
            |arg: &Node<'_, '_>| wanted.is_none_or(|to| arg.attribute("direction").unwrap_or("in") == to);
        elements(node, "arg").filter(is_wanted).filter_map(|arg| arg.attribute("type")).collect()
    };
    let methods = elements(node, "method").map(
        |one| json!({ "name": name(one), "in": types(one, Some("in")), "out": types(one, Some("out")) }),
    );
    let signals = elements(node, "signal").map(|one| json!({ "name": name(one), "type": types(one, None) }));
    let properties = elements(node, "property").map(
        |one| json!({ "name": name(one), "type": one.attribute("type"), "access": one.attribute("access") }),
    );
    json!({
        "name": name(node), "methods": methods.collect::<Vec<_>>(), "signals": signals.collect::<Vec<_>>(),
        "properties": properties.collect::<Vec<_>>(),
    })
}

fn flatten(object: &Object, all: &mut Vec<serde_json::Value>) {
    all.push(json!({ "path": object.path, "interfaces": object.interfaces }));
    object.children.iter().for_each(|child| flatten(child, all));
}

fn branches(out: &mut impl Write, object: &Object, indent: &str, form: Form) -> io::Result<()> {
    for (index, child) in object.children.iter().enumerate() {
        let is_last = index + 1 == object.children.len();
        let (branch, below) = match (form, is_last) {
            (Form::Ascii, true) => ("`- ", "   "),
            (Form::Ascii, false) => ("|- ", "|  "),
            (_, true) => ("└─ ", "   "),
            (_, false) => ("├─ ", "│  "),
        };
        writeln!(out, "{indent}{branch}{}", child.path)?;
        branches(out, child, &format!("{indent}{below}"), form)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_in_ascii_has_no_other_characters() {
        let leaf = |path: &str| Object { path: path.into(), interfaces: Vec::new(), children: Vec::new() };
        let root = Object {
            children: vec![Object { children: vec![leaf("/a/b")], ..leaf("/a") }, leaf("/c")],
            ..leaf("/")
        };
        let shown = |form| {
            let mut out = Vec::new();
            branches(&mut out, &root, "", form).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(Form::Ascii), "|- /a\n|  `- /a/b\n`- /c\n");
        assert_eq!(shown(Form::Text), "├─ /a\n│  └─ /a/b\n└─ /c\n");
    }

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
