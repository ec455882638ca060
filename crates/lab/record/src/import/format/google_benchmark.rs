//! Google Benchmark's JSON (`--benchmark_format=json`): an entry for each repetition, which is a run of one sample.
//!
//! With `--benchmark_report_aggregates_only` only the median over the repetitions is left, or their mean.

use std::collections::BTreeMap;

use crate::{Cache, Machine};
use serde::Deserialize;

use super::{Format, is_json_with};
use crate::import::json::{line_of, parse};
use crate::import::units::ns_per;
use crate::import::{Case, Foreign, Input, Problem, Run};

pub const FORMAT: Format = Format {
    tool: "google-benchmark",
    about: "Google Benchmark, --benchmark_format=json: each repetition is a run",
    accepts: |text| {
        is_json_with(text, &["context"]) && (text.contains("\"benchmarks\"") || text.contains("host_name"))
    },
    read,
};

const RULE: &str = "real_time, in its time_unit, becomes nanoseconds per iteration";
const REPETITIONS: &str = "the runs are repetitions inside one process";

#[derive(Deserialize)]
struct File {
    context: Context,
    benchmarks: Vec<Entry>,
}

#[derive(Deserialize)]
struct Context {
    date: Option<String>,
    host_name: Option<String>,
    num_cpus: Option<u32>,
    library_version: Option<String>,
    library_build_type: Option<String>,
    #[serde(default)]
    caches: Vec<CacheEntry>,
}

#[derive(Deserialize)]
struct CacheEntry {
    r#type: String,
    level: u32,
    size: u64,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    run_name: Option<String>,
    run_type: Option<String>,
    aggregate_name: Option<String>,
    aggregate_unit: Option<String>,
    threads: Option<u32>,
    #[serde(default)]
    iterations: u64,
    real_time: Option<f64>,
    cpu_time: Option<f64>,
    time_unit: Option<String>,
    #[serde(default)]
    error_occurred: bool,
    error_message: Option<String>,
}

/// An aggregate over the repetitions, and which.
type Average = (f64, &'static str);

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let file: File = parse(input.text, "Google Benchmark")?;
    let mut foreign = Foreign {
        version: file.context.library_version.clone().unwrap_or_default(),
        started: file.context.date.as_deref().and_then(rfc3339),
        machine: machine(&file.context),
        rules: vec![RULE],
        ..Foreign::default()
    };
    let mut order: Vec<String> = Vec::new();
    let mut cases: BTreeMap<String, (Case, Option<Average>)> = BTreeMap::new();
    for entry in &file.benchmarks {
        let name = entry.run_name.clone().unwrap_or_else(|| entry.name.clone());
        let (case, average) = cases.entry(name.clone()).or_insert_with(|| {
            order.push(name.clone());
            (Case::new(name.clone(), "ns/op"), None)
        });
        if let Some(threads) = entry.threads {
            case.facts.insert("threads".into(), threads.to_string());
        }
        if let Some(build) = &file.context.library_build_type {
            case.facts.insert("library_build_type".into(), build.clone());
        }
        if entry.error_occurred {
            case.failed = Some(entry.error_message.clone().unwrap_or_else(|| "it failed".into()));
            continue;
        }
        let unit = entry.time_unit.as_deref().unwrap_or("ns");
        let Some(scale) = ns_per(unit) else {
            foreign.problems.push(Problem {
                line: line_of(input.text, unit),
                why: format!("`{unit}` is not a unit of time that is known; `{name}` is left out"),
            });
            continue;
        };
        let Some(time) = entry.real_time.filter(|time| *time > 0.0).map(|time| time * scale) else {
            continue;
        };
        match (entry.run_type.as_deref(), entry.aggregate_name.as_deref()) {
            (Some("aggregate"), _) if entry.aggregate_unit.as_deref() == Some("percentage") => {}
            (Some("aggregate"), Some("median")) => *average = Some((time, "the median over the repetitions")),
            (Some("aggregate"), Some("mean")) => {
                average.get_or_insert((time, "the mean over the repetitions"));
            }
            (Some("aggregate"), _) => {}
            _ => case.runs.push(Run {
                samples: vec![time],
                ops_per_sample: entry.iterations,
                cpu_ns: entry.cpu_time.map(|cpu| cpu * scale),
                ..Run::default()
            }),
        }
    }
    for name in order {
        let (mut case, average) = cases.remove(&name).expect("a name of the list");
        match average {
            Some((value, what)) if case.runs.is_empty() => {
                case = case.averages([value], format!("only {what}; the file has no samples"));
            }
            _ if case.runs.len() > 1 => case.notes.push(REPETITIONS.into()),
            _ => {}
        }
        foreign.cases.push(case);
    }
    Ok(foreign)
}

/// The context has `2026-11-22T03:01:51+00:00`; other offsets become UTC.
fn rfc3339(date: &str) -> Option<String> {
    date.parse::<jiff::Timestamp>().ok().map(|at| at.to_string())
}

fn machine(context: &Context) -> Option<Machine> {
    let hostname = context.host_name.clone()?;
    let cache = |entry: &CacheEntry| Cache {
        level: entry.level,
        r#type: entry.r#type.clone(),
        size_bytes: entry.size,
        line_bytes: 0,
    };
    let mut machine =
        Machine { hostname, caches: context.caches.iter().map(cache).collect(), ..Machine::default() };
    if let Some(cpus) = context.num_cpus {
        machine.missing.push(format!("topology of the {cpus} CPUs: the file tells only their number"));
    }
    Some(machine)
}
