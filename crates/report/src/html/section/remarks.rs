//! Figures that must not be taken at face value: unexpected counters, regimes, cases that ended early.

use crate::html::escape::escaped;
use crate::html::{Page, Section};
use crate::notes::{Kind, Note, Remarks, remarks};

pub const SECTION: Section = Section { id: "remarks", title: "Figures to read with care", body };

fn body(page: &Page<'_>) -> Option<String> {
    let all: String =
        remarks(page.report).iter().filter(|remarks| remarks.kind == Kind::Doubt).map(block).collect();
    (!all.is_empty()).then_some(all)
}

/// A heading, what it means, and the notes.
pub fn block(remarks: &Remarks) -> String {
    let notes: String = remarks.notes.iter().map(note).collect();
    format!(
        "<h3>{}</h3>\n<p class=\"about\">{}</p>\n{notes}",
        escaped(remarks.title),
        escaped(remarks.meaning)
    )
}

fn note(note: &Note) -> String {
    let cases: String = note.cases.iter().map(|case| format!("<li>{}</li>\n", escaped(case))).collect();
    format!("<div class=\"note\"><p>{}</p><ul>\n{cases}</ul></div>\n", escaped(&note.why))
}
