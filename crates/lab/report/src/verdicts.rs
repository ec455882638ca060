//! A comparison for programs: one JSON document, and the XML that CI servers read (JUnit's).

use serde_json::{Value, json};
use weighbridge_record::{CaseId, CaseVerdict};

use crate::html::escape::escaped;
use crate::model::Report;
use crate::section::verdict_in_words;
use crate::words::plain;

/// The verdicts as one JSON document, indented: `cases` with the fields of a `verdict` line each, `control`, `resolution`, `margin`,
/// and what else holds of all cases.
pub fn verdicts_json(report: &Report) -> String {
    let claims = report.claims.first().map(|claims| &claims.what);
    let cases: Vec<&CaseVerdict> = report.verdicts.iter().map(|verdict| &verdict.what).collect();
    let controls: Vec<Value> =
        cases.iter().filter_map(|of| Some(json!({ "case": of.case, "control": of.control? }))).collect();
    let moved = cases.iter().any(|of| of.is_void());
    let skipped = report.skipped.iter().map(|of| &of.what);
    let skipped: Vec<Value> =
        skipped.map(|of| json!({ "case": of.case, "step": of.step, "why": of.why })).collect();
    let document = json!({
        "schema": weighbridge_record::SCHEMA,
        "cases": cases,
        "control": { "has_moved": moved, "cases": controls },
        "resolution": claims.and_then(|claims| claims.resolution),
        "margin": claims.map(|claims| claims.margin),
        "claims": claims,
        "skipped": skipped,
    });
    serde_json::to_string_pretty(&document).expect("plain data") + "\n"
}

/// The verdicts in the XML of JUnit: a regression is a failure, a void case or one that was not measured an error, an inconclusive
/// one skipped.
pub fn junit(report: &Report) -> String {
    let judged = report.verdicts.iter().map(|of| &of.what);
    let cases = judged.map(|of| {
        let element = match of.verdict.as_str() {
            "regressed" | "changed shape" => "failure",
            "void" => "error",
            "inconclusive" => "skipped",
            _ => "system-out",
        };
        (&of.case, element, format!("{}: {}", verdict_in_words(of), detail(of)))
    });
    let is_judged = |case: &CaseId| report.verdicts.iter().any(|verdict| verdict.what.case == *case);
    let skipped = report.skipped.iter().map(|of| &of.what).filter(|of| !is_judged(&of.case));
    let unmeasured = skipped.map(|of| (&of.case, "error", plain(&of.why)));
    let cases: Vec<(&CaseId, &str, String)> = cases.chain(unmeasured).collect();
    let [failures, errors, skipped] = ["failure", "error", "skipped"]
        .map(|element| cases.iter().filter(|(_, known, _)| *known == element).count());
    let out: String = cases.iter().map(|(case, element, said)| test_case(case, element, said)).collect();
    let tests = cases.len();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"weighbridge compare\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\">\n{out}</testsuite>\n</testsuites>\n"
    )
}

fn test_case(case: &CaseId, element: &str, said: &str) -> String {
    let said = escaped(said);
    let inside = match element {
        "system-out" => format!("<system-out>{said}</system-out>"),
        _ => format!("<{element} message=\"{said}\"/>"),
    };
    let name = escaped(&plain(&case.to_string()));
    format!("<testcase classname=\"weighbridge\" name=\"{name}\">{inside}</testcase>\n")
}

fn detail(of: &CaseVerdict) -> String {
    let ratio = of.ratio.map_or("no ratio".into(), |ratio| format!("cost B/A {ratio:.4}"));
    let interval = of.ci95.map_or(String::new(), |[low, high]| format!(" ({low:.4} to {high:.4})"));
    let remarks: String = of.remarks.iter().map(|remark| format!("; {}", plain(remark))).collect();
    format!("{ratio}{interval}, {} sets, A = {}, B = {}{remarks}", of.sets, plain(&of.a), plain(&of.b))
}
