//! One JSON document: the records' heads and ends, and every case with its summary. Samples stay in the record.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use weighbridge_record::{Case, CaseId, Contest, End, Header, Hub, Summary};

use crate::model::{Measured, Report, Source, Sourced};
use crate::section;
use crate::suite::{self, free_ratios};

struct Document<'a>(&'a Report);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document(report) = self;
        let derived = suite::derived_by_record(report);
        let derived: Vec<Sourced<_>> =
            derived.into_iter().map(|(source, what)| Sourced { source, what }).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &weighbridge_record::SCHEMA)?;
        map.serialize_entry("records", &report.sources.iter().map(record).collect::<Vec<_>>())?;
        map.serialize_entry("cases", &report.cases.iter().map(case).collect::<Vec<_>>())?;
        map.serialize_entry("comparisons", &report.comparisons)?;
        map.serialize_entry("contests", &report.contests)?;
        map.serialize_entry("findings", &report.findings)?;
        some(&mut map, "follows", &follows(report))?;
        // Those that stand in no table of a suite; the others are among the derived lines, with crossovers and published figures.
        some(&mut map, "ratios", &free_ratios(report).collect::<Vec<_>>())?;
        some(&mut map, "checks", &report.checks)?;
        some(&mut map, "derived", &derived)?;
        some(&mut map, "verdicts", &report.verdicts)?;
        some(&mut map, "claims", &report.claims)?;
        some(&mut map, "prices", &report.prices)?;
        some(&mut map, "explanations", &report.explanations)?;
        some(&mut map, "observations", &report.observations)?;
        some(&mut map, "profiles", &report.profiles)?;
        some(&mut map, "differences", &report.differences)?;
        some(&mut map, "timelines", &report.timelines)?;
        some(&mut map, "functions", &report.functions)?;
        some(&mut map, "functions_compared", &report.functions_compared)?;
        map.serialize_entry("skipped", &report.skipped)?;
        map.end()
    }
}

/// An entry, unless its list is empty.
fn some<M: SerializeMap>(map: &mut M, name: &str, all: &[impl Serialize]) -> Result<(), M::Error> {
    if all.is_empty() { Ok(()) } else { map.serialize_entry(name, all) }
}

#[derive(Serialize)]
struct Record<'a> {
    name: &'a str,
    problems: Vec<Value>,
    header: Option<&'a Header>,
    #[serde(skip_serializing_if = "<[Hub]>::is_empty")]
    hubs: &'a [Hub],
    end: Option<&'a End>,
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

/// What follows of each contest, where something does.
fn follows(report: &Report) -> Vec<Value> {
    let of = |contest: &Sourced<Contest>| {
        let first = &contest.what.contestants.first()?.case;
        let follows = section::follows(report, contest);
        (!follows.is_empty())
            .then(|| json!({ "record": contest.source, "instead_of": first, "follows": follows }))
    };
    report.contests.iter().filter_map(of).collect()
}

/// The report as one JSON document, indented, with the field names of the record.
pub fn json(report: &Report) -> String {
    serde_json::to_string_pretty(&Document(report)).expect("plain data") + "\n"
}

fn record(source: &Source) -> Record<'_> {
    let Source { name, header, end, problems, hubs } = source;
    let problems = problems.iter().map(|problem| json!({ "line": problem.line, "why": problem.why }));
    Record { name, problems: problems.collect(), header: header.as_ref(), hubs, end: end.as_ref() }
}

fn case(measured: &Measured) -> CaseOut<'_> {
    CaseOut {
        record: measured.source,
        id: &measured.id,
        runs: measured.runs.len(),
        case: measured.case.as_ref(),
        summary: measured.summary.as_ref(),
        summary_computed_by_report: measured.is_computed,
    }
}

#[cfg(test)]
mod tests {
    use weighbridge_record::{Claims, Line, Reading, Skipped};

    use super::*;

    /// Lines of kinds that have nothing to do with each other: each is an item of a list of its own.
    #[test]
    fn every_kind_of_line_has_its_list() {
        let case = CaseId::new("roundtrip", "pipe", 1, "same-cpu");
        let lines = [
            Line::Timeline(Box::default()),
            Line::Check(Box::default()),
            Line::Claims(Claims::default()),
            Line::Skipped(Skipped { case: case.clone(), step: "fit".into(), why: "x".into() }),
        ];
        let of = json!({ "case": case, "a": case, "b": case, "unit": "ns", "counts": [], "parts": [], "symbols": [] });
        let parsed = [
            ("price", json!({ "name": "switches", "place": "same-cpu", "about": "x", "ns": 1.0 })),
            ("comparison", json!({ "baseline": case, "speedup": 1.0, "pairs": 6 })),
            (
                "observation",
                json!({ "cpus": [0], "unobserved": 1.0, "rounds": 6, "looks": [], "refused": [] }),
            ),
            (
                "profile",
                json!({ "clock": "x", "period_ns": 1.0, "runs": 1, "ops": 1, "samples": 1, "lost": 0, "throttled": 0, "folded": [] }),
            ),
            ("difference", json!({})),
        ];
        let parsed = parsed.into_iter().map(|(kind, mut line)| {
            let fields = line.as_object_mut().unwrap();
            fields.extend(of.as_object().unwrap().clone());
            fields.insert("kind".into(), kind.into());
            serde_json::from_value(line).expect(kind)
        });
        let lines = parsed.chain(lines).collect();
        let report = Report::from_reading(Reading { lines, problems: Vec::new() });
        let document: Value = serde_json::from_str(&json(&report)).unwrap();
        let lists = "prices comparisons observations profiles differences timelines checks claims skipped";
        for list in lists.split(' ') {
            assert_eq!(document[list].as_array().map(Vec::len), Some(1), "{list}: {document:#}");
        }
    }
}
