//! Records whose answer is known: a comparison that is turned round, or a flag that is lost, must not go unseen.

use weighbridge_record::{CaseId, Line, Reading, Run, Summary, derive};
use weighbridge_report::{Report, html, markdown};

use crate::common;

/// Two cases over six rounds, the second with twice the first's figure, and their comparison as a session writes it.
fn twice_as_much(pattern: &str, unit: &str) -> Report {
    let case = |mechanism: &str| CaseId::new(pattern, mechanism, 4096, "same-cpu");
    let (pipe, ring) = (case("pipe"), case("ring-futex"));
    let mut lines = Vec::new();
    for (id, value) in [(&pipe, 1e9), (&ring, 2e9)] {
        lines.push(Line::Case(common::case(id, unit)));
        lines.extend((0..6).map(|round| Line::Run(Run { round, ..common::run(id, round, value) })));
        lines.push(Line::Summary(Summary { runs: 6, ..common::summary(id, unit, value) }));
    }
    let higher_is_better = common::case(&pipe, unit).higher_is_better;
    let pairs = [(1e9, 2e9); 6];
    lines.push(Line::Comparison(derive::comparison(&pipe, &ring, &pairs, higher_is_better)));
    Report::from_reading(Reading { lines, problems: Vec::new() })
}

/// The finding, the best of the table, and the order of the chart are of one mind.
fn winner(report: &Report) -> (String, String) {
    let text = markdown(report);
    let line = text.lines().find(|line| line.starts_with("- ")).expect("a finding").to_owned();
    let best =
        text.lines().find(|line| line.starts_with("| ") && line.contains("**")).expect("a best figure");
    (line, best.split('|').nth(1).unwrap().trim().to_owned())
}

#[test]
fn of_two_streams_that_with_twice_the_rate_is_twice_as_fast() {
    let (finding, best) = winner(&twice_as_much("stream", "bytes/s"));
    assert!(finding.contains("ring-futex is surely ahead of pipe; pipe costs 2.00 × as much"), "{finding}");
    assert_eq!(best, "ring-futex");
}

#[test]
fn of_two_round_trips_that_with_twice_the_time_is_the_slower_one() {
    let (finding, best) = winner(&twice_as_much("roundtrip", "ns/roundtrip"));
    assert!(
        finding.contains("pipe is surely ahead of ring-futex; ring-futex costs 2.00 × as much"),
        "{finding}"
    );
    assert_eq!(best, "pipe");
}

#[test]
fn a_loss_is_marked_and_told_with_and_without_a_summary() {
    const LOST: &str = "lost: 3.0 % of the messages offered";
    let mut reading = common::truncated();
    for line in &mut reading.lines {
        if let Line::Run(run) = line {
            run.flags = vec![LOST.into(), "noisy: 2 of 15 samples were preempted".into()];
        }
    }
    let cut = Report::from_reading(reading.clone());
    let id = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
    let anomalies = vec![format!("in 7 of 7 runs: {LOST}")];
    reading.lines.push(Line::Summary(Summary { anomalies, ..common::summary(&id, "ns/roundtrip", 5030.0) }));
    for report in [cut, Report::from_reading(reading)] {
        for text in [markdown(&report), weighbridge_report::text(&report, Default::default()), html(&report)]
        {
            assert!(text.contains(LOST) && text.contains("Failed counter checks (!)"), "{text:.3000}");
            assert!(!text.contains("noisy: 2 of 15"), "noise is in the spread");
        }
        assert!(markdown(&report).contains(" `!` |"), "{}", markdown(&report));
    }
}
