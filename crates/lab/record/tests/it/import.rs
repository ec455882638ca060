//! Each format with a file of its tool.
//!
//! All files were made by running the tool: Google Benchmark 1.7.1, hyperfine 1.15, fio 3.33, iperf3 3.12, Criterion 0.5, perf bench,
//! sockperf 3.7, Go and lmbench 3 (with ENOUGH=5000 TIMING_O=0 LOOP_O=0). That of akbench is the output that its author published in 2025.
//! Names of hosts were replaced.

use std::path::{Path, PathBuf};

use weighbridge_record::import::{About, Case, FORMATS, Foreign, Import, Input, read};
use weighbridge_record::{Line, Summary};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

fn foreign(name: &str) -> Foreign {
    let foreign =
        read(Input { path: &path(name), text: &text(name) }).unwrap_or_else(|why| panic!("{name}: {why}"));
    assert_eq!(foreign.problems, [], "{name}");
    foreign
}

fn case<'a>(foreign: &'a Foreign, name: &str) -> &'a Case {
    let found = foreign.cases.iter().find(|case| case.name == name);
    found.unwrap_or_else(|| panic!("{name} is not among {:?}", foreign.cases))
}

fn close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
}

#[test]
fn every_format_has_a_file_and_reads_it() {
    const FILES: [(&str, &str); 15] = [
        ("google-benchmark", "google-benchmark.json"),
        ("google-benchmark", "google-benchmark-aggregates.json"),
        ("hyperfine", "hyperfine.json"),
        ("fio", "fio.json"),
        ("iperf3", "iperf3.json"),
        ("criterion", "criterion/copy/64/new/sample.json"),
        ("criterion", "criterion/copy/64/new/estimates.json"),
        ("criterion", "criterion/getppid/new/sample.json"),
        ("criterion", "csv/raw.csv"),
        ("perf-bench", "perf-bench.txt"),
        ("sockperf", "sockperf.txt"),
        ("akbench", "akbench.txt"),
        ("go", "go-bench.txt"),
        ("lmbench", "lmbench.txt"),
        ("kernel-bench", "kernel-bench.txt"),
    ];
    for (tool, file) in FILES {
        assert_eq!(foreign(file).tool, tool, "{file}");
    }
    for format in FORMATS {
        assert!(FILES.iter().any(|(tool, _)| *tool == format.tool), "{} has no file", format.tool);
    }
}

#[test]
fn google_benchmark_gives_a_run_for_each_repetition_and_the_machine() {
    let found = foreign("google-benchmark.json");
    let copy = case(&found, "Copy/64");
    assert_eq!((copy.runs.len(), copy.unit.as_str(), copy.is_average), (7, "ns/op", false));
    close(copy.runs[0].samples[0], 51.69299251767403);
    assert_eq!(copy.runs[0].ops_per_sample, 5428897);
    close(copy.runs[0].cpu_ns.unwrap(), 5.064820165127466);
    // Microseconds.
    assert!(case(&found, "Getppid").runs.iter().all(|run| run.samples[0] > 50.0));
    assert_eq!(case(&found, "Fails").failed.as_deref(), Some("no such device"));
    let machine = found.machine.unwrap();
    assert_eq!(
        (machine.hostname.as_str(), machine.kernel.as_str(), machine.caches.len()),
        ("example", "", 4)
    );
    assert_eq!(found.started.as_deref(), Some("2026-11-22T03:01:51Z"));
    let aggregates = foreign("google-benchmark-aggregates.json");
    let median = case(&aggregates, "Getppid");
    assert_eq!((median.runs.len(), median.is_average), (1, true));
    assert!(median.notes[0].contains("only the median"), "{:?}", median.notes);
}

#[test]
fn the_kernel_module_gives_a_case_for_each_part_of_a_test() {
    let found = foreign("kernel-bench.txt");
    let alloc = case(&found, "kmalloc-pattern/alloc count=10000");
    assert_eq!(
        (alloc.payload_bytes, alloc.runs[0].samples.len(), alloc.runs[0].ops_per_sample),
        (64, 4, 10_000)
    );
    assert!((400.0..450.0).contains(&alloc.runs[0].samples[0]), "{alloc:?}");
    close(case(&found, "kmalloc-reuse/op").runs[0].samples[3], 809.024);
    assert_eq!(case(&found, "together-reuse/op count=1000").failed.as_deref(), Some("it needs a second CPU"));
}

#[test]
fn hyperfine_gives_a_run_for_each_execution() {
    let found = foreign("hyperfine.json");
    let sleep = case(&found, "sleep 0.01");
    assert_eq!((sleep.runs.len(), sleep.unit.as_str()), (8, "ns/command"));
    let alternatives = sleep.alternative_to.as_deref().expect("hyperfine compares its commands");
    let same = |case: &Case| case.alternative_to.as_deref() == Some(alternatives);
    assert!(found.cases.len() > 1 && found.cases.iter().all(same) && alternatives.contains("sleep 0.01"));
    close(sleep.runs[0].samples[0], 0.011909868e9);
    close(sleep.runs[0].cpu_ns.unwrap(), 0.00119375e9 + 0.000200875e9);
    assert_eq!(found.machine, None);
    let failing = text("hyperfine.json").replacen("        0,", "        3,", 1);
    let found = read(Input { path: Path::new("x"), text: &failing }).unwrap();
    assert_eq!(found.cases[0].runs[0].anomaly.as_deref(), Some("the command ended with exit code 3"));
}

#[test]
fn fio_gives_bandwidth_latency_and_percentiles() {
    let found = foreign("fio.json");
    let bandwidth = case(&found, "randread/read");
    assert_eq!((bandwidth.payload_bytes, bandwidth.unit.as_str()), (4096, "bytes/s"));
    close(bandwidth.runs[0].samples[0], 22829296.0);
    let latency = case(&found, "randread/read/latency");
    close(latency.runs[0].samples[0], 121589.639558);
    let percentiles = &latency.distribution.as_ref().unwrap().percentiles;
    assert!(percentiles.iter().any(|p| p.p == 0.99 && p.ns == 3981312.0), "{percentiles:?}");
    assert!(percentiles.iter().all(|p| p.p < 0.999), "fewer than ten observations beyond: {percentiles:?}");
    assert_eq!(found.version, "fio-3.33");
    case(&found, "randread/write");
}

#[test]
fn iperf3_gives_a_sample_for_each_interval_that_is_not_omitted() {
    let found = foreign("iperf3.json");
    let tcp = case(&found, "tcp");
    assert_eq!((tcp.payload_bytes, tcp.unit.as_str(), tcp.runs.len()), (131072, "bytes/s", 1));
    assert_eq!(tcp.runs[0].samples.len(), 4, "one second of five is omitted");
    close(tcp.runs[0].samples[0], 1520103766.0138083 / 8.0);
    let machine = found.machine.unwrap();
    assert_eq!((machine.hostname.as_str(), machine.kernel.as_str()), ("example", "6.18.44"));
    assert_eq!((machine.arch.as_str(), found.version.as_str()), ("x86_64", "3.12"));
    let failed = r#"{"start":{"connected":[]},"intervals":[],"end":{},"error":"unable to connect"}"#;
    let why = read(Input { path: Path::new("x"), text: failed }).unwrap_err();
    assert!(why.to_string().contains("unable to connect"), "{why}");
}

#[test]
fn criterion_gives_the_samples_of_one_process() {
    let found = foreign("criterion/copy/64/new/sample.json");
    let copy = case(&found, "copy/64");
    assert_eq!((copy.runs.len(), copy.runs[0].samples.len()), (1, 20));
    let rows = foreign("csv/raw.csv");
    let same = case(&rows, "copy/64");
    assert_eq!((same.payload_bytes, same.runs[0].samples.len()), (64, 20));
    close(same.runs[0].samples[0], 20654580.0 / 122327.0);
    close(copy.runs[0].samples[0], same.runs[0].samples[0]);
    assert!(case(&foreign("criterion/copy/64/new/estimates.json"), "copy/64").is_average);
}

#[test]
fn perf_bench_gives_an_average_for_each_benchmark() {
    let found = foreign("perf-bench.txt");
    let pipe = case(&found, "sched/pipe");
    close(pipe.runs[0].samples[0], 22581.150);
    assert_eq!((pipe.unit.as_str(), pipe.is_average), ("ns/op", true));
    close(case(&found, "sched/messaging").runs[0].samples[0], 0.319e9);
    let memcpy = case(&found, "mem/memcpy/default");
    close(memcpy.runs[0].samples[0], 493.914053 * 1048576.0);
    close(case(&found, "futex/hash").runs[0].samples[0], 239616.0);
}

#[test]
fn sockperf_gives_the_latency_of_a_hop_with_its_percentiles() {
    let found = foreign("sockperf.txt");
    let tcp = case(&found, "tcp/latency");
    assert_eq!(tcp.unit, "ns/hop");
    close(tcp.runs[0].samples[0], 16915.0);
    assert_eq!(tcp.runs[0].anomaly, None);
    let distribution = tcp.distribution.as_ref().unwrap();
    assert_eq!(distribution.observations, 45664);
    assert!(distribution.percentiles.iter().any(|p| (p.p - 0.999).abs() < 1e-9));
    assert!(distribution.percentiles.iter().all(|p| p.p < 0.9999), "{distribution:?}");
    assert_eq!(found.version, "3.7-no.git");
}

#[test]
fn akbench_go_and_lmbench_give_their_lines() {
    let found = foreign("akbench.txt");
    close(case(&found, "bandwidth_pipe").runs[0].samples[0], 2.208 * 1073741824.0);
    close(case(&found, "latency_semaphore").runs[0].samples[0], 2962.199);
    assert_eq!(found.cases.len(), 20);
    let json = r#"[{"name":"latency_getpid","average":95.559,"stddev":21.4,"unit":"ns"}]"#;
    let found = read(Input { path: Path::new("x"), text: json }).unwrap();
    assert_eq!((found.tool, found.cases.len()), ("akbench", 1));

    let found = foreign("go-bench.txt");
    let copy = case(&found, "Copy/size=64");
    assert_eq!((copy.runs.len(), copy.runs[0].ops_per_sample), (7, 1000000));
    close(copy.runs[0].samples[0], 27.36);
    assert_eq!(copy.facts["allocs/op"], "0");
    assert_eq!(found.machine.unwrap().arch, "amd64");

    let found = foreign("lmbench.txt");
    close(case(&found, "Pipe latency").runs[0].samples[0], 11209.8);
    close(case(&found, "Pipe bandwidth").runs[0].samples[0], 354.12e6);
    close(case(&found, "context switch/size=0k/4 processes").runs[0].samples[0], 1620.0);
}

fn import(files: &[&str]) -> (Import, Vec<String>) {
    let mut import = Import::default();
    let mut refused = Vec::new();
    for name in files {
        match import.add(Input { path: &path(name), text: &text(name) }) {
            Ok(problems) => assert_eq!(problems, []),
            Err(why) => refused.push(why.to_string()),
        }
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
    let lines = found.lines(&about);
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
    let lines = found.lines(&about);
    let Line::Header(header) = &lines[0] else { panic!("{lines:?}") };
    assert_eq!((header.machine.hostname.as_str(), header.machine.kernel.as_str()), ("example", "unknown"));
    assert_eq!(header.started, "2026-11-22T03:01:51Z");
    assert!(lines.iter().any(|line| matches!(line, Line::Skipped(skip) if skip.why == "no such device")));
    assert!(matches!(lines.last(), Some(Line::End(end)) if end.complete));
}

#[test]
fn files_of_one_benchmark_are_runs_of_one_case_unless_they_are_of_one_process() {
    let (found, _) = import(&["iperf3.json", "iperf3.json"]);
    let lines = found.lines(&About::default());
    assert_eq!(summaries(&lines).iter().map(|summary| summary.runs).collect::<Vec<_>>(), [2]);
    let one_process = ["criterion/copy/64/new/estimates.json", "criterion/copy/64/new/sample.json"];
    let (found, _) = import(&one_process);
    let lines = found.lines(&About::default());
    assert_eq!(summaries(&lines).iter().map(|summary| summary.runs).collect::<Vec<_>>(), [1]);
    let has_samples = |line: &Line| matches!(line, Line::Run(run) if run.samples.len() == 20);
    assert!(lines.iter().any(has_samples), "the samples, not the estimate");
}

#[test]
fn a_file_of_another_machine_is_refused_and_the_first_is_kept() {
    let other = text("google-benchmark.json").replace("\"example\"", "\"elsewhere\"");
    let (mut found, _) = import(&["google-benchmark.json"]);
    let why = found.add(Input { path: Path::new("other.json"), text: &other }).unwrap_err().to_string();
    assert!(why.contains("`elsewhere`") && why.contains("`example`") && why.contains("of its own"), "{why}");
    assert_eq!(summaries(&found.lines(&About::default())).len(), 3);
    // One file tells the machine, the other does not: that of the record is not known.
    let (found, refused) = import(&["google-benchmark.json", "hyperfine.json"]);
    assert_eq!(refused, Vec::<String>::new());
    let lines = found.lines(&About::default());
    let Line::Header(header) = &lines[0] else { panic!("{lines:?}") };
    assert_eq!(header.machine.hostname, "unknown");
    assert!(header.machine.missing[0].contains("hyperfine.json"), "{:?}", header.machine.missing);
}

#[test]
fn what_cannot_be_used_is_told_with_its_line() {
    let refusal = |text: &str| read(Input { path: Path::new("x"), text }).unwrap_err();
    assert_eq!(refusal("").to_string(), "is empty");
    let why = refusal("hello\nworld\n");
    assert!(why.line == Some(1) && why.why.contains("hyperfine"), "{why}");
    for name in ["google-benchmark.json", "hyperfine.json", "fio.json", "iperf3.json"] {
        let whole = text(name);
        let half = &whole[..whole.len() / 2];
        let why = refusal(half);
        let lines = half.lines().count();
        assert!(why.line.is_some_and(|line| line >= lines && line <= lines + 1), "{name}: {why} of {lines}");
        assert!(why.why.contains("ends in the middle"), "{name}: {why}");
    }
    let sockperf = text("sockperf.txt");
    let cut = sockperf.split("sockperf: Summary").next().unwrap();
    assert!(refusal(cut).why.contains("before its summary"));
}

#[test]
fn a_foreign_unit_is_named_and_the_other_figures_are_kept() {
    let of = |text: &str| read(Input { path: Path::new("x"), text }).unwrap();
    let found = of("latency_getpid: 95.5 ± 1.2 ns\nlatency_statfs: 3 ± 1 fortnights\n");
    assert_eq!((found.cases.len(), found.problems[0].line), (1, Some(2)));
    assert!(found.problems[0].why.contains("`fortnights`"), "{:?}", found.problems);
    let found = of(&text("google-benchmark.json").replace("\"us\"", "\"jiffies\""));
    assert!(
        found.problems[0].line.is_some() && found.problems[0].why.contains("`jiffies`"),
        "{:?}",
        found.problems
    );
    assert!(found.cases.iter().any(|case| case.name == "Copy/64"));
    let found = of(&text("perf-bench.txt").replace("usecs/op", "cycles/op"));
    assert!(found.problems[0].why.contains("`cycles/op`"), "{:?}", found.problems);
    let found = of(&text("lmbench.txt").replace("bandwidth: 354.12 MB/sec", "bandwidth: 354.12 furlongs"));
    assert_eq!((found.problems.len(), found.problems[0].line), (1, Some(5)), "{:?}", found.problems);
    let found =
        of("goos: linux\nBenchmarkA-2 10 5.0 ns/op\nBenchmarkB-2 10 5.0 widgets/op\nBenchmarkC-2 10 5.0\n");
    let lines: Vec<_> = found.problems.iter().map(|problem| problem.line).collect();
    assert_eq!((found.cases.len(), lines), (1, vec![Some(3), Some(4)]));
}
