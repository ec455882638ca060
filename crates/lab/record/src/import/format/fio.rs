//! fio's JSON (`--output-format=json` or `json+`): bandwidth and latency of each direction of each job.
//!
//! fio gives averages over the job, and percentiles; with `json+` also a histogram of the latencies. Version 2 has `lat` and `clat` in
//! microseconds instead of `lat_ns` and `clat_ns`. With `--status-interval` a file has several documents about one run, each from its beginning; the
//! last is the result.
//!
//! Identity: the name of the job, all its options (fio's manual, "Job file format": a job is what its options say), the direction, the
//! client that ran it, and its number among equal jobs: those of `numjobs` run at the same time and are no repetitions.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Format, Json};
use crate::Latencies;
use crate::import::entry::{Entry, Identity, Outcome, Problem, told_percentiles};
use crate::import::found::Found;
use crate::import::json::Document;

pub const FORMAT: Format = Format {
    tool: "fio",
    about: "fio --output-format=json or json+: bandwidth and latency of each direction of each job",
    rules: &[
        "bw_bytes, or bw in KiB/s where that is missing, becomes bytes per second",
        "lat_ns, or clat_ns where that is missing, is nanoseconds per operation; lat and clat of fio 2 are microseconds",
    ],
    json: Some(Json { fields: &[&["fio version", "jobs"], &["fio version", "client_stats"]], read }),
    text: None,
};

const NOTE: &str = "only the average over the job";

#[derive(Deserialize)]
struct File<'a> {
    #[serde(rename = "fio version")]
    version: String,
    timestamp: Option<i64>,
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, Value>,
    #[serde(borrow, alias = "client_stats")]
    jobs: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    error: i64,
    /// Milliseconds since 1970, of newer versions.
    #[serde(default)]
    job_start: u64,
    /// Seconds since fio began.
    #[serde(default)]
    elapsed: i64,
    hostname: Option<String>,
    port: Option<u32>,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, Value>,
    read: Option<Direction>,
    write: Option<Direction>,
    trim: Option<Direction>,
    mixed: Option<Direction>,
    sync: Option<Direction>,
}

#[derive(Deserialize)]
struct Direction {
    #[serde(default)]
    io_bytes: u64,
    total_ios: Option<u64>,
    bw_bytes: Option<f64>,
    bw: Option<f64>,
    lat_ns: Option<Latency>,
    clat_ns: Option<Latency>,
    lat: Option<Latency>,
    clat: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    #[serde(default)]
    max: f64,
    mean: f64,
    /// Absent before version 3.
    #[serde(rename = "N")]
    observations: Option<u64>,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

/// What a document says.
struct Report {
    number: usize,
    version: String,
    timestamp: Option<i64>,
    global: BTreeMap<String, Value>,
    /// Each with its line.
    jobs: Vec<(usize, Job)>,
    /// How many reports of the same run came before.
    earlier: usize,
}

fn read(documents: &[&Document<'_>], found: &mut Found) {
    let mut reports: Vec<Report> = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        match report(number, document, found) {
            Ok(mut report) => {
                if let Some(last) = reports.pop_if(|last| report.continues(last)) {
                    report.earlier = last.earlier + 1;
                }
                reports.push(report);
            }
            Err(problem) => found.problem(problem.line.unwrap_or(document.line), problem.why),
        }
    }
    for report in reports {
        report.add_to(found);
    }
}

fn report(number: usize, document: &Document<'_>, found: &mut Found) -> Result<Report, Problem> {
    let File { version, timestamp, global, jobs } = document.parse("fio")?;
    let mut read = Vec::new();
    for raw in jobs {
        match document.entry(raw, "fio") {
            Ok(job) => read.push((document.line_of(raw), job)),
            Err(problem) => found.problem(problem.line.unwrap_or(document.line), problem.why),
        }
    }
    Ok(Report { number, version, timestamp, global, jobs: read, earlier: 0 })
}

impl Report {
    /// Is it of the same run as the one before, only later? Then it has the same jobs with the same options, which
    /// began at the same time and have done no less.
    fn continues(&self, before: &Report) -> bool {
        let began = |of: &Report, job: &Job| of.timestamp.map(|at| at - job.elapsed);
        let same = |((_, now), (_, then)): (&(usize, Job), &(usize, Job))| {
            let is_same_start = match (then.job_start, now.job_start) {
                (0, 0) => began(self, now)
                    .zip(began(before, then))
                    .is_some_and(|(now, then)| (now - then).abs() <= 1),
                (then, now) => then == now || then == 0,
            };
            let done = |job: &Job| job.directions().map(|(_, of)| of.map_or(0, Direction::amount));
            let has_done_more = done(now).iter().zip(done(then)).all(|(now, then)| *now >= then);
            now.jobname == then.jobname
                && now.options == then.options
                && now.elapsed >= then.elapsed
                && is_same_start
                && has_done_more
        };
        self.global == before.global
            && self.jobs.len() == before.jobs.len()
            && self.jobs.iter().zip(&before.jobs).all(same)
    }

    fn add_to(self, found: &mut Found) {
        let path = found.path.clone();
        found.session(&path, self.number, "");
        found.versions.insert(self.version);
        if let Some(at) = self.timestamp {
            found.started_at(at - self.jobs.first().map_or(0, |(_, job)| job.elapsed));
        }
        let mut equal: HashMap<Identity, usize> = HashMap::new();
        for (line, job) in self.jobs {
            let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let options =
                self.global.iter().chain(&job.options).map(|(name, value)| (name.clone(), shown(value)));
            let mut settings: BTreeMap<String, String> = options.collect();
            let client =
                [("hostname", job.hostname.clone()), ("port", job.port.map(|port| port.to_string()))];
            settings.extend(client.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
            let payload_bytes = settings.get("bs").and_then(|bs| block_size(bs)).unwrap_or(0);
            let mut identity = Identity::new(&job.jobname, "bytes/s").with(settings.clone());
            let before = equal.entry(identity.clone()).or_default();
            *before += 1;
            if *before > 1 {
                settings.insert("job".into(), before.to_string());
                identity = identity.with(settings);
            }
            let earlier =
                (self.earlier > 0).then(|| format!("the last of {} reports of one run", self.earlier + 1));
            for mut entry in job.entries(line, &identity) {
                entry.notes.extend(earlier.clone());
                found.add(Entry { payload_bytes, ..entry });
            }
        }
    }
}

impl Job {
    fn directions(&self) -> [(&'static str, Option<&Direction>); 5] {
        [
            ("read", &self.read),
            ("write", &self.write),
            ("trim", &self.trim),
            ("mixed", &self.mixed),
            ("sync", &self.sync),
        ]
        .map(|(name, of)| (name, of.as_ref()))
    }

    /// Bandwidth and latency of each direction that was used.
    fn entries(&self, line: usize, identity: &Identity) -> Vec<Entry> {
        let anomaly =
            (self.error != 0).then(|| format!("fio reports that the job failed with error {}", self.error));
        let mut entries = Vec::new();
        for (name, direction) in self.directions() {
            let Some(direction) = direction.filter(|direction| direction.amount() > 0) else { continue };
            let named = |end: &str, unit| Identity {
                name: format!("{}/{name}{end}", identity.name),
                settings: identity.settings.clone(),
                ..Identity::new("", unit)
            };
            let bandwidth = direction.bw_bytes.or(direction.bw.map(|kib| kib * 1024.0));
            entries.extend(bandwidth.map(|of| Entry::average(line, named("", "bytes/s"), of, NOTE)));
            entries.extend(direction.latency(line, named("/latency", "ns/op")));
        }
        for entry in &mut entries {
            if let Outcome::Runs(runs) = &mut entry.outcome {
                runs.iter_mut().for_each(|run| run.anomaly.clone_from(&anomaly));
            }
        }
        if entries.is_empty() {
            let why = anomaly.unwrap_or_else(|| "it did no input or output".into());
            entries.push(Entry::new(line, identity.clone(), Outcome::Skipped(why)));
        }
        entries
    }
}

impl Direction {
    /// Operations, or where fio does not count them, bytes.
    fn amount(&self) -> u64 {
        self.total_ios.unwrap_or(self.io_bytes)
    }

    fn latency(&self, line: usize, identity: Identity) -> Option<Entry> {
        let is_known = |latency: &&Latency| latency.mean > 0.0 && latency.observations != Some(0);
        // Percentiles are of the completion latency, unless fio was told otherwise.
        let (all, ns) = match (&self.lat_ns, &self.clat_ns) {
            (None, None) => ([&self.lat, &self.clat], 1e3),
            of_ns => (of_ns.into(), 1.0),
        };
        let all = || all.into_iter().flatten();
        let average = all().find(is_known)?;
        let mut entry = Entry::average(line, identity, average.mean * ns, NOTE);
        let detailed = all().find(|latency| !latency.percentile.is_empty());
        if let (Some(detailed), Outcome::Runs(runs)) = (detailed, &mut entry.outcome) {
            match detailed.histogram().filter(|_| ns == 1.0) {
                Some(latencies) => runs[0].latencies = Some(Box::new(latencies)),
                None => {
                    let told = detailed.percentile.iter();
                    let told = told.filter_map(|(percent, value)| Some((percent.parse().ok()?, value * ns)));
                    let observations = detailed.observations.or(self.total_ios).unwrap_or(0);
                    entry.distribution = told_percentiles(told, observations, (detailed.max * ns) as u64);
                }
            }
            entry.notes.push("the percentiles are fio's".into());
        }
        Some(entry)
    }
}

impl Latency {
    fn histogram(&self) -> Option<Latencies> {
        let mut counts: Vec<(u64, u64)> =
            self.bins.iter().filter_map(|(ns, count)| Some((ns.parse().ok()?, *count))).collect();
        counts.sort_unstable();
        let max_ns = self.max as u64;
        (!counts.is_empty()).then_some(Latencies { counts, max_ns, clock_read_ns: 0.0 })
    }
}

/// `4k`, `4096`, `1m`: fio's prefixes are binary by default. Two sizes, as in `4k,8k`, are no single payload.
fn block_size(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" | "kb" | "ki" | "kib" => 1 << 10,
        "m" | "mb" | "mi" | "mib" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_are_binary() {
        assert_eq!(["4k", "512", "4k,8k"].map(block_size), [Some(4096), Some(512), None]);
    }

    #[test]
    fn the_bins_of_json_plus_are_a_histogram() {
        let latency: Latency =
            serde_json::from_str(r#"{"max":90,"mean":20.0,"N":3,"bins":{"9":1,"20":2}}"#).unwrap();
        assert_eq!(latency.histogram().unwrap().counts, [(9, 1), (20, 2)]);
    }
}
