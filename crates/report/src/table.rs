//! Plain text for a terminal or a pipe: a table per pattern and placement, then what must be said about it.

use std::fmt::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

use textwrap::core::display_width;

use crate::figure::{self, Figure};
use crate::matrix::{Cell, Column, Matrix, matrices};
use crate::model::Report;
use crate::units::size;
use crate::words::plain;
use crate::{notes, per_op};

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

/// The report as text.
pub fn table(report: &Report, style: Style) -> String {
    let width = usize::from(style.width.unwrap_or(DEFAULT_WIDTH).max(40));
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
    let matrices = matrices(report);
    for matrix in &matrices {
        let _ = write!(out, "\n{}\n", heading(matrix));
        out.push_str(&figures(matrix, width));
        let _ = write!(out, "\n{}", counts(matrix, width));
    }
    if matrices.is_empty() {
        out.push_str("\nNo case has a figure.\n");
    } else {
        out.push('\n');
        wrapped(&mut out, figure::LEGEND, "", "", width);
    }
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

fn heading(matrix: &Matrix<'_>) -> String {
    let mut text = format!("{} at {}", matrix.pattern, matrix.placement);
    if !matrix.resolved.is_empty() {
        let _ = write!(text, " ({})", matrix.resolved.join("; "));
    }
    let _ = write!(text, ", {}", matrix.scale.name);
    format!("■ {}", plain(&text))
}

/// The main table. With one size only, mechanisms are the rows; otherwise sizes are, and the mechanisms stand in as
/// many blocks as the width asks for.
fn figures(matrix: &Matrix<'_>, width: usize) -> String {
    let texts: Vec<Vec<String>> = (0..matrix.columns.len()).map(|column| aligned(matrix, column)).collect();
    if !matrix.has_sizes() {
        return upright(matrix);
    }
    let labels: Vec<String> = matrix.sizes.iter().map(|bytes| size(*bytes)).collect();
    let best: Vec<String> = (0..labels.len())
        .map(|row| matrix.best(row).map_or(String::new(), |column| plain(&matrix.columns[column].name)))
        .collect();
    let heads: Vec<String> = matrix.columns.iter().map(head).collect();
    let widths: Vec<usize> = heads.iter().zip(&texts).map(|(head, texts)| cell_width(head, texts)).collect();
    let label_width = cell_width("payload", &labels);
    let one_block = label_width + widths.iter().sum::<usize>() <= width;
    let mut out = String::new();
    let mut next = 0;
    while next < heads.len() {
        let first = next;
        let names_best = first == 0 && !one_block;
        let mut used = label_width + if names_best { cell_width("best", &best) } else { 0 };
        while next < heads.len() && (next == first || used + widths[next] <= width) {
            used += widths[next];
            next += 1;
        }
        let mut table = new_table();
        let mut header = vec!["payload".to_string()];
        header.extend(names_best.then(|| "best".to_string()));
        header.extend_from_slice(&heads[first..next]);
        table.set_header(header);
        for (row, label) in labels.iter().enumerate() {
            let mut cells = vec![label.clone()];
            cells.extend(names_best.then(|| best[row].clone()));
            cells.extend(texts[first..next].iter().map(|column| column[row].clone()));
            table.add_row(cells);
        }
        let blank = if first == 0 { "" } else { "\n" };
        let _ = write!(out, "{blank}{}", finished(table, usize::from(names_best)));
    }
    out
}

/// One size: a row per mechanism.
fn upright(matrix: &Matrix<'_>) -> String {
    let best = matrix.best(0);
    let mut table = new_table();
    table.set_header(vec!["mechanism", "", "median", "interval", ""]);
    for (index, column) in matrix.columns.iter().enumerate() {
        let Cell::Value(case, summary) = matrix.cell(0, index) else { continue };
        let star = if best == Some(index) { "*" } else { "" };
        let Figure { value, reach, marks } = Figure::new(&matrix.scale, case, summary);
        table.add_row(vec![plain(&column.name), star.into(), value, reach, marks]);
    }
    let label = format!("  payload {}\n", size(matrix.sizes[0]));
    (if matrix.sizes[0] == 0 { String::new() } else { label }) + &finished(table, 0)
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

fn counts(matrix: &Matrix<'_>, width: usize) -> String {
    let rows = per_op::rows(matrix);
    let mut table = new_table();
    let narrow = width < 100;
    let mut header = vec!["per operation".to_string()];
    header.extend(per_op::COLUMNS.iter().map(|name| match narrow {
        true => name.replacen(' ', "\n", 1),
        false => (*name).into(),
    }));
    if let Some(cpu) = header.last_mut() {
        let _ = write!(cpu, " {}", rows.cpu_unit);
    }
    table.set_header(header);
    for (name, texts) in rows.rows {
        let mut cells = vec![plain(&name)];
        cells.extend(texts);
        table.add_row(cells);
    }
    finished(table, 0)
}

fn remarks(out: &mut String, report: &Report, matrices: &[Matrix<'_>], width: usize) {
    for remarks in notes::remarks(report, matrices) {
        let _ = write!(out, "\n■ {}\n", remarks.title);
        for note in &remarks.brief {
            wrapped(out, &note.why, "  ", "  ", width);
            for item in &note.items {
                wrapped(out, &item.fitted(width - 4), "    ", "      ", width);
            }
        }
    }
}

fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(RULED);
    table
}

/// Text of a table: the first columns to the left, figures to the right, no blanks at the ends of lines.
fn finished(mut table: Table, further_left: usize) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        let is_left = index <= further_left;
        column.set_cell_alignment(if is_left { CellAlignment::Left } else { CellAlignment::Right });
        column.set_padding(if index == 0 { (2, 1) } else { (1, 1) });
    }
    table.trim_fmt() + "\n"
}

/// Name of a column, an axis or a record on each further line.
fn head(column: &Column) -> String {
    plain(&column.name).replace(' ', "\n")
}

fn cell_width(head: &str, texts: &[String]) -> usize {
    let lines = head.lines().chain(texts.iter().map(String::as_str));
    3 + lines.map(display_width).max().unwrap_or(0)
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
