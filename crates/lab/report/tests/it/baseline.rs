//! Cases compared with one of them, and with those of another record.

use std::collections::BTreeMap;

use weighbridge_record::{Case, CaseId, Line, PerOp, Reading, Run, SliceSeries, Slices, Summary, ToHub};
use weighbridge_report::{Report, csv, html, json, markdown};

use crate::common;

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
        if let Some(title) = line.strip_prefix("### ") {
            tables.push((title.into(), Vec::new()));
        } else if line.contains("/64/") && line.starts_with('|') {
            let cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
            tables.last_mut().expect("a heading above").1.push(cells);
        }
    }
    tables.retain(|(_, rows)| !rows.is_empty());
    tables
}

fn compared(reading: Reading, baseline: &CaseId) -> Result<Report, String> {
    Report::from_reading(reading).with_baseline(baseline)
}

#[test]
fn what_drifts_is_in_both_sides_of_a_ratio() {
    let report = compared(drifting(), &CaseId::new("roundtrip", "pipe", 64, "same-cpu")).unwrap();
    let text = markdown(&report);
    let (figure, rows) = &tables(&text)[0];
    assert_eq!(figure, "Figure of the case");
    let expected = [
        "roundtrip/tcp/64/same-cpu",
        "4.50 µs/roundtrip",
        "1.50 µs/roundtrip",
        "+3.00 µs/roundtrip",
        "3.00",
        "3.00 to 3.00",
        "7",
    ];
    assert_eq!(rows[..], [expected], "the baseline itself is not a row:\n{text}");
    assert!(!text.contains("not interleaved"));
}

/// Two ways to reach many in seven rounds in which the machine becomes twice as slow. The sender of the first hands its message to another process.
fn drifting_senders() -> Reading {
    let mut lines = Vec::new();
    for (mechanism, last_ns, sender_ns) in [("dbus-broker", 200.0, 3.0), ("causeway-bus", 300.0, 30.0)] {
        let id = CaseId::new("fan-out", mechanism, 64, "same-cpu");
        let series = |ns: f64| BTreeMap::from([("sender_ns".to_owned(), ns)]);
        lines.push(Line::Case(common::case(&id, "ns/message")));
        for round in 0..7u32 {
            let drift = 1.0 + f64::from(round) / 6.0;
            let run = common::run(&id, round, last_ns * drift);
            let series = BTreeMap::from([("sender_ns".to_owned(), vec![sender_ns * drift; 5])]);
            lines.push(Line::Run(Run { round, series, ..run }));
        }
        let summary = common::summary(&id, "ns/message", last_ns * 1.5);
        lines.push(Line::Summary(Summary { runs: 7, series: series(sender_ns * 1.5), ..summary }));
    }
    Reading { lines, problems: Vec::new() }
}

#[test]
fn a_sender_is_compared_with_the_time_until_the_last_receiver_of_the_baseline_has_a_message() {
    let report =
        compared(drifting_senders(), &CaseId::new("fan-out", "dbus-broker", 64, "same-cpu")).unwrap();
    let text = markdown(&report);
    let tables = tables(&text);
    let (_, rows) = tables.iter().find(|(title, _)| title.starts_with("Sender's time over")).expect(&text);
    let expected =
        ["fan-out/causeway-bus/64/same-cpu", "45.0", "300", "−255", "0.150", "0.150 to 0.150", "7"];
    assert_eq!(rows[..], [expected], "{text}");
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
fn what_the_reader_counted_has_a_table_of_its_own() {
    let report = compared(fan_in(), &CaseId::new("fan-in", "pipe", 64, "free")).unwrap();
    let text = markdown(&report);
    let id = "fan-in/causeway-mw/64/free";
    let row = |here: &str, there: &str, more: &str, times: &str| {
        vec![[id, here, there, more, times, &format!("{times} to {times}"), "8"].map(String::from).to_vec()]
    };
    let expected = [
        (
            "Figure of the case".to_owned(),
            row("111 thousand events/s", "22.2 thousand events/s", "−36.0 µs/event", "5.00"),
        ),
        ("thousand messages/s, as the reader counted".into(), row("1110", "22.2", "+1090", "50.0")),
        // Sixty-four bytes an event there, ten times as many here.
        ("CPU µs per message".into(), row("0.180", "18.0", "−17.8", "0.0100")),
        ("CPU µs per operation".into(), row("1.80", "18.0", "−16.2", "0.100")),
    ];
    assert_eq!(tables(&text), expected, "counts that are chance or nothing have no table:\n{text}");
}

#[test]
fn every_format_has_the_ratios_and_json_has_them_as_lines() {
    let report = compared(drifting(), &CaseId::new("roundtrip", "pipe", 64, "same-cpu")).unwrap();
    assert!(html(&report).contains("<td>3.00 to 3.00</td>"));
    assert!(weighbridge_report::text(&report, Default::default()).contains("3.00 to 3.00"));
    let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    let line: weighbridge_record::Ratio = serde_json::from_value(document["ratios"][0].clone()).unwrap();
    assert_eq!((line.figure.as_str(), line.pairs, line.baseline_record), ("value", 7, None));
    assert!((line.ratio - 3.0).abs() < 1e-12);
    let rows = csv(&report);
    let mut reader = ::csv::Reader::from_reader(rows.as_bytes());
    let first = reader.records().next().unwrap().unwrap();
    assert_eq!((&first[1], &first[5]), ("roundtrip/tcp/64/same-cpu", "value"));
    assert!((first[8].parse::<f64>().unwrap() - 3.0).abs() < 1e-12);
}

/// Lines of the kind in the record are shown without being asked for.
#[test]
fn ratios_that_a_record_holds_are_shown() {
    let mut reading = drifting();
    let ratios = compared(drifting(), &CaseId::new("roundtrip", "pipe", 64, "same-cpu")).unwrap().ratios;
    reading.lines.extend(ratios.into_iter().map(|ratio| Line::Ratio(ratio.what)));
    let text = markdown(&Report::from_reading(reading));
    assert!(text.contains("## Compared with roundtrip/pipe/64/same-cpu"), "{text}");
}

#[test]
fn another_record_is_compared_case_by_case_and_that_is_said_not_to_be_interleaved() {
    let mut later = drifting();
    for line in &mut later.lines {
        match line {
            Line::Run(run) => run.value *= 2.0,
            Line::Summary(summary) => summary.median *= 2.0,
            _ => {}
        }
    }
    let report = Report::from_reading(later).with_baseline_record("before.jsonl", drifting(), false).unwrap();
    let text = markdown(&report);
    assert!(text.contains("## Compared with the same cases of before.jsonl"), "{text}");
    assert!(text.contains("not interleaved"), "{text}");
    let (_, rows) = &tables(&text)[0];
    let row =
        |id: &str, here: &str, there: &str, more: &str| [id, here, there, more, "2.00"].map(String::from);
    let [pipe, tcp] = ["pipe", "tcp"].map(|mechanism| format!("roundtrip/{mechanism}/64/same-cpu"));
    let us = "µs/roundtrip";
    let of = |id: &str, [here, there, more]: [&str; 3]| {
        row(id, &format!("{here} {us}"), &format!("{there} {us}"), &format!("{more} {us}"))
    };
    assert_eq!(rows[0][..5], of(&pipe, ["3.00", "1.50", "+1.50"]));
    assert_eq!(rows[1][..5], of(&tcp, ["9.00", "4.50", "+4.50"]));
    assert!(report.ratios.iter().all(|ratio| ratio.what.pairs == 0));
    let other = Report::from_reading(fan_in());
    let why = other.with_baseline_record("before.jsonl", drifting(), false).unwrap_err();
    assert_eq!(why, "`before.jsonl` has no figure of any case of the record");
}

/// A record of a case in eight sets: its hub cost this many nanoseconds, the case twice or 2.2 times as much.
fn duet(hub_ns: f64, times: f64) -> Reading {
    let id = CaseId::new("roundtrip", "tcp", 64, "same-cpu");
    let hub = CaseId::new("roundtrip", "pipe", 64, "same-cpu");
    let mut lines = vec![common::header(), Line::Case(common::case(&id, "ns/roundtrip"))];
    for set in 0..8u32 {
        let slices = |first: u64, ns: f64| SliceSeries {
            start_ns: (0..6).map(|slice| first + slice * 10_000_000).collect(),
            elapsed_ns: vec![(ns * 1000.0) as u64; 6],
            ops: vec![1000; 6],
        };
        let own = times * (1.0 + f64::from(set) * 0.001);
        let slices = Slices {
            hub: hub.clone(),
            slice_ms: 2.0,
            of_case: slices(0, hub_ns * own),
            of_hub: slices(5_000_000, hub_ns),
            hub_roles: Vec::new(),
        };
        let run = common::run(&id, set, hub_ns * own);
        lines.push(Line::Run(Run { slices: Some(slices), ..run }));
    }
    let to_hub = ToHub { hub, median: times, ci95: None, sets: 8 };
    let summary = common::summary(&id, "ns/roundtrip", hub_ns * times);
    lines.push(Line::Summary(Summary { runs: 8, to_hub: Some(to_hub), ..summary }));
    Reading { lines, problems: Vec::new() }
}

#[test]
fn multiples_of_the_hub_are_compared_first_and_the_figures_stand_beside() {
    // The machine was half as fast, and the case cost 1.1 times as much.
    let with_one_alone = |hub_ns, times| {
        let mut reading = duet(hub_ns, times);
        // Measured alone, and first in the record.
        let alone = drifting()
            .lines
            .into_iter()
            .take_while(|line| !matches!(line, Line::Case(case) if case.mechanism == "tcp"));
        reading.lines.splice(1..1, alone);
        reading
    };
    let report = Report::from_reading(with_one_alone(4000.0, 2.2));
    let report = report.with_baseline_record("before.jsonl", with_one_alone(2000.0, 2.0), false).unwrap();
    let text = markdown(&report);
    let (figure, rows) = &tables(&text)[0];
    assert_eq!(figure, "Cost as a multiple of the hub's");
    assert_eq!(rows[0][1..5], ["2.2", "2", "+0.2", "1.10"].map(String::from), "{text}");
    assert_eq!(rows[0][7], "2.20", "the figures differ by the machine too: {text}");
    assert_eq!(tables(&text)[1].0, "Figure of the case");
}

#[test]
fn a_record_of_another_machine_is_refused_or_every_line_says_so() {
    let mut other = duet(2000.0, 2.0);
    if let Line::Header(header) = &mut other.lines[0] {
        header.machine.hostname = "elsewhere".into();
    }
    let compared = |across| {
        Report::from_reading(duet(4000.0, 2.2)).with_baseline_record("there.jsonl", other.clone(), across)
    };
    let why = compared(false).unwrap_err();
    assert!(why.contains("`there.jsonl` is of another machine (hostname: bench-01 and elsewhere)"), "{why}");
    assert!(why.contains("--across-machines"), "{why}");
    let report = compared(true).unwrap();
    let text = markdown(&report);
    assert!(tables(&text).len() > 2, "{text}");
    for (figure, rows) in tables(&text) {
        assert!(
            rows.iter().all(|row| row.last().unwrap() == "hostname: bench-01 and elsewhere"),
            "{figure}: {rows:?}"
        );
    }
    assert!(csv(&report).lines().skip(1).all(|line| line.contains("elsewhere")));
}

#[test]
fn a_rate_of_something_else_is_not_compared() {
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
    let why = compared(reading, &baseline).unwrap_err();
    assert_eq!(why, "no other case of the record can be compared with `fan-in/pipe/64/free`");
}

#[test]
fn a_baseline_that_is_not_in_the_record_is_named() {
    let why = compared(drifting(), &CaseId::new("roundtrip", "udp", 64, "same-cpu")).unwrap_err();
    assert!(why.starts_with("no figure of `roundtrip/udp/64/same-cpu` is in the record; "), "{why}");
}
