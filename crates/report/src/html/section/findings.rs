//! Comparisons in sentences: which is best, then each comparison behind a fold, fastest first.

use crate::findings::{Contest, Finding, contests, others};
use crate::html::escape::escaped;
use crate::html::{Page, Section};
use crate::words::{many, pattern};

pub const SECTION: Section = Section { id: "findings", title: "Findings", body };

/// So many sentences of a pattern stand open; the others are behind a fold.
const OPEN: usize = 12;

fn body(page: &Page<'_>) -> Option<String> {
    let contests = contests(page.report);
    let mut out = String::new();
    for same in contests.chunk_by(|a, b| a.baseline.pattern == b.baseline.pattern) {
        out += &group(page, same);
    }
    let others = sentences(&others(page.report));
    if !others.is_empty() {
        out += &format!("<h3>Other pairs</h3>\n{}", list(&others));
    }
    let about = "<p class=\"about\">Cases measured in the same rounds, pair by pair. In brackets the 95 % interval of \
                 the ratio. Where two intervals overlap, no order is claimed.</p>\n";
    (!out.is_empty()).then(|| about.to_string() + &out)
}

/// The contests of one pattern.
fn group(page: &Page<'_>, contests: &[Contest<'_>]) -> String {
    let title = pattern(&contests[0].baseline.pattern);
    let lines: Vec<String> = contests.iter().map(|contest| contest.line_in_pattern(page.report)).collect();
    let (open, folded) = lines.split_at(lines.len().min(OPEN));
    let mut out = format!("<h3>{}</h3>\n{}", escaped(&title), list(open));
    if !folded.is_empty() {
        out += &fold(&format!("{} more", folded.len()), &list(folded));
    }
    let each: String = contests
        .iter()
        .map(|contest| {
            let sentences = sentences(&contest.findings(page.report));
            format!("<h4>{}</h4>\n{}", escaped(&contest.place()), list(&sentences))
        })
        .collect();
    let count: usize = contests.iter().map(|contest| contest.findings(page.report).len()).sum();
    out + &fold(&format!("{}, fastest first", many(count, "comparison")), &each)
}

fn sentences(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| finding.sentence.clone()).collect()
}

fn fold(summary: &str, inside: &str) -> String {
    format!("<details><summary>{}</summary>\n{inside}</details>\n", escaped(summary))
}

fn list(sentences: &[String]) -> String {
    let items: String =
        sentences.iter().map(|sentence| format!("<li>{}</li>\n", escaped(sentence))).collect();
    format!("<ul>\n{items}</ul>\n")
}
