//! The lines that `run` adds to its record, so that whatever the report of it shows is in it.

use weighbridge_record::Line;

use crate::model::Report;
use crate::suite;

/// The lines that a report of one record shows and that follow from its other lines: the order of mechanisms, and the ratios,
/// crossovers and published figures in the tables of its suite.
pub fn derived(report: &Report) -> Vec<Line> {
    let contests = report.contests.iter().map(|contest| Line::Contest(contest.what.clone()));
    let findings = report.findings.iter().map(|findings| Line::Findings(findings.what));
    let of_suites = suite::derived(report).into_iter().map(|(_, line)| line);
    contests.chain(findings).chain(of_suites).collect()
}
