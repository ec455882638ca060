//! What this library answers in the place of the program: `org.freedesktop.DBus.Peer` and
//! `org.freedesktop.DBus.Introspectable`.

use causeway_dbus_wire::introspection::document;
use causeway_dbus_wire::wire::{Body, Header, names};
use causeway_os::machine_id;

use super::Connection;
use super::sending::check;
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

pub(crate) type StandardAnswer = std::result::Result<Body, (&'static str, &'static str)>;

impl Connection {
    /// Says which interfaces an object of this program has, for `Introspect`: elements `<interface>` one after the other, sent
    /// as they are. The library adds its own interfaces, and the way to the object. The last word on an object counts.
    ///
    /// `Introspect` of such an object, and of those above it, is answered by [`Connection::serve`]; calls of the others go to the program.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid object path, and for a text that does not begin with `<interface`, such as a whole document.
    pub fn describe(&mut self, path: &str, interfaces: &str) -> Result<()> {
        check(path, names::is_path, "object path")?;
        let text = interfaces.trim();
        if !text.is_empty() && !text.starts_with("<interface") {
            let why = "it must begin with <interface, without the surrounding document and <node>";
            return Err(Error::Invalid(format!("invalid description of the object {path}: {why}")));
        }
        self.objects.insert(path, interfaces);
        Ok(())
    }

    /// What is answered before the program is asked: Peer, and `Introspect` of described objects. `None` for what is the program's.
    pub(crate) fn standard_answer(&self, call: &Header<'_>) -> Option<StandardAnswer> {
        if is_introspect(call) {
            return Some(Ok(Body::default().text(&self.objects.document(call.path?, OF_ALL)?)));
        }
        peer_answer(call)
    }

    /// What is answered to a call of an unknown method: an object of a program that described none has the library's
    /// interfaces.
    pub(super) fn answer_to_refused(&self, call: &Header<'_>) -> Option<Body> {
        if is_introspect(call) && self.objects.is_empty() {
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
            .ok_or((name::FAILED, "this machine has no machine ID")),
        _ => Err((name::UNKNOWN_METHOD, "the interface has two methods: Ping and GetMachineId")),
    })
}
