//! The document as Markdown, as GitHub and others read it: every table, with intervals in full; charts by their figures.

use std::fmt::Write;

use crate::document::{Block, Cell, Document, Item, Table};
use crate::figure::Figure;
use crate::model::Report;
use crate::section::document;
use crate::words::plain;

/// The report as Markdown.
pub fn markdown(report: &Report) -> String {
    document(report).markdown()
}

impl Document {
    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}\n", escaped(&self.title));
        for line in &self.warnings {
            let _ = write!(out, "\n> **Warning:** {}\n", escaped(line));
        }
        for section in self.sections.iter().filter(|section| section.is_worth_text(true)) {
            let _ = writeln!(out, "\n## {}", escaped(&section.title));
            blocks(&mut out, &section.blocks);
        }
        out
    }
}

/// Each block with a blank line before it.
fn blocks(out: &mut String, all: &[Block]) {
    for block in all {
        match block {
            Block::Heading(text) => {
                let _ = write!(out, "\n### {}\n", escaped(text));
            }
            Block::Paragraph(text) => {
                let _ = write!(out, "\n{}\n", escaped(text));
            }
            Block::List(items) if !items.is_empty() => {
                out.push('\n');
                list(out, items, 0);
            }
            Block::List(_) => {}
            Block::Facts(facts) => {
                out.push('\n');
                row(out, ["", ""].map(String::from));
                row(out, ["---", "---"].map(String::from));
                facts.iter().for_each(|(name, value)| row(out, [escaped(name), escaped(value)]));
            }
            Block::Table(figures) => table(out, figures),
            Block::Verbatim(text) => {
                let lines: Vec<String> = text.lines().map(plain).collect();
                let _ = write!(out, "\n```\n{}\n```\n", lines.join("\n"));
            }
            Block::Ranking(of) => {
                table(out, &of.table());
                blocks(out, &[Block::sentences(of.follows.iter().cloned())]);
            }
            Block::Chart(chart) => {
                if let Some(figures) = &chart.figures {
                    table(out, figures);
                }
            }
            Block::Fold { summary, blocks: inside, .. } => {
                let mut text = String::new();
                blocks(&mut text, inside);
                if !text.is_empty() {
                    let summary = escaped(summary);
                    let _ = write!(out, "\n<details><summary>{summary}</summary>\n{text}\n</details>\n");
                }
            }
        }
    }
}

fn list(out: &mut String, items: &[Item], depth: usize) {
    for item in items.iter().filter(|item| !item.only_without_folds) {
        let _ = writeln!(out, "{}- {}", "  ".repeat(depth), escaped(&item.fitted(usize::MAX)));
        list(out, &item.items, depth + 1);
    }
}

fn table(out: &mut String, table: &Table) {
    if !table.title.is_empty() {
        let _ = write!(out, "\n### {}\n", escaped(&table.title));
    }
    out.push('\n');
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|index| !table.columns[*index].only_if_split).collect();
    let columns = || shown.iter().map(|index| &table.columns[*index]);
    row(out, columns().map(|column| escaped(column.head.trim())));
    row(out, columns().map(|column| if column.is_text { "---" } else { "--:" }.to_owned()));
    for cells in &table.rows {
        row(out, shown.iter().map(|index| cells.get(*index).map_or(String::new(), cell)));
    }
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) | Cell::Sorted { text, .. } => escaped(text),
        Cell::Figure(Figure { value, interval, marks, is_best, .. }) => {
            let value = if *is_best { format!("**{value}**") } else { value.clone() };
            let marks = if marks.is_empty() { String::new() } else { format!(" `{marks}`") };
            let interval = if interval.is_empty() { String::new() } else { format!(" {interval}") };
            format!("{value}{interval}{marks}")
        }
    }
}

fn row(out: &mut String, cells: impl IntoIterator<Item = String>) {
    for cell in cells {
        let _ = write!(out, "| {cell} ");
    }
    out.push_str("|\n");
}

/// Text from a record so that Markdown takes none of it as markup.
fn escaped(text: &str) -> String {
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
