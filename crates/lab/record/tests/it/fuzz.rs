//! Fuzzing of records, and of the outputs of other tools.

use std::path::Path;

use causeway_testkit::fuzz;
use weighbridge_record::coverage::coverage;
use weighbridge_record::earlier::runs_of;
use weighbridge_record::import::{About, Import, Input, Problem, read as read_foreign};
use weighbridge_record::{Earlier, Line, derive, history, kind, laws, outcomes, read};

const RECORD: &[&str] = &[
    "\n",
    "{\"kind\":\"",
    "\"header\"",
    "\"kind\":\"run\"",
    "\"kind\":\"summary\"",
    "\"schema\":2",
    "\"schema\":3",
    "null",
    "[]",
    "{}",
    "\\u0000",
    "\"",
    ",",
    "-",
    "1e-300",
    "18446744073709551615",
];

/// What a line is written as. It is read as the same.
fn rewritten(line: &Line) -> Vec<u8> {
    let text = serde_json::to_vec(line).unwrap();
    let again: Line = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)));
    assert_eq!(again, *line);
    text
}

#[test]
fn record_is_read_line_by_line_and_written_as_the_same() {
    fuzz::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/record"), RECORD, |input| {
        let mut reading = read(input).unwrap();
        let texts: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        let mut last = 0;
        for problem in &reading.problems {
            let is_in_order = problem.line > last && problem.line <= texts.len();
            assert!(is_in_order && !problem.why.is_empty() && !problem.why.contains('\n'), "{problem:?}");
            last = problem.line;
        }
        let filled = texts.iter().filter(|text| !text.iter().all(u8::is_ascii_whitespace)).count();
        // A missing header is one more problem.
        assert!(reading.lines.len() + reading.problems.len() <= filled + 1);
        for line in &reading.lines {
            let text = rewritten(line);
            assert!(kind(&text).is_some_and(|kind| text[9..].starts_with(kind.as_bytes())));
        }
        for text in texts {
            if let Ok(line) = serde_json::from_slice::<Line>(text) {
                assert_eq!(kind(text), kind(&rewritten(&line)), "{}", String::from_utf8_lossy(text));
            }
        }

        // What is derived of a record, whatever it says.
        let broken = laws::audit(&mut reading);
        reading.lines.iter().for_each(|line| _ = rewritten(line));
        let cases = outcomes(&reading, &[]);
        let mut earlier = Earlier::none();
        earlier.add(&reading.lines);
        let _ = (coverage(&[&reading.lines]), history::series(&[&reading.lines, &reading.lines]));
        let _ = derive::series_medians(runs_of(&reading.lines));
        let _ = derive::series_intervals(runs_of(&reading.lines));
        runs_of(&reading.lines).for_each(|run| _ = derive::series_at_rate(run));

        let laws: Vec<String> = broken.into_iter().map(|violation| violation.law.to_string()).collect();
        let kinds: Vec<_> = reading.lines.iter().map(std::mem::discriminant).collect();
        let reasons = reading.problems.into_iter().map(|problem| problem.why.chars().take(30).collect());
        (laws, kinds, reasons.collect::<Vec<String>>(), cases.len().min(4))
    });
}

const OUTPUT: &[&str] = &[
    "\"benchmarks\":[",
    "\"results\":[",
    "\"jobs\":[",
    "\"intervals\":[",
    "\"time_unit\":\"ns\"",
    "\"times\":[",
    "null",
    "[]",
    "{}",
    "\n",
    "ns/op",
    "usec",
    "MB/s",
    "\u{1b}[2;35m",
    "µs",
    ":",
    ",",
    "-",
    "%",
    "# Running ",
    "Benchmark",
    "NaN",
    "inf",
    "1e-320",
    "1e308",
];

fn check_problem(problem: &Problem, text: &str) {
    let lines = text.lines().count().max(1);
    assert!(problem.line.is_none_or(|line| (1..=lines).contains(&line)), "{problem:?} of {lines} lines");
    assert!(!problem.why.is_empty() && problem.why.len() < 4000 + text.len(), "{problem:?}");
}

#[test]
fn output_of_a_tool_becomes_a_record_or_is_refused_with_its_line() {
    fuzz::run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/output"), OUTPUT, |input| {
        let mut results = Vec::new();
        // Criterion's files are known by their names.
        for path in ["x", "a/new/sample.json", "a/new/estimates.json", "raw.csv"] {
            let input = match Input::new(Path::new(path), input) {
                Ok(input) => input,
                Err(problem) => {
                    assert!(!problem.why.is_empty());
                    break;
                }
            };
            let text = input.text;
            let foreign = match read_foreign(input) {
                Ok(foreign) => foreign,
                Err(problem) => {
                    check_problem(&problem, text);
                    results.push((problem.why.chars().take(25).collect(), 0));
                    continue;
                }
            };
            for problem in foreign.problems.iter().chain(&foreign.skipped) {
                check_problem(problem, text);
            }
            let mut import = Import::default();
            let added = import.add(input);
            assert_eq!(added.entries, foreign.entries);
            assert!(added.skipped.len() >= foreign.skipped.len());
            if import.is_empty() {
                assert!(!added.problems.is_empty());
                continue;
            }
            let record: Vec<Line> = import.into_lines(&About::default()).collect();
            let mut runs = 0;
            for line in &record {
                if let Line::Run(run) = line {
                    runs += 1;
                    let is_positive = run.samples.iter().all(|sample| *sample > 0.0 && sample.is_finite());
                    assert!(is_positive && !run.samples.is_empty(), "{run:?}");
                }
            }
            let file: Vec<u8> =
                record.iter().flat_map(|line| [rewritten(line), b"\n".to_vec()].concat()).collect();
            let reading = read(&file[..]).unwrap();
            assert_eq!((reading.lines, reading.problems), (record, Vec::new()));
            results.push((foreign.tool.to_owned(), runs.min(8)));
        }
        results
    });
}
