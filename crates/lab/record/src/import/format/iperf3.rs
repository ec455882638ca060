//! iperf3's JSON (`--json`): each interval that is not omitted is a sample; the test is one run.

use std::collections::BTreeMap;

use crate::Machine;
use serde::Deserialize;

use super::{Format, is_json_with};
use crate::import::json::parse;
use crate::import::{Case, Foreign, Input, Problem, Run, TCP_CWND, TCP_RETRANSMITS};

pub const FORMAT: Format = Format {
    tool: "iperf3",
    about: "iperf3 --json: each interval is a sample, each test a run",
    accepts: |text| {
        is_json_with(text, &["start"]) && (text.contains("\"iperf ") || text.contains("\"connected\""))
    },
    read,
};

const RULE: &str = "bits per second, decimal, become bytes per second by a division by 8";

#[derive(Deserialize)]
struct File {
    start: Start,
    #[serde(default)]
    intervals: Vec<Interval>,
    end: Option<End>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Start {
    version: Option<String>,
    system_info: Option<String>,
    timestamp: Option<Timestamp>,
    test_start: Option<Test>,
}

#[derive(Deserialize)]
struct Timestamp {
    timesecs: i64,
}

#[derive(Deserialize)]
struct Test {
    protocol: String,
    num_streams: u32,
    blksize: u64,
    #[serde(default)]
    reverse: u32,
}

#[derive(Deserialize)]
struct Interval {
    sum: Sum,
    #[serde(default)]
    streams: Vec<Stream>,
}

#[derive(Deserialize)]
struct Stream {
    /// Bytes; of TCP, and where the reporting end sends.
    snd_cwnd: Option<u64>,
}

#[derive(Deserialize)]
struct Sum {
    bits_per_second: f64,
    #[serde(default)]
    omitted: bool,
    lost_packets: Option<i64>,
    /// Of TCP, and where the reporting end sends.
    retransmits: Option<u64>,
}

#[derive(Deserialize)]
struct End {
    sum_received: Option<Sum>,
    sum: Option<Sum>,
}

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let file: File = parse(input.text, "iperf3")?;
    if let Some(error) = file.error {
        return Err(Problem::of_file(format!("is of an iperf3 that failed: {error}")));
    }
    let Some(test) = file.start.test_start else {
        return Err(Problem::of_file("is of an iperf3 test that never started"));
    };
    let started = file.start.timestamp.and_then(|at| jiff::Timestamp::from_second(at.timesecs).ok());
    let name = match (test.protocol.to_ascii_lowercase(), test.reverse) {
        (protocol, 0) => protocol,
        (protocol, _) => format!("{protocol}/reverse"),
    };
    let name = if test.num_streams > 1 { format!("{name}/{} streams", test.num_streams) } else { name };
    let mut case = Case::new(name, "bytes/s");
    case.payload_bytes = test.blksize;
    case.facts.insert("streams".into(), test.num_streams.to_string());
    let kept = file.intervals.iter().filter(|interval| !interval.sum.omitted);
    // An interval in which nothing went through is one: without it a connection that stood still would look as fast as one that did not.
    let samples: Vec<f64> = kept.map(|interval| interval.sum.bits_per_second / 8.0).collect();
    if let Some(rate) = samples.iter().find(|rate| **rate < 0.0) {
        return Err(Problem::of_file(format!(
            "has an interval of {} bits per second, which is not a rate",
            rate * 8.0
        )));
    }
    let received = file.end.as_ref().and_then(|end| end.sum_received.as_ref().or(end.sum.as_ref()));
    if samples.is_empty() {
        let rate = received.map(|sum| sum.bits_per_second / 8.0).filter(|rate| *rate > 0.0);
        case = case.averages(rate, "only the average over the test; the file has no intervals");
    } else {
        case.notes.push("the samples are what the reporting end counted in each interval".into());
        let lost = file.end.as_ref().and_then(|end| end.sum.as_ref()?.lost_packets).filter(|lost| *lost > 0);
        let anomaly = lost.map(|lost| format!("{lost} packets were lost"));
        case.runs.push(Run { samples, anomaly, series: of_tcp(&file.intervals), ..Run::default() });
    }
    Ok(Foreign {
        version: file.start.version.unwrap_or_default().trim_start_matches("iperf ").into(),
        started: started.map(|at| at.to_string()),
        machine: file.start.system_info.as_deref().and_then(machine),
        rules: vec![RULE],
        cases: vec![case],
        ..Foreign::default()
    })
}

/// All that was sent again in the intervals that are not omitted, and the window of each stream in each of them.
fn of_tcp(intervals: &[Interval]) -> BTreeMap<String, Vec<f64>> {
    let kept = || intervals.iter().filter(|interval| !interval.sum.omitted);
    let again: Option<u64> = kept().map(|interval| interval.sum.retransmits).sum();
    let windows = kept().flat_map(|interval| &interval.streams).filter_map(|stream| stream.snd_cwnd);
    let windows: Vec<f64> = windows.map(|bytes| bytes as f64 / 1024.0).collect();
    let again = again.filter(|_| kept().next().is_some()).map(|count| (TCP_RETRANSMITS, vec![count as f64]));
    let windows = Some((TCP_CWND, windows)).filter(|(_, windows)| !windows.is_empty());
    again.into_iter().chain(windows).map(|(name, values)| (name.to_owned(), values)).collect()
}

/// `uname -a`: `Linux HOST RELEASE BUILD… ARCH`.
fn machine(system_info: &str) -> Option<Machine> {
    let words: Vec<&str> = system_info.split_whitespace().collect();
    let [_, hostname, kernel, build @ .., arch] = &words[..] else { return None };
    Some(Machine {
        hostname: (*hostname).into(),
        kernel: (*kernel).into(),
        kernel_build: build.join(" "),
        arch: (*arch).into(),
        ..Machine::default()
    })
}
