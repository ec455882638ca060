//! The table of another tool, with ours beside it, for records of a suite that repeats it.

use crate::html::escape::escaped;
use crate::html::{Page, Section};
use crate::suite::{self, Table};

pub const SECTION: Section = Section { id: "suite", title: "Beside what was published", body };

fn body(page: &Page<'_>) -> Option<String> {
    let sections = suite::sections(page.report);
    let one = |section: &suite::Section| {
        let about: String =
            section.about.iter().map(|text| format!("<p class=\"about\">{}</p>\n", escaped(text))).collect();
        let tables: String = section.tables.iter().map(table).collect();
        let notes: String =
            section.notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note))).collect();
        format!("<h3>{}</h3>\n{about}{tables}<ul>\n{notes}</ul>\n", escaped(&section.title))
    };
    (!sections.is_empty()).then(|| sections.iter().map(one).collect())
}

fn table(table: &Table) -> String {
    let class = |column: usize| if column < table.labels { " class=\"text\"" } else { "" };
    let head: String = table
        .heads
        .iter()
        .enumerate()
        .map(|(column, head)| format!("<th scope=\"col\"{}>{}</th>", class(column), escaped(head.trim())))
        .collect();
    let row = |row: &Vec<String>| {
        let cells: String = row
            .iter()
            .enumerate()
            .map(|(column, cell)| format!("<td{}>{}</td>", class(column), escaped(cell)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = table.rows.iter().map(row).collect();
    let after: String = table.after.iter().map(|text| format!("<p>{}</p>\n", escaped(text))).collect();
    format!(
        "<h4>{}</h4>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\
         </table></div>\n{after}",
        escaped(&table.title)
    )
}
