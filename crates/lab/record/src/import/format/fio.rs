//! fio's JSON (`--output-format=json` or `json+`): bandwidth and latency of each direction of each job.
//!
//! fio gives averages over the job, and percentiles; with `json+` also a histogram of the latencies.

use std::collections::BTreeMap;

use crate::Latencies;
use serde::Deserialize;

use super::{Format, is_json_with};
use crate::import::json::parse;
use crate::import::{Case, Foreign, Input, Problem, told_percentiles};

pub const FORMAT: Format = Format {
    tool: "fio",
    about: "fio --output-format=json or json+: bandwidth and latency of each direction of each job",
    accepts: |text| is_json_with(text, &["fio version"]),
    read,
};

const RULES: [&str; 2] = [
    "bw_bytes, or bw in KiB/s where that is missing, becomes bytes per second",
    "lat_ns, or clat_ns where that is missing, is nanoseconds per operation",
];

#[derive(Deserialize)]
struct File {
    #[serde(rename = "fio version")]
    version: String,
    timestamp: Option<i64>,
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, String>,
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    error: i32,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, String>,
    read: Option<Direction>,
    write: Option<Direction>,
    trim: Option<Direction>,
}

#[derive(Deserialize)]
struct Direction {
    #[serde(default)]
    total_ios: u64,
    bw_bytes: Option<f64>,
    bw: Option<f64>,
    lat_ns: Option<Latency>,
    clat_ns: Option<Latency>,
}

#[derive(Deserialize)]
struct Latency {
    #[serde(default)]
    max: f64,
    mean: f64,
    #[serde(rename = "N", default)]
    observations: u64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

fn read(input: Input<'_>) -> Result<Foreign, Problem> {
    let start = input.text.find(['{', '[']).unwrap_or(0);
    let file: File = parse(&input.text[start..], "fio")?;
    let started =
        file.timestamp.and_then(|at| jiff::Timestamp::from_second(at).ok()).map(|at| at.to_string());
    let mut foreign =
        Foreign { version: file.version.clone(), started, rules: RULES.into(), ..Foreign::default() };
    for job in &file.jobs {
        let mut options = file.global.clone();
        options.extend(job.options.clone());
        for (name, direction) in [("read", &job.read), ("write", &job.write), ("trim", &job.trim)] {
            if let Some(direction) = direction.as_ref().filter(|direction| direction.total_ios > 0) {
                foreign.cases.extend(cases(job, &options, name, direction));
            }
        }
        if job.error != 0 {
            let failed = Some(format!("fio says that the job failed with error {}", job.error));
            foreign.cases.push(Case { failed, ..Case::new(&job.jobname, "bytes/s") });
        }
    }
    Ok(foreign)
}

fn cases(job: &Job, options: &BTreeMap<String, String>, name: &str, of: &Direction) -> Vec<Case> {
    let with_options = |case: Case| Case {
        payload_bytes: options.get("bs").and_then(|bs| block_size(bs)).unwrap_or(0),
        facts: options.clone(),
        ..case
    };
    let note = "only the average over the job";
    let mut cases = Vec::new();
    let bandwidth = of.bw_bytes.or(of.bw.map(|kib| kib * 1024.0)).filter(|bandwidth| *bandwidth > 0.0);
    cases.extend(bandwidth.map(|bandwidth| {
        let case = Case::new(format!("{}/{name}", job.jobname), "bytes/s");
        with_options(case.averages([bandwidth], note))
    }));
    let total = of.lat_ns.as_ref().filter(|latency| latency.observations > 0);
    // Percentiles are of the completion latency, unless fio was told otherwise.
    let detailed =
        [&of.lat_ns, &of.clat_ns].into_iter().flatten().find(|latency| !latency.percentile.is_empty());
    let Some(latency) = total.or(of.clat_ns.as_ref()).filter(|latency| latency.mean > 0.0) else {
        return cases;
    };
    let case = Case::new(format!("{}/{name}/latency", job.jobname), "ns/op");
    let mut case = with_options(case.averages([latency.mean], note));
    if let Some(detailed) = detailed {
        match histogram(detailed) {
            Some(latencies) => case.runs[0].latencies = Some(latencies),
            None => {
                let told = detailed.percentile.iter();
                let told = told.filter_map(|(percent, ns)| Some((percent.parse().ok()?, *ns)));
                case.distribution = told_percentiles(told, detailed.observations, detailed.max as u64);
            }
        }
        case.notes.push("the percentiles are fio's".into());
    }
    cases.push(case);
    cases
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

fn histogram(latency: &Latency) -> Option<Latencies> {
    let mut counts: Vec<(u64, u64)> =
        latency.bins.iter().filter_map(|(ns, count)| Some((ns.parse().ok()?, *count))).collect();
    counts.sort_unstable();
    let max_ns = latency.max as u64;
    (!counts.is_empty()).then_some(Latencies { counts, max_ns, clock_read_ns: 0.0 })
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
        assert_eq!(histogram(&latency).unwrap().counts, [(9, 1), (20, 2)]);
    }
}
