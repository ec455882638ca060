//! Properties of described objects: what the program says they are, and what is answered and announced for it.
//!
//! The library keeps the value of a property from the first [`Connection::set_property`] on. What it does not keep, the
//! program answers itself.

use std::collections::{BTreeMap, HashMap};

use causeway_dbus_wire::introspection::{self, Changes};
use causeway_dbus_wire::wire::{Body, Decode, Encode, Unreadable, Value, names, signature};

use super::sending::Outgoing;
use super::serving::Refusal;
use super::{Call, Connection};
use crate::error::{Error, Result, name};

pub(super) const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// What objects with properties have, because the library answers for it.
pub(super) const INTERFACE: &str = r#"  <interface name="org.freedesktop.DBus.Properties">
    <method name="Get">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="property_name" type="s" direction="in"/>
      <arg name="value" type="v" direction="out"/>
    </method>
    <method name="Set">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="property_name" type="s" direction="in"/>
      <arg name="value" type="v" direction="in"/>
    </method>
    <method name="GetAll">
      <arg name="interface_name" type="s" direction="in"/>
      <arg name="properties" type="a{sv}" direction="out"/>
    </method>
    <signal name="PropertiesChanged">
      <arg name="interface_name" type="s"/>
      <arg name="changed_properties" type="a{sv}"/>
      <arg name="invalidated_properties" type="as"/>
    </signal>
  </interface>
"#;

/// An answer of this library.
pub(crate) type StandardAnswer = std::result::Result<Body, Refusal>;

/// The properties of a program's objects, by the paths of these.
#[derive(Debug, Default)]
pub(super) struct Properties(BTreeMap<String, Vec<Property>>);

#[derive(Debug)]
struct Property {
    interface: String,
    name: String,
    types: String,
    is_readable: bool,
    is_writable: bool,
    changes: Changes,
    /// Once the program has said it.
    value: Option<Value<'static>>,
}

/// A change that is to be announced.
struct Change {
    path: String,
    body: Body,
}

impl Properties {
    /// The properties in the description of an object. Those that it had before with the same type keep their values.
    pub fn describe(&mut self, path: &str, interfaces: &str) -> std::result::Result<(), String> {
        let mut before = self.0.remove(path).unwrap_or_default();
        let mut properties = Vec::new();
        for said in introspection::properties(interfaces) {
            let what = || format!("the property {}.{}", said.interface, said.name);
            if !names::is_interface(said.interface) || !names::is_member(said.name) {
                return Err(format!("{} has no valid name", what()));
            }
            if signature::check(said.types).is_err() || signature::types(said.types).count() != 1 {
                return Err(format!("{} has no valid type: {:?}", what(), said.types));
            }
            if !said.is_readable && !said.is_writable {
                return Err(format!("{} needs access=\"read\", \"write\" or \"readwrite\"", what()));
            }
            let same = |old: &Property| old.is(said.interface, said.name) && old.types == said.types;
            let value = before.iter_mut().find(|old| same(old)).and_then(|old| old.value.take());
            properties.push(Property {
                interface: said.interface.to_owned(),
                name: said.name.to_owned(),
                types: said.types.to_owned(),
                is_readable: said.is_readable,
                is_writable: said.is_writable,
                changes: said.changes,
                value,
            });
        }
        if !properties.is_empty() {
            self.0.insert(path.to_owned(), properties);
        }
        Ok(())
    }

    /// Those of an object of which the library keeps any.
    fn kept(&self, path: &str) -> Option<&[Property]> {
        let of_object = self.0.get(path)?;
        of_object.iter().any(|property| property.value.is_some()).then_some(of_object)
    }

    /// Does the library keep a property of this object?
    pub fn has(&self, path: &str) -> bool {
        self.kept(path).is_some()
    }

    fn find(&self, path: &str, interface: &str, name: &str) -> Result<&Property> {
        let found = self.0.get(path).and_then(|all| all.iter().find(|property| property.is(interface, name)));
        found.ok_or_else(|| {
            Error::Invalid(format!("the description of the object {path} has no property {interface}.{name}"))
        })
    }

    /// Sets a property; the change, if there is one that is to be announced.
    fn set(
        &mut self,
        path: &str,
        interface: &str,
        name: &str,
        value: Value<'static>,
    ) -> Result<Option<Change>> {
        self.find(path, interface, name)?;
        let of_object = self.0.get_mut(path).into_iter().flatten();
        let Some(property) = of_object.into_iter().find(|it| it.is(interface, name)) else {
            unreachable!("it was found")
        };
        let value = property.typed(value)?;
        let before = property.value.replace(value);
        if before.is_none() || before == property.value || property.changes == Changes::Silent {
            return Ok(None);
        }
        let value = property.value.as_ref().filter(|_| property.changes == Changes::Value);
        let changed: Vec<(&str, &Value<'_>)> = value.map(|value| (name, value)).into_iter().collect();
        let invalidated: &[&str] = if changed.is_empty() { &[name] } else { &[] };
        let changed: HashMap<&str, &Value<'_>> = changed.into_iter().collect();
        let body = Body::of(&(interface, changed, invalidated))?;
        Ok(Some(Change { path: path.to_owned(), body }))
    }

    /// What the library answers to a call.
    pub fn answer(&self, call: &Call) -> Option<StandardAnswer> {
        if self.0.is_empty() {
            return None;
        }
        let header = call.header();
        let of_object = self.kept(header.path.filter(|_| header.interface == Some(PROPERTIES))?)?;
        match header.member {
            Some("Get") => get(of_object, call),
            Some("GetAll") => Some(get_all(of_object, call)),
            Some("Set") => may_set(of_object, call),
            _ => None,
        }
    }
}

impl Property {
    fn is(&self, interface: &str, name: &str) -> bool {
        self.name == name && (self.interface == interface || interface.is_empty())
    }

    /// This value, if it has the type of the property.
    fn typed(&self, value: Value<'static>) -> std::result::Result<Value<'static>, Unreadable> {
        let found = value.signature();
        match value {
            value if found == self.types => Ok(value),
            Value::Variant(inner) if inner.signature() == self.types => Ok(*inner),
            _ => Err(Unreadable::mistyped(self.types.clone(), &found)),
        }
    }
}

fn invalid(why: impl Into<Error>) -> Refusal {
    Refusal::new(name::INVALID_ARGS, Refusal::from(why.into()).text)
}

fn unknown(interface: &str, property: &str) -> Refusal {
    Refusal::new(name::UNKNOWN_PROPERTY, format!("there is no property {interface}.{property}"))
}

fn get(of_object: &[Property], call: &Call) -> Option<StandardAnswer> {
    let (interface, name) = match call.args::<(&str, &str)>() {
        Ok(asked) => asked,
        Err(why) => return Some(Err(invalid(why))),
    };
    let Some(property) = of_object.iter().find(|property| property.is(interface, name)) else {
        return Some(Err(unknown(interface, name)));
    };
    if !property.is_readable {
        return Some(Err(Refusal::new(name::FAILED, "the property can be set and not be read")));
    }
    property.value.as_ref().map(|value| Body::of(value).map_err(invalid))
}

fn get_all(of_object: &[Property], call: &Call) -> StandardAnswer {
    let interface = call.args::<&str>().map_err(invalid)?;
    let asked =
        of_object.iter().filter(|property| property.is(interface, &property.name) && property.is_readable);
    let values = asked.filter_map(|property| Some((&*property.name, property.value.as_ref()?)));
    Body::of(&values.collect::<BTreeMap<_, _>>()).map_err(invalid)
}

/// Why a property must not be set; `None` if the program is to say whether it may.
fn may_set(of_object: &[Property], call: &Call) -> Option<StandardAnswer> {
    let (interface, name, value) = match call.args::<(&str, &str, Value<'_>)>() {
        Ok(asked) => asked,
        Err(why) => return Some(Err(invalid(why))),
    };
    let Some(property) = of_object.iter().find(|property| property.is(interface, name)) else {
        return Some(Err(unknown(interface, name)));
    };
    if !property.is_writable {
        return Some(Err(Refusal::new(name::PROPERTY_READ_ONLY, format!("{name} cannot be set"))));
    }
    property.typed(value.into_owned()).err().map(|why| Err(invalid(why)))
}

impl Connection {
    /// Says the value of a property that [`Connection::describe`] has named. From the first value on the library
    /// answers `Get` and `GetAll` of `org.freedesktop.DBus.Properties` for it, and emits `PropertiesChanged` when a
    /// value differs from the one before, unless the annotation `org.freedesktop.DBus.Property.EmitsChangedSignal` says
    /// otherwise.
    ///
    /// A `Set` of a property that is writable, with a value of its type, comes to the program, which answers it without
    /// arguments or with an error; with the answer, the property changes. Any other `Set` is refused here.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a property that is not described; [`Error::Arguments`] for a value of another type.
    pub fn set_property<T: Encode + ?Sized>(
        &mut self,
        path: &str,
        interface: &str,
        name: &str,
        value: &T,
    ) -> Result<()> {
        let change = self.prepare_property(path, interface, name, value)?;
        change.map_or(Ok(()), |signal| self.send(signal))
    }

    pub(crate) fn prepare_property<T: Encode + ?Sized>(
        &mut self,
        path: &str,
        interface: &str,
        name: &str,
        value: &T,
    ) -> Result<Option<Outgoing>> {
        let change = self.properties.set(path, interface, name, Value::of(value)?)?;
        self.prepare_change(change)
    }

    fn prepare_change(&mut self, change: Option<Change>) -> Result<Option<Outgoing>> {
        let Some(Change { path, body }) = change else { return Ok(None) };
        self.prepare_signal(&path, PROPERTIES, "PropertiesChanged", body.into()).map(Some)
    }

    /// The value of a property, as the program or an accepted `Set` has said it last.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a property that is not described, or has no value yet; [`Error::Arguments`] for another type than its own.
    pub fn property<T: for<'a> Decode<'a>>(&self, path: &str, interface: &str, name: &str) -> Result<T> {
        let property = self.properties.find(path, interface, name)?;
        let value = property.value.as_ref();
        let value = value.ok_or_else(|| Error::Invalid(format!("{interface}.{name} has no value yet")))?;
        Ok(value.to()?)
    }

    /// The program answers a call without an error: if that sets a property, the property changes. Returns what
    /// announces that.
    pub(crate) fn apply_set(&mut self, call: &Call) -> Result<Option<Outgoing>> {
        if self.properties.0.is_empty() {
            return Ok(None);
        }
        let header = call.header();
        let (Some(path), Some(PROPERTIES), Some("Set")) = (header.path, header.interface, header.member)
        else {
            return Ok(None);
        };
        // Others are the program's own.
        if !self.properties.has(path) || self.properties.answer(call).is_some() {
            return Ok(None);
        }
        let (interface, name, value) = call.args::<(&str, &str, Value<'_>)>()?;
        let change = self.properties.set(path, interface, name, value.into_owned())?;
        self.prepare_change(change)
    }
}
