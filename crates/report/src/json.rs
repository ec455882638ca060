//! One JSON document: the records' heads and ends, and every case with its summary. Samples stay in the record.

use serde::Serialize;
use weighbridge_record::{
    Case, CaseId, CaseVerdict, Check, Claims, Comparison, Contest, Difference, End, Explanation, Findings,
    Functions, FunctionsCompared, Header, Hub, Line, Observation, Price, Profile, Ratio, Skipped, Summary,
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
    let derived = crate::suite::derived(report);
    let document = Document {
        schema: weighbridge_record::SCHEMA,
        records: report.sources.iter().map(record).collect(),
        cases: report.cases.iter().map(case).collect(),
        comparisons: report.comparisons.iter().map(out).collect(),
        contests: report.contests.iter().map(out).collect(),
        findings: report.findings.iter().map(out).collect(),
        ratios: free_ratios(report).map(out).collect(),
        checks: report.checks.iter().map(out).collect(),
        derived: derived.iter().map(|(record, what)| Out { record: *record, what }).collect(),
        verdicts: report.verdicts.iter().map(out).collect(),
        claims: report.claims.iter().map(out).collect(),
        prices: report.prices.iter().map(out).collect(),
        explanations: report.explanations.iter().map(out).collect(),
        observations: report.observations.iter().map(out).collect(),
        profiles: report.profiles.iter().map(out).collect(),
        differences: report.differences.iter().map(out).collect(),
        functions: report.functions.iter().map(out).collect(),
        functions_compared: report.functions_compared.iter().map(out).collect(),
        skipped: report.skipped.iter().map(out).collect(),
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
