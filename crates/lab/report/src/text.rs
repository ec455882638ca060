//! The document as plain text for a terminal or a pipe. What stands behind a fold is left out.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, TableStyle};
use textwrap::core::display_width;
use weighbridge_record::Skipped;

use crate::document::{Block, Cell, Document, Item, Rank, Ranking, Section, Table};
use crate::figure::Figure;
use crate::model::{Report, Sourced};
use crate::section::{document, skipped};
use crate::words::plain;

const RULED: TableStyle = NOTHING.header_separator(LineStyle::none().fill('─'));
const DEFAULT_WIDTH: u16 = 100;
/// A head is broken into lines of about this width.
const HEAD_WIDTH: usize = 11;

/// How the text may look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Use ANSI colors: bold headings, the best of a row in green.
    pub color: bool,
    /// Columns of the terminal; 100 where it is not known.
    pub width: Option<u16>,
    /// Use no characters but those of ASCII.
    pub ascii: bool,
}

impl Style {
    fn columns(self) -> usize {
        usize::from(self.width.unwrap_or(DEFAULT_WIDTH).max(40))
    }
}

/// What is not measured, each reason once with the cases that it holds for, as the report of a run has it.
pub fn skips(skips: &[Skipped], style: Style) -> String {
    let what = |skip: &Skipped| Sourced { source: 0, what: skip.clone() };
    let report = Report { skipped: skips.iter().map(what).collect(), ..Report::default() };
    let mut out = String::new();
    list(&mut out, &skipped(&report), 2, style.columns());
    out
}

/// The report as text.
pub fn text(report: &Report, style: Style) -> String {
    document(report).text(style)
}

impl Document {
    /// For a terminal or a pipe.
    pub fn text(&self, style: Style) -> String {
        let width = style.columns();
        let mut out = String::new();
        for line in &self.warnings {
            wrapped(&mut out, line, "Warning: ", "         ", width);
        }
        for section in self.sections.iter().filter(|section| section.is_worth_text(false)) {
            write_section(&mut out, section, width);
        }
        let out = out.trim_start_matches('\n');
        let out = if style.color { colored(out) } else { out.into() };
        if style.ascii { ascii(&out) } else { out }
    }
}

fn write_section(out: &mut String, section: &Section, width: usize) {
    let _ = write!(out, "\n■ {}\n", plain(&section.title));
    let mut has_table = false;
    for block in &section.blocks {
        match block {
            Block::Heading(text) => {
                out.push('\n');
                wrapped(out, text, "  ", "  ", width);
            }
            Block::Paragraph(text) => wrapped(out, text, "  ", "  ", width),
            Block::List(items) => list(out, items, 2, width),
            Block::Facts(facts) => {
                let each: Vec<String> =
                    facts.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                wrapped(out, &each.join("; "), "  ", "    ", width);
            }
            Block::Table(figures) => write_table(out, figures, &mut has_table, width),
            Block::Verbatim(text) => {
                text.lines().for_each(|line| _ = writeln!(out, "  {}", plain(line)));
            }
            Block::Chart(chart) => {
                if let Some(figures) = &chart.figures {
                    write_table(out, figures, &mut has_table, width);
                }
            }
            Block::Ranking(of) => ranking(out, of, width),
            Block::Fold { .. } => {}
        }
    }
}

/// Width of the longest bar; where lines are short, names need the room.
const BAR_WIDTH: usize = 20;
const BAR_WIDTH_OF_SHORT: usize = 6;
const SHORT_LINE: usize = 72;

fn ranking(out: &mut String, of: &Ranking, width: usize) {
    out.push('\n');
    let bar_width = if width < SHORT_LINE { BAR_WIDTH_OF_SHORT } else { BAR_WIDTH };
    wrapped(out, &of.heading(), "  ", "    ", width);
    let longest = of.rows.iter().map(|row| display_width(&row.times)).max().unwrap_or(0);
    // Where lines are short, the names need that room too.
    let interval = |row: &Rank| match &row.interval {
        Some(text) if width >= SHORT_LINE => format!("({text})"),
        _ => String::new(),
    };
    let widest = of.rows.iter().map(|row| display_width(&interval(row))).max().unwrap_or(0);
    for row in &of.rows {
        let [solid, shaded] = of.shares(row).map(|share| (share * bar_width as f64).round() as usize);
        let bar = "█".repeat(solid.max(1)) + &"▒".repeat(shaded.saturating_sub(solid.max(1)));
        let mark = if row.is_sure { ' ' } else { '?' };
        // One without an interval takes no room where no row has any.
        let gap = if widest > 0 { " " } else { "" };
        let first =
            format!("  {:>longest$}{gap}{:<widest$} {mark} {bar:<bar_width$}  ", row.times, interval(row));
        let further = " ".repeat(display_width(&first));
        wrapped(out, &row.names.join(", "), &first, &further, width);
    }
    for line in &of.follows {
        wrapped(out, line, "  - ", "    ", width);
    }
}

fn list(out: &mut String, items: &[Item], indent: usize, width: usize) {
    let (first, further) = (" ".repeat(indent), " ".repeat(indent + 2));
    for item in items {
        wrapped(out, &item.fitted(width - indent), &first, &further, width);
        list(out, &item.items, indent + 2, width);
    }
}

fn write_table(out: &mut String, table: &Table, has_table: &mut bool, width: usize) {
    if std::mem::replace(has_table, true) || !table.title.is_empty() {
        out.push('\n');
    }
    if !table.title.is_empty() {
        let _ = writeln!(out, "  *** {}", plain(&table.title));
    }
    out.push_str(&laid_out(table, width));
}

/// A column as text.
#[derive(Clone, Debug)]
struct Texts {
    head: String,
    cells: Vec<String>,
    is_text: bool,
    only_if_split: bool,
}

impl Texts {
    fn of(table: &Table, index: usize) -> Texts {
        let column = &table.columns[index];
        let cells: Vec<&Cell> = table.rows.iter().filter_map(|row| row.get(index)).collect();
        let head = plain_lines(&column.head);
        let head = if column.is_text || head.contains('\n') {
            head
        } else {
            textwrap::fill(&head, options(HEAD_WIDTH).break_words(false))
        };
        Texts { head, cells: aligned(&cells), is_text: column.is_text, only_if_split: column.only_if_split }
    }

    fn width(&self) -> usize {
        let lines = self.head.lines().chain(self.cells.iter().map(String::as_str));
        3 + lines.map(display_width).max().unwrap_or(0)
    }
}

/// The cells of a column, value under value and interval under interval.
fn aligned(cells: &[&Cell]) -> Vec<String> {
    let figures = || {
        cells.iter().filter_map(|cell| match cell {
            Cell::Figure(figure) => Some(figure),
            _ => None,
        })
    };
    let longest = |part: fn(&Figure) -> &str| figures().map(|figure| display_width(part(figure))).max();
    let reach_width = longest(|figure| &figure.reach).unwrap_or(0);
    let marks_width = longest(|figure| &figure.marks).unwrap_or(0);
    let text = |cell: &&Cell| match cell {
        Cell::Text(text) | Cell::Sorted { text, .. } => plain(text),
        Cell::Figure(Figure { value, reach, marks, is_best, .. }) => {
            let star = if *is_best { "*" } else { "" };
            let gap = if reach_width > 0 { " " } else { "" };
            format!("{star}{value}{gap}{reach:>reach_width$}{marks:<marks_width$}")
        }
    };
    cells.iter().map(text).collect()
}

/// A table as wide as the terminal, and the columns that have no room in further ones below it, each with the labels of the
/// rows. Columns of text move closer where that keeps all side by side.
fn laid_out(table: &Table, width: usize) -> String {
    let all: Vec<Texts> = (0..table.columns.len()).map(|index| Texts::of(table, index)).collect();
    let (labels, rest) = all.split_at(table.labels.max(1).min(all.len()));
    let (extra, columns): (Vec<Texts>, Vec<Texts>) =
        rest.iter().cloned().partition(|column| column.only_if_split);
    let total =
        |columns: &[Texts], saved: usize| columns.iter().map(|column| column.width() - saved).sum::<usize>();
    let has_figures = table.rows.iter().flatten().any(|cell| matches!(cell, Cell::Figure(_)));
    let whole = |saved| total(labels, saved) + total(&columns, saved);
    let saved = usize::from(whole(0) > width && !has_figures);
    if whole(saved) <= width {
        return finished(&[labels, &columns].concat(), saved, width);
    }
    let mut out = String::new();
    let mut next = 0;
    while next < columns.len() {
        let first = next;
        let mut shown = labels.to_vec();
        if first == 0 {
            shown.extend_from_slice(&extra);
        }
        let mut used = total(&shown, saved);
        while next < columns.len() && (next == first || used + columns[next].width() - saved <= width) {
            used += columns[next].width() - saved;
            next += 1;
        }
        shown.extend_from_slice(&columns[first..next]);
        let blank = if first == 0 { "" } else { "\n" };
        let _ = write!(out, "{blank}{}", finished(&shown, saved, width));
    }
    out
}

/// Text of a table without blanks at the ends of lines; each gap between columns is narrower by that number of blanks. Where even one column
/// beside its labels has no room, cells have several lines.
fn finished(columns: &[Texts], saved: usize, width: usize) -> String {
    let mut table = comfy_table::Table::new();
    if columns.iter().map(|column| column.width() - saved).sum::<usize>() > width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width as u16);
    }
    table.load_style(RULED);
    table.set_header(columns.iter().map(|column| column.head.clone()));
    for row in 0..columns.iter().map(|column| column.cells.len()).max().unwrap_or(0) {
        table.add_row(columns.iter().map(|column| column.cells.get(row).cloned().unwrap_or_default()));
    }
    for (index, (column, texts)) in table.column_iter_mut().zip(columns).enumerate() {
        column.set_cell_alignment(if texts.is_text { CellAlignment::Left } else { CellAlignment::Right });
        let before = 1 - saved as u16;
        column.set_padding(if index == 0 { (1 + before, 1) } else { (before, 1) });
    }
    table.trim_fmt() + "\n"
}

/// Foreign text with its own breaks kept.
fn plain_lines(text: &str) -> String {
    text.split('\n').map(plain).collect::<Vec<_>>().join("\n")
}

fn wrapped(out: &mut String, text: &str, first: &str, further: &str, width: usize) {
    let text = plain(text);
    for line in textwrap::wrap(&text, options(width).initial_indent(first).subsequent_indent(further)) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Names and dates have hyphens in them and are kept whole.
fn options<'a>(width: usize) -> textwrap::Options<'a> {
    textwrap::Options::new(width)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
}

/// A character of ASCII for each, so that columns stay columns: what has no likeness becomes a question mark.
fn ascii(text: &str) -> String {
    let alike = |c: char| match c {
        c if c.is_ascii() => c,
        '■' | '█' => '#',
        '▒' => '=',
        '─' | '–' | '—' | '−' => '-',
        '±' => '~',
        '×' => 'x',
        'µ' | 'μ' => 'u',
        '·' | '…' => '.',
        '≤' => '<',
        '≥' | '→' => '>',
        '\u{a0}' | '\u{202f}' => ' ',
        _ => '?',
    };
    text.chars().map(alike).collect()
}

/// Headings bold, the best of a row green, warnings yellow.
fn colored(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for line in text.lines() {
        if line.starts_with("■ ") {
            let _ = writeln!(out, "\u{1b}[1m{line}\u{1b}[0m");
        } else if line.starts_with("Warning: ") {
            let _ = writeln!(out, "\u{1b}[33m{line}\u{1b}[0m");
        } else if line.starts_with("  ") && best(line).is_some() {
            let mut rest = line;
            while let Some(start) = best(rest) {
                let end = rest[start..].find(['%', ')']).map_or(rest.len(), |at| start + at + 1);
                let (before, best) = (&rest[..start], &rest[start..end]);
                let _ = write!(out, "{before}\u{1b}[1;32m{best}\u{1b}[0m");
                rest = &rest[end..];
            }
            let _ = writeln!(out, "{rest}");
        } else {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

/// Where the best figure of a line begins.
fn best(line: &str) -> Option<usize> {
    line.match_indices('*')
        .map(|(at, _)| at)
        .find(|at| line[at + 1..].starts_with(|c: char| c.is_ascii_digit()))
}
