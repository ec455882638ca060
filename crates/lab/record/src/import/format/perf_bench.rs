//! `perf bench` in its default text form, any number of benchmarks in one file; each is a run of one average.
//!
//! Identity: suite, benchmark and function, and the lines in which perf tells its parameters: those that begin with `#`, and the summary of
//! futex and epoll (perf-bench(1): groups, threads, sizes and loops are options of each benchmark).

use super::{Format, Text};
use crate::import::entry::{Entry, Identity, Outcome};
use crate::import::found::Found;
use crate::import::text::lines;
use crate::import::units::ns_per;

pub const FORMAT: Format = Format {
    tool: "perf-bench",
    about: "perf bench, default text: each benchmark is a run of one average",
    rules: &[
        "usecs/op becomes nanoseconds per operation; ops/sec is operations per second",
        "MB/sec and GB/sec of `perf bench mem` are powers of 1024 and become bytes per second",
    ],
    json: None,
    text: Some(Text {
        example: "# Running 'sched/pipe' benchmark:",
        is_line: |line| benchmark(line).is_some(),
        hint: "usecs/op",
        read,
    }),
};

const NOTE: &str = "only an average";
/// A benchmark of which perf prints nothing but its total time.
const ONLY_TOTAL: &str = "sched/messaging";

/// A benchmark, or a function of it, while it is read.
#[derive(Default)]
struct Open {
    name: String,
    function: Option<String>,
    line: usize,
    parameters: Vec<String>,
    /// Each with what perf says behind it.
    found: Vec<(&'static str, f64, String)>,
    total_ns: Option<f64>,
    has_failed: bool,
}

/// The benchmark that a line announces: `# Running 'sched/pipe' benchmark:`, or with `all`, `# Running sched/pipe benchmark...`.
fn benchmark(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# Running ")?;
    let name = rest.strip_suffix(" benchmark:").or(rest.strip_suffix(" benchmark..."))?;
    Some(name.trim_matches('\'')).filter(|name| !name.contains(' '))
}

fn read(text: &str, found: &mut Found) {
    let mut open: Option<Open> = None;
    for line in lines(text) {
        if let Some(name) = benchmark(&line.text) {
            close(open.replace(Open { name: name.into(), line: line.number, ..Open::default() }), found);
        } else if let Some(function) = line.text.strip_prefix("# function ") {
            let function = function.split_whitespace().next().map(|name| name.trim_matches('\'').to_owned());
            let name = open.as_ref().map_or(String::new(), |open| open.name.clone());
            // The first function belongs to the line above, which names the benchmark.
            let before = open.replace(Open { name, function, line: line.number, ..Open::default() });
            close(before.filter(|before| before.function.is_some()), found);
        } else if let Some(open) = &mut open
            && let Err(why) = open.take(&line.text)
        {
            open.has_failed = true;
            found.problem(line.number, why);
        }
    }
    close(open, found);
}

impl Open {
    /// Takes a line of the benchmark; what is neither a figure nor a parameter is passed over.
    fn take(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            // Addresses, which older versions print, differ from run to run.
            ["#", words @ ..] => {
                let words: Vec<&str> = words.iter().filter(|word| !word.starts_with("0x")).copied().collect();
                self.parameters.push(words.join(" "));
            }
            ["Run", "summary", "[PID", _, ..] => self.parameters.push(words[4..].join(" ")),
            ["Total", "time:", value, "[sec]"] => {
                self.total_ns = value.parse().ok().map(|seconds: f64| seconds * 1e9);
            }
            ["Averaged", value, "operations/sec", ..] => {
                self.found.extend(value.parse().ok().map(|value| ("ops/s", value, String::new())));
            }
            [value, unit, remark @ ..] if unit.contains('/') => {
                let Ok(value) = value.parse::<f64>() else { return Ok(()) };
                let unknown = || format!("`{unit}` of {} is not a unit that is known", self.name);
                let (unit, factor) = match unit.split_once('/') {
                    Some((time, "op")) => ("ns/op", ns_per(time).ok_or_else(unknown)?),
                    Some(("ops", "sec")) => ("ops/s", 1.0),
                    Some((bytes, "sec" | "Sec")) => ("bytes/s", rate(bytes).ok_or_else(unknown)?),
                    _ => return Err(unknown()),
                };
                self.found.push((unit, value * factor, remark.join(" ")));
            }
            _ => {}
        }
        Ok(())
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
fn close(open: Option<Open>, found: &mut Found) {
    let Some(mut open) = open else { return };
    if open.found.iter().any(|(unit, ..)| *unit == "ns/op") {
        open.found.retain(|(unit, ..)| *unit != "ops/s");
    }
    if open.name == ONLY_TOTAL {
        open.found.extend(open.total_ns.map(|total| ("ns/benchmark", total, String::new())));
    }
    let name = match &open.function {
        Some(function) => format!("{}/{function}", open.name),
        None => open.name,
    };
    // One setting a line, so that a name has only the one in which it differs from others.
    let parameters: Vec<_> = (1..)
        .zip(&open.parameters)
        .map(|(line, text)| (format!("parameters {line}"), text.clone()))
        .collect();
    let identity = |unit, remark: String| {
        let remark = Some(("remark".to_owned(), remark)).filter(|(_, remark)| !remark.is_empty());
        Identity::new(&name, unit).with(parameters.iter().cloned().chain(remark))
    };
    if open.found.is_empty() && !open.has_failed {
        let why = "perf prints no figure of it in a form that is known".to_owned();
        found.add(Entry::new(open.line, identity("ns/op", String::new()), Outcome::Skipped(why)));
    }
    for (unit, value, remark) in open.found {
        found.add(Entry::average(open.line, identity(unit, remark), value, NOTE));
    }
}
