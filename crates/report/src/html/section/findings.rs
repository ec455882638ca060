//! Comparisons in sentences.

use crate::findings::{Clarity, Finding, findings};
use crate::html::escape::escaped;
use crate::html::{Page, Section};
use crate::words::many;

pub const SECTION: Section = Section { id: "findings", title: "Findings", body };

/// So many sentences of a pattern stand open; the others are behind a fold.
const OPEN: usize = 12;

fn body(page: &Page<'_>) -> Option<String> {
    let groups = findings(page.report);
    let one = |(title, findings): &(String, Vec<Finding>)| {
        let clear = findings.iter().filter(|finding| finding.clarity == Clarity::Clear).count().min(OPEN);
        let (open, folded) = findings.split_at(clear);
        let mut out = format!("<h3>{}</h3>\n", escaped(title));
        if !open.is_empty() {
            out += &list(open);
        }
        if !folded.is_empty() {
            let what = if open.is_empty() { "comparison" } else { "further comparison" };
            out += &format!(
                "<details{}><summary>{}</summary>\n{}</details>\n",
                if open.is_empty() { " open" } else { "" },
                many(folded.len(), what),
                list(folded)
            );
        }
        out
    };
    (!groups.is_empty()).then(|| groups.iter().map(one).collect())
}

fn list(findings: &[Finding]) -> String {
    let items: String =
        findings.iter().map(|finding| format!("<li>{}</li>\n", escaped(&finding.sentence))).collect();
    format!("<ul>\n{items}</ul>\n")
}
