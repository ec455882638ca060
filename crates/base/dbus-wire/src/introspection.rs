//! What a service says of its objects: the documents that `org.freedesktop.DBus.Introspectable.Introspect` returns.
//!
//! Source of the format: the D-Bus Specification, section "Introspection Data Format".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const DOCTYPE: &str = "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n\
    \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n";

/// A property, as the description of its object says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property<'a> {
    /// The interface.
    pub interface: &'a str,
    /// Its name there.
    pub name: &'a str,
    /// Its type.
    pub types: &'a str,
    /// May others read it?
    pub is_readable: bool,
    /// May others set it?
    pub is_writable: bool,
    /// What its changes are said to be.
    pub changes: Changes,
}

/// What is said when a property changes: `org.freedesktop.DBus.Property.EmitsChangedSignal`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Changes {
    /// The new value.
    #[default]
    Value,
    /// That it is another one (`invalidates`).
    Invalidated,
    /// Nothing (`false`), or it has none (`const`).
    Silent,
}

/// The properties in elements `<interface>`, in their order.
pub fn properties(interfaces: &str) -> Vec<Property<'_>> {
    let (mut found, mut interface, mut of_interface, mut is_in_property) =
        (Vec::new(), "", Changes::default(), false);
    for tag in tags(interfaces) {
        let is = |name: &str| {
            tag.strip_prefix(name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        };
        let text = |name| attribute(tag, name).unwrap_or_default();
        if is("interface") {
            (interface, of_interface) = (text("name"), Changes::default());
        } else if is("property") {
            let access = text("access");
            is_in_property = !tag.ends_with('/');
            found.push(Property {
                interface,
                name: text("name"),
                types: text("type"),
                is_readable: access.starts_with("read"),
                is_writable: access.ends_with("write"),
                changes: of_interface,
            });
        } else if is("/property") {
            is_in_property = false;
        } else if is("annotation") && text("name") == "org.freedesktop.DBus.Property.EmitsChangedSignal" {
            let changes = match text("value") {
                "invalidates" => Changes::Invalidated,
                "false" | "const" => Changes::Silent,
                _ => Changes::Value,
            };
            match found.last_mut().filter(|_| is_in_property) {
                Some(property) => property.changes = changes,
                None => of_interface = changes,
            }
        }
    }
    found
}

/// What stands between `<` and `>`, comments left out.
fn tags(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let begin = rest.find('<')?;
            rest = &rest[begin + 1..];
            if let Some(comment) = rest.strip_prefix("!--") {
                rest = &comment[comment.find("-->")? + 3..];
                continue;
            }
            let mut quote = None;
            let end = rest.find(|c: char| match (quote, c) {
                (None, '>') => true,
                (None, '"' | '\'') => {
                    quote = Some(c);
                    false
                }
                (Some(open), c) if open == c => {
                    quote = None;
                    false
                }
                _ => false,
            })?;
            let tag = &rest[..end];
            rest = &rest[end + 1..];
            return Some(tag);
        }
    })
}

/// The value of an attribute in a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag;
    loop {
        let (before, after) = rest.split_once('=')?;
        let value = after.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let (value, behind) = value[1..].split_once(quote)?;
        if before.split_whitespace().last() == Some(name) {
            return Some(value);
        }
        rest = behind;
    }
}

/// Objects by their paths, each with its interfaces.
#[derive(Clone, Debug, Default)]
pub struct Objects(BTreeMap<String, String>);

impl Objects {
    /// Adds an object, or replaces its interfaces: elements `<interface>`, which are taken as they are.
    pub fn insert(&mut self, path: &str, interfaces: &str) {
        self.0.insert(path.to_owned(), interfaces.to_owned());
    }

    /// Is there no object?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The document of an object: the interfaces of all, its own, and the next steps to objects below; `None` if there is none.
    pub fn document(&self, path: &str, of_all: &str) -> Option<String> {
        let below = if path == "/" { path.to_owned() } else { format!("{path}/") };
        let steps = self.0.keys().filter_map(|object| object.strip_prefix(&below)?.split('/').next());
        let children: BTreeSet<&str> = steps.filter(|step| !step.is_empty()).collect();
        let own = self.0.get(path);
        if own.is_none() && children.is_empty() {
            return None;
        }
        let own = own.map(String::as_str).unwrap_or_default();
        Some(document(&[of_all, own], children))
    }
}

/// The document of an object with these interfaces and these steps to the objects below it.
pub fn document<'a>(interfaces: &[&str], children: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = format!("{DOCTYPE}<node>\n");
    for interface in interfaces.iter().map(|interface| interface.trim_end()).filter(|text| !text.is_empty()) {
        let _ = writeln!(out, "{interface}");
    }
    for child in children {
        let _ = writeln!(out, "  <node name=\"{child}\"/>");
    }
    out.push_str("</node>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interfaces and children that a document names.
    fn named(document: &str) -> (Vec<String>, Vec<String>) {
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let parsed = roxmltree::Document::parse_with_options(document, options).unwrap();
        let names = |tag| {
            let elements = parsed.root_element().children().filter(move |node| node.has_tag_name(tag));
            elements.map(|node| node.attribute("name").unwrap().to_owned()).collect()
        };
        (names("interface"), names("node"))
    }

    #[test]
    fn every_object_is_found_from_the_root_and_each_step_stands_once() {
        let mut objects = Objects::default();
        for path in ["/a/b/c", "/a/b", "/a/b/d", "/a/b0", "/z"] {
            objects.insert(path, &format!("<interface name=\"x{}\"/>", path.replace('/', ".")));
        }
        let seen = |path| objects.document(path, "<interface name=\"all\"/>\n").map(|text| named(&text));
        let expected = |interfaces: &[&str], children: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            Some((owned(interfaces), owned(children)))
        };
        assert_eq!(seen("/"), expected(&["all"], &["a", "z"]));
        assert_eq!(seen("/a"), expected(&["all"], &["b", "b0"]));
        assert_eq!(seen("/a/b"), expected(&["all", "x.a.b"], &["c", "d"]));
        assert_eq!(seen("/a/b/c"), expected(&["all", "x.a.b.c"], &[]));
        for nowhere in ["/b", "/a/b/c/d", "/a/b/", "/z0"] {
            assert_eq!(seen(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn properties_are_found_with_their_access_and_what_is_said_of_their_changes() {
        let emits = "org.freedesktop.DBus.Property.EmitsChangedSignal";
        let text = format!(
            r#"<interface name="a.B"><!-- <property name="No" type="s" access="read"/> -->
                <method name="property"/>
                <property name='One' access = "readwrite" type="a{{sv}}"/>
                <property name="Two" type="d" access="read"><annotation name="{emits}" value="invalidates"/></property>
                <annotation name="{emits}" value="false"/>
                <property name="Three" type="s" access="write"><annotation name="doc" value="a > b"/></property>
            </interface>
            <interface name="a.C"><properties name="No"/><property name="Four" type="u" access="read"/></interface>"#
        );
        let found = properties(&text);
        let shown = found
            .iter()
            .map(|it| (it.interface, it.name, it.types, it.is_readable, it.is_writable, it.changes));
        let expected = [
            ("a.B", "One", "a{sv}", true, true, Changes::Value),
            ("a.B", "Two", "d", true, false, Changes::Invalidated),
            ("a.B", "Three", "s", false, true, Changes::Silent),
            ("a.C", "Four", "u", true, false, Changes::Value),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        for cut in 0..text.len() {
            let _ = properties(&text[..cut]);
        }
        // An empty tag is passed.
        assert_eq!(properties(&format!("<>{text}")), found);
    }

    #[test]
    fn an_object_at_the_root_is_not_its_own_child() {
        let mut objects = Objects::default();
        assert_eq!((objects.document("/", ""), objects.is_empty()), (None, true));
        objects.insert("/", "<interface name=\"x.y\"/>");
        let document = objects.document("/", "").unwrap();
        assert_eq!(named(&document), (vec!["x.y".to_owned()], vec![]));
        // What is inserted again replaces the first.
        objects.insert("/", "");
        assert_eq!(named(&objects.document("/", "").unwrap()), (vec![], vec![]));
    }
}
