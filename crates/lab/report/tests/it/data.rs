//! Markdown, CSV and JSON.

use std::collections::{BTreeMap, BTreeSet};

use snapbox::{assert_data_eq, file};
use weighbridge_record::Line;
use weighbridge_report::{Report, csv, html, json, markdown};

use crate::common;

#[test]
fn markdown_of_a_record() {
    let text = markdown(&Report::from_reading(common::part()));
    assert_data_eq!(text, file!["snapshots/part-markdown.txt"].raw());
}

#[test]
fn csv_of_a_record() {
    let text = csv(&Report::from_reading(common::part()));
    assert_data_eq!(text.replace("\r\n", "\n"), file!["snapshots/part.csv"].raw());
}

#[test]
fn json_of_an_interrupted_record() {
    let text = json(&Report::from_reading(common::interrupted()));
    assert_data_eq!(text, file!["snapshots/interrupted.json"].raw());
}

/// The rows of the CSV, each by the names of its columns.
fn rows(report: &Report) -> Vec<BTreeMap<String, String>> {
    ::csv::Reader::from_reader(csv(report).as_bytes()).deserialize().map(Result::unwrap).collect()
}

#[test]
fn csv_has_one_row_for_every_case_measured_or_skipped() {
    let report = Report::from_reading(common::whole());
    let rows = rows(&report);
    let ids: BTreeSet<&str> = rows.iter().map(|row| row["case"].as_str()).collect();
    assert_eq!(ids.len(), rows.len());
    let skipped: BTreeSet<_> = report.skipped.iter().map(|skip| skip.what.case.to_string()).collect();
    assert_eq!(ids.len(), report.cases.len() + skipped.len());
}

#[test]
fn csv_gives_foreign_text_back_as_it_was() {
    let rows = rows(&Report::from_reading(common::hostile()));
    assert_eq!(rows[rows.len() - 1]["skipped_why"], "<script>alert(1)</script>\u{1b}[2J|\"'&");
}

#[test]
fn json_is_one_document_with_the_figures_of_the_record() {
    let report = Report::from_reading(common::whole());
    let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), report.cases.len());
    for (out, case) in cases.iter().zip(&report.cases) {
        let (out, median) =
            (out["summary"]["median"].as_f64().unwrap(), case.summary.as_ref().unwrap().median);
        assert!((out - median).abs() <= 1e-12 * median, "{out} is not {median}");
    }
}

#[test]
fn broken_lines_are_named_at_the_top() {
    let report = Report::from_reading(common::truncated());
    for (text, first) in [(markdown(&report), "## Machine"), (html(&report), "<main>")] {
        let warning = text.find("line 10: ends in the middle").expect("the problem is named");
        assert!(warning < text.find(first).unwrap());
    }
    let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    assert_eq!(document["records"][0]["problems"][0]["line"], 10);
}

#[test]
fn markdown_takes_no_markup_from_foreign_text() {
    let text = markdown(&Report::from_reading(common::hostile()));
    assert!(!text.contains("<script>") && !text.contains("<img"));
    assert!(text.contains("&lt;script&gt;"));
}

#[test]
fn a_record_cut_off_before_its_summaries_gets_them_and_every_format_says_so() {
    let report = Report::from_reading(common::truncated());
    let summary = report.cases[0].summary.as_ref().expect("computed from the runs");
    // Seven runs, 5000 to 5060 in steps of 10; the median of each run's samples is its value.
    assert_eq!((summary.runs, summary.median, summary.range), (7, 5030.0, [5000.0, 5060.0]));
    assert_eq!(summary.ci95, Some([5000.0, 5060.0]), "below nine runs the interval is the whole range");
    assert_eq!((summary.per_op.voluntary_switches, summary.per_op.cycles), (2.0, None));

    let says = "holds no summary for 1 case; computed for this report";
    assert!(markdown(&report).contains(says));
    assert!(weighbridge_report::text(&report, Default::default()).replace("\n         ", " ").contains(says));
    assert!(html(&report).contains(says));
    let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
    assert_eq!(document["cases"][0]["summary_computed_by_report"], true);
    assert_eq!(rows(&report)[0]["summary_computed_by_report"], "true");
}

#[test]
fn a_run_without_samples_does_not_stop_the_report() {
    let mut reading = common::truncated();
    for line in &mut reading.lines {
        if let Line::Run(run) = line {
            run.samples.clear();
        }
    }
    let report = Report::from_reading(reading);
    assert!(report.cases[0].summary.is_none());
    assert!(markdown(&report).contains("1 case with runs but neither a summary nor usable samples"));
}

/// The order of `case` lines is that of the first round, which is drawn by lot.
#[test]
fn cases_stand_in_the_order_of_their_summaries_and_not_in_that_of_their_runs() {
    let planned = Report::from_reading(common::whole());
    let mut reading = common::whole();
    let (mut cases, rest): (Vec<Line>, Vec<Line>) =
        reading.lines.into_iter().partition(|line| matches!(line, Line::Case(_)));
    cases.reverse();
    reading.lines = cases.into_iter().chain(rest).collect();
    let shuffled = Report::from_reading(reading);
    assert_eq!(markdown(&shuffled), markdown(&planned));
    assert_eq!(csv(&shuffled), csv(&planned));
}

#[test]
fn cases_without_a_summary_come_after_the_others_in_the_order_of_the_record() {
    let mut reading = common::interrupted();
    reading.lines.retain(|line| !matches!(line, Line::Summary(summary) if summary.case.mechanism == "pipe"));
    let report = Report::from_reading(reading);
    let names: Vec<&str> = report.cases.iter().map(|case| case.id.mechanism.as_str()).collect();
    assert_eq!(names, ["unix-stream", "pipe", "tcp"]);
}
