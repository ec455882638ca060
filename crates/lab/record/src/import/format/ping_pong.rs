//! The JSON of `weighbridge dbus ping-pong`: each call on a bus that ran is a sample.
//!
//! Identity: the address of the bus, the rate, and the bytes of the array.

use serde::Deserialize;

use super::{Format, Json, each};
use crate::Machine;
use crate::import::entry::{Entry, Identity, Outcome, Problem, Run};
use crate::import::found::{Found, Started};
use crate::import::json::Document;

pub const FORMAT: Format = Format {
    tool: "dbus-ping-pong",
    about: "weighbridge dbus ping-pong --format json: each call is a sample",
    rules: &["nanoseconds of a call and its reply, as measured"],
    json: Some(Json {
        fields: &[&["address", "rate", "sizes"]],
        read: |documents, found| each(documents, found, read),
    }),
    text: None,
};

#[derive(Deserialize)]
struct File {
    address: String,
    rate: u32,
    version: String,
    started: String,
    machine: Box<Machine>,
    sizes: Vec<Calls>,
}

#[derive(Deserialize)]
struct Calls {
    array_bytes: u64,
    times_ns: Vec<f64>,
}

fn read(document: &Document<'_>, found: &mut Found) -> Result<(), Problem> {
    let file: File = document.parse("weighbridge dbus ping-pong")?;
    found.versions.insert(file.version);
    found.started(Started { at: file.started, is_local: false });
    found.machine(document.line, *file.machine)?;
    for Calls { array_bytes, times_ns } in file.sizes {
        let settings = [
            ("address", file.address.clone()),
            ("most-calls-a-second", file.rate.to_string()),
            ("array_bytes", array_bytes.to_string()),
        ];
        let outcome = match times_ns.iter().find(|ns| !(**ns > 0.0 && ns.is_finite())) {
            Some(ns) => Outcome::Skipped(format!("a time of {ns} ns is no duration")),
            None if times_ns.is_empty() => Outcome::Skipped("no call was made".into()),
            None => Outcome::Runs(vec![Run { samples: times_ns, ops_per_sample: 1, ..Run::default() }]),
        };
        let notes =
            vec!["one run on a bus that other programs use; each sample is a call and its reply".into()];
        let identity = Identity::new("call", "ns/roundtrip").with(settings);
        found.add(Entry {
            payload_bytes: array_bytes,
            notes,
            ..Entry::new(document.line, identity, outcome)
        });
    }
    Ok(())
}
