//! akbench's text, `name: average ± stddev unit`, or its JSON (`--json-output`): averages alone.

use serde::Deserialize;

use super::{Format, is_json_with};
use crate::import::json::{line_of, parse};
use crate::import::text::{figure, lines};
use crate::import::units::{binary_bytes, ns_per};
use crate::import::{Case, Foreign, Input, Problem};

pub const FORMAT: Format = Format {
    tool: "akbench",
    about: "akbench, text or --json-output: averages",
    accepts: |text| {
        is_json_with(text, &["average", "stddev", "unit"]) || text.lines().any(|line| entry(line).is_some())
    },
    read,
};

const RULES: [&str; 2] = [
    "GiByte/sec becomes bytes per second",
    "averages are taken as they are; akbench from August 2025 on sums all but two of its iterations and divides by all, so with \
     10 iterations its latencies are 0.8 times what it measured",
];
const NOTE: &str = "only an average";

#[derive(Deserialize)]
struct Entry {
    name: String,
    average: f64,
    stddev: f64,
    unit: String,
}

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let mut foreign = Foreign { rules: RULES.into(), ..Foreign::default() };
    if input.text.trim_start().starts_with(['[', '{']) {
        let entries: Vec<Entry> = parse(input.text, "akbench")?;
        for entry in entries {
            let line = line_of(input.text, &entry.name);
            add(&mut foreign, line, &entry.name, entry.average, entry.stddev, &entry.unit);
        }
        return Ok(foreign);
    }
    for (number, line) in lines(input.text) {
        if line.is_empty() || line.starts_with('$') {
            continue;
        }
        match entry(&line) {
            Some((name, average, stddev, unit)) => {
                add(&mut foreign, Some(number), name, average, stddev, unit);
            }
            None => foreign
                .problems
                .push(Problem::at(number, "no line of akbench, `name: average ± stddev unit`")),
        }
    }
    Ok(foreign)
}

/// `bandwidth_memcpy_mt (2 threads): 18.649 ± 0.217 GiByte/sec`
fn entry(line: &str) -> Option<(&str, f64, f64, &str)> {
    let (name, rest) = line.trim().split_once(": ")?;
    let (average, rest) = rest.split_once(" ± ")?;
    let (stddev, unit) = rest.trim().split_once(' ')?;
    Some((name, figure(average)?, stddev.parse().ok()?, unit))
}

fn add(foreign: &mut Foreign, line: Option<usize>, name: &str, average: f64, stddev: f64, unit: &str) {
    let rate = unit.strip_suffix("/sec").or_else(|| unit.strip_suffix("/s"));
    let (unit, factor) = match (ns_per(unit), rate.and_then(binary_bytes)) {
        (Some(ns), _) => ("ns/op", ns),
        (None, Some(bytes)) => ("bytes/s", bytes),
        (None, None) => {
            let why = format!("`{unit}` is not a unit that is known; `{name}` is left out");
            foreign.problems.push(Problem { line, why });
            return;
        }
    };
    if !(average > 0.0 && average.is_finite()) {
        let why = format!("{average} is not a figure that a record can hold; `{name}` is left out");
        foreign.problems.push(Problem { line, why });
        return;
    }
    let case = Case::new(name.trim_end_matches(" benchmark result"), unit);
    let mut case = case.averages([average * factor], NOTE);
    case.facts.insert("stddev".into(), format!("{stddev} of {average}, as akbench prints them"));
    foreign.cases.push(case);
}
