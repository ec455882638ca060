//! akbench's text, `name: average ± stddev unit`, or its JSON (`--json-output`): averages alone.
//!
//! Identity: the name, in which akbench writes the number of threads where that varies (its README).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Format, Json, Text, each};
use crate::import::entry::{Entry, Identity, Outcome, Problem};
use crate::import::found::Found;
use crate::import::json::Document;
use crate::import::text::lines;
use crate::import::units::{binary_bytes, ns_per};

pub const FORMAT: Format = Format {
    tool: "akbench",
    about: "akbench, text or --json-output: averages",
    rules: &[
        "GiByte/sec becomes bytes per second",
        "averages are taken as they are; akbench from August 2025 on sums all but two of its iterations and divides by all, so with \
         10 iterations its latencies are 0.8 times what it measured",
    ],
    json: Some(Json {
        fields: &[&["name", "average", "stddev", "unit"]],
        read: |documents, found| each(documents, found, read),
    }),
    text: Some(Text {
        example: "latency_getpid: 95.559 ± 21.436 ns",
        is_line: |line| entry(line).is_some(),
        hint: "akbench",
        read: text,
    }),
};

const NAME: &str = "akbench";

#[derive(Deserialize)]
struct Average {
    name: String,
    average: f64,
    stddev: f64,
    unit: String,
}

fn read(document: &Document<'_>, found: &mut Found) -> Result<(), Problem> {
    let entries: Vec<&RawValue> = document.parse(NAME)?;
    for raw in entries {
        let line = document.line_of(raw);
        match document.entry(raw, NAME) {
            Ok(average) => add(found, line, average),
            Err(problem) => found.problem(problem.line.unwrap_or(line), problem.why),
        }
    }
    Ok(())
}

fn text(text: &str, found: &mut Found) {
    for line in lines(text).filter(|line| !line.text.is_empty() && !line.text.starts_with('$')) {
        match entry(&line.text) {
            Some(average) => add(found, line.number, average),
            None => found.problem(line.number, "no line of akbench, `name: average ± stddev unit`"),
        }
    }
}

/// `bandwidth_memcpy_mt (2 threads): 18.649 ± 0.217 GiByte/sec`
fn entry(line: &str) -> Option<Average> {
    let (name, rest) = line.trim().split_once(": ")?;
    let (average, rest) = rest.split_once(" ± ")?;
    let (stddev, unit) = rest.trim().split_once(' ')?;
    let (average, stddev) = (average.trim().parse().ok()?, stddev.parse().ok()?);
    Some(Average { name: name.into(), average, stddev, unit: unit.into() })
}

fn add(found: &mut Found, line: usize, Average { name, average, stddev, unit }: Average) {
    let rate = unit.strip_suffix("/sec").or_else(|| unit.strip_suffix("/s"));
    let (unit, factor) = match (ns_per(&unit), rate.and_then(binary_bytes)) {
        (Some(ns), _) => ("ns/op", ns),
        (None, Some(bytes)) => ("bytes/s", bytes),
        (None, None) => {
            return found
                .problem(line, format!("`{unit}` is not a unit that is known; `{name}` is left out"));
        }
    };
    let identity = Identity::new(name.trim_end_matches(" benchmark result"), unit);
    let mut entry = Entry::average(line, identity, average * factor, "only an average");
    if let Outcome::Runs(_) = &entry.outcome {
        entry.facts.insert("stddev".into(), format!("{stddev} of {average}, as akbench prints them"));
    }
    found.add(entry);
}
