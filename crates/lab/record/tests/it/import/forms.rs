//! What is told apart, file by file; and files that were cut, put together, or written by another program on the way.

use super::*;

use std::sync::LazyLock;

use proptest::prelude::*;
use weighbridge_record::Header;

/// All files, with their texts.
fn samples() -> &'static [(PathBuf, String)] {
    static SAMPLES: LazyLock<Vec<(PathBuf, String)>> = LazyLock::new(|| {
        let names = FILES.map(str::to_owned).into_iter().chain(versions());
        names.map(|name| (path(&name), text(&name))).collect()
    });
    &SAMPLES
}

/// Ids and values of the runs that come of texts which are imported together, with what was said of the texts.
fn imported(texts: &[(&Path, &str)]) -> (Vec<(String, Vec<f64>)>, Vec<Problem>) {
    let mut import = Import::default();
    let problems = texts.iter().flat_map(|(path, text)| import.add(Input { path, text }).problems).collect();
    let run = |line| match line {
        Line::Run(run) => Some((run.case.to_string(), run.samples)),
        _ => None,
    };
    (import.into_lines(&About::default()).filter_map(run).collect(), problems)
}

/// The names of the cases that come of a text, with their runs.
fn cases(text: &str) -> Vec<(String, Vec<f64>)> {
    let (runs, problems) = imported(&[(Path::new("x"), text)]);
    assert_eq!(problems, [], "{text}");
    let mut cases: Vec<(String, Vec<f64>)> = Vec::new();
    for (id, samples) in runs {
        let name = id.split('/').nth(1).unwrap().to_owned();
        match cases.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.extend(samples),
            None => cases.push((name, samples)),
        }
    }
    cases
}

fn header(text: &str) -> Header {
    let mut import = Import::default();
    assert_eq!(import.add(Input { path: Path::new("x"), text }).problems, []);
    let about = About { file_time: "2020-01-01T00:00:00Z".into(), ..About::default() };
    match import.into_lines(&about).next() {
        Some(Line::Header(header)) => *header,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_suffix_of_go_is_part_of_a_name_unless_all_share_it() {
    let case = |name: &str, values: &[f64]| (format!("go:{name}"), values.to_vec());
    let text = "BenchmarkPut 9 1000 ns/op\nBenchmarkPut-2 9 500 ns/op\nBenchmarkPut-4 9 250 ns/op\n";
    assert_eq!(cases(text), [case("Put", &[1000.0]), case("Put-2", &[500.0]), case("Put-4", &[250.0])]);
    let text = "BenchmarkSort/size-10 9 10 ns/op\nBenchmarkSort/size-1000 9 1000 ns/op\n";
    assert_eq!(cases(text), [case("Sort:size-10", &[10.0]), case("Sort:size-1000", &[1000.0])]);
    let text = "BenchmarkSort/size-10-8 9 10 ns/op\nBenchmarkPut-8 9 7 ns/op\nBenchmarkPut-8 9 8 ns/op\n--- FAIL: BenchmarkBad-8\n";
    assert_eq!(cases(text), [case("Sort:size-10", &[10.0]), case("Put", &[7.0, 8.0])]);
    // The same in two files.
    let files =
        [(Path::new("a"), "BenchmarkPut-2 9 500 ns/op\n"), (Path::new("b"), "BenchmarkPut-4 9 250 ns/op\n")];
    let ids: Vec<String> = imported(&files).0.into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["imported/go:Put-2/0/unknown", "imported/go:Put-4/0/unknown"]);
}

#[test]
fn packages_and_other_configuration_of_go_tell_benchmarks_apart() {
    let text = "pkg: x/a\nBenchmarkPut-2 9 0.4 ns/op\npkg: x/b\nBenchmarkPut-2 9 50 ns/op\nBenchmarkGet-2 9 7 ns/op\n";
    let names: Vec<String> = cases(text).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["go:Put_pkg=x:a", "go:Put_pkg=x:b", "go:Get"]);
    let text =
        "commit: 1\nBenchmarkPut 9 4 ns/op\nBenchmarkPut 9 5 ns/op\ncommit: 2\nBenchmarkPut 9 6 ns/op\n";
    assert_eq!(
        cases(text),
        [("go:Put_commit=1".to_owned(), vec![4.0, 5.0]), ("go:Put_commit=2".to_owned(), vec![6.0])]
    );
}

#[test]
fn a_package_of_go_that_failed_without_a_benchmark_is_an_error() {
    let text = "BenchmarkPut-2 9 4 ns/op\nok  \tx/a\t1s\nFAIL\tx/b [build failed]\n--- FAIL: BenchmarkBad-2\nFAIL\nFAIL\tx/c\t1s\n";
    let problems = problems(text);
    assert!(
        problems.len() == 1 && problems[0].starts_with("line 3: ") && problems[0].contains("x/b"),
        "{problems:?}"
    );
}

#[test]
fn names_that_an_id_cannot_hold_do_not_become_one() {
    let names = ["a b", "a_b", "a/b", "a:b"];
    let results = names.map(|name| format!(r#"{{"command": "{name}", "times": [1.0]}}"#));
    let ids = |results: &[String]| {
        let text = format!(r#"{{"results": [{}]}}"#, results.join(","));
        let names: Vec<String> = cases(&text).into_iter().map(|(name, _)| name).collect();
        names
    };
    let found = ids(&results);
    let mut other = results.to_vec();
    other.reverse();
    let mut reversed = ids(&other);
    reversed.reverse();
    // Nor do they depend on the order, or a comparison of two records would compare different benchmarks.
    assert_eq!(found, reversed);
    assert!(found.iter().all(|name| name.contains('#')), "{found:?}");
}

#[test]
fn a_time_without_offset_is_read_as_utc_and_the_record_says_so() {
    let of = header(&text("versions/google-benchmark-1.4.json"));
    assert_eq!(of.started, "2026-01-02T03:04:05Z");
    assert!(of.settings["started"].contains("time zone"), "{:?}", of.settings);
    let of = header(&text("versions/google-benchmark-1.9.json"));
    assert_eq!((of.started.as_str(), of.settings.get("started")), ("2026-11-22T03:01:51Z", None));
}

#[test]
fn the_operating_system_of_a_file_is_kept() {
    let machine = header(&text("versions/go-1.21-darwin.txt")).machine;
    assert_eq!(
        (machine.os.as_str(), machine.kernel.as_str(), machine.arch.as_str()),
        ("darwin", "unknown", "arm64")
    );
    let machine = header(&text("versions/iperf3-3.16-bidir.json")).machine;
    assert_eq!((machine.os.as_str(), machine.kernel.as_str()), ("Darwin", "23.1.0"));
    // The words of Go and of `uname` for the same machine do not keep it from one record.
    let linux = text("iperf3.json");
    let go = "goos: linux\ngoarch: amd64\nBenchmarkPut 9 4 ns/op\n";
    assert_eq!(imported(&[(Path::new("a"), linux.as_str()), (Path::new("b"), go)]).1, []);
    let two = "goos: linux\nBenchmarkPut 9 4 ns/op\ngoos: darwin\nBenchmarkPut 9 4 ns/op\n";
    assert!(problems(two)[0].starts_with("line 4: is of the machine `darwin`"), "{:?}", problems(two));
}

#[test]
fn baselines_and_folders_of_criterion_are_not_put_together() {
    let sample = text("criterion/copy/64/new/sample.json");
    let names = |paths: &[&str]| {
        let files: Vec<(&Path, &str)> = paths.iter().map(|path| (Path::new(path), sample.as_str())).collect();
        let runs = imported(&files).0;
        runs.into_iter().map(|(id, _)| id.split('/').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let found = names(&["criterion/copy/new/sample.json", "criterion/copy/base/sample.json"]);
    assert_eq!(found, ["criterion:copy_baseline=new", "criterion:copy_baseline=base"]);
    let found = names(&["a/copy/new/sample.json", "b/copy/new/sample.json"]);
    assert_eq!(found, ["criterion:copy_folder=a:copy", "criterion:copy_folder=b:copy"]);
    let found = names(&["run1/criterion/copy/new/sample.json", "run2/criterion/copy/new/sample.json"]);
    assert_eq!(found, ["criterion:copy", "criterion:copy"]);
}

#[test]
fn statistics_are_no_runs_beside_what_they_are_of() {
    let runs = imported(&[(Path::new("x"), &text("versions/google-benchmark-1.4.json"))]).0;
    let values: Vec<f64> = runs.into_iter().flat_map(|(_, samples)| samples).collect();
    assert_eq!(values, [42.0, 44.0, 7500.0]);
}

#[test]
fn runs_of_fio_that_follow_each_other_are_told_from_reports_about_one_run() {
    let report = |timestamp: u32, elapsed: u32, ios: u32| {
        format!(
            r#"{{"fio version": "fio-3.33", "timestamp": {timestamp}, "jobs": [{{"jobname": "a", "elapsed": {elapsed},
               "read": {{"total_ios": {ios}, "bw_bytes": {ios}}}}}]}}"#
        )
    };
    let reports = [report(101, 1, 10), report(102, 2, 20), report(200, 2, 30), report(300, 1, 40)].join("\n");
    assert_eq!(cases(&reports), [("fio:a:read".to_owned(), vec![20.0, 30.0, 40.0])]);
}

#[test]
fn jobs_of_fio_with_other_options_are_no_later_reports_of_one_run() {
    let report = |option: &str| {
        format!(
            r#"{{"fio version": "fio-3.33", "timestamp": 9, "jobs": [{{"jobname": "a", "elapsed": 1,
               "job options": {{"filename": "{option}"}}, "read": {{"total_ios": 10, "bw_bytes": 10}}}}]}}"#
        )
    };
    let both = cases(&[report("/dev/sda"), report("/dev/sdb")].join("\n"));
    assert_eq!(both.len(), 2, "{both:?}");
}

/// Figures that differ in nothing but what these lines print.
#[test]
fn settings_that_a_tool_prints_tell_figures_apart() {
    let sockperf = |setting: &str| {
        format!(
            "sockperf: == version #3.7-no.git ==\n[ 0] IP = 10.0.0.2 PORT = 11111 # UDP\n{setting}\n\
             sockperf: Summary: Message Rate is 500000 [msg/sec]\n"
        )
    };
    let iperf3 = |congestion: &str| {
        format!(
            r#"{{"start": {{"version": "iperf 3.12", "test_start": {{"protocol": "TCP", "num_streams": 1, "blksize": 9}}}},
               "intervals": [{{"sum": {{"bits_per_second": 8}}}}], "end": {{"sender_tcp_congestion": "{congestion}"}}}}"#
        )
    };
    let criterion =
        "group,function,value,throughput_num,throughput_type,sample_measured_value,unit,iteration_count\n";
    for text in [
        [sockperf("using msg-size=14."), sockperf("using msg-size=1000.")].concat(),
        "sockperf: == version #3.7-no.git ==\n[ 0] IP = 10.0.0.2 PORT = 11111 # UDP\nServer No: 0\n\
         sockperf: Summary: Latency is 9 usec\nServer No: 1\nsockperf: Summary: Latency is 77 usec\n"
            .to_owned(),
        [iperf3("cubic"), iperf3("bbr")].join("\n"),
        format!("{criterion}g,h,1,1024,bytes,7000.0,ns,1\ng,h,1,2048,bytes,9000.0,ns,1\n"),
        "Memory load latency\n\"stride=16\n1.00000 5.5\n\nRandom load latency\n\"stride=16\n1.00000 95.5\n"
            .to_owned(),
        "BenchmarkPut-8 9 10 ns/op\nok  \tx/a\t4.3s\nBenchmarkPut-8 9 90 ns/op\nok  \tx/b\t4.3s\n".to_owned(),
    ] {
        let (found, problems) = imported(&[(Path::new("x"), &text)]);
        assert!(
            problems.is_empty() && found.len() == 2 && found[0].0 != found[1].0,
            "{found:?} {problems:?}"
        );
    }
}

#[test]
fn perf_bench_all_announces_benchmarks_in_a_form_of_its_own() {
    let text = "# Running 'futex/hash' benchmark:\nAveraged 10 operations/sec (+- 0.12%), total secs = 10\n\
                # Running futex/wake benchmark...\nWokeup 4 of 4 threads in 0.0550 ms (+-2.00%)\n";
    let mut import = Import::default();
    let added = import.add(Input { path: Path::new("x"), text });
    assert_eq!((added.entries, added.skipped.len(), added.problems), (2, 1, Vec::new()));
}

#[test]
fn outputs_of_two_tools_in_one_file_are_told() {
    let text = format!("{}\n{}", text("hyperfine.json"), text("fio.json"));
    assert!(problems(&text)[0].contains("output of fio in a file of hyperfine"), "{:?}", problems(&text));
    let text = format!("{}BenchmarkPut 9 4 ns/op\n", self::text("hyperfine.json"));
    assert!(problems(&text)[0].contains("output of go in a file of hyperfine"), "{:?}", problems(&text));
    let text = format!("BenchmarkPut 9 4 ns/op\n{}", self::text("perf-bench.txt"));
    assert!(problems(&text)[0].contains("output of go in a file of perf-bench"), "{:?}", problems(&text));
}

#[test]
fn a_refusal_names_the_nearest_format_first_and_a_way_out() {
    let nearest = |text: &str| {
        let why = refusal(text).why;
        assert!(FORMATS.iter().all(|format| why.contains(&format!("  {}: no ", format.tool))), "{why}");
        assert!(why.contains("`weighbridge import --help`"), "{why}");
        why.lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(
        nearest(r#"{"results2": [], "fio version": "fio-3.33"}"#),
        "  fio: no field `jobs` in its JSON"
    );

    assert_eq!(
        nearest("sockperf is a tool\n"),
        "  sockperf: no line like `sockperf: Summary: Latency is 16.915 usec`"
    );
    assert!(
        nearest("Benchmarking the thing\n").starts_with("  go: no JSON, and no line like `BenchmarkPut-8 ")
    );
}

#[test]
fn what_another_program_did_to_a_file_changes_nothing() {
    for (path, text) in samples() {
        let whole = imported(&[(path, text)]);
        let marked = format!("\u{feff}{text}");
        let lines = text.replace('\n', "\r\n");
        let is_json = text.trim_start().starts_with(['{', '[']);
        let noise =
            format!("Starting 1 process\nJobs: 1 (f=1): [R(1)]\n\n{text}\nterminated [on] {{signal}}\n");
        for other in [&marked, &lines].into_iter().chain(is_json.then_some(&noise)) {
            let input = Input::new(path, other.as_bytes()).unwrap();
            assert_eq!(
                imported(&[(path, input.text)]),
                whole,
                "{}: {}",
                path.display(),
                &other[..40.min(other.len())]
            );
        }
    }
}

#[test]
fn a_file_twice_in_one_has_each_run_twice() {
    for (path, text) in samples() {
        let twice = format!("{text}\n{text}");
        let (mut runs, problems) = imported(&[(path, &twice)]);
        let elsewhere = Path::new("again").join(path.strip_prefix("/").unwrap());
        let (mut expected, _) = imported(&[(path, text), (&elsewhere, text)]);
        // Two reports of fio with the same times are of the same run.
        if text.contains("fio version") {
            continue;
        }

        runs.sort_by(|a, b| a.partial_cmp(b).unwrap());
        expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
        assert_eq!((runs, problems), (expected, vec![]), "{}", path.display());
    }
}

#[test]
fn the_beginning_of_a_file_is_an_error_or_a_valid_part() {
    const MOST: usize = 500;
    // An earlier report of fio's run is a valid part, though the last one replaces it.
    for (path, text) in samples().iter().filter(|(path, _)| !path.ends_with("fio-3.36-status-interval.json"))
    {
        let (whole, _) = imported(&[(path, text)]);
        let is_part = |(id, samples): &(String, Vec<f64>)| {
            // Names are shown with what tells them apart, so the beginning of a file may have shorter ones.
            let plain =
                |id: &str| id.split('/').nth(1).unwrap().split(['_', '-', '=']).next().unwrap().to_owned();
            whole.iter().any(|(known, values)| values.starts_with(samples) && plain(known) == plain(id))
        };
        for end in (0..text.len()).step_by(text.len() / MOST + 1).filter(|end| text.is_char_boundary(*end)) {
            let (runs, problems) = imported(&[(path, &text[..end])]);
            let is_valid = runs.iter().all(is_part);
            assert!(is_valid || !problems.is_empty(), "{}: {end} bytes gave {runs:?}", path.display());
            assert!(
                !runs.is_empty() || !problems.is_empty() || is_valid,
                "{}: {end} bytes gave nothing",
                path.display()
            );
        }
    }
}

#[test]
fn what_is_no_utf8_text_says_how_to_make_it_one() {
    let why = |content: &[u8]| Input::new(Path::new("x"), content).unwrap_err().to_string();
    let utf16 = |units: &mut dyn Iterator<Item = u16>, big: bool| -> Vec<u8> {
        units.flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    };
    let json = r#"{"results": []}"#;
    for big in [false, true] {
        let marked = utf16(&mut "\u{feff}".encode_utf16().chain(json.encode_utf16()), big);
        for content in [marked, utf16(&mut json.encode_utf16(), big)] {
            assert!(why(&content).contains("iconv -f UTF-16"), "{}", why(&content));
        }
    }
    let latin = why(b"a\nb\nname: \xe9t\xe9\n");
    assert!(latin.starts_with("line 3: ") && latin.contains("0xe9") && latin.contains("iconv"), "{latin}");
    assert!(why(b"\x7fELF\x02\x01\x01\x00\x00").contains("0x00"));
    for blank in ["", " \n\t\r\n", "\u{feff}"] {
        let input = Input::new(Path::new("x"), blank.as_bytes()).unwrap();
        assert_eq!(read(input).unwrap_err().to_string(), "is empty");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No damage makes a reader panic, or makes it lose an entry without a word.
    #[test]
    fn damage_is_told_or_leaves_what_was_there(
        file in 0usize..1000, place in 0.0f64..1.0, length in 0usize..40, with in prop_oneof!["\\PC{0,4}", "[\\[\\]{}\",:0-9\\n]{0,4}"],
    ) {
        let (path, text) = &samples()[file % samples().len()];
        let near = |at: usize| (at.min(text.len())..).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let start = near((place * text.len() as f64) as usize);
        let damaged = format!("{}{with}{}", &text[..start], &text[near(start + length)..]);
        let mut import = Import::default();
        let added = import.add(Input { path, text: &damaged });
        prop_assert!(added.problems.iter().all(|problem| !problem.why.is_empty()));
        prop_assert!(added.entries > 0 || !added.problems.is_empty(), "{}", damaged);
    }
}
