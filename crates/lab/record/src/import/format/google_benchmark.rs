//! Google Benchmark's JSON (`--benchmark_format=json`): an entry for each repetition, which is a run of one sample.
//!
//! Identity: `run_name`, which contains the arguments, the threads and everything else that was set for the benchmark; `name` is the same
//! with the name of an aggregate behind it (Google Benchmark's user guide, "Output Formats"). Two benchmarks registered under one name differ in
//! `family_index`. Aggregates are statistics over the repetitions; with `--benchmark_report_aggregates_only` nothing else is left.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Format, Json, each};
use crate::import::entry::{Entry, Identity, Outcome, Problem, Run, Statistic, figure};
use crate::import::found::{Found, Started};
use crate::import::json::Document;
use crate::import::units::ns_per;
use crate::{Cache, Machine};

pub const FORMAT: Format = Format {
    tool: "google-benchmark",
    about: "Google Benchmark, --benchmark_format=json: each repetition is a run",
    rules: &["real_time, in its time_unit, becomes nanoseconds per iteration"],
    json: Some(Json {
        fields: &[&["context", "benchmarks"]],
        read: |documents, found| each(documents, found, read),
    }),
    text: None,
};

const NAME: &str = "Google Benchmark";
const REPETITIONS: &str = "runs are repetitions inside one process";
/// What older versions put behind the name of an aggregate, before there was `aggregate_name`. They always write these three.
const AGGREGATES: [&str; 3] = ["_mean", "_median", "_stddev"];

#[derive(Deserialize)]
struct File<'a> {
    context: Context,
    #[serde(borrow)]
    benchmarks: Vec<&'a RawValue>,
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
struct Benchmark {
    name: String,
    run_name: Option<String>,
    run_type: Option<String>,
    family_index: Option<u64>,
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
    #[serde(default)]
    skipped: bool,
    skip_message: Option<String>,
    label: Option<String>,
    /// Counters of the benchmark, and what else there is.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Numbers that are no counters of the benchmark.
const NO_COUNTERS: [&str; 3] = ["per_family_instance_index", "repetitions", "repetition_index"];

fn read(document: &Document<'_>, found: &mut Found) -> Result<(), Problem> {
    let file: File<'_> = document.parse(NAME)?;
    let context = file.context;
    found.versions.extend(context.library_version.clone());
    found.started = found.started.take().or(context.date.as_deref().and_then(started));
    if let Some(machine) = machine(&context) {
        found.machine(document.line, machine)?;
    }
    let mut benchmarks = Vec::new();
    for raw in file.benchmarks {
        match document.entry::<Benchmark>(raw, NAME) {
            Ok(benchmark) => benchmarks.push((document.line_of(raw), benchmark)),
            Err(problem) => found.problem(problem.line.unwrap_or(document.line), problem.why),
        }
    }
    let names: BTreeSet<&str> = benchmarks.iter().map(|(_, of)| of.name.as_str()).collect();
    let has_types = benchmarks.iter().any(|(_, of)| of.run_type.is_some());
    let stem = |name: &str| {
        let stem = AGGREGATES.iter().find_map(|end| name.strip_suffix(end)).filter(|_| !has_types)?;
        AGGREGATES.iter().all(|end| names.contains(format!("{stem}{end}").as_str())).then(|| stem.to_owned())
    };
    let stems: Vec<Option<String>> = benchmarks.iter().map(|(_, of)| stem(&of.name)).collect();
    // The families of a name, in the order of the file.
    let mut families: BTreeMap<String, Vec<Option<u64>>> = BTreeMap::new();
    for ((line, mut benchmark), stem) in benchmarks.into_iter().zip(stems) {
        if let Some(stem) = stem {
            benchmark.aggregate_name = Some(benchmark.name[stem.len() + 1..].to_owned());
            (benchmark.run_type, benchmark.run_name) = (Some("aggregate".into()), Some(stem));
        }
        let name = benchmark.run_name.clone().unwrap_or_else(|| benchmark.name.clone());
        let known = families.entry(name.clone()).or_default();
        let family = known.iter().position(|family| *family == benchmark.family_index).unwrap_or_else(|| {
            known.push(benchmark.family_index);
            known.len() - 1
        });
        let family = (family > 0).then(|| ("family", (family + 1).to_string()));
        let threads = benchmark.threads.map(|threads| ("threads", threads.to_string()));
        let build = context.library_build_type.clone().map(|build| ("library_build_type", build));
        let identity = Identity::new(name, "ns/op").with([family, threads, build].into_iter().flatten());
        match benchmark.outcome() {
            Ok(outcome) => found.add(Entry {
                facts: benchmark.label.map(|label| ("label".to_owned(), label)).into_iter().collect(),
                notes: if matches!(outcome, Outcome::Runs(_)) {
                    vec![REPETITIONS.into()]
                } else {
                    Vec::new()
                },
                ..Entry::new(line, identity, outcome)
            }),
            Err(why) => found.problem(line, format!("{why}; `{}` is left out", benchmark.name)),
        }
    }
    Ok(())
}

impl Benchmark {
    fn outcome(&self) -> Result<Outcome, String> {
        if self.error_occurred || self.skipped {
            let message = self.error_message.as_ref().or(self.skip_message.as_ref());
            let why = if self.error_occurred { "it failed" } else { "it was skipped" };
            return Ok(Outcome::Skipped(
                message.filter(|message| !message.is_empty()).map_or(why, |message| message).into(),
            ));
        }
        let unit = self.time_unit.as_deref().unwrap_or("ns");
        let scale = ns_per(unit).ok_or_else(|| format!("`{unit}` is not a unit of time that is known"))?;
        let time = self.real_time.ok_or("no real_time".to_owned());
        let time = time.and_then(|time| figure(time * scale, "ns of real_time"));
        if self.run_type.as_deref() == Some("aggregate") {
            let value = time.ok().filter(|_| self.aggregate_unit.as_deref() != Some("percentage"));
            let name = self.aggregate_name.clone().unwrap_or_else(|| self.name.clone());
            return Ok(Outcome::Statistic(Statistic { name, value }));
        }
        let time = match time {
            Ok(time) => time,
            Err(why) => return Ok(Outcome::Skipped(why)),
        };
        let cpu_ns = self.cpu_time.map(|cpu| cpu * scale);
        let mut run = Run { ops_per_sample: self.iterations, cpu_ns, ..Run::of(time) };
        for (name, value) in self.others.iter().filter(|(name, _)| !NO_COUNTERS.contains(&name.as_str())) {
            run.further(&name.replace("_per_second", "_per_s"), value.as_f64().unwrap_or(f64::NAN));
        }
        Ok(Outcome::Runs(vec![run]))
    }
}

/// The context has `2026-11-22T03:01:51+00:00`, of which other offsets become UTC; before version 1.5.1 it had `2026-11-22 03:01:51`, by the
/// clock of the machine.
fn started(date: &str) -> Option<Started> {
    if let Ok(at) = date.parse::<jiff::Timestamp>() {
        return Some(Started { at: at.to_string(), is_local: false });
    }
    // Versions before 1.5 write `2015/03/17-18:40:25`.
    let old = || jiff::civil::DateTime::strptime("%Y/%m/%d-%H:%M:%S", date);
    let local: jiff::civil::DateTime = date.parse().or_else(|_| old()).ok()?;
    let at = local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().to_string();
    Some(Started { at, is_local: true })
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
