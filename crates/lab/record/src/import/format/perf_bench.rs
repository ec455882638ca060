//! `perf bench` in its default text form, any number of benchmarks in one file; each is a run of one average.

use super::Format;
use crate::import::text::{figure, lines};
use crate::import::units::ns_per;
use crate::import::{Case, Foreign, Input, Problem};

pub const FORMAT: Format = Format {
    tool: "perf-bench",
    about: "perf bench, default text: each benchmark is a run of one average",
    accepts: |text| text.contains("# Running '") && text.contains("' benchmark:"),
    read,
};

const RULES: [&str; 2] = [
    "usecs/op becomes nanoseconds per operation; ops/sec is operations per second",
    "MB/sec and GB/sec of `perf bench mem` are powers of 1024 and become bytes per second",
];
const NOTE: &str = "only an average";

/// A benchmark of the file while it is read.
#[derive(Default)]
struct Open {
    name: String,
    line: usize,
    function: Option<String>,
    found: Vec<(String, &'static str, f64)>,
    total_ns: Option<f64>,
}

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let mut foreign = Foreign { rules: RULES.into(), ..Foreign::default() };
    let mut open: Option<Open> = None;
    for (number, line) in lines(input.text) {
        if let Some(name) = line.strip_prefix("# Running '").and_then(|rest| rest.split('\'').next()) {
            close(open.take(), &mut foreign);
            open = Some(Open { name: name.into(), line: number, ..Open::default() });
        } else if let Some(open) = &mut open
            && let Err(why) = open.take(&line)
        {
            foreign.problems.push(Problem::at(number, why));
        }
    }
    close(open, &mut foreign);
    Ok(foreign)
}

impl Open {
    /// Takes a line of the benchmark; what is not a figure is passed over.
    fn take(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            ["#", "function", name, ..] => self.function = Some(name.trim_matches('\'').into()),
            ["Total", "time:", value, "[sec]"] => {
                self.total_ns = figure(value).map(|seconds| seconds * 1e9);
            }
            ["Averaged", value, "operations/sec", ..] => self.push("ops/s", figure(value)),
            [value, unit] if unit.contains('/') && figure(value).is_some() => {
                let value = figure(value);
                match unit.split_once('/') {
                    Some((time, "op")) if ns_per(time).is_some() => {
                        self.push("ns/op", value.zip(ns_per(time)).map(|(value, ns)| value * ns));
                    }
                    Some(("ops", "sec")) => self.push("ops/s", value),
                    Some((bytes, "sec")) => match rate(bytes) {
                        Some(factor) => self.push("bytes/s", value.map(|value| value * factor)),
                        None => return Err(format!("`{unit}` of {} is not a unit that is known", self.name)),
                    },
                    _ => return Err(format!("`{unit}` of {} is not a unit that is known", self.name)),
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, unit: &'static str, value: Option<f64>) {
        let name = match &self.function {
            Some(function) => format!("{}/{function}", self.name),
            None => self.name.clone(),
        };
        self.found.extend(value.map(|value| (name, unit, value)));
    }
}

/// `perf bench mem` divides by 1024 for each prefix and prints `KB`, `MB`, `GB`.
fn rate(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" | "bytes" => 1.0,
        "KB" => 1024.0,
        "MB" => f64::from(1 << 20),
        "GB" => f64::from(1 << 30),
        _ => return None,
    })
}

/// The time of an operation is kept where there is one; its inverse says the same.
fn close(open: Option<Open>, foreign: &mut Foreign) {
    let Some(mut open) = open else { return };
    if open.found.iter().any(|(_, unit, _)| *unit == "ns/op") {
        open.found.retain(|(_, unit, _)| *unit != "ops/s");
    }
    if open.found.is_empty() {
        // `sched messaging` has only its total time.
        open.found.extend(open.total_ns.map(|total| (open.name.clone(), "ns/benchmark", total)));
    }
    if open.found.is_empty() {
        let why =
            format!("no figure of `perf bench {}` follows that is understood", open.name.replace('/', " "));
        foreign.problems.push(Problem::at(open.line, why));
    }
    for (name, unit, value) in open.found {
        match foreign.cases.iter_mut().find(|case| case.name == name && case.unit == unit) {
            Some(known) => known.runs.push(crate::import::Run::of(value)),
            None => foreign.cases.push(Case::new(name, unit).averages([value], NOTE)),
        }
    }
}
