//! sockperf's text: the average latency and percentiles of ping-pong and under-load, the rates of throughput. A file may have the output
//! of several clients one after the other.
//!
//! Identity: protocol, address and port of the server, the size of a message, and the number of the server where a client measures
//! several, as far as the client prints them.

use super::{Format, Text};
use crate::import::entry::{Entry, Identity, Outcome, told_percentiles};
use crate::import::found::Found;
use crate::import::text::{Line, lines};

pub const FORMAT: Format = Format {
    tool: "sockperf",
    about: "sockperf, text of the client: one run with its percentiles",
    rules: &[
        "latencies in microseconds become nanoseconds; sockperf halves the round trip, so the unit is a hop, unless it prints a round trip",
        "BandWidth in MBps is in MiB per second and becomes bytes per second",
    ],
    json: None,
    text: Some(Text {
        example: "sockperf: Summary: Latency is 16.915 usec",
        is_line: |line| line.contains("sockperf:"),
        hint: "sockperf",
        read,
    }),
};

/// What sockperf calls the time of a message; with `--full-rtt` it is that of the round trip.
const LATENCIES: [(&str, &str, &str); 2] = [
    ("latency", "ns/hop", "Summary: Latency is "),
    ("round trip", "ns/roundtrip", "Summary: Round trip is "),
];

/// What a figure is of, its unit, and its value.
type Figure = (&'static str, &'static str, f64);

/// What one client has printed.
#[derive(Default)]
struct Client {
    line: usize,
    protocol: String,
    settings: Vec<(&'static str, String)>,
    /// The size of a message, where it is printed.
    payload_bytes: Option<u64>,
    /// The number of the server of which the next figures are.
    server: Option<String>,
    /// Each with its server.
    figures: Vec<(Figure, Option<String>)>,
    percentiles: Vec<(f64, f64)>,
    observations: u64,
    max_ns: u64,
    anomaly: Option<String>,
    has_failed: bool,
}

fn read(text: &str, found: &mut Found) {
    let mut client = Client { line: 1, ..Client::default() };
    for line in lines(text) {
        let version =
            line.text.split_once("== version #").map(|(_, version)| version.trim_end_matches(['=', ' ']));
        if let Some(version) = version {
            found.versions.insert(version.into());
            if client.protocol.is_empty() && client.figures.is_empty() {
                client.line = line.number;
            } else {
                let next = Client { line: line.number, ..Client::default() };
                std::mem::replace(&mut client, next).close(line.number, found);
            }
        } else if let Err(why) = client.take(&line) {
            client.has_failed = true;
            found.problem(line.number, why);
        }
    }
    client.close(lines(text).count(), found);
}

impl Client {
    fn take(&mut self, line: &Line<'_>) -> Result<(), String> {
        let text = line.text.trim_start_matches("sockperf: ");
        let after = |prefix: &str| text.split_once(prefix).map(|(_, rest)| rest.trim());
        let number = |text: &str| text.parse::<f64>().map_err(|_| format!("`{text}` is not a number"));
        let first = |text: &str| number(text.split_whitespace().next().unwrap_or_default());
        if text.starts_with('[') && text.contains("IP =") {
            line.check_end()?;
            let setting = |name| {
                Some(
                    text.split_once(name)?
                        .1
                        .trim_start_matches([' ', '='])
                        .split_whitespace()
                        .next()?
                        .to_owned(),
                )
            };
            let known = [("address", setting("IP")), ("port", setting("PORT"))];
            self.settings = known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            self.protocol = text.rsplit("# ").next().unwrap_or_default().to_ascii_lowercase();
        } else if let Some(size) = after("msg-size=") {
            self.payload_bytes =
                size.split(|c: char| !c.is_ascii_digit()).next().and_then(|size| size.parse().ok());
        } else if let Some(server) = after("Server No: ") {
            self.server = Some(server.to_owned());
        } else if let Some((name, unit, text)) =
            LATENCIES.iter().find_map(|(name, unit, start)| Some((name, unit, after(start)?)))
        {
            if !text.ends_with("usec") {
                let unit = text.split_whitespace().last().unwrap_or(text);
                return Err(format!("`{unit}` is not a unit of sockperf's latency"));
            }
            self.figures.push(((name, unit, first(text)? * 1e3), self.server.clone()));
        } else if let Some(text) = after("Summary: Message Rate is ") {
            if !text.contains("[msg/sec]") {
                return Err("the message rate is not in msg/sec".into());
            }
            self.figures.push((("messages", "messages/s", first(text)?), self.server.clone()));
        } else if let Some(text) = after("Summary: BandWidth is ") {
            if !text.contains("MBps") {
                return Err("the bandwidth is not in MBps".into());
            }
            let rate = first(text)? * f64::from(1 << 20);
            self.figures.push((("bandwidth", "bytes/s", rate), self.server.clone()));
        } else if let Some(text) = after("Total ").filter(|text| text.contains("observations")) {
            self.observations = first(text)? as u64;
        } else if let Some(text) = after("<MAX> observation =") {
            line.check_end()?;
            self.max_ns = (number(text)? * 1e3) as u64;
        } else if let Some((percent, usec)) = after("---> percentile ").and_then(|text| text.split_once('='))
        {
            line.check_end()?;
            self.percentiles.push((number(percent.trim())?, number(usec.trim())? * 1e3));
        } else if text.starts_with("# dropped messages") && has_lost(text) {
            line.check_end()?;
            self.anomaly = Some(text.trim_start_matches("# ").to_owned());
        }
        Ok(())
    }

    fn close(self, last: usize, found: &mut Found) {
        if self.figures.is_empty() && !self.has_failed {
            found.problem(last, "sockperf's output ends before its summary");
        }
        let protocol = if self.protocol.is_empty() { "udp" } else { &self.protocol };
        let is_one_server = self.figures.iter().all(|(_, server)| *server == self.figures[0].1);
        for ((name, unit, value), server) in self.figures {
            let size = self.payload_bytes.map(|bytes| ("msg-size", bytes.to_string()));
            let server = server.map(|server| ("server", server));
            let settings = self.settings.iter().cloned().chain(size).chain(server);
            let identity = Identity::new(format!("{protocol}/{name}"), unit).with(settings);
            let mut entry = Entry::average(self.line, identity, value, "only the average over the run");
            entry.payload_bytes = self.payload_bytes.unwrap_or(0);
            if let Outcome::Runs(runs) = &mut entry.outcome {
                runs[0].anomaly.clone_from(&self.anomaly);
            }
            // The percentiles of several servers cannot be told apart here.
            if is_one_server && LATENCIES.iter().any(|(latency, ..)| *latency == name) {
                let told = self.percentiles.iter().copied();
                entry.distribution = told_percentiles(told, self.observations, self.max_ns);
                entry
                    .notes
                    .extend(entry.distribution.as_ref().map(|_| "the percentiles are sockperf's".into()));
            }
            found.add(entry);
        }
    }
}

/// `# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0`
fn has_lost(line: &str) -> bool {
    line.split(';').any(|part| part.rsplit('=').next().is_some_and(|count| count.trim() != "0"))
}
