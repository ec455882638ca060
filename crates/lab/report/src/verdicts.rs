//! A comparison for programs: one JSON document, and the XML that CI servers read (JUnit's).

use serde_json::{Value, json};
use weighbridge_record::CaseVerdict;

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
    let skipped: Vec<Value> = report
        .skipped
        .iter()
        .map(|of| json!({ "case": of.what.case, "step": of.what.step, "why": of.what.why }))
        .collect();
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
    let mut out = String::new();
    let (mut failures, mut errors, mut skipped) = (0, 0, 0);
    for of in report.verdicts.iter().map(|verdict| &verdict.what) {
        let detail = detail(of);
        let said = escaped(&format!("{}: {detail}", verdict_in_words(of)));
        let inside = match of.verdict.as_str() {
            "regressed" | "changed shape" => {
                failures += 1;
                format!("<failure message=\"{said}\"/>")
            }
            "void" => {
                errors += 1;
                format!("<error message=\"{said}\"/>")
            }
            "inconclusive" => {
                skipped += 1;
                format!("<skipped message=\"{said}\"/>")
            }
            _ => format!("<system-out>{said}</system-out>"),
        };
        out.push_str(&test_case(&of.case.to_string(), &inside));
    }
    let judged = |case| report.verdicts.iter().any(|verdict| verdict.what.case == case);
    let mut unmeasured = 0;
    for of in report.skipped.iter().map(|of| &of.what).filter(|of| !judged(of.case.clone())) {
        errors += 1;
        unmeasured += 1;
        let said = escaped(&plain(&of.why));
        out.push_str(&test_case(&of.case.to_string(), &format!("<error message=\"{said}\"/>")));
    }
    let tests = report.verdicts.len() + unmeasured;
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"weighbridge compare\" tests=\"{tests}\" \
         failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\">\n{out}</testsuite>\n</testsuites>\n"
    )
}

fn test_case(name: &str, inside: &str) -> String {
    format!("<testcase classname=\"weighbridge\" name=\"{}\">{inside}</testcase>\n", escaped(&plain(name)))
}

fn detail(of: &CaseVerdict) -> String {
    let ratio = of.ratio.map_or("no ratio".into(), |ratio| format!("cost B/A {ratio:.4}"));
    let interval = of.ci95.map_or(String::new(), |[low, high]| format!(" ({low:.4} to {high:.4})"));
    let remarks: String = of.remarks.iter().map(|remark| format!("; {}", plain(remark))).collect();
    format!("{ratio}{interval}, {} sets, A = {}, B = {}{remarks}", of.sets, plain(&of.a), plain(&of.b))
}
