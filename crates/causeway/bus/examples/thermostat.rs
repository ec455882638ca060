//! A service with a property, a signal that a method emits, a variant and an array: `thermostat SOCKET`, or with `CAUSEWAY_BUS` set.
//!
//! ```text
//! causeway bus --socket /tmp/bus call com.example.Thermostat / com.example.Thermostat Measure d 19.5
//! busctl --address=unix:path=/tmp/dbus get-property com.example.Thermostat / com.example.Thermostat Target
//! ```
#![allow(clippy::print_stdout, reason = "this is a command")]

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use causeway_bus::wire::{Body, Value, Variant};
use causeway_bus::{Connection, DO_NOT_QUEUE, Error, NameReply, Refusal, name};

const THERMOSTAT: &str = "com.example.Thermostat";
const INTERFACE: &str = r#"
  <interface name="com.example.Thermostat">
    <method name="Measure">
      <arg name="celsius" type="d" direction="in"/>
      <arg name="heats" type="b" direction="out"/>
    </method>
    <method name="History"><arg name="celsius" type="ad" direction="out"/></method>
    <method name="About"><arg name="facts" type="a{sv}" direction="out"/></method>
    <signal name="Switched"><arg name="heats" type="b"/><arg name="celsius" type="d"/></signal>
    <property name="Target" type="d" access="readwrite"/>
  </interface>"#;

fn main() -> Result<(), Error> {
    let mut bus = match std::env::args().nth(1) {
        Some(path) => Connection::open(path)?,
        None => Connection::session()?,
    };
    bus.describe("/", INTERFACE)?;
    bus.set_property("/", THERMOSTAT, "Target", &20.0)?;
    if bus.request_name(THERMOSTAT, DO_NOT_QUEUE)? != NameReply::PrimaryOwner {
        return Err(Error::Refused(format!("another connection has the name {THERMOSTAT}")));
    }
    println!("{} is {THERMOSTAT}", bus.unique_name());
    let (mut history, mut heats, never) = (Vec::<f64>::new(), false, AtomicBool::new(false));
    bus.serve(&never, |bus, call| match call.header().member {
        Some("Measure") => {
            let celsius: f64 = call.args()?;
            history.push(celsius);
            let before = std::mem::replace(&mut heats, celsius < bus.property("/", THERMOSTAT, "Target")?);
            if heats != before {
                bus.emit("/", THERMOSTAT, "Switched", Body::of(&(heats, celsius))?)?;
            }
            Ok(Body::of(&heats)?)
        }
        Some("History") => Ok(Body::of(&history)?),
        Some("About") => {
            let last = Value::Array(
                "d".into(),
                history.last().map(|celsius| Value::F64(*celsius)).into_iter().collect(),
            );
            let facts = BTreeMap::from([("last", last), ("place", Value::Text("hall".into()))]);
            Ok(Body::of(&facts)?)
        }
        // The library has looked at property and type; with this answer the property changes, and all are told.
        Some("Set") => match call.args()? {
            (THERMOSTAT, "Target", Variant(5.0..=30.0)) => Ok(Body::default()),
            (_, _, Variant::<f64>(_)) => {
                Err(Refusal::new(name::INVALID_ARGS, "a target is between 5 and 30 °C"))
            }
        },
        _ => Err(Refusal::new(
            name::UNKNOWN_METHOD,
            "the thermostat has three methods: Measure, History, About",
        )),
    })
}
