//! Each format with a file of its tool.
//!
//! All files were made by running the tool: Google Benchmark 1.7.1, hyperfine 1.15, fio 3.33, iperf3 3.12, Criterion 0.5, perf bench,
//! sockperf 3.7, Go and lmbench 3 (with ENOUGH=5000 TIMING_O=0 LOOP_O=0). That of akbench is the output that its author published in 2025.
//! Names of hosts were replaced. Of those in `versions/` Go 1.26 was run; the others have the form of the version that they name, by its source
//! or output published with it, and invented figures.

mod entries;
mod forms;

use std::path::{Path, PathBuf};

use weighbridge_record::import::{
    About, Added, Benchmark, FORMATS, Found, Identity, Import, Input, Problem, Run, read,
};
use weighbridge_record::{Line, Summary};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

/// A file of each form that is read.
const FILES: [&str; 16] = [
    "google-benchmark.json",
    "google-benchmark-aggregates.json",
    "hyperfine.json",
    "fio.json",
    "iperf3.json",
    "criterion/copy/64/new/sample.json",
    "criterion/copy/64/new/estimates.json",
    "criterion/getppid/new/sample.json",
    "csv/raw.csv",
    "perf-bench.txt",
    "sockperf.txt",
    "akbench.txt",
    "go-bench.txt",
    "lmbench.txt",
    "kernel-bench.txt",
    "dbus-ping-pong.json",
];

/// Files in the form of single versions of their tools, which their names tell.
fn versions() -> Vec<String> {
    let files = std::fs::read_dir(path("versions")).unwrap();
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        format!("versions/{}", file.unwrap().file_name().display())
    };
    let mut names: Vec<String> = files.map(name).collect();
    names.sort_unstable();
    names
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

fn found(text: &str) -> Found {
    read(Input { path: Path::new("x"), text }).unwrap_or_else(|why| panic!("{why}: {text}"))
}

fn benchmarks(found: Found) -> Vec<Benchmark> {
    found.benchmarks.named().map(|(_, benchmark)| benchmark).collect()
}

/// The benchmarks of a text that has no problem.
fn of(text: &str) -> Vec<Benchmark> {
    let found = found(text);
    assert_eq!(found.problems, [], "{text}");
    benchmarks(found)
}

fn refusal(text: &str) -> Problem {
    read(Input { path: Path::new("x"), text }).unwrap_err()
}

fn problems(text: &str) -> Vec<String> {
    found(text).problems.iter().map(ToString::to_string).collect()
}

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
}

/// What was understood of a file: a line about it, and for each case one with its first run and one with what is known besides.
fn understood(name: &str) -> String {
    let found =
        read(Input { path: &path(name), text: &text(name) }).unwrap_or_else(|why| panic!("{name}: {why}"));
    assert_eq!(found.problems, [], "{name}");
    let machine =
        found.machine.as_ref().map(|of| (&of.hostname, &of.os, &of.kernel, &of.arch, of.caches.len()));
    let started = found.started.as_ref().map(|of| (&of.at, of.is_local));
    let mut lines = format!(
        "{name}: {} {:?} {started:?} {machine:?}, {} entries\n",
        found.tool, found.versions, found.entries
    );
    for (id, benchmark) in found.benchmarks.named() {
        let Benchmark { identity: Identity { name, unit, .. }, runs, .. } = &benchmark;
        lines += &format!("    {name}: {id}, {unit}, {} runs", runs.len());
        if let Some(Run { samples, ops_per_sample, cpu_ns, anomaly, .. }) = runs.first() {
            let (count, first) = (samples.len(), samples[0]);
            lines += &format!(", {count} samples of {ops_per_sample} ops, the first {first:.6}");
            lines += &format!(", CPU {cpu_ns:.6?} ns, {anomaly:?}, {:.3?}", benchmark.runs[0].series);
        }
        let Benchmark { notes, facts, distribution, alternative_to, skipped, .. } = benchmark;
        let percentiles = distribution.map(|of| {
            let percentiles = of.percentiles.into_iter().map(|of| (of.p, of.ns)).collect::<Vec<_>>();
            (of.observations, percentiles)
        });
        lines += &format!("\n        {skipped:?} {alternative_to:?} {percentiles:?} {notes:?} {facts:?}\n");
    }
    lines
}

#[test]
fn every_format_has_a_file_and_gives_its_cases() {
    let names = FILES.map(str::to_owned).into_iter().chain(versions());
    let understood = names.map(|name| understood(&name)).collect::<String>();
    for format in FORMATS {
        assert!(understood.contains(&format!(": {} {{", format.tool)), "{} has no file", format.tool);
    }
    let expected = path("understood.txt");
    if std::env::var_os("SNAPSHOTS").is_some_and(|what| what == "overwrite") {
        std::fs::write(&expected, &understood).unwrap();
    }
    for (line, expected) in understood.lines().zip(text("understood.txt").lines()) {
        assert_eq!(line, expected);
    }
    assert_eq!(understood, text("understood.txt"));
}

#[test]
fn what_a_tool_says_went_wrong_is_told() {
    let failing = text("hyperfine.json").replacen("        0,", "        3,", 1);
    let anomaly = of(&failing)[0].runs[0].anomaly.clone();
    assert_eq!(anomaly.as_deref(), Some("the command ended with exit code 3"));
    let failed = r#"{"start":{"connected":[]},"intervals":[],"end":{},"error":"unable to connect"}"#;
    assert_eq!(problems(failed), ["line 1: iperf3 failed: unable to connect"]);
    let json = r#"[{"name":"latency_getpid","average":95.559,"stddev":21.4,"unit":"ns"}]"#;
    assert_eq!((found(json).tool, of(json).len()), ("akbench", 1));
}

fn import(files: &[&str]) -> (Import, Vec<String>) {
    let mut import = Import::default();
    let mut refused = Vec::new();
    for name in files {
        let Added { problems, .. } = import.add(Input { path: &path(name), text: &text(name) });
        refused.extend(problems.iter().map(ToString::to_string));
    }
    (import, refused)
}

fn summaries<'a>(lines: &'a [Line]) -> Vec<&'a Summary> {
    let summary = |line: &'a Line| match line {
        Line::Summary(summary) => Some(summary),
        _ => None,
    };
    lines.iter().filter_map(summary).collect()
}

#[test]
fn a_record_has_the_machine_of_its_files_and_what_its_runs_amount_to() {
    let about =
        About { file_time: "2026-01-01T00:00:00Z".into(), commit: Some("1a2b".into()), ..About::default() };
    let (found, _) = import(&["hyperfine.json"]);
    let lines: Vec<Line> = found.into_lines(&about).collect();
    let Line::Header(header) = &lines[0] else { panic!("{lines:?}") };
    assert_eq!((header.tool.name.as_str(), header.tool.commit.as_deref()), ("hyperfine", Some("1a2b")));
    assert_eq!((header.machine.hostname.as_str(), header.machine.cpu_model.as_str()), ("unknown", "unknown"));
    assert_eq!(header.started, about.file_time);
    assert!(header.settings["started"].contains("does not say"), "{:?}", header.settings);
    let of_sleep = summaries(&lines)[1];
    assert_eq!(of_sleep.case.to_string(), "imported/hyperfine:sleep_0.01/0/unknown");
    // The median of eight times, and the interval of eight runs.
    close(of_sleep.median, (0.029_919_772_5) * 1e9);
    assert!(of_sleep.ci95.is_some() && of_sleep.runs == 8);
    let (found, _) = import(&["google-benchmark.json"]);
    let lines = found.into_lines(&about).collect::<Vec<_>>();
    let Line::Header(header) = &lines[0] else { panic!("{lines:?}") };
    assert_eq!((header.machine.hostname.as_str(), header.machine.kernel.as_str()), ("example", "unknown"));
    assert_eq!(header.started, "2026-11-22T03:01:51Z");
    assert!(
        lines
            .iter()
            .any(|line| matches!(line, Line::Skipped(skip) if skip.why == "no such device (7 times)"))
    );
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.complete));
}

#[test]
fn files_of_one_benchmark_are_runs_of_one_case_unless_they_are_of_one_process() {
    let (found, _) = import(&["iperf3.json", "iperf3.json"]);
    let lines = found.into_lines(&About::default()).collect::<Vec<_>>();
    assert_eq!(summaries(&lines).iter().map(|summary| summary.runs).collect::<Vec<_>>(), [2]);
    let one_process = ["criterion/copy/64/new/estimates.json", "criterion/copy/64/new/sample.json"];
    let (found, _) = import(&one_process);
    let lines = found.into_lines(&About::default()).collect::<Vec<_>>();
    assert_eq!(summaries(&lines).iter().map(|summary| summary.runs).collect::<Vec<_>>(), [1]);
    let has_samples = |line: &Line| matches!(line, Line::Run(run) if run.samples.len() == 20);
    assert!(lines.iter().any(has_samples), "the samples, not the estimate");
}

#[test]
fn an_interval_of_iperf3_in_which_nothing_went_through_is_a_sample_and_a_negative_one_is_refused() {
    let changed = |rate: f64| {
        let mut json: serde_json::Value = serde_json::from_str(&text("iperf3.json")).unwrap();
        let intervals = json["intervals"].as_array_mut().unwrap();
        let kept = intervals.iter_mut().filter(|of| of["sum"]["omitted"] == false);
        let (count, last) = kept.fold((0, None), |(count, _), of| (count + 1, Some(of)));
        last.unwrap()["sum"]["bits_per_second"] = rate.into();
        let mut import = Import::default();
        let added = import.add(Input { path: Path::new("iperf3.json"), text: &json.to_string() });
        (count, added.problems, import.into_lines(&About::default()).collect::<Vec<_>>())
    };
    let (count, _, lines) = changed(0.0);
    let samples = lines.into_iter().find_map(|line| match line {
        Line::Run(run) => Some(run.samples),
        _ => None,
    });
    let samples = samples.unwrap();
    assert_eq!((samples.len(), samples.last()), (count, Some(&0.0)));
    let why = changed(-8.0).1[0].to_string();
    assert!(why.contains("an interval of -8 bits per second"), "{why}");
}

/// The first interval, which is omitted, has 32 of them.
#[test]
fn what_tcp_sent_again_and_its_window_come_with_the_rate_of_iperf3() {
    let (found, _) = import(&["iperf3.json"]);
    let lines = found.into_lines(&About::default()).collect::<Vec<_>>();
    let [summary] = summaries(&lines)[..] else { panic!("one case") };
    let run = lines.iter().find_map(|line| match line {
        Line::Run(run) => Some(run),
        _ => None,
    });
    let series = &run.unwrap().series;
    let json: serde_json::Value = serde_json::from_str(&text("iperf3.json")).unwrap();
    let kept: Vec<_> =
        json["intervals"].as_array().unwrap().iter().filter(|of| of["sum"]["omitted"] == false).collect();
    let again: u64 = kept.iter().map(|of| of["sum"]["retransmits"].as_u64().unwrap()).sum();
    assert_eq!(series["tcp_retransmits"], [again as f64]);
    assert_eq!(series["tcp_cwnd_kib"].len(), kept.len());
    assert_eq!(series["tcp_cwnd_kib"][0], 4_321_878.0 / 1024.0);
    assert_eq!(summary.series["tcp_retransmits"], again as f64);
}

#[test]
fn a_file_of_another_machine_is_refused_and_the_first_is_kept() {
    let other = text("google-benchmark.json").replace("\"example\"", "\"elsewhere\"");
    let (mut found, _) = import(&["google-benchmark.json"]);
    let why = found.add(Input { path: Path::new("other.json"), text: &other }).problems[0].to_string();
    assert!(why.contains("`elsewhere`") && why.contains("`example`") && why.contains("of its own"), "{why}");
    assert_eq!(summaries(&found.into_lines(&About::default()).collect::<Vec<_>>()).len(), 3);
    // One file tells the machine, the other does not: that of the record is not known.
    let (found, refused) = import(&["google-benchmark.json", "hyperfine.json"]);
    assert_eq!(refused, Vec::<String>::new());
    let lines = found.into_lines(&About::default()).collect::<Vec<_>>();
    let Line::Header(header) = &lines[0] else { panic!("{lines:?}") };
    assert_eq!(header.machine.hostname, "unknown");
    assert!(header.machine.missing[0].contains("hyperfine.json"), "{:?}", header.machine.missing);
}

#[test]
fn what_cannot_be_used_is_told_with_its_line() {
    assert_eq!(refusal("").to_string(), "is empty");
    for name in ["google-benchmark.json", "hyperfine.json", "fio.json", "iperf3.json"] {
        let whole = text(name);
        let half = &whole[..whole.len() / 2];
        let found = found(half);
        assert!(found.benchmarks.is_empty() && found.problems.len() == 1, "{name}: {:?}", found.problems);
        let Problem { line, why } = &found.problems[0];
        let lines = half.lines().count();
        assert!(line.is_some_and(|line| line >= lines && line <= lines + 1), "{name}: {line:?} of {lines}");
        assert!(why.contains("ends in the middle"), "{name}: {why}");
    }
    let sockperf = text("sockperf.txt");
    let cut = sockperf.split("sockperf: Summary").next().unwrap();
    assert!(problems(cut)[0].contains("before its summary"));
}

#[test]
fn a_foreign_unit_is_named_and_the_other_figures_are_kept() {
    let told = |text: &str| {
        let found = found(text);
        let problems: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
        (benchmarks(found), problems)
    };
    let (kept, problems) = told("latency_getpid: 95.5 ± 1.2 ns\nlatency_statfs: 3 ± 1 fortnights\n");
    assert_eq!((kept.len(), problems.len()), (1, 1));
    assert!(problems[0].starts_with("line 2: `fortnights`"), "{problems:?}");
    let (kept, problems) = told(&text("google-benchmark.json").replace("\"us\"", "\"jiffies\""));
    assert!(problems.iter().all(|why| why.starts_with("line ") && why.contains("`jiffies`")), "{problems:?}");
    assert!(kept.iter().any(|of| of.identity.name == "Copy/64"));
    let (_, problems) = told(&text("perf-bench.txt").replace("usecs/op", "cycles/op"));
    assert!(problems[0].contains("`cycles/op`"), "{problems:?}");
    let (_, problems) =
        told(&text("lmbench.txt").replace("bandwidth: 354.12 MB/sec", "bandwidth: 354.12 furlongs"));
    assert!(problems.len() == 1 && problems[0].starts_with("line 5"), "{problems:?}");
    let (kept, problems) =
        told("goos: linux\nBenchmarkA-2 10 5.0 ns/op\nBenchmarkB-2 10 5.0 widgets/op\nBenchmarkC-2 10 5.0\n");
    assert_eq!(kept.len(), 2);
    assert!(problems.len() == 1 && problems[0].starts_with("line 4"), "{problems:?}");
}
