//! The figures of one pattern at one placement: over payload size, or a figure for each mechanism, and what was counted
//! beside time.

use weighbridge_record::Summary;

use super::{Context, rows};
use crate::axis::{Axis, LogAxis, size_position};
use crate::chart::{Drawing, Line, Point};
use crate::document::{Block, Cell, Section, Table};
use crate::figure::Off;
use crate::lines;
use crate::matrix::{self, Matrix};
use crate::model::Measured;
use crate::units::{Scale, count, range, significant, size, with_unit};
use crate::words::{IMPORTED, group, many, pattern, place, plain};

/// Above this many lines, those with axes off their defaults are hidden until asked for.
const CROWDED: usize = 16;

/// What the pointer on a case tells of one that has regimes.
pub const NOT_STEADY: &str = "~ not one steady state";

/// One for each pattern and placement.
pub fn sections(cx: &Context<'_>) -> Vec<Section> {
    if cx.matrices.is_empty() && cx.report.timelines.is_empty() {
        let nothing = vec![Block::Paragraph("No case has a figure.".into())];
        return Section::new("figures", "Figures", nothing);
    }
    let section = |(index, matrix): (usize, &Matrix<'_>)| {
        let blocks = if matrix.has_sizes() { over_sizes(cx, matrix) } else { one_size(cx, matrix) };
        Section { id: format!("figures-{}", index + 1), title: heading(matrix), blocks }
    };
    cx.matrices.iter().enumerate().map(section).collect()
}

/// `roundtrip at same-cpu (CPU 0), µs/roundtrip`.
fn heading(matrix: &Matrix<'_>) -> String {
    let Matrix { pattern, place, scale, .. } = matrix;
    plain(&format!("{}{}, {}", group(pattern, *place), resolved(matrix), scale.name))
}

fn resolved(matrix: &Matrix<'_>) -> String {
    if matrix.resolved.is_empty() { String::new() } else { format!(" ({})", matrix.resolved.join("; ")) }
}

/// `Round trip on one CPU (CPU 0)`.
fn title(matrix: &Matrix<'_>) -> String {
    format!("{} {}{}", pattern(matrix.pattern), place(matrix.place), resolved(matrix))
}

/// What the interval of a median is, and what of.
fn interval(matrix: &Matrix<'_>, compared: &str) -> String {
    if matrix.pattern == IMPORTED {
        return "the 95 % interval of the median over the runs of the file; its tool did not interleave them with those of others".into();
    }
    format!(
        "the 95 % interval within this session, so it compares {compared}; another session moves them together"
    )
}

fn better(matrix: &Matrix<'_>) -> &'static str {
    if matrix.higher_is_better { "higher is better" } else { "lower is better" }
}

/// Charts of the medians with their table, then counts: charts and table.
fn over_sizes(cx: &Context<'_>, matrix: &Matrix<'_>) -> Vec<Block> {
    let mut medians = lines(cx, matrix, |case, summary| median_point(matrix, case, summary));
    lines::by_height(&mut medians);
    let hidden = medians.iter().filter(|line| line.is_hidden).count();
    let hidden = match hidden {
        0 => String::new(),
        _ => {
            let lines = many(hidden, "line");
            format!(" {lines} with other settings hidden; click a name in the legend to show one.")
        }
    };
    let about = format!(
        "Both axes are logarithmic. The band around a line is {}.{hidden}",
        interval(matrix, "lines")
    );
    let near = lines::near_lines(&medians);
    let name = title(matrix);
    let drawing = |lines: Vec<Line>| {
        let bounds =
            lines.iter().filter(|line| !line.is_hidden).flat_map(|line| &line.points).flat_map(|point| {
                let [low, high] = point.interval.unwrap_or([point.y, point.y]);
                [low, point.y, high]
            });
        let (low, high) = lines::range(bounds);
        Drawing::Lines(sizes(matrix), Axis::Log(LogAxis::values(matrix.unit, low, high)), lines)
    };
    let titled = format!("{name}, {}", better(matrix));
    // A row for each mechanism where there are more of them than sizes.
    let has_rows = matrix.columns.len() > matrix.sizes.len();
    let figures = if has_rows { rows::table(cx.report, matrix) } else { table(matrix) };
    let mut blocks = vec![Block::chart(titled, &about, drawing(medians), Some(figures))];
    // The rows have them already.
    blocks.extend((!has_rows).then(|| ratios(matrix)).flatten());
    if let Some((near, apart)) = near {
        let closer = format!("{name}, closer: without {}", apart.join(", "));
        blocks.push(Block::chart(closer, "", drawing(near), None));
    }
    let counted = (!has_rows).then(|| rows::counted(cx.report, matrix));
    blocks.extend([switches(cx, matrix), cpu(cx, matrix, counted)]);
    blocks
}

fn sizes(matrix: &Matrix<'_>) -> Axis {
    Axis::Log(LogAxis::sizes(&matrix.sizes))
}

/// A dot for each mechanism, and a table with a row for each.
fn one_size(cx: &Context<'_>, matrix: &Matrix<'_>) -> Vec<Block> {
    let mut dots = lines(cx, matrix, |case, summary| median_point(matrix, case, summary));
    // The axis begins at the bottom, so the worst comes first.
    let value = |line: &Line| line.points.first().map_or(0.0, |point| point.y);
    if matrix.is_ranked {
        dots.sort_by(|a, b| {
            let ascending = value(a).total_cmp(&value(b));
            if matrix.higher_is_better { ascending } else { ascending.reverse() }
        });
    } else {
        dots.reverse();
    }
    let payload = matrix.sizes.first().filter(|bytes| **bytes > 0).map(|bytes| size(*bytes));
    let (values, dots) = lines::value_axis(matrix.unit, &matrix.scale, dots);
    let order = if matrix.is_ranked { " The best median is at the top." } else { "" };
    let about = format!("The bar through a dot is {}.{order}", interval(matrix, "mechanisms"));
    let of = payload.as_ref().map_or(String::new(), |payload| format!(", payload {payload}"));
    let titled = format!("{}{of}, {}", title(matrix), better(matrix));
    let figures = rows::table(cx.report, matrix);
    let said = payload.map(|payload| Block::Paragraph(format!("Payload {payload}.")));
    let chart = Block::chart(titled, &about, Drawing::Dots(values, dots), Some(figures));
    said.into_iter().chain([chart]).collect()
}

/// One line per mechanism; values that a logarithmic axis cannot show are left out.
fn lines<'a>(
    cx: &Context<'_>,
    matrix: &Matrix<'a>,
    point: impl Fn(&'a Measured, &'a Summary) -> Point,
) -> Vec<Line> {
    let is_crowded = matrix.columns.len() > CROWDED;
    let line = |(index, column): (usize, &matrix::Column)| Line {
        name: column.name.clone(),
        look: cx.looks.of(column),
        is_hidden: is_crowded && !column.is_default,
        points: matrix
            .column(index)
            .map(|(bytes, case, summary)| Point {
                x: size_position(bytes, &matrix.sizes),
                ..point(case, summary)
            })
            .collect(),
    };
    matrix.columns.iter().enumerate().map(line).collect()
}

/// The median of a case with everything that is said about it.
fn median_point(matrix: &Matrix<'_>, case: &Measured, summary: &Summary) -> Point {
    let scale = Scale::alone(matrix.unit, summary.median);
    let mut hover = vec![
        format!("{} {}", size(case.id.payload_bytes), place(matrix.place)),
        format!("{} {}", scale.show(summary.median), scale.name),
    ];
    let to_hub = summary.to_hub.as_ref().and_then(|of| Some((of, of.ci95?)));
    hover.extend(
        to_hub.map(|(of, ends)| {
            format!("{} × {} ({})", significant(of.median), of.hub, range(ends, significant))
        }),
    );
    hover.extend(Off::of(summary).in_words(&scale));
    hover.push(many(summary.runs as usize, "run"));
    hover.extend(case.has_anomalies().then(|| "! counter check failed".into()));
    hover.extend(case.has_regimes().then(|| NOT_STEADY.into()));
    Point { x: 0.0, y: summary.median, interval: summary.ci95, hover }
}

/// A row per size and a column per mechanism.
fn table(matrix: &Matrix<'_>) -> Table {
    let row = |(row, bytes): (usize, &u64)| {
        let best = matrix.best(row).map_or("", |column| matrix.columns[column].name.as_str());
        let figures = (0..matrix.columns.len()).map(move |column| rows::cell(matrix, row, column));
        [Cell::from(size(*bytes)), best.into()].into_iter().chain(figures)
    };
    let names = matrix.columns.iter().map(|of| of.name.as_str());
    let heads = ["payload", "best"].into_iter().chain(names);
    let mut table = Table::new("", heads, matrix.sizes.iter().enumerate().map(row)).with_texts([1]);
    table.columns[1].only_if_split = true;
    table
}

/// The multiples of the hub's cost, with their intervals, in a table of the same form; nothing where no case took turns.
fn ratios(matrix: &Matrix<'_>) -> Option<Block> {
    let of = |row: usize, column: usize| match matrix.cell(row, column) {
        matrix::Cell::Value(_, summary) => summary.to_hub.as_ref(),
        _ => None,
    };
    let (rows, columns) = (0..matrix.sizes.len(), 0..matrix.columns.len());
    rows.clone().any(|row| columns.clone().any(|column| of(row, column).is_some())).then(|| {
        let row = |row: usize| {
            let cells =
                columns.clone().map(move |column| of(row, column).map_or(String::new(), rows::times_hub));
            std::iter::once(size(matrix.sizes[row])).chain(cells)
        };
        let heads = std::iter::once("× hub").chain(matrix.columns.iter().map(|of| of.name.as_str()));
        Block::Table(Table::new("", heads, rows.map(row)))
    })
}

fn switches(cx: &Context<'_>, matrix: &Matrix<'_>) -> Block {
    let lines = lines(cx, matrix, |case, summary| {
        let per_op = &summary.per_op;
        let hover = vec![
            format!("{} {}", size(case.id.payload_bytes), place(matrix.place)),
            format!("{} voluntary", count(per_op.voluntary_switches)),
            format!("{} involuntary", count(per_op.involuntary_switches)),
        ];
        let all = per_op.voluntary_switches + per_op.involuntary_switches;
        Point { x: 0.0, y: all, interval: None, hover }
    });
    let y = Axis::Linear("voluntary and involuntary".into());
    let about = "Summed over all roles. An operation is one round trip, or one message of a stream.";
    let name = format!("Context switches per operation: {}", title(matrix));
    Block::chart(name, about, Drawing::Lines(sizes(matrix), y, lines), None)
}

fn cpu(cx: &Context<'_>, matrix: &Matrix<'_>, figures: Option<Table>) -> Block {
    let mut lines = lines(cx, matrix, |case, summary| {
        let (cpu, unit) = summary.per_op.cpu();
        let hover = vec![
            format!("{} {}", size(case.id.payload_bytes), place(matrix.place)),
            format!("{} of CPU time", with_unit(unit, cpu)),
        ];
        Point { x: 0.0, y: cpu, interval: None, hover }
    });
    // CPU time is counted in ticks by some kernels, so zero is possible, and a logarithmic axis has no place for it.
    lines.iter_mut().for_each(|line| line.points.retain(|point| point.y > 0.0));
    let (low, high) = lines::range(lines.iter().flat_map(|line| &line.points).map(|point| point.y));
    let unit = matrix.column(0).next().map_or("ns", |(_, _, summary)| summary.per_op.cpu().1);
    let y = Axis::Log(LogAxis::values(&format!("{unit}/operation"), low, high));
    let name = format!("CPU time per operation: {}", title(matrix));
    Block::chart(name, "", Drawing::Lines(sizes(matrix), y, lines), figures)
}
