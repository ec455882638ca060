//! Go's benchmark text (`go test -bench . -count N`): each line is a run of one average over its iterations.

use std::collections::BTreeMap;

use crate::Machine;

use super::Format;
use crate::import::text::{figure, lines};
use crate::import::{Case, Foreign, Input, Problem, Run};

pub const FORMAT: Format = Format {
    tool: "go",
    about: "go test -bench, text: each line, so each of -count, is a run",
    accepts: |text| text.lines().any(|line| line.starts_with("Benchmark")) || text.starts_with("goos: "),
    read,
};

const RULE: &str = "ns/op is taken as it is; MB/s is the same figure the other way round and left out";
const NOTE: &str =
    "a sample is the average over the iterations of a line; the runs of -count are inside one process";

/// Figures of other units, by their unit.
type Facts = BTreeMap<String, String>;

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let mut foreign = Foreign { rules: vec![RULE], ..Foreign::default() };
    let mut context: BTreeMap<String, String> = BTreeMap::new();
    for (number, line) in lines(input.text) {
        if let Some((name, value)) = line.split_once(": ").filter(|(name, _)| is_key(name)) {
            context.insert(name.into(), value.trim().into());
        } else if line.starts_with("Benchmark") && line.contains(char::is_whitespace) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match result(&words) {
                Ok(Some((run, facts))) => add(&mut foreign, &context, words[0], run, facts),
                // The name alone, before what the benchmark printed itself.
                Ok(None) => {}
                Err(why) => foreign.problems.push(Problem::at(number, why)),
            }
        } else if let Some(name) = line.trim_start().strip_prefix("--- FAIL: ") {
            let name = name.split_whitespace().next().unwrap_or(name);
            let failed = Some("go test says that it failed".to_owned());
            foreign.cases.push(Case { failed, ..Case::new(short(name), "ns/op") });
        }
    }
    foreign.machine = context.get("cpu").map(|cpu| Machine {
        cpu_model: cpu.clone(),
        arch: context.get("goarch").cloned().unwrap_or_default(),
        ..Machine::default()
    });
    Ok(foreign)
}

/// `goos`, `goarch`, `pkg`, `cpu`, and what a benchmark adds in the same form.
fn is_key(name: &str) -> bool {
    name.chars().next().is_some_and(|c| c.is_lowercase()) && !name.contains(char::is_whitespace)
}

/// `BenchmarkCopy/size=64-2  1000000  27.36 ns/op  2338.86 MB/s`: the count of iterations, then figures with their units.
fn result(words: &[&str]) -> Result<Option<(Run, Facts)>, String> {
    let [name, rest @ ..] = words else { return Ok(None) };
    let Some((iterations, pairs)) = rest.split_first().and_then(|(n, rest)| Some((n.parse().ok()?, rest)))
    else {
        return Ok(None);
    };
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(format!("the line of `{name}` ends in the middle"));
    }
    let (mut value, mut facts) = (None, BTreeMap::new());
    for pair in pairs.chunks(2) {
        match pair[1] {
            "ns/op" => value = figure(pair[0]),
            "MB/s" => {}
            unit => {
                facts.insert(unit.to_owned(), pair[0].to_owned());
            }
        }
    }
    match value {
        Some(value) => Ok(Some((Run { ops_per_sample: iterations, ..Run::of(value) }, facts))),
        None => Err(format!("`{name}` has no ns/op, and no other unit of it is known")),
    }
}

fn add(
    foreign: &mut Foreign,
    context: &BTreeMap<String, String>,
    name: &str,
    run: Run,
    facts: BTreeMap<String, String>,
) {
    let short = short(name);
    let place = foreign.cases.iter().position(|case| case.name == short).unwrap_or_else(|| {
        let notes = vec![NOTE.to_owned()];
        foreign.cases.push(Case { notes, ..Case::new(short, "ns/op") });
        foreign.cases.len() - 1
    });
    let case = &mut foreign.cases[place];
    case.runs.push(run);
    case.facts.extend(facts);
    for key in ["pkg", "goos", "goarch"] {
        case.facts.extend(context.get(key).map(|value| (key.to_owned(), value.clone())));
    }
}

/// `BenchmarkCopy/size=64-2` without the prefix, and without the number of CPUs behind the last dash.
fn short(name: &str) -> String {
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    match name.rsplit_once('-') {
        Some((name, cpus)) if cpus.chars().all(|c| c.is_ascii_digit()) && !cpus.is_empty() => name.into(),
        _ => name.into(),
    }
}
