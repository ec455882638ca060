//! What a service says of its objects: the documents that `org.freedesktop.DBus.Introspectable.Introspect` returns.
//!
//! Source of the format: the D-Bus Specification, section "Introspection Data Format".

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const DOCTYPE: &str = "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n\
    \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n";

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
