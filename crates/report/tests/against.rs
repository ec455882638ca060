//! Cases held against one of them.

mod common;

use weighbridge_record::{Case, CaseId, Line, Reading, Run, Summary};
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

#[test]
fn what_drifts_is_in_both_sides_of_a_ratio() {
    let report = Report::from_reading(drifting());
    let table = against(&report, &CaseId::new("roundtrip", "pipe", 64, "same-cpu")).unwrap();
    let row = table.lines().nth(2).unwrap();
    assert!(row.contains("| 3.00 | 3.00 to 3.00 | 7 |"), "{table}");
    assert_eq!(table.lines().count(), 3, "the baseline itself is no row:\n{table}");
}

#[test]
fn a_baseline_that_is_not_in_the_record_is_named() {
    let report = Report::from_reading(drifting());
    let why = against(&report, &CaseId::new("roundtrip", "udp", 64, "same-cpu")).unwrap_err();
    assert_eq!(why, "no figure of `roundtrip/udp/64/same-cpu` is in the record");
}
