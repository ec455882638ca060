//! What the bus says of its connections, with what the kernel says of their processes.

use std::collections::HashMap;

use causeway_bus::client::{Bus, Error, TIMEOUT};
use causeway_bus::wire::{Body, Builder, Dict, Value, arguments_of};
use causeway_os::process::{cgroup, program};
use serde_json::{Map, json};

use super::show;
use crate::failure::Failure;

/// A connection.
pub struct Facts {
    pub unique: String,
    pub names: Vec<String>,
    pub pid: Option<u32>,
    pub uid: Option<u32>,
    pub program: Option<String>,
    /// Its control group: of the unified hierarchy where there is one.
    pub cgroup: Option<String>,
    /// By the names of the bus.
    pub statistics: Map<String, serde_json::Value>,
}

impl Facts {
    pub fn number(&self, key: &str) -> u64 {
        self.statistics.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0)
    }

    /// As an object.
    pub fn json(&self) -> serde_json::Value {
        json!({
            "unique": self.unique, "names": self.names, "pid": self.pid, "uid": self.uid,
            "program": self.program, "cgroup": self.cgroup, "statistics": self.statistics,
        })
    }
}

/// A question to the bus about its statistics.
pub fn question(member: &str) -> Builder<'_> {
    Builder::of_driver(member).interface("org.freedesktop.DBus.Debug.Stats")
}

/// All connections but this one, or so many of those that hold most. Nothing if this bus does not know the question.
pub fn of_connections(bus: &mut Bus, most: u32) -> Result<Option<Vec<Facts>>, Failure> {
    let reply = match bus.call(&question("GetAllConnectionStats").body(Body::default().u32(most)), TIMEOUT) {
        Err(Error::Refused { name, .. }) if name.contains(".Unknown") => return Ok(None),
        reply => reply?,
    };
    let all: Dict<String, HashMap<String, Value<'_>>> = arguments_of(&reply).map_err(Error::from)?;
    let others = all.0.into_iter().filter(|(unique, _)| unique != bus.unique_name());
    Ok(Some(others.map(|(unique, of)| facts(unique, of)).collect()))
}

fn facts(unique: String, of: HashMap<String, Value<'_>>) -> Facts {
    let entries = of.into_iter().map(|(key, value)| (key, show::as_json(&value)));
    let mut statistics: Map<String, serde_json::Value> = entries.collect();
    statistics.remove("UniqueName");
    let names = statistics.remove("WellKnownNames").unwrap_or_default();
    let names = names.as_array().into_iter().flatten().filter_map(|name| name.as_str()).map(str::to_owned);
    let mut number = |key: &str| u32::try_from(statistics.remove(key)?.as_u64()?).ok();
    // A process of another namespace has no number here.
    let (pid, uid) = (number("ProcessID").filter(|pid| *pid > 0), number("UnixUserID"));
    let (program, cgroup) = (pid.and_then(program), pid.and_then(cgroup));
    Facts { unique, names: names.collect(), pid, uid, program, cgroup, statistics }
}
