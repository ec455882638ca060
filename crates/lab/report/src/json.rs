//! One JSON document: the records' heads and ends, and every case with its summary. Samples stay in the record.

use serde::Serialize;
use weighbridge_record::{
    Case, CaseId, CaseVerdict, Check, Claims, Comparison, Contest, Difference, End, Explanation, Findings,
    Functions, FunctionsCompared, Header, Hub, Line, Observation, Price, Profile, Ratio, Skipped, Summary,
    Timeline,
};

use crate::model::{Report, Source, Sourced};
use crate::suite::free_ratios;

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    records: Vec<Record<'a>>,
    cases: Vec<CaseOut<'a>>,
    comparisons: Vec<Out<'a, Comparison>>,
    contests: Vec<Out<'a, Contest>>,
    findings: Vec<Out<'a, Findings>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ratios: Vec<Out<'a, Ratio>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checks: Vec<Out<'a, Check>>,
    /// The lines that the tables of suites are made of: ratios, crossovers, figures beside published ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    derived: Vec<Out<'a, Line>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    verdicts: Vec<Out<'a, CaseVerdict>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    claims: Vec<Out<'a, Claims>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    prices: Vec<Out<'a, Price>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explanations: Vec<Out<'a, Explanation>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    observations: Vec<Out<'a, Observation>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    profiles: Vec<Out<'a, Profile>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<Out<'a, Difference>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timelines: Vec<Out<'a, Timeline>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    functions: Vec<Out<'a, Functions>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    functions_compared: Vec<Out<'a, FunctionsCompared>>,
    skipped: Vec<Out<'a, Skipped>>,
}

#[derive(Serialize)]
struct Record<'a> {
    name: &'a str,
    problems: Vec<ProblemOut<'a>>,
    header: Option<&'a Header>,
    #[serde(skip_serializing_if = "<[Hub]>::is_empty")]
    hubs: &'a [Hub],
    end: Option<&'a End>,
}

#[derive(Serialize)]
struct ProblemOut<'a> {
    line: usize,
    why: &'a str,
}

#[derive(Serialize)]
struct CaseOut<'a> {
    /// Index into `records`.
    record: usize,
    id: &'a CaseId,
    runs: usize,
    case: Option<&'a Case>,
    summary: Option<&'a Summary>,
    summary_computed_by_report: bool,
}

#[derive(Serialize)]
struct Out<'a, T> {
    /// Index into `records`.
    record: usize,
    #[serde(flatten)]
    what: &'a T,
}

/// The report as one JSON document, indented, with the field names of the record.
pub fn json(report: &Report) -> String {
    // Every field is named, so that the compiler tells of one that is left out.
    let Report {
        sources,
        cases,
        comparisons,
        contests,
        findings,
        is_compared: _,
        // Those that stand in no table of a suite; the others are among the derived lines, with these two.
        ratios: _,
        crossovers: _,
        published: _,
        checks,
        verdicts,
        claims,
        prices,
        explanations,
        observations,
        profiles,
        differences,
        timelines,
        functions,
        functions_compared,
        skipped,
    } = report;
    let derived = crate::suite::derived(report);
    let document = Document {
        schema: weighbridge_record::SCHEMA,
        records: sources.iter().map(record).collect(),
        cases: cases.iter().map(case).collect(),
        comparisons: comparisons.iter().map(out).collect(),
        contests: contests.iter().map(out).collect(),
        findings: findings.iter().map(out).collect(),
        ratios: free_ratios(report).map(out).collect(),
        checks: checks.iter().map(out).collect(),
        derived: derived.iter().map(|(record, what)| Out { record: *record, what }).collect(),
        verdicts: verdicts.iter().map(out).collect(),
        claims: claims.iter().map(out).collect(),
        prices: prices.iter().map(out).collect(),
        explanations: explanations.iter().map(out).collect(),
        observations: observations.iter().map(out).collect(),
        profiles: profiles.iter().map(out).collect(),
        differences: differences.iter().map(out).collect(),
        timelines: timelines.iter().map(out).collect(),
        functions: functions.iter().map(out).collect(),
        functions_compared: functions_compared.iter().map(out).collect(),
        skipped: skipped.iter().map(out).collect(),
    };
    let text = serde_json::to_string_pretty(&document);
    text.expect("plain data") + "\n"
}

fn record(source: &Source) -> Record<'_> {
    let Source { name, header, end, problems, hubs } = source;
    let problems = problems.iter().map(|problem| ProblemOut { line: problem.line, why: &problem.why });
    Record { name, problems: problems.collect(), header: header.as_ref(), hubs, end: end.as_ref() }
}

fn case(measured: &crate::Measured) -> CaseOut<'_> {
    CaseOut {
        record: measured.source,
        id: &measured.id,
        runs: measured.runs.len(),
        case: measured.case.as_ref(),
        summary: measured.summary.as_ref(),
        summary_computed_by_report: measured.is_computed,
    }
}

fn out<T>(sourced: &Sourced<T>) -> Out<'_, T> {
    Out { record: sourced.source, what: &sourced.what }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_record::Reading;

    /// Lines of kinds that have nothing to do with each other: each is an item of a list of its own.
    #[test]
    fn every_kind_of_line_has_its_list() {
        let case = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
        let at = r#""case":"roundtrip/pipe/1/same-cpu""#;
        let price = r#"{"kind":"price","name":"switches","place":"same-cpu","about":"x","ns":1.0}"#;
        let comparison =
            format!(r#"{{"kind":"comparison",{at},"baseline":"{case}","speedup":1.0,"pairs":6}}"#);
        let observation = format!(
            r#"{{"kind":"observation",{at},"cpus":[0],"unit":"ns","unobserved":1.0,"rounds":6,"looks":[],"counts":[],"refused":[]}}"#
        );
        let profile = format!(
            r#"{{"kind":"profile",{at},"clock":"x","period_ns":1.0,"runs":1,"ops":1,"samples":1,"lost":0,"throttled":0,"parts":[],"symbols":[],"folded":[]}}"#
        );
        let difference = format!(
            r#"{{"kind":"difference","a":"{case}","b":"{case}","counts":[],"parts":[],"symbols":[]}}"#
        );
        let parsed = [price, &comparison, &observation, &profile, &difference];
        let mut lines: Vec<Line> =
            parsed.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
        lines.extend([
            Line::Timeline(Box::default()),
            Line::Check(Box::default()),
            Line::Claims(Claims::default()),
            Line::Skipped(Skipped { case, step: "fit".into(), why: "x".into() }),
        ]);
        let report = Report::from_reading(Reading { lines, problems: Vec::new() });
        let document: serde_json::Value = serde_json::from_str(&json(&report)).unwrap();
        for list in [
            "prices",
            "comparisons",
            "observations",
            "profiles",
            "differences",
            "timelines",
            "checks",
            "claims",
            "skipped",
        ] {
            assert_eq!(document[list].as_array().map(Vec::len), Some(1), "{list}: {document:#}");
        }
    }
}
