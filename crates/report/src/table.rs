//! Plain text for a terminal or a pipe: a table per pattern and placement, then what must be said about it.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use textwrap::core::display_width;
use weighbridge_record::Skipped;

use crate::figure::{self, Figure};
use crate::findings::{chosen, contests};
use crate::matrix::{Cell, Column, Matrix, matrices};
use crate::model::{Report, Sourced};
use crate::notes::{FEW, Note};
use crate::units::size;
use crate::words::plain;
use crate::{distribution, notes, per_op, suite};

const RULED: TableStyle = NOTHING.header_separator(LineStyle::none().fill('─'));
const DEFAULT_WIDTH: u16 = 100;

/// How the text may look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Use ANSI colours: bold headings, the best of a row in green.
    pub colour: bool,
    /// Columns of the terminal; 100 where it is not known.
    pub width: Option<u16>,
}

impl Style {
    fn columns(self) -> usize {
        usize::from(self.width.unwrap_or(DEFAULT_WIDTH).max(40))
    }
}

/// What is not measured, each reason once with the cases that it holds for, as the report of a run has it.
pub fn skips(skipped: &[Skipped], style: Style) -> String {
    let what = |skip: &Skipped| Sourced { source: 0, what: skip.clone() };
    let report = Report { skipped: skipped.iter().map(what).collect(), ..Report::default() };
    let mut out = String::new();
    for note in notes::skipped(&report) {
        write_note(&mut out, &note, style.columns());
    }
    out
}

/// The report as text.
pub fn table(report: &Report, style: Style) -> String {
    let width = style.columns();
    let mut out = String::new();
    for line in notes::warnings(report) {
        wrapped(&mut out, &line, "Warning: ", "         ", width);
    }
    for line in machines(report) {
        wrapped(&mut out, &line, "", "  ", width);
    }
    for (index, line) in notes::harness(report).iter().enumerate() {
        let first = if index == 0 { "Harness itself: " } else { "                " };
        wrapped(&mut out, line, first, "                  ", width);
    }
    for line in notes::dram(report) {
        wrapped(&mut out, &line, "Memory bus: ", "            ", width);
    }
    for section in suite::sections(report) {
        suite_section(&mut out, &section, width);
    }
    findings(&mut out, report, width);
    let matrices = matrices(report);
    for matrix in &matrices {
        let _ = write!(out, "\n{}\n", heading(matrix));
        out.push_str(&figures(matrix, width));
    }
    if matrices.is_empty() {
        out.push_str("\nNo case has a figure.\n");
    } else {
        out.push('\n');
        out.push_str(&legend(width));
    }
    distributions(&mut out, report, width);
    remarks(&mut out, report, &matrices, width);
    if style.colour { coloured(&out) } else { out }
}

fn machines(report: &Report) -> Vec<String> {
    let headers = report.sources.iter().filter_map(|source| Some((source, source.header.as_ref()?)));
    let line = |(source, header): (&crate::Source, &weighbridge_record::Header)| {
        let machine = &header.machine;
        let name = if report.has_several_sources() { format!("[{}] ", source.name) } else { String::new() };
        plain(&format!(
            "{name}{}, Linux {} {}, {}, {} of {} CPUs allowed, virtualisation: {}, {}",
            machine.hostname,
            machine.kernel,
            machine.arch,
            machine.cpu_model,
            machine.allowed_cpus.len(),
            machine.cpus.len(),
            machine.virtualisation,
            header.started
        ))
    };
    headers.map(line).collect()
}

/// Which is best, in a few lines.
fn findings(out: &mut String, report: &Report, width: usize) {
    let contests = contests(report);
    if contests.is_empty() {
        return;
    }
    out.push_str("\n■ Findings (in brackets the 95 % interval of the ratio)\n");
    let chosen = chosen(&contests, FEW);
    for contest in &chosen {
        wrapped(out, &contest.line(report), "  ", "    ", width);
    }
    if contests.len() > chosen.len() {
        let _ = writeln!(out, "  … {} more in the HTML report", contests.len() - chosen.len());
    }
}

/// The table of another tool, with ours beside it.
fn suite_section(out: &mut String, section: &suite::Section, width: usize) {
    let _ = write!(out, "\n■ {}\n", plain(&section.title));
    for paragraph in &section.about {
        wrapped(out, paragraph, "  ", "  ", width);
    }
    for table in &section.tables {
        let columns: Vec<Texts> = table
            .heads
            .iter()
            .enumerate()
            .map(|(column, head)| Texts {
                head: head.clone(),
                cells: table
                    .rows
                    .iter()
                    .map(|row| row.get(column).map_or(String::new(), |cell| plain(cell)))
                    .collect(),
            })
            .collect();
        // What labels a row stands in front of each part of a table that is too wide.
        let (labels, columns) = columns.split_at(table.labels.max(1));
        let _ = write!(
            out,
            "\n  *** {}\n{}",
            plain(&table.title),
            blocks_of_suite(labels, columns, table.labels, width)
        );
        for sentence in &table.after {
            wrapped(out, sentence, "  ", "  ", width);
        }
    }
    if !section.notes.is_empty() {
        out.push('\n');
    }
    for note in &section.notes {
        wrapped(out, note, "  ", "    ", width);
    }
}

fn heading(matrix: &Matrix<'_>) -> String {
    let mut text = format!("{} at {}", matrix.pattern, matrix.placement);
    if !matrix.resolved.is_empty() {
        let _ = write!(text, " ({})", matrix.resolved.join("; "));
    }
    let _ = write!(text, ", {}", matrix.scale.name);
    format!("■ {}", plain(&text))
}

/// Figures and counts. With one size only, mechanisms are the rows of one table that holds both.
fn figures(matrix: &Matrix<'_>, width: usize) -> String {
    let rows = per_op::rows(matrix);
    let counts: Vec<Texts> = rows
        .columns
        .iter()
        .enumerate()
        .map(|(column, name)| Texts {
            head: wrapped_head(name),
            cells: rows.rows.iter().map(|(_, texts)| texts[column].clone()).collect(),
        })
        .collect();
    if !matrix.has_sizes() {
        return upright(matrix, counts, rows.per_operation, width);
    }
    let mechanisms = rows.rows.iter().map(|(name, _)| plain(name)).collect();
    let mechanisms = Texts { head: String::new(), cells: mechanisms };
    over_sizes(matrix, width) + &counted(&mechanisms, &counts, rows.per_operation, width)
}

/// What was counted beside time: per operation, then what has a unit of its own.
fn counted(mechanisms: &Texts, counts: &[Texts], per_operation: usize, width: usize) -> String {
    let (per_operation, further) = counts.split_at(per_operation);
    let mut out = String::new();
    for (head, columns) in [("per operation", per_operation), ("also counted", further)] {
        if !columns.is_empty() {
            let mechanisms = Texts { head: head.into(), ..mechanisms.clone() };
            let _ = write!(out, "\n{}", blocks(&[mechanisms], &[], columns, width));
        }
    }
    out
}

/// A row per size and a column per mechanism.
fn over_sizes(matrix: &Matrix<'_>, width: usize) -> String {
    let labels = matrix.sizes.iter().map(|bytes| size(*bytes)).collect();
    let labels = Texts { head: "payload".into(), cells: labels };
    let best = (0..matrix.sizes.len())
        .map(|row| matrix.best(row).map_or(String::new(), |column| plain(&matrix.columns[column].name)))
        .collect();
    let best = Texts { head: "best".into(), cells: best };
    let columns: Vec<Texts> = (0..matrix.columns.len())
        .map(|column| Texts { head: head(&matrix.columns[column]), cells: aligned(matrix, column) })
        .collect();
    blocks(&[labels], &[best], &columns, width)
}

/// One size: a row per mechanism.
fn upright(matrix: &Matrix<'_>, counts: Vec<Texts>, per_operation: usize, width: usize) -> String {
    let best = matrix.best(0);
    let figure = |column: usize| match matrix.cell(0, column) {
        Cell::Value(case, summary) => Figure::new(&matrix.scale, case, summary),
        _ => Figure::default(),
    };
    let places = 0..matrix.columns.len();
    let texts = |head: &str, cell: &dyn Fn(usize) -> String| Texts {
        head: head.into(),
        cells: places.clone().map(cell).collect(),
    };
    let star = |column| if best == Some(column) { "*" } else { "" };
    let names = texts("mechanism", &|column| plain(&matrix.columns[column].name));
    let columns = vec![
        texts("median", &|column| format!("{}{}", star(column), figure(column).value)),
        texts("interval", &|column| figure(column).reach),
        texts("", &|column| figure(column).marks),
    ];
    let payload = match matrix.sizes[0] {
        0 => String::new(),
        bytes => format!("payload {}", size(bytes)),
    };
    let all = [std::slice::from_ref(&names), &columns, &counts].concat();
    if all.iter().map(Texts::width).sum::<usize>() <= width {
        let comma = if payload.is_empty() { "" } else { "; " };
        let label = format!("  {payload}{comma}switches, faults and CPU time per operation\n");
        return label + &finished(&all, 1, Gap::Wide);
    }
    let label = if payload.is_empty() { payload } else { format!("  {payload}\n") };
    let figures = blocks(std::slice::from_ref(&names), &[], &columns, width);
    label + &figures + &counted(&names, &counts, per_operation, width)
}

/// What the marks mean; a line ends only between two of them, where the width allows that.
fn legend(width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for mark in figure::LEGEND {
        match lines.last_mut() {
            Some(line) if display_width(line) + 2 + display_width(mark) <= width => {
                line.push_str("  ");
                line.push_str(mark);
            }
            _ => lines.push(mark.into()),
        }
    }
    let mut out = String::new();
    lines.iter().for_each(|line| wrapped(&mut out, line, "", "", width));
    out
}

/// A column of a table.
#[derive(Clone, Debug)]
struct Texts {
    head: String,
    cells: Vec<String>,
}

impl Texts {
    fn width(&self) -> usize {
        let lines = self.head.lines().chain(self.cells.iter().map(String::as_str));
        3 + lines.map(display_width).max().unwrap_or(0)
    }
}

/// A table as wide as the terminal, and the columns that have no room in further ones below it. The labels begin each;
/// `extra` stands in the first, and only where there are several.
fn blocks(labels: &[Texts], extra: &[Texts], columns: &[Texts], width: usize) -> String {
    laid_out(labels, extra, columns, labels.len(), Gap::Wide, width)
}

/// The same with labels of which only so many are aligned to the left: a label may be a number. Columns move closer where
/// that keeps them side by side.
fn blocks_of_suite(labels: &[Texts], columns: &[Texts], left: usize, width: usize) -> String {
    let total: usize = labels.iter().chain(columns).map(Texts::width).sum();
    let gap = if total > width { Gap::Narrow } else { Gap::Wide };
    laid_out(labels, &[], columns, left, gap, width)
}

/// Blanks between columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Wide,
    Narrow,
}

fn laid_out(
    labels: &[Texts],
    extra: &[Texts],
    columns: &[Texts],
    left: usize,
    gap: Gap,
    width: usize,
) -> String {
    let saved = usize::from(gap == Gap::Narrow);
    let total = |columns: &[Texts]| columns.iter().map(|column| column.width() - saved).sum::<usize>();
    let one_block = total(labels) + total(columns) <= width;
    let mut out = String::new();
    let mut next = 0;
    while next < columns.len() {
        let first = next;
        let mut shown = labels.to_vec();
        if first == 0 && !one_block {
            shown.extend_from_slice(extra);
        }
        let left = if extra.is_empty() { left } else { shown.len() };
        let mut used = total(&shown);
        while next < columns.len() && (next == first || used + columns[next].width() - saved <= width) {
            used += columns[next].width() - saved;
            next += 1;
        }
        shown.extend_from_slice(&columns[first..next]);
        let blank = if first == 0 { "" } else { "\n" };
        let _ = write!(out, "{blank}{}", finished(&shown, left, gap));
    }
    out
}

/// The cells of a column, value under value and interval under interval.
fn aligned(matrix: &Matrix<'_>, column: usize) -> Vec<String> {
    let figures: Vec<Option<(Figure, bool)>> = (0..matrix.sizes.len())
        .map(|row| match matrix.cell(row, column) {
            Cell::Value(case, summary) => {
                Some((Figure::new(&matrix.scale, case, summary), matrix.best(row) == Some(column)))
            }
            _ => None,
        })
        .collect();
    let longest = |part: fn(&Figure) -> &str| {
        figures.iter().flatten().map(|(figure, _)| display_width(part(figure))).max().unwrap_or(0)
    };
    let reach_width = longest(|figure| &figure.reach);
    let marks_width = longest(|figure| &figure.marks);
    figures
        .iter()
        .enumerate()
        .map(|(row, figure)| match (figure, matrix.cell(row, column)) {
            (Some((Figure { value, reach, marks }, is_best)), _) => {
                let star = if *is_best { "*" } else { "" };
                format!("{star}{value} {reach:>reach_width$}{marks:<marks_width$}")
            }
            (None, Cell::Skipped) => "–".into(),
            (None, _) => String::new(),
        })
        .collect()
}

/// Percentiles, where single operations were timed.
fn distributions(out: &mut String, report: &Report, width: usize) {
    let Some(rows) = distribution::rows(report) else { return };
    let _ = write!(out, "\n■ {}\n", distribution::TITLE);
    wrapped(out, distribution::ABOUT, "  ", "  ", width);
    let labels =
        Texts { head: "case".into(), cells: rows.rows.iter().map(|(case, _)| case.clone()).collect() };
    let column = |(index, head): (usize, &String)| Texts {
        head: head.clone(),
        cells: rows.rows.iter().map(|(_, texts)| texts[index].clone()).collect(),
    };
    let columns: Vec<Texts> = rows.columns.iter().enumerate().map(column).collect();
    out.push_str(&blocks(&[labels], &[], &columns, width));
}

fn remarks(out: &mut String, report: &Report, matrices: &[Matrix<'_>], width: usize) {
    for remarks in notes::remarks(report, matrices) {
        let _ = write!(out, "\n■ {}\n", remarks.title);
        for note in &remarks.brief {
            write_note(out, note, width);
        }
    }
}

fn write_note(out: &mut String, note: &Note, width: usize) {
    wrapped(out, &note.why, "  ", "  ", width);
    for item in &note.items {
        wrapped(out, &item.fitted(width - 4), "    ", "      ", width);
    }
}

/// Text of a table: the first `left` columns to the left, figures to the right, no blanks at the ends of lines.
fn finished(columns: &[Texts], left: usize, gap: Gap) -> String {
    let mut table = Table::new();
    table.load_style(RULED);
    table.set_header(columns.iter().map(|column| column.head.clone()));
    for row in 0..columns.iter().map(|column| column.cells.len()).max().unwrap_or(0) {
        table.add_row(columns.iter().map(|column| column.cells.get(row).cloned().unwrap_or_default()));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(if index < left { CellAlignment::Left } else { CellAlignment::Right });
        let before = if gap == Gap::Wide { 1 } else { 0 };
        column.set_padding(if index == 0 { (1 + before, 1) } else { (before, 1) });
    }
    table.trim_fmt() + "\n"
}

/// Name of a column, an axis or a record on each further line.
fn head(column: &Column) -> String {
    plain(&column.name).replace(' ', "\n")
}

/// The name of a count on lines that are about as long as its figures.
fn wrapped_head(name: &str) -> String {
    textwrap::fill(&plain(name), textwrap::Options::new(11).break_words(false))
}

fn wrapped(out: &mut String, text: &str, first: &str, further: &str, width: usize) {
    // Names and dates have hyphens in them and are kept whole.
    let options = textwrap::Options::new(width)
        .initial_indent(first)
        .subsequent_indent(further)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let text = plain(text);
    for line in textwrap::wrap(&text, options) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Headings bold, the best of a row green, warnings yellow.
fn coloured(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for line in text.lines() {
        if line.starts_with("■ ") {
            let _ = writeln!(out, "\u{1b}[1m{line}\u{1b}[0m");
        } else if line.starts_with("Warning: ") {
            let _ = writeln!(out, "\u{1b}[33m{line}\u{1b}[0m");
        } else if let Some(start) = line.starts_with("  ").then(|| line.find('*')).flatten() {
            let end = line[start..].find(['%', ')']).map_or(line.len(), |at| start + at + 1);
            let (before, best, after) = (&line[..start], &line[start..end], &line[end..]);
            let _ = writeln!(out, "{before}\u{1b}[1;32m{best}\u{1b}[0m{after}");
        } else {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}
