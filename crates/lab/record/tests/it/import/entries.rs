//! Each entry of a file becomes a run of one figure, a skipped line, or an error, whatever the entries are called.
//!
//! For each format, files are made of random entries: names that nearly collide, repetitions, entries that failed or cannot be read. What
//! must come of them is counted here from the entries, and compared with the lines of the record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};
use weighbridge_record::Line;
use weighbridge_record::import::{About, Import, Input};

/// One entry, as far as chance decides; each format takes of it what it has a place for.
#[derive(Clone, Debug)]
struct Draw {
    name: String,
    /// Settings of the benchmark.
    settings: [u8; 3],
    /// What became of it: mostly a figure.
    fate: u8,
    /// How many values a figure has.
    values: u8,
}

fn name() -> impl Strategy<Value = String> {
    const NEAR: [&str; 16] = [
        "Put",
        "Put-2",
        "Put-4",
        "Put/size-10",
        "Put/size-1000",
        "Put size",
        "Put_size",
        "Put:size",
        "Put foo=1",
        "Put#2",
        "Pút",
        "Put_mean",
        "a/b",
        "a:b",
        "a_b",
        "a b",
    ];
    prop_oneof![6 => prop::sample::select(&NEAR[..]).prop_map(str::to_owned), 1 => "\\PC{1,6}"]
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let draw = (name(), [0u8..3, 0u8..3, 0u8..2], 0u8..8, 1u8..4)
        .prop_map(|(name, settings, fate, values)| Draw { name, settings, fate, values });
    prop::collection::vec(draw, 1..12)
}

/// What must come of an entry.
#[derive(Clone, Debug)]
enum Fate {
    /// Runs, each with its samples.
    Runs(Vec<Vec<f64>>),
    Skipped,
    Problem,
}

/// Files, and of each entry its identity and what must come of it.
#[derive(Default)]
struct Made {
    files: Vec<(PathBuf, String)>,
    entries: Expected,
}

/// The identity of each entry, and what must come of it.
type Expected = Vec<(String, Fate)>;

impl Made {
    fn file(path: &str, text: String, entries: Expected) -> Made {
        Made { files: vec![(path.into(), text)], entries }
    }
}

impl Draw {
    /// Values that no other entry has.
    fn figures(&self, index: usize) -> Vec<f64> {
        (0..self.values).map(|value| ((index + 1) * 8 + usize::from(value)) as f64).collect()
    }

    fn one(&self, index: usize) -> f64 {
        self.figures(index)[0]
    }

    /// The name as one word.
    fn word(&self) -> String {
        let word: String = self.name.chars().filter(|c| !c.is_whitespace() && *c != '\'').collect();
        format!("X{word}")
    }

    /// The name as a part of a line.
    fn part(&self) -> String {
        format!("N{}", self.name.replace(": ", ":").replace(" ± ", "±").trim())
    }
}

/// Digits that are enough to tell values apart after a conversion of units.
fn digits(value: f64) -> String {
    format!("{value:.9e}")
}

/// A figure by its runs: the digits of all their samples.
type Figure = Vec<String>;

fn check(made: Made) -> Result<(), TestCaseError> {
    let Made { files, entries } = made;
    let mut import = Import::default();
    let (mut counted, mut problems) = (0, Vec::new());
    for (path, text) in &files {
        let added = import.add(Input { path, text });
        counted += added.entries;
        problems.extend(added.problems.into_iter().map(|problem| (problem.line, problem.to_string())));
    }
    let mut figures: BTreeMap<&str, Figure> = BTreeMap::new();
    let (mut skipped, mut wrong) = (0, 0);
    for (identity, fate) in &entries {
        match fate {
            // A statistic beside what it is of.
            Fate::Runs(runs) if runs.is_empty() => {}
            Fate::Runs(runs) => {
                let shown = runs
                    .iter()
                    .map(|run| run.iter().map(|value| digits(*value)).collect::<Vec<_>>().join(" "));
                figures.entry(identity).or_default().extend(shown);
            }
            Fate::Skipped => skipped += 1,
            Fate::Problem => wrong += 1,
        }
    }
    let mut found: BTreeMap<String, Figure> = BTreeMap::new();
    let mut cases = BTreeSet::new();
    let mut passed_over = 0;
    for line in import.into_lines(&About::default()) {
        match line {
            Line::Case(case) => prop_assert!(cases.insert(case.case.to_string()), "{} twice", case.case),
            Line::Run(run) => {
                let shown: Vec<String> = run.samples.iter().map(|value| digits(*value)).collect();
                found.entry(run.case.to_string()).or_default().push(shown.join(" "));
            }
            Line::Skipped(line) => {
                let times = line
                    .why
                    .rsplit_once('(')
                    .and_then(|(_, times)| times.strip_suffix(" times)")?.parse().ok());
                passed_over += times.unwrap_or(1);
            }
            _ => {}
        }
    }
    let sorted = |figures: Vec<Figure>| {
        let mut figures: Vec<Figure> = figures;
        figures.iter_mut().for_each(|figure| figure.sort());
        figures.sort();
        figures
    };
    let text = &files[0].1;
    prop_assert_eq!(
        sorted(found.into_values().collect()),
        sorted(figures.into_values().collect()),
        "{}",
        text
    );
    prop_assert_eq!(passed_over, skipped, "skipped of {}", text);
    prop_assert_eq!(problems.len(), wrong, "{:?} of {}", problems, text);
    prop_assert!(problems.iter().all(|(line, _)| line.is_some()), "{:?}", problems);
    prop_assert_eq!(counted, entries.len(), "entries of {}", text);
    Ok(())
}

fn go_lines(draws: &[Draw]) -> (Vec<(String, String)>, Expected) {
    let (mut lines, mut entries) = (Vec::new(), Vec::new());
    for (index, draw) in draws.iter().enumerate() {
        let package = ["example.com/a", "example.com/b", "example.com/a/b"][usize::from(draw.settings[0])];
        let name = format!("{}{}", draw.word(), ["", "-2", "-16"][usize::from(draw.settings[1])]);
        let value = draw.one(index);
        let (line, unit, fate) = match draw.fate {
            0 => (format!("--- FAIL: Benchmark{name}"), "ns/op", Fate::Skipped),
            1 => (format!("Benchmark{name} \t 100 \t {value} ns/op \t 7"), "ns/op", Fate::Problem),
            2 => (
                format!("Benchmark{name} \t 100 \t {value} hits/op"),
                "hits/op",
                Fate::Runs(vec![vec![value]]),
            ),
            3 => (
                format!("Benchmark{name} \tnoise of its own\n   100\t {value} ns/op"),
                "ns/op",
                Fate::Runs(vec![vec![value]]),
            ),
            4 => (format!("Benchmark{name} \t 100 \t 0 ns/op"), "ns/op", Fate::Skipped),
            _ => (
                format!("Benchmark{name} \t 100 \t {value} ns/op \t 0 B/op"),
                "ns/op",
                Fate::Runs(vec![vec![value]]),
            ),
        };
        lines.push((package.to_owned(), line));
        entries.push((format!("{package} {name} {unit}"), fate));
    }
    (lines, entries)
}

fn go_text(draws: &[Draw]) -> Made {
    let (lines, entries) = go_lines(draws);
    let text = lines.iter().map(|(package, line)| format!("pkg: {package}\n{line}\n")).collect();
    Made::file("go.txt", text, entries)
}

/// The pieces of several packages are mixed, and a line may come in two.
fn go_events(draws: &[Draw]) -> Made {
    let (lines, entries) = go_lines(draws);
    let mut text = String::new();
    for (package, line) in lines {
        let event =
            |output: &str| format!("{}\n", json!({"Action": "output", "Package": package, "Output": output}));
        let middle = line.find('\t').unwrap_or(0);
        text += &format!("{}\n", json!({"Action": "run", "Package": package, "Test": "x"}));
        text += &if middle > 0 { event(&line[..middle]) } else { String::new() };
        text += &event(&format!("{}\n", &line[middle..]));
    }
    Made::file("go.json", text, entries)
}

fn hyperfine(draws: &[Draw]) -> Made {
    let mut entries = Vec::new();
    let result = |(index, draw): (usize, &Draw)| {
        let mut result = json!({"command": draw.name});
        let mut identity = draw.name.clone();
        for (setting, value) in ["foo", "bar"].iter().zip(draw.settings) {
            if value > 0 {
                result["parameters"][setting] = value.to_string().into();
                identity += &format!("\n{setting}={value}");
            }
        }
        let times = draw.figures(index);
        let in_seconds = |ns: &f64| ns / 1e9;
        let fate = match draw.fate {
            0 => Fate::Skipped,
            1 => {
                result["command"] = 7.into();
                Fate::Problem
            }
            2 => {
                result["median"] = in_seconds(&times[0]).into();
                Fate::Runs(vec![vec![times[0]]])
            }
            _ => {
                result["times"] = times.iter().map(in_seconds).collect();
                result["exit_codes"] = Value::Null;
                Fate::Runs(times.into_iter().map(|time| vec![time]).collect())
            }
        };
        entries.push((identity, fate));
        result
    };
    let results: Vec<Value> = draws.iter().enumerate().map(result).collect();
    Made::file("hyperfine.json", format!("{:#}", json!({"results": results})), entries)
}

fn google_benchmark(draws: &[Draw]) -> Made {
    let mut entries = Vec::new();
    let mut benchmarks = Vec::new();
    let measured: BTreeSet<String> = draws.iter().filter(|draw| draw.fate > 2).map(google_identity).collect();
    let mut of_statistics = BTreeSet::new();
    for (index, draw) in draws.iter().enumerate() {
        let identity = google_identity(draw);
        let value = draw.one(index);
        let mut benchmark = json!({
            "name": draw.name, "run_name": draw.name, "run_type": "iteration", "family_index": draw.settings[0], "threads": draw.settings[1],
            "iterations": 10, "real_time": value, "cpu_time": f64::NAN, "time_unit": "ns",
        });
        let fate = match draw.fate {
            0 => {
                benchmark["skipped"] = true.into();
                benchmark["skip_message"] = "no device".into();
                Fate::Skipped
            }
            1 => {
                benchmark["time_unit"] = "moons".into();
                Fate::Problem
            }
            // A statistic counts where nothing else is known of the benchmark, and of several the median.
            2 => {
                benchmark["name"] = format!("{}_median", draw.name).into();
                benchmark["run_type"] = "aggregate".into();
                benchmark["aggregate_name"] = "median".into();
                let is_used = !measured.contains(&identity) && of_statistics.insert(identity.clone());
                Fate::Runs(if is_used { vec![vec![value]] } else { vec![] })
            }
            _ => Fate::Runs(vec![vec![value]]),
        };
        entries.push((identity, fate));
        benchmarks.push(benchmark);
    }
    let text = format!("{:#}", json!({"context": {"date": "2026-01-02 03:04:05"}, "benchmarks": benchmarks}));
    Made::file("google.json", text.replace("\"cpu_time\": null", "\"cpu_time\": NaN"), entries)
}

fn google_identity(draw: &Draw) -> String {
    format!("{}\nfamily={} threads={}", draw.name, draw.settings[0], draw.settings[1])
}

/// Each document is a run of its own, and equal jobs of one document are no repetitions.
fn fio(draws: &[Draw]) -> Made {
    let (mut text, mut entries) = (String::from("fio: noise [f(1)]\n"), Vec::new());
    for (number, draws) in draws.chunks(4).enumerate() {
        let mut jobs = Vec::new();
        let mut equal: BTreeMap<String, u32> = BTreeMap::new();
        for (index, draw) in draws.iter().enumerate() {
            let sizes = ["4k", "64k", "4k,8k"][usize::from(draw.settings[1])];
            let options = json!({"iodepth": draw.settings[0].to_string(), "bs": sizes});
            let job = format!("{}\n{options}", draw.name);
            let ordinal = equal.entry(job.clone()).or_default();
            *ordinal += 1;
            let value = draw.one(number * 4 + index);
            let mut document =
                json!({"jobname": draw.name, "error": 0, "elapsed": 1, "job options": options});
            let identity = format!("{job}\n{ordinal}");
            match draw.fate {
                0 => entries.push((identity, Fate::Skipped)),
                1 => {
                    document["error"] = 5.into();
                    entries.push((identity, Fate::Skipped));
                }
                2 => {
                    *ordinal -= 1;
                    document["elapsed"] = "long".into();
                    entries.push((identity, Fate::Problem));
                }
                _ => {
                    document["read"] =
                        json!({"total_ios": 9, "bw_bytes": value, "lat_ns": {"mean": value + 0.5, "N": 9}});
                    entries.push((format!("{identity} read"), Fate::Runs(vec![vec![value]])));
                    entries.push((format!("{identity} latency"), Fate::Runs(vec![vec![value + 0.5]])));
                }
            }
            jobs.push(document);
        }
        let document =
            json!({"fio version": "fio-3.36", "timestamp": 1_000_000 + 1000 * number, "jobs": jobs});
        let _ = write!(text, "{document:#}\nfio: more noise\n");
    }
    Made::file("fio.json", text, entries)
}

fn iperf3(draws: &[Draw]) -> Made {
    let (mut text, mut entries) = (String::new(), Vec::new());
    for (index, draw) in draws.iter().enumerate() {
        let rates = draw.figures(index);
        let [streams, block, reverse] = draw.settings;
        let test =
            json!({"protocol": "TCP", "num_streams": streams + 1, "blksize": 1 << block, "reverse": reverse});
        let mut document = json!({
            "start": {"version": "iperf 3.16", "connecting_to": {"host": draw.name, "port": 1}, "test_start": test},
            "intervals": rates.iter().map(|rate| json!({"sum": {"bits_per_second": rate * 8.0}})).collect::<Vec<_>>(),
            "end": {},
        });
        let fate = match draw.fate {
            0 => {
                document["error"] = "unable to connect".into();
                Fate::Problem
            }
            1 => {
                document["intervals"] = json!([]);
                Fate::Skipped
            }
            _ => Fate::Runs(vec![rates]),
        };
        let _ = writeln!(text, "{document}");
        entries.push((format!("{}\n{:?}", draw.name, draw.settings), fate));
    }
    Made::file("iperf3.json", text, entries)
}

/// A file for each process and baseline; what Criterion estimates of a process is no further run.
fn criterion_files(draws: &[Draw]) -> Made {
    let mut made = Made::default();
    for (index, draw) in draws.iter().enumerate() {
        let name = draw.name.replace(['/', '.'], "_");
        let name = name.trim();
        let baseline = ["new", "base", "main"][usize::from(draw.settings[0])];
        let folder = format!("run{index}/criterion/X{name}/{}/{baseline}", draw.settings[1]);
        let times = draw.figures(index);
        let iterations = vec![1.0; times.len()];
        let (iterations, fate) = match draw.fate {
            0 => (vec![1.0; times.len() + 1], Fate::Skipped),
            _ => (iterations, Fate::Runs(vec![times.clone()])),
        };
        made.files.push((
            format!("{folder}/sample.json").into(),
            json!({"iters": iterations, "times": times}).to_string(),
        ));
        made.entries.push((format!("{name} {} {baseline}", draw.settings[1]), fate));
        if draw.fate > 4 {
            let estimate = json!({"point_estimate": 1.0});
            let estimates = json!({"mean": estimate, "median": estimate, "std_dev": estimate});
            made.files.push((format!("{folder}/estimates.json").into(), estimates.to_string()));
            made.entries.push((String::new(), Fate::Runs(vec![])));
        }
    }
    made
}

fn criterion_messages(draws: &[Draw]) -> Made {
    let (mut text, mut entries) = (String::new(), Vec::new());
    for (index, draw) in draws.iter().enumerate() {
        let times = draw.figures(index);
        let unit = if draw.fate == 0 { "moons" } else { "ns" };
        let message = json!({
            "reason": "benchmark-complete", "id": draw.name, "iteration_count": vec![1; times.len()], "measured_values": times, "unit": unit,
            "throughput": [{"per_iteration": 1 << draw.settings[0], "unit": "elements"}],
        });
        let _ = writeln!(text, "{message}\n{}", json!({"reason": "group-complete", "group_name": "x"}));
        entries
            .push((draw.name.clone(), if draw.fate == 0 { Fate::Problem } else { Fate::Runs(vec![times]) }));
    }
    Made::file("messages.json", text, entries)
}

/// All rows of a benchmark are of one process.
fn criterion_rows(draws: &[Draw]) -> Made {
    let mut text = String::from(
        "group,function,value,throughput_num,throughput_type,sample_measured_value,unit,iteration_count\n",
    );
    let mut benchmarks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut entries = Vec::new();
    for (index, draw) in draws.iter().enumerate() {
        let group = draw.name.replace('"', "\"\"");
        let value = draw.one(index);
        if draw.fate == 0 {
            let _ = writeln!(text, "\"{group}\",f,1,,,{value},moons,1");
            entries.push((String::new(), Fate::Problem));
        } else {
            let _ = writeln!(text, "\"{group}\",f,{},,,{value},ns,1", draw.settings[0]);
            benchmarks.entry(format!("{}/{}", draw.name, draw.settings[0])).or_default().push(value);
        }
    }
    entries.extend(benchmarks.into_iter().map(|(name, samples)| (name, Fate::Runs(vec![samples]))));
    Made::file("raw.csv", text, entries)
}

fn perf_bench(draws: &[Draw]) -> Made {
    let (mut text, mut entries) = (String::new(), Vec::new());
    for (index, draw) in draws.iter().enumerate() {
        let (name, value) = (draw.word(), draw.one(index));
        let [parameter, function, _] = draw.settings;
        let _ = writeln!(text, "# Running '{name}' benchmark:");
        let mut identity = name;
        if function > 0 {
            let _ = writeln!(text, "# function 'f{function}' (some function)");
            identity += &format!("\n/{function}");
        }
        let _ = writeln!(text, "# Executed 1{parameter} operations\n\n   Total time: 0.5 [sec]\n");
        identity += &format!("\n{parameter}");
        let fate = match draw.fate {
            0 => Fate::Skipped,
            1 => {
                let _ = writeln!(text, "   {value} moons/op");
                Fate::Problem
            }
            _ => {
                let _ = writeln!(text, "   {value} usecs/op\n   7 ops/sec");
                Fate::Runs(vec![vec![value * 1e3]])
            }
        };
        entries.push((identity, fate));
    }
    Made::file("perf.txt", text, entries)
}

fn sockperf(draws: &[Draw]) -> Made {
    let (mut text, mut entries) = (String::new(), Vec::new());
    for (index, draw) in draws.iter().enumerate() {
        let value = draw.one(index);
        let [host, port, protocol] = draw.settings;
        let protocol = ["TCP", "UDP"][usize::from(protocol)];
        let _ = writeln!(
            text,
            "sockperf: == version #3.10-no.git == \n[ 0] IP = 10.0.0.{host}   PORT = 1111{port} # {protocol}"
        );
        let mut entry = |kind: &str, fate| entries.push((format!("{:?} {kind}", draw.settings), fate));
        match draw.fate {
            0 => entry("", Fate::Problem),
            1 => {
                let _ = writeln!(text, "sockperf: Summary: Latency is {value} moons");
                entry("", Fate::Problem);
            }
            2 => {
                let _ = writeln!(text, "sockperf: Summary: Round trip is {value} usec");
                entry("round trip", Fate::Runs(vec![vec![value * 1e3]]));
            }
            3 => {
                let _ = writeln!(
                    text,
                    "sockperf: Summary: Message Rate is {value} [msg/sec]\nsockperf: Summary: BandWidth is {value} MBps (1 Mbps)"
                );
                entry("messages", Fate::Runs(vec![vec![value]]));
                entry("bandwidth", Fate::Runs(vec![vec![value * 1_048_576.0]]));
            }
            _ => {
                let _ = writeln!(text, "sockperf: Summary: Latency is {value} usec");
                entry("latency", Fate::Runs(vec![vec![value * 1e3]]));
            }
        }
    }
    Made::file("sockperf.txt", text, entries)
}

/// Name, value, unit, and what must come of them.
fn averages(draws: &[Draw], name: impl Fn(&Draw) -> String) -> Vec<(String, f64, &'static str, Fate)> {
    let entry = |(index, draw): (usize, &Draw)| {
        let value = draw.one(index);
        let (value, unit, fate) = match draw.fate {
            0 => (0.0, "ns", Fate::Skipped),
            1 => (value, "moons", Fate::Problem),
            2 => (value, "GiByte/sec", Fate::Runs(vec![vec![value * f64::from(1 << 30)]])),
            _ => (value, "us", Fate::Runs(vec![vec![value * 1e3]])),
        };
        (name(draw), value, unit, fate)
    };
    draws.iter().enumerate().map(entry).collect()
}

fn akbench_text(draws: &[Draw]) -> Made {
    let entries = averages(draws, Draw::part);
    let lines = entries.iter().map(|(name, value, unit, _)| format!("{name}: {value:?} ± 0.1 {unit}\n"));
    // The unit is part of what a figure is.
    Made::file(
        "akbench.txt",
        lines.collect(),
        entries.into_iter().map(|(name, _, unit, fate)| (format!("{name}\n{unit}"), fate)).collect(),
    )
}

fn akbench_json(draws: &[Draw]) -> Made {
    let entries = averages(draws, |draw| draw.name.clone());
    let all = entries
        .iter()
        .map(|(name, value, unit, _)| json!({"name": name, "average": value, "stddev": 0.1, "unit": unit}));
    let text = format!("{:#}\n", Value::Array(all.collect()));
    Made::file(
        "akbench.json",
        text,
        entries.into_iter().map(|(name, _, unit, fate)| (format!("{name}\n{unit}"), fate)).collect(),
    )
}

fn lmbench(draws: &[Draw]) -> Made {
    let (mut text, mut entries) = (String::from("[lmbench3.0 results for Linux]\n"), Vec::new());
    for (index, draw) in draws.iter().enumerate() {
        let (name, value) = (draw.part(), draw.one(index));
        let fate = match draw.fate {
            0 => (format!("{name}: 0.0000 microseconds"), name, Fate::Skipped),
            1 => (format!("{name}: {value} moons"), name, Fate::Problem),
            2 => {
                (format!("{name}: {value} MB/sec"), format!("{name} MB"), Fate::Runs(vec![vec![value * 1e6]]))
            }
            3 => {
                let size = draw.settings[0];
                let row = format!("\n\"size={size}k ovr=1.0\n{} {value}\n", draw.settings[1] + 2);
                (row, format!("size={size} of {}", draw.settings[1]), Fate::Runs(vec![vec![value * 1e3]]))
            }
            4 => (
                format!("\n\"a table\n{} {value} {value}\n", draw.settings[0]),
                "table".into(),
                Fate::Skipped,
            ),
            _ => (format!("{name}: {value} microseconds"), name, Fate::Runs(vec![vec![value * 1e3]])),
        };
        let (line, identity, fate) = fate;
        let _ = writeln!(text, "{line}");
        entries.push((identity, fate));
    }
    text += "Simple syscall of the end: 1 microseconds\n";
    entries.push(("the end".into(), Fate::Runs(vec![vec![1e3]])));
    Made::file("lmbench.txt", text, entries)
}

fn kernel_bench(draws: &[Draw]) -> Made {
    let (mut text, mut entries) = (String::from("weighbridge-bench 1\nkernel 6.1.0\n"), Vec::new());
    for (index, draw) in draws.iter().enumerate() {
        let samples = draw.figures(index);
        let test = ["kmalloc-reuse", "kmalloc-pattern", "x-bulk"][usize::from(draw.settings[0])];
        let [_, size, context] = draw.settings;
        let context = ["process", "softirq"][usize::from(context)];
        // Only one of the tests uses the number of objects.
        let count = 10 * usize::from(draw.values);
        let settings = format!("size={size} count={count} loops={index} context={context}");
        let used = if test == "kmalloc-pattern" { count } else { 0 };
        let identity = format!("{test} {size} {context} {used}");
        let fate = match draw.fate {
            0 => {
                let _ = writeln!(text, "failed {test} {settings}: no memory");
                Fate::Skipped
            }
            1 => {
                let _ = writeln!(text, "test {test} {settings}\nsample noop 1 1\nend");
                Fate::Skipped
            }
            2 => {
                let _ = writeln!(text, "what is this");
                Fate::Problem
            }
            _ => {
                let _ = writeln!(text, "test {test} {settings}");
                for sample in &samples {
                    let _ = writeln!(text, "sample op 10 {}", sample * 10.0);
                }
                let _ = writeln!(text, "end");
                Fate::Runs(vec![samples])
            }
        };
        entries.push((identity, fate));
    }
    Made::file("results", text, entries)
}

fn ping_pong(draws: &[Draw]) -> Made {
    let (mut text, mut entries) = (String::new(), Vec::new());
    let machine: Value = serde_json::from_str(&super::text("dbus-ping-pong.json")).unwrap();
    for (index, draw) in draws.iter().enumerate() {
        let times = draw.figures(index);
        let fate = if draw.fate == 0 { Fate::Skipped } else { Fate::Runs(vec![times.clone()]) };
        let times = if draw.fate == 0 { Vec::new() } else { times };
        let document = json!({
            "address": draw.name, "rate": draw.settings[0], "version": "1", "started": "2026-01-01T00:00:00Z", "machine": machine["machine"],
            "sizes": [{"array_bytes": draw.settings[1], "times_ns": times}],
        });
        let _ = writeln!(text, "{document}");
        entries.push((format!("{}\n{:?}", draw.name, &draw.settings[..2]), fate));
    }
    Made::file("ping-pong.json", text, entries)
}

macro_rules! every_entry_is_accounted_for {
    ($($format:ident),* $(,)?) => {
        proptest! {
            $(
                #[test]
                fn $format(draws in draws()) {
                    check(super::$format(&draws))?;
                }
            )*
        }
    };
}

mod every_entry_becomes_a_run_a_skipped_line_or_an_error {
    use super::*;

    every_entry_is_accounted_for!(
        go_text,
        go_events,
        hyperfine,
        google_benchmark,
        fio,
        iperf3,
        criterion_files,
        criterion_messages,
        criterion_rows,
        perf_bench,
        sockperf,
        akbench_text,
        akbench_json,
        lmbench,
        kernel_bench,
        ping_pong,
    );
}
