//! Figures that must not be taken at face value: unexpected counters, regimes, cases that ended early.

use crate::html::escape::escaped;
use crate::html::{Page, Section};
use crate::notes::{Item, Kind, Note, Remarks, remarks};

pub const SECTION: Section = Section { id: "remarks", title: "Figures to read with care", body };

fn body(page: &Page<'_>) -> Option<String> {
    let all = remarks(page.report, &page.matrices);
    let all: String = all.iter().filter(|remarks| remarks.kind == Kind::Doubt).map(block).collect();
    (!all.is_empty()).then_some(all)
}

/// A heading, what it means, a few lines, and everything behind a fold.
pub fn block(remarks: &Remarks) -> String {
    let brief: String = remarks.brief.iter().map(note).collect();
    let full: String = match remarks.full.is_empty() {
        true => String::new(),
        false => format!(
            "<details><summary>All of them, one by one</summary>\n{}</details>\n",
            remarks.full.iter().map(note).collect::<String>()
        ),
    };
    format!(
        "<h3>{}</h3>\n<p class=\"about\">{}</p>\n{brief}{full}",
        escaped(remarks.title),
        escaped(remarks.meaning)
    )
}

fn note(note: &Note) -> String {
    let item = |item: &Item| format!("<li>{}</li>\n", escaped(&item.fitted(usize::MAX)));
    let items: String = note.items.iter().map(item).collect();
    format!("<div class=\"note\"><p>{}</p><ul>\n{items}</ul></div>\n", escaped(&note.why))
}
