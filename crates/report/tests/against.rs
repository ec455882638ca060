//! Cases held against one of them.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use weighbridge_record::{Case, CaseId, Line, PerOp, Reading, Run, Summary};
use weighbridge_report::{Report, against};

/// Two cases in seven rounds in which the machine becomes twice as slow; the second always takes three times as long.
fn drifting() -> Reading {
    let mut lines = Vec::new();
    for (mechanism, factor) in [("pipe", 1.0), ("tcp", 3.0)] {
        let id = CaseId::new("roundtrip", mechanism, 64, "same-cpu");
        lines.push(Line::Case(Case { ..common::case(&id, "ns/roundtrip") }));
        for round in 0..7u32 {
            let value = 1000.0 * factor * (1.0 + f64::from(round) / 6.0);
            lines.push(Line::Run(Run { round, ..common::run(&id, round, value) }));
        }
        lines.push(Line::Summary(Summary {
            runs: 7,
            ..common::summary(&id, "ns/roundtrip", 1500.0 * factor)
        }));
    }
    Reading { lines, problems: Vec::new() }
}

/// The figure of each table, and the cells of the rows below its head.
fn tables(text: &str) -> Vec<(String, Vec<Vec<String>>)> {
    let mut tables: Vec<(String, Vec<Vec<String>>)> = Vec::new();
    for line in text.lines() {
        if line.starts_with("**") {
            tables.push((line.into(), Vec::new()));
        } else if line.starts_with("| `") {
            let cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
            tables.last_mut().expect("a heading above").1.push(cells);
        }
    }
    tables
}

#[test]
fn what_drifts_is_in_both_sides_of_a_ratio() {
    let report = Report::from_reading(drifting());
    let table = against(&report, &CaseId::new("roundtrip", "pipe", 64, "same-cpu")).unwrap();
    let (figure, rows) = &tables(&table)[0];
    assert_eq!(figure, "**its figure**, there 1.50 µs/roundtrip:");
    let expected = ["`roundtrip/tcp/64/same-cpu`", "4.50 µs/roundtrip", "3.00", "3.00 to 3.00", "7"];
    assert_eq!(rows[..], [expected], "the baseline itself is no row:\n{table}");
}

/// A pipe whose reads return many messages and a log that hands out one by one, in eight rounds in which both become
/// slower: 5 times the events, 50 times the messages, a tenth of the CPU time.
fn fan_in() -> Reading {
    let mut lines = Vec::new();
    for (mechanism, events, bytes, cpu_ns, empty) in
        [("pipe", 1e5, 64e5, 4000.0, 0.0), ("causeway-mw", 5e5, 3200e5, 400.0, 7.0)]
    {
        let id = CaseId::new("fan-in", mechanism, 64, "free");
        let case = common::case(&id, "events/s");
        lines.push(Line::Case(Case { higher_is_better: true, ..case }));
        let series = |drift: f64| {
            let bytes = ("bytes_per_s".to_owned(), vec![bytes / drift, bytes / drift, f64::NAN]);
            BTreeMap::from([bytes, ("empty_reads_per_s".to_owned(), vec![empty])])
        };
        for round in 0..8u32 {
            let drift = 1.0 + f64::from(round);
            let run = common::run(&id, round, events / drift);
            let per_op = PerOp {
                cpu_ns: cpu_ns * drift,
                voluntary_switches: 0.0,
                involuntary_switches: 1e-4,
                ..run.per_op
            };
            lines.push(Line::Run(Run { round, series: series(drift), per_op, ..run }));
        }
        let summary = common::summary(&id, "events/s", events / 4.5);
        let per_op = PerOp {
            cpu_ns: cpu_ns * 4.5,
            voluntary_switches: 0.0,
            involuntary_switches: 1e-4,
            ..summary.per_op
        };
        let series =
            BTreeMap::from([("bytes_per_s".into(), bytes / 4.5), ("empty_reads_per_s".into(), empty)]);
        lines.push(Line::Summary(Summary { runs: 8, per_op, series, ..summary }));
    }
    Reading { lines, problems: Vec::new() }
}

#[test]
fn what_the_reader_counted_has_a_row_of_its_own() {
    let report = Report::from_reading(fan_in());
    let table = against(&report, &CaseId::new("fan-in", "pipe", 64, "free")).unwrap();
    let id = "`fan-in/causeway-mw/64/free`";
    let row = |here: &str, times: &str| {
        vec![[id, here, times, &format!("{times} to {times}"), "8"].map(String::from).to_vec()]
    };
    let expected = [
        ("**its figure**, there 22.2 thousand events/s:".to_owned(), row("111 thousand events/s", "5.00")),
        ("**thousand messages/s, as the reader counted**, there 22.2:".into(), row("1110", "50.0")),
        // Sixty-four bytes an event there, ten times as many here.
        ("**CPU µs per message**, there 18.0:".into(), row("0.180", "0.0100")),
        ("**CPU µs per operation**, there 18.0:".into(), row("1.80", "0.100")),
    ];
    assert_eq!(tables(&table), expected, "counts that are chance or nothing have no table:\n{table}");
    for part in table.split("**").filter(|part| part.contains('|')) {
        let widths = part.lines().filter(|line| line.starts_with('|')).map(|line| line.chars().count());
        assert_eq!(widths.collect::<BTreeSet<_>>().len(), 1, "columns are aligned:\n{table}");
    }
}

#[test]
fn a_rate_of_something_else_is_not_held_against_it() {
    let mut reading = fan_in();
    for line in &mut reading.lines {
        match line {
            Line::Case(case) if case.mechanism == "causeway-mw" => case.unit = "bytes/s".into(),
            Line::Summary(summary) if summary.case.mechanism == "causeway-mw" => {
                summary.unit = "bytes/s".into()
            }
            _ => {}
        }
    }
    let baseline = CaseId::new("fan-in", "pipe", 64, "free");
    let why = against(&Report::from_reading(reading), &baseline).unwrap_err();
    assert_eq!(why, "no other case of the record can be held against `fan-in/pipe/64/free`");
}

#[test]
fn a_baseline_that_is_not_in_the_record_is_named() {
    let report = Report::from_reading(drifting());
    let why = against(&report, &CaseId::new("roundtrip", "udp", 64, "same-cpu")).unwrap_err();
    assert_eq!(why, "no figure of `roundtrip/udp/64/same-cpu` is in the record");
}
