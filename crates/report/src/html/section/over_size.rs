//! A value over payload size for one matrix: the chart, and the same figures as a table behind a fold.

use weighbridge_record::Summary;

use crate::figure::{interval, marks};
use crate::html::Page;
use crate::html::axis::{LogAxis, size_position};
use crate::html::chart::{self, Line, Point};
use crate::html::escape::escaped;
use crate::matrix::{Cell, Matrix};
use crate::model::Measured;
use crate::units::{Scale, size};
use crate::words::{many, pattern, placement};

/// Above this many lines, those with axes off their defaults are hidden until asked for.
const CROWDED: usize = 16;

/// Chart and table of the medians.
pub fn medians(page: &Page<'_>, matrix: &Matrix<'_>) -> String {
    let lines = lines(page, matrix, |case, summary| median_point(matrix, case, summary));
    let bounds = lines.iter().flat_map(|line| &line.points).flat_map(|point| {
        let [low, high] = point.interval.unwrap_or([point.y, point.y]);
        [low, point.y, high]
    });
    let (low, high) = range(bounds);
    let x = LogAxis::sizes(&matrix.sizes).axis();
    let y = LogAxis::values(matrix.unit, low, high).axis();
    let hidden = lines.iter().filter(|line| line.is_hidden).count();
    let mut out = chart::lines(&title(matrix), x, y, &lines);
    if hidden > 0 {
        out += &format!(
            "<p class=\"about\">{} with other settings hidden; click a name in the legend to show it.</p>\n",
            many(hidden, "line")
        );
    }
    out + &table(matrix)
}

/// One line per mechanism; values that a logarithmic axis cannot show are left out.
pub fn lines<'a>(
    page: &Page<'_>,
    matrix: &Matrix<'a>,
    point: impl Fn(&'a Measured, &'a Summary) -> Point,
) -> Vec<Line> {
    let is_crowded = matrix.columns.len() > CROWDED;
    let line = |(index, column): (usize, &crate::matrix::Column)| Line {
        name: column.name.clone(),
        look: page.looks.of(column),
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
pub fn median_point(matrix: &Matrix<'_>, case: &Measured, summary: &Summary) -> Point {
    let scale = Scale::alone(matrix.unit, summary.median);
    let mut hover = vec![
        format!("{} {}", size(case.id.payload_bytes), placement(matrix.placement)),
        format!("{} {}", scale.show(summary.median), scale.name),
    ];
    if summary.ci95.is_some() {
        hover.push(format!("95 % interval {}", interval(&scale, summary)));
    }
    hover.push(many(summary.runs as usize, "run"));
    if case.has_shape() {
        hover.push("! counters not as expected".into());
    }
    if case.has_regimes() {
        hover.push("~ not one steady state".into());
    }
    Point { x: 0.0, y: summary.median, interval: summary.ci95, hover }
}

/// `Round trip on one CPU (CPU 0)`.
pub fn title(matrix: &Matrix<'_>) -> String {
    let resolved = match matrix.resolved.is_empty() {
        true => String::new(),
        false => format!(" ({})", matrix.resolved.join("; ")),
    };
    format!("{} {}{resolved}", pattern(matrix.pattern), placement(matrix.placement))
}

/// Lowest and highest of the values.
pub fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold((f64::INFINITY, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}

/// Sizes down, mechanisms across.
pub fn table(matrix: &Matrix<'_>) -> String {
    let mut out = format!(
        "<details><summary>Figures in {}</summary>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>\
         <th scope=\"col\">payload</th>",
        escaped(&matrix.scale.name)
    );
    for column in &matrix.columns {
        let name = escaped(&column.name).replace(' ', "<br>");
        out += &format!("<th scope=\"col\">{name}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for (row, bytes) in matrix.sizes.iter().enumerate() {
        let best = matrix.best(row);
        out += &format!("<tr><th scope=\"row\">{}</th>", size(*bytes));
        for column in 0..matrix.columns.len() {
            out += &cell(matrix, row, column, best == Some(column));
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div></details>\n"
}

fn cell(matrix: &Matrix<'_>, row: usize, column: usize, is_best: bool) -> String {
    let (case, summary) = match matrix.cell(row, column) {
        Cell::Absent => return "<td></td>".into(),
        Cell::Skipped => return "<td title=\"skipped\">–</td>".into(),
        Cell::Value(case, summary) => (case, summary),
    };
    let value = matrix.scale.show(summary.median);
    let (class, value) = match is_best {
        true => (" class=\"best\"", format!("<strong>{value}</strong>")),
        false => ("", value),
    };
    format!("<td{class}>{value} <small>{} {}</small></td>", interval(&matrix.scale, summary), marks(case))
}
