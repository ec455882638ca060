//! Markdown, as GitHub and others read it: the same tables as on the terminal, with intervals in full.

use std::fmt::Write;

use crate::figure::{interval, marks};
use crate::findings::{chosen, contests, others};
use crate::matrix::{Cell, Matrix, matrices};
use crate::model::Report;
use crate::notes::FEW;
use crate::units::size;
use crate::words::{many, pattern, plain};
use crate::{distribution, machine, notes, per_op, suite};

/// The report as Markdown.
pub fn markdown(report: &Report) -> String {
    let mut out = String::from("# Weighbridge report\n");
    let warnings = notes::warnings(report);
    if !warnings.is_empty() {
        out.push('\n');
        for line in warnings {
            let _ = writeln!(out, "> **Warning:** {}  ", escaped(&line));
        }
    }
    machines(&mut out, report);
    for section in suite::sections(report) {
        suite_section(&mut out, &section);
    }
    findings(&mut out, report);
    let matrices = matrices(report);
    for matrix in &matrices {
        figures(&mut out, matrix);
        counts(&mut out, matrix);
    }
    if matrices.is_empty() {
        out.push_str("\nNo case has a figure.\n");
    } else {
        let legend = "**Bold**: best median of its row. Brackets: 95 % interval. `!`: counters not as expected. \
                      `~`: not one steady state. –: skipped.";
        let _ = write!(out, "\n{legend}\n");
    }
    distributions(&mut out, report);
    for remarks in notes::remarks(report, &matrices) {
        let _ = write!(out, "\n## {}\n\n{}\n\n", escaped(remarks.title), remarks.meaning);
        for note in &remarks.brief {
            let _ = writeln!(out, "- {}", escaped(&note.why));
            for item in &note.items {
                let _ = writeln!(out, "  - {}", escaped(&item.fitted(usize::MAX)));
            }
        }
    }
    out
}

/// Percentiles, where single operations were timed.
fn distributions(out: &mut String, report: &Report) {
    let Some(rows) = distribution::rows(report) else { return };
    let _ = write!(out, "\n## {}\n\n{}\n\n", distribution::TITLE, distribution::ABOUT);
    row(out, std::iter::once("case".to_string()).chain(rows.columns.iter().map(|name| escaped(name))));
    row(out, std::iter::once("---").chain(rows.columns.iter().map(|_| "--:")).map(String::from));
    for (case, texts) in rows.rows {
        row(out, std::iter::once(escaped(&case)).chain(texts));
    }
}

fn machines(out: &mut String, report: &Report) {
    for source in &report.sources {
        let Some(header) = &source.header else { continue };
        let name = if report.has_several_sources() {
            format!(" of {}", escaped(&source.name))
        } else {
            String::new()
        };
        let _ = write!(out, "\n## Machine{name}\n\n");
        row(out, ["", ""].map(String::from));
        row(out, ["---", "---"].map(String::from));
        for (name, value) in machine::headline(header, source.end.as_ref()) {
            row(out, [name, escaped(&value)]);
        }
    }
    let harness = notes::harness(report);
    if !harness.is_empty() {
        let _ = write!(out, "\nHarness itself: {}.\n", escaped(&harness.join("; ")));
    }
    for line in notes::dram(report) {
        let _ = write!(out, "\nMemory bus: {}.\n", escaped(&line));
    }
}

/// The table of another tool, with ours beside it.
fn suite_section(out: &mut String, section: &suite::Section) {
    let _ = writeln!(out, "\n## {}", escaped(&section.title));
    for paragraph in &section.about {
        let _ = write!(out, "\n{}\n", escaped(paragraph));
    }
    for table in &section.tables {
        let _ = write!(out, "\n### {}\n\n", escaped(&table.title));
        row(out, table.heads.iter().map(|head| escaped(head.trim())));
        let align = |column: usize| if column < table.labels { "---" } else { "--:" };
        row(out, (0..table.heads.len()).map(|column| align(column).to_string()));
        for cells in &table.rows {
            row(out, cells.iter().map(|cell| escaped(cell)));
        }
        for sentence in &table.after {
            let _ = write!(out, "\n{}\n", escaped(sentence));
        }
    }
    out.push('\n');
    for note in &section.notes {
        let _ = writeln!(out, "- {}", escaped(note));
    }
}

/// Which is best in a few lines, then every comparison behind a fold.
fn findings(out: &mut String, report: &Report) {
    let contests = contests(report);
    let others = others(report);
    if contests.is_empty() && others.is_empty() {
        return;
    }
    out.push_str("\n## Findings\n\n");
    for contest in chosen(&contests, FEW) {
        let _ = writeln!(out, "- {}", escaped(&contest.line(report)));
    }
    let all = contests.iter().flat_map(|contest| contest.findings(report)).chain(others);
    let all: Vec<String> = all.map(|finding| format!("- {}\n", escaped(&finding.sentence))).collect();
    let count = many(all.len(), "comparison");
    let _ = write!(out, "\n<details><summary>{count}</summary>\n\n{}\n</details>\n", all.concat());
}

fn figures(out: &mut String, matrix: &Matrix<'_>) {
    let resolved = match matrix.resolved.is_empty() {
        true => String::new(),
        false => format!(" ({})", matrix.resolved.join("; ")),
    };
    let title =
        format!("{} at {}{resolved}, {}", pattern(matrix.pattern), matrix.placement, matrix.scale.name);
    let _ = write!(out, "\n## {}\n\n", escaped(&title));
    let names = matrix.columns.iter().map(|column| escaped(&column.name));
    row(out, std::iter::once("payload".to_string()).chain(names));
    row(out, std::iter::once("---").chain(matrix.columns.iter().map(|_| "--:")).map(String::from));
    for (index, bytes) in matrix.sizes.iter().enumerate() {
        let best = matrix.best(index);
        let cell = |column: usize| match matrix.cell(index, column) {
            Cell::Absent => String::new(),
            Cell::Skipped => "–".into(),
            Cell::Value(case, summary) => {
                let value = matrix.scale.show(summary.median);
                let value = if best == Some(column) { format!("**{value}**") } else { value };
                let marks = match marks(case) {
                    none if none.is_empty() => none,
                    marks => format!(" `{marks}`"),
                };
                format!("{value} {}{marks}", interval(&matrix.scale, summary))
            }
        };
        row(out, std::iter::once(size(*bytes)).chain((0..matrix.columns.len()).map(cell)));
    }
}

fn counts(out: &mut String, matrix: &Matrix<'_>) {
    let rows = per_op::rows(matrix);
    out.push('\n');
    let heads = rows.columns.iter().map(|name| escaped(name));
    row(out, std::iter::once("per operation".to_string()).chain(heads));
    row(out, std::iter::once("---").chain(rows.columns.iter().map(|_| "--:")).map(String::from));
    for (name, texts) in rows.rows {
        row(out, std::iter::once(escaped(&name)).chain(texts));
    }
}

fn row(out: &mut String, cells: impl IntoIterator<Item = String>) {
    for cell in cells {
        let _ = write!(out, "| {cell} ");
    }
    out.push_str("|\n");
}

/// Text from a record so that Markdown takes none of it as markup.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}
