//! The terminal's text.

use snapbox::{assert_data_eq, file};
use weighbridge_record::{CaseId, Dram, Line, Reading};
use weighbridge_report::{Report, Style, html, markdown};

use crate::common;

fn text(report: &Report, width: u16) -> String {
    weighbridge_report::text(report, Style { color: false, width: Some(width), ascii: false })
}

#[test]
fn records_look_as_they_did() {
    let two = [("before".to_owned(), common::interrupted()), ("after".to_owned(), common::interrupted())];
    for (report, width, expected) in [
        (Report::from_reading(common::whole()), 80, file!["snapshots/whole-80.txt"]),
        (Report::from_reading(common::part()), 140, file!["snapshots/part-140.txt"]),
        (Report::from_reading(common::interrupted()), 80, file!["snapshots/interrupted-80.txt"]),
        (Report::from_reading(common::truncated()), 80, file!["snapshots/truncated-80.txt"]),
        (Report::from_readings(two), 80, file!["snapshots/two-records-80.txt"]),
        (Report::from_reading(common::patterns()), 100, file!["snapshots/patterns-100.txt"]),
        (Report::from_reading(common::timed()), 120, file!["snapshots/timed-120.txt"]),
    ] {
        assert_data_eq!(text(&report, width), expected.raw());
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for reading in [common::whole(), common::patterns(), common::unsteady(), common::timed()] {
        let report = Report::from_reading(reading);
        for width in [40, 56, 72, 80, 100, 140] {
            // A heading, and the title of a table, is one line.
            let is_heading =
                |line: &&str| width < 72 && (line.starts_with("■ ") || line.starts_with("  *** "));
            for line in text(&report, width).lines().filter(|line| !is_heading(line)) {
                assert!(line.chars().count() <= usize::from(width), "at {width}: {line:?}");
            }
        }
    }
}

#[test]
fn foreign_text_sends_no_escape_to_the_terminal() {
    let text = text(&Report::from_reading(common::hostile()), 100);
    assert!(!text.contains('\u{1b}'));
    assert!(text.contains("\u{fffd}[2J"), "the text itself is still shown");
}

#[test]
fn color_is_only_there_when_asked_for_and_changes_nothing_else() {
    let report = Report::from_reading(common::whole());
    let colored = weighbridge_report::text(&report, Style { color: true, width: Some(80), ascii: false });
    let mut stripped = String::new();
    let mut rest = colored.as_str();
    while let Some(start) = rest.find('\u{1b}') {
        stripped.push_str(&rest[..start]);
        rest = &rest[start + rest[start..].find('m').unwrap() + 1..];
    }
    stripped.push_str(rest);
    assert_ne!(colored, stripped);
    assert_eq!(stripped, text(&report, 80));
}

#[test]
fn of_many_cases_in_several_regimes_the_clearest_have_a_line_each() {
    let report = Report::from_reading(common::unsteady());
    let text = text(&report, 120);
    let remarks = &text[text.find("■ Not one steady state").unwrap()..];
    let explained = remarks.lines().take_while(|line| !line.contains("12 of 12")).count();
    // As many lines as the heading and its legend take.
    let lines: Vec<&str> = remarks.lines().skip(explained - 1).collect();
    assert_eq!(lines[1], "  12 of 12 cases at two-cpus were not in one steady state. Largest effect first:");
    assert_eq!(
        lines[2],
        "    mechanism-11 64 KiB stream two-cpus: two modes in 16 of 33 runs (1.50 and 18.8 GiB/s); a step in 8"
    );
    assert!(lines[3].starts_with("    mechanism-10 "), "the largest effect first: {}", lines[3]);
    assert_eq!(lines[10], "    … 4 more; `weighbridge report --format markdown` lists all");
    assert!(
        text.contains("12 of 12 cases: the time allowed was used up\n    stream at two-cpus: all 12 cases\n")
    );
    assert!(!text.contains("e9"), "figures are in the unit of the table");
    let page = html(&report);
    assert!(!page.contains("4 more; "), "the fold has them all");
    assert_eq!(
        page.matches("10 of 15 lie near 1.25 GiB/s").count(),
        13,
        "the page has every one in full, with units"
    );
    assert!(!page.contains("1.346e9"));
}

#[test]
fn a_date_is_never_broken() {
    let report = Report::from_reading(common::whole());
    for width in [60, 70, 80, 90, 100, 110, 120] {
        assert!(text(&report, width).contains("2026-01-02T03:04:05Z"), "at {width}");
    }
}

/// A record of an operation that crossed the memory bus, on a machine with these modules.
fn copied(dram: Option<Dram>, missing: &[&str]) -> Report {
    let id: CaseId = "solo/memcpy/67108864/same-cpu".parse().unwrap();
    let mut header = common::header();
    let Line::Header(inner) = &mut header else { unreachable!() };
    inner.machine.dram = dram;
    inner.machine.missing = missing.iter().map(|why| (*why).to_owned()).collect();
    let mut summary = common::summary(&id, "bytes/s", 12.8e9);
    summary.series = [("bus_bytes_per_s".to_owned(), 25.6e9)].into();
    let lines = vec![header, Line::Case(common::case(&id, "bytes/s")), Line::Summary(summary)];
    Report::from_reading(Reading { lines, problems: Vec::new() })
}

#[test]
fn the_share_of_the_memory_bus_is_shown_or_why_it_is_not_known() {
    let dram = Dram { modules: 2, bytes_per_s: Some(51.2e9), ..Default::default() };
    let known = copied(Some(dram), &[]);
    let line = "Memory bus: of 51.2 GB/s in theory, estimated: solo/memcpy/67108864/same-cpu 50 %";
    assert!(text(&known, 100).contains(line), "{}", text(&known, 100));
    assert!(markdown(&known).contains(line));
    assert!(html(&known).contains(line));
    let unknown = copied(None, &["theoretical bandwidth of the memory: only root may read it"]);
    let line = "Memory bus: the share of the theoretical bandwidth is not known: only root may read it";
    assert!(text(&unknown, 100).contains(line), "{}", text(&unknown, 100));
    assert!(!text(&Report::from_reading(common::whole()), 100).contains("Memory bus"), "nothing crossed it");
}
