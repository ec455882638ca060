//! The JSON of `weighbridge dbus ping-pong`: each call on a bus that ran is a sample.

use serde::Deserialize;

use super::{Format, is_json_with};
use crate::Machine;
use crate::import::json::parse;
use crate::import::{Case, Foreign, Input, Problem, Run};

pub const FORMAT: Format = Format {
    tool: "dbus-ping-pong",
    about: "weighbridge dbus ping-pong --format json: each call is a sample",
    accepts: |text| is_json_with(text, &["array_bytes", "times_ns"]),
    read,
};

#[derive(Deserialize)]
struct File {
    address: String,
    rate: u32,
    version: String,
    started: String,
    machine: Box<Machine>,
    sizes: Vec<OfSize>,
}

#[derive(Deserialize)]
struct OfSize {
    array_bytes: u64,
    times_ns: Vec<f64>,
}

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let file: File = parse(input.text, "weighbridge dbus ping-pong")?;
    let case = |of: OfSize| Case {
        payload_bytes: of.array_bytes,
        runs: vec![Run { samples: of.times_ns, ops_per_sample: 1, ..Run::default() }],
        facts: [
            ("address".to_owned(), file.address.clone()),
            ("most-calls-a-second".to_owned(), file.rate.to_string()),
        ]
        .into(),
        notes: vec!["one run on a bus that other programs use; each sample is a call and its reply".into()],
        ..Case::new("call", "ns/roundtrip")
    };
    Ok(Foreign {
        version: file.version.clone(),
        started: Some(file.started.clone()),
        machine: Some(*file.machine),
        rules: vec!["nanoseconds of a call and its reply, as measured"],
        cases: file.sizes.into_iter().map(case).collect(),
        ..Foreign::default()
    })
}
