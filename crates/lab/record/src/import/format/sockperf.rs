//! sockperf's text: the average latency and percentiles of ping-pong and under-load, the rates of throughput.

use super::Format;
use crate::import::text::{figure, lines};
use crate::import::{Case, Foreign, Input, Problem, Run, told_percentiles};

pub const FORMAT: Format = Format {
    tool: "sockperf",
    about: "sockperf, text of the client: one run with its percentiles",
    accepts: |text| text.contains("sockperf:"),
    read,
};

const RULES: [&str; 2] = [
    "latencies in microseconds become nanoseconds; sockperf halves the round trip, so the unit is a hop",
    "BandWidth in MBps is in MiB per second and becomes bytes per second",
];

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let mut foreign = Foreign { rules: RULES.into(), ..Foreign::default() };
    let (mut name, mut observations, mut max_ns) = (String::from("udp"), 0, 0);
    let mut percentiles = Vec::new();
    let (mut latency, mut bandwidth, mut messages, mut anomaly) = (None, None, None, None);
    for (number, line) in lines(input.text) {
        let line = line.trim_start_matches("sockperf: ");
        let after = |prefix: &str| line.split_once(prefix).map(|(_, rest)| rest.trim());
        let first = |text: &str| text.split_whitespace().next().and_then(figure);
        if let Some(version) = after("== version #") {
            foreign.version = version.trim_end_matches(['=', ' ']).into();
        } else if line.starts_with('[') && line.contains("IP =") {
            name = line.rsplit("# ").next().unwrap_or("udp").to_ascii_lowercase();
        } else if let Some(text) = after("Summary: Latency is ") {
            if !text.ends_with("usec") {
                let unit = text.split_whitespace().last().unwrap_or(text);
                return Err(Problem::at(number, format!("`{unit}` is not a unit of sockperf's latency")));
            }
            latency = first(text);
        } else if let Some(text) = after("Summary: Message Rate is ") {
            messages = first(text);
        } else if let Some(text) = after("Summary: BandWidth is ") {
            if !text.contains("MBps") {
                return Err(Problem::at(number, "the bandwidth is not in MBps".to_owned()));
            }
            bandwidth = first(text);
        } else if let Some(text) = after("Total ").filter(|text| text.contains("observations")) {
            observations = first(text).unwrap_or(0.0) as u64;
        } else if let Some(text) = after("<MAX> observation =") {
            max_ns = figure(text).map_or(0, |usec| (usec * 1e3) as u64);
        } else if let Some((percent, usec)) = after("---> percentile ").and_then(|text| text.split_once('='))
        {
            percentiles.extend(figure(percent).zip(figure(usec)));
        } else if line.starts_with("# dropped messages") && lost(line) {
            anomaly = Some(line.trim_start_matches("# ").to_owned());
        }
    }
    let note = "only the average over the run";
    let run = |value: f64| Run { anomaly: anomaly.clone(), ..Run::of(value) };
    let average = |name: String, unit: &str, value: f64| {
        let mut case = Case::new(name, unit).averages([], note);
        case.runs = vec![run(value)];
        case
    };
    if let Some(usec) = latency {
        let mut case = average(format!("{name}/latency"), "ns/hop", usec * 1e3);
        let told = percentiles.into_iter().map(|(percent, usec)| (percent, usec * 1e3));
        case.distribution = told_percentiles(told, observations, max_ns);
        case.notes.extend(case.distribution.as_ref().map(|_| "the percentiles are sockperf's".into()));
        foreign.cases.push(case);
    }
    foreign.cases.extend(messages.map(|rate| average(format!("{name}/messages"), "messages/s", rate)));
    let bandwidth = bandwidth.map(|rate| rate * f64::from(1 << 20));
    foreign.cases.extend(bandwidth.map(|rate| average(format!("{name}/bandwidth"), "bytes/s", rate)));
    if foreign.cases.is_empty() {
        let last = input.text.lines().count();
        return Err(Problem::at(last, "sockperf's output ends before its summary"));
    }
    Ok(foreign)
}

/// `# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0`
fn lost(line: &str) -> bool {
    line.split(';').any(|part| part.rsplit('=').next().is_some_and(|count| count.trim() != "0"))
}
