//! iperf3's JSON (`--json`, or the events of `--json-stream`): each interval that is not omitted is a sample; the test is one run.
//!
//! Identity: what `test_start` says of the test (protocol, streams, block size, direction, rate, type of service), the end that reports, and
//! the host at the other end. A test in both directions (`--bidir`) is two.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Format, Json};
use crate::Machine;
use crate::import::entry::{Entry, Identity, Outcome, Problem, Run};
use crate::import::found::Found;
use crate::import::json::Document;
use crate::import::{TCP_CWND, TCP_RETRANSMITS};

pub const FORMAT: Format = Format {
    tool: "iperf3",
    about: "iperf3 --json or --json-stream: each interval is a sample, each test a run",
    rules: &["bits per second, decimal, become bytes per second by a division by 8"],
    json: Some(Json { fields: &[&["start", "intervals"], &["start", "end"], &["event", "data"]], read }),
    text: None,
};

#[derive(Default, Deserialize)]
struct File {
    start: Start,
    #[serde(default)]
    intervals: Vec<Interval>,
    end: Option<End>,
    error: Option<String>,
}

/// A line of `--json-stream`.
#[derive(Deserialize)]
struct Event<'a> {
    event: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

#[derive(Default, Deserialize)]
struct Start {
    version: Option<String>,
    system_info: Option<String>,
    timestamp: Option<Timestamp>,
    connecting_to: Option<Peer>,
    accepted_connection: Option<Peer>,
    test_start: Option<Test>,
}

#[derive(Deserialize)]
struct Peer {
    host: String,
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
    #[serde(default)]
    bidir: u32,
    #[serde(default)]
    tos: u32,
    #[serde(default)]
    target_bitrate: u64,
}

#[derive(Deserialize)]
struct Interval {
    sum: Sum,
    /// The other direction of a test in both.
    sum_bidir_reverse: Option<Sum>,
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
    sum_received_bidir_reverse: Option<Sum>,
    sum_bidir_reverse: Option<Sum>,
    sender_tcp_congestion: Option<String>,
}

fn read(documents: &[&Document<'_>], found: &mut Found) {
    let mut open: Option<(usize, File)> = None;
    for (number, document) in documents.iter().enumerate() {
        let path = found.path.clone();
        found.session(&path, number, "");
        let result = if document.fields.contains(&"event") {
            event(document, &mut open, found)
        } else {
            document.parse("iperf3").and_then(|file: File| file.add_to(document.line, found))
        };
        if let Err(problem) = result {
            found.problem(problem.line.unwrap_or(document.line), problem.why);
        }
    }
    if let Some((line, _)) = open {
        found.problem(line, "the test that begins here has no event `end`");
    }
}

fn event(
    document: &Document<'_>,
    open: &mut Option<(usize, File)>,
    found: &mut Found,
) -> Result<(), Problem> {
    let Event { event, data } = document.parse("iperf3")?;
    match (event.as_str(), &mut *open) {
        ("start", None) => {
            *open = Some((document.line, File { start: document.entry(data, "iperf3")?, ..File::default() }))
        }
        ("interval", Some((_, file))) => file.intervals.push(document.entry(data, "iperf3")?),
        ("error", Some((_, file))) => file.error = Some(document.entry(data, "iperf3")?),
        ("end", Some(_)) => {
            let (line, file) = open.take().expect("matched");
            File { end: Some(document.entry(data, "iperf3")?), ..file }.add_to(line, found)?;
        }
        ("start" | "interval" | "end" | "error", _) => {
            return Err(Problem::at(
                document.line,
                format!("the event `{event}` does not follow from those before it"),
            ));
        }
        // The output of the server, in whatever form.
        _ => {}
    }
    Ok(())
}

impl File {
    fn add_to(self, line: usize, found: &mut Found) -> Result<(), Problem> {
        if let Some(error) = self.error {
            return Err(Problem::at(line, format!("iperf3 failed: {error}")));
        }
        let Some(test) = self.start.test_start else {
            return Err(Problem::at(line, "an iperf3 test that never started"));
        };
        if let Some(machine) = self.start.system_info.as_deref().and_then(machine) {
            found.machine(line, machine)?;
        }
        if let Some(at) = &self.start.timestamp {
            found.started_at(at.timesecs);
        }
        found
            .versions
            .extend(self.start.version.as_deref().map(|of| of.trim_start_matches("iperf ").to_owned()));
        let (end, peer) = match (&self.start.accepted_connection, &self.start.connecting_to) {
            (Some(client), _) => ("server", Some(client)),
            (None, server) => ("client", server.as_ref()),
        };
        let settings = [
            ("streams", Some(test.num_streams.to_string())),
            ("blksize", Some(test.blksize.to_string())),
            ("reported-by", Some(end.to_owned())),
            ("peer", peer.map(|peer| peer.host.clone())),
            ("tos", Some(test.tos.to_string())),
            ("target_bitrate", Some(test.target_bitrate.to_string())),
            ("bidir", Some(test.bidir.to_string())),
            ("congestion", self.end.as_ref().and_then(|end| end.sender_tcp_congestion.clone())),
        ];
        let settings: Vec<_> =
            settings.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let protocol = test.protocol.to_ascii_lowercase();
        let streams =
            if test.num_streams > 1 { format!("/{} streams", test.num_streams) } else { String::new() };
        let of = |direction: &str| {
            Identity::new(format!("{protocol}{direction}{streams}"), "bytes/s").with(settings.iter().cloned())
        };
        let kept = || self.intervals.iter().filter(|interval| !interval.sum.omitted);
        let end = self.end.as_ref();
        let forth = Rates {
            intervals: kept().map(|interval| &interval.sum).collect(),
            received: end.and_then(|end| end.sum_received.as_ref().or(end.sum.as_ref())),
            sent: end.and_then(|end| end.sum.as_ref()),
        };
        let name = if test.reverse == 0 { "" } else { "/reverse" };
        let mut entry = forth.entry(line, of(name))?;
        if let Outcome::Runs(runs) = &mut entry.outcome {
            runs.iter_mut().for_each(|run| run.series = of_tcp(&self.intervals));
        }
        found.add(Entry { payload_bytes: test.blksize, ..entry });
        if test.bidir != 0 {
            let back = Rates {
                intervals: kept().filter_map(|interval| interval.sum_bidir_reverse.as_ref()).collect(),
                received: end.and_then(|end| end.sum_received_bidir_reverse.as_ref()),
                sent: end.and_then(|end| end.sum_bidir_reverse.as_ref()),
            };
            found.add(Entry { payload_bytes: test.blksize, ..back.entry(line, of("/reverse"))? });
        }
        Ok(())
    }
}

/// What is told of one direction of a test.
struct Rates<'a> {
    intervals: Vec<&'a Sum>,
    received: Option<&'a Sum>,
    sent: Option<&'a Sum>,
}

impl Rates<'_> {
    fn entry(&self, line: usize, identity: Identity) -> Result<Entry, Problem> {
        // An interval in which nothing went through is one: without it a connection that stood still would look as fast as one that did not.
        let samples: Vec<f64> = self.intervals.iter().map(|sum| sum.bits_per_second / 8.0).collect();
        if let Some(rate) = samples.iter().find(|rate| **rate < 0.0) {
            let why = format!("an interval of {} bits per second, which is not a rate", rate * 8.0);
            return Err(Problem::at(line, why));
        }
        if samples.is_empty() {
            let Some(sum) = self.received else {
                let why = "neither intervals nor a sum over the test".to_owned();
                return Ok(Entry::new(line, identity, Outcome::Skipped(why)));
            };
            let note = "only the average over the test; the file has no intervals";
            return Ok(Entry::average(line, identity, sum.bits_per_second / 8.0, note));
        }
        let lost = self.sent.and_then(|sum| sum.lost_packets).filter(|lost| *lost > 0);
        let anomaly = lost.map(|lost| format!("{lost} packets were lost"));
        let notes = vec!["the samples are what the reporting end counted in each interval".to_owned()];
        let run = Run { samples, anomaly, ..Run::default() };
        Ok(Entry { notes, ..Entry::new(line, identity, Outcome::Runs(vec![run])) })
    }
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
    let [os, hostname, kernel, build @ .., arch] = &words[..] else { return None };
    Some(Machine {
        os: (*os).into(),
        hostname: (*hostname).into(),
        kernel: (*kernel).into(),
        kernel_build: build.join(" "),
        arch: (*arch).into(),
        ..Machine::default()
    })
}
