//! What this library answers in the place of the program: `org.freedesktop.DBus.Peer` and
//! `org.freedesktop.DBus.Introspectable`.

use std::borrow::Cow;

use causeway_dbus_wire::introspection::document;
use causeway_dbus_wire::wire::{Body, Header, names};
use causeway_os::machine_id;

use super::properties::{self, StandardAnswer};
use super::sending::check;
use super::serving::Refusal;
use super::{Call, Connection};
use crate::error::{Error, Result, name};

/// What all objects have, because the library answers for it.
const OF_ALL: &str = r#"  <interface name="org.freedesktop.DBus.Peer">
    <method name="Ping"/>
    <method name="GetMachineId">
      <arg name="machine_uuid" type="s" direction="out"/>
    </method>
  </interface>
  <interface name="org.freedesktop.DBus.Introspectable">
    <method name="Introspect">
      <arg name="xml_data" type="s" direction="out"/>
    </method>
  </interface>
"#;

impl Connection {
    /// Says which interfaces an object of this program has, for `Introspect`: elements `<interface>` one after the
    /// other, sent as they are. The library adds its own interfaces, and the way to the object. The last word on an
    /// object counts.
    ///
    /// `Introspect` of such an object, and of those above it, is answered by [`Connection::serve`]; calls of the others
    /// go to the program.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid object path, for a text that does not begin with `<interface`, such as a whole document, and for
    /// a property without a valid name, type or access.
    pub fn describe(&mut self, path: &str, interfaces: &str) -> Result<()> {
        check(path, names::is_path, "object path")?;
        let text = interfaces.trim();
        let invalid = |why: &str| Error::Invalid(format!("invalid description of the object {path}: {why}"));
        if !text.is_empty() && !text.starts_with("<interface") {
            return Err(invalid(
                "it must begin with <interface, without the surrounding document and <node>",
            ));
        }
        self.properties.describe(path, interfaces).map_err(|why| invalid(&why))?;
        self.objects.insert(path, interfaces);
        Ok(())
    }

    /// What is answered before the program is asked: Peer, and of described objects `Introspect` and properties. `None`
    /// for what is the program's.
    pub(crate) fn standard_answer(&self, call: &Call) -> Option<StandardAnswer> {
        let header = call.header();
        if is_introspect(&header) {
            return self.introspect(header.path?).map(Ok);
        }
        peer_answer(&header).or_else(|| self.properties.answer(call))
    }

    fn introspect(&self, path: &str) -> Option<Body> {
        let with_properties = || format!("{OF_ALL}{}", properties::INTERFACE);
        let of_all =
            if self.properties.has(path) { Cow::Owned(with_properties()) } else { Cow::Borrowed(OF_ALL) };
        Some(Body::default().text(&self.objects.document(path, &of_all)?))
    }

    /// What is answered to a call of an unknown method: an object of a program that described none has the library's
    /// interfaces.
    pub(super) fn answer_to_refused(&self, call: &Call) -> Option<Body> {
        if is_introspect(&call.header()) && self.objects.is_empty() {
            return Some(Body::default().text(&document(&[OF_ALL], [])));
        }
        self.standard_answer(call)?.ok()
    }
}

fn is_introspect(call: &Header<'_>) -> bool {
    (call.interface, call.member) == (Some("org.freedesktop.DBus.Introspectable"), Some("Introspect"))
}

fn peer_answer(call: &Header<'_>) -> Option<StandardAnswer> {
    if call.interface != Some("org.freedesktop.DBus.Peer") {
        return None;
    }
    Some(match call.member {
        Some("Ping") => Ok(Body::default()),
        Some("GetMachineId") => machine_id::machine_id()
            .map(|id| Body::default().text(&id))
            .ok_or_else(|| Refusal::new(name::FAILED, "this machine has no machine ID")),
        _ => Err(Refusal::new(name::UNKNOWN_METHOD, "the interface has two methods: Ping and GetMachineId")),
    })
}
