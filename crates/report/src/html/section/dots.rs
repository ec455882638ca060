//! Patterns that have no sizes, or only one: a dot with its interval for each mechanism.

use plotly::layout::Axis;

use crate::html::axis::{LogAxis, linear, plain_axis};
use crate::html::chart::{self, Line, Point};
use crate::html::section::over_size;
use crate::html::{Page, Section};
use crate::matrix::Matrix;
use crate::units::size;

pub const SECTION: Section = Section { id: "single", title: "Figures without sizes", body };

/// Above this ratio of the largest to the smallest value a linear axis would press the small ones together.
const WIDE: f64 = 8.0;

fn body(page: &Page<'_>) -> Option<String> {
    let without = page.matrices.iter().filter(|matrix| !matrix.has_sizes());
    let charts: String = without.map(|matrix| chart(page, matrix)).collect();
    let about = "<p class=\"about\">The bar through a dot is the 95 % interval.</p>\n";
    (!charts.is_empty()).then(|| about.to_string() + &charts)
}

fn chart(page: &Page<'_>, matrix: &Matrix<'_>) -> String {
    let lines =
        over_size::lines(page, matrix, |case, summary| over_size::median_point(matrix, case, summary));
    let (low, high) = over_size::range(lines.iter().flat_map(|line| &line.points).map(|point| point.y));
    let better = if matrix.higher_is_better { "higher is better" } else { "lower is better" };
    let payload = match matrix.sizes.first() {
        None | Some(0) => String::new(),
        Some(bytes) => format!(", payload {}", size(*bytes)),
    };
    let title = format!("{}{payload}, {better}", over_size::title(matrix));
    // The first mechanism of the record stands at the top.
    let names = plain_axis("").auto_range(true).n_ticks(lines.len().max(1));
    let (values, lines) = match high > low * WIDE {
        true => (LogAxis::values(matrix.unit, low, high).axis(), lines),
        false => scaled(matrix, lines),
    };
    let mut upside_down = lines;
    upside_down.reverse();
    chart::dots(&title, values, names, &upside_down) + &over_size::table(matrix)
}

/// Values in the table's unit on an axis from zero.
fn scaled(matrix: &Matrix<'_>, mut lines: Vec<Line>) -> (Axis, Vec<Line>) {
    let divisor = matrix.scale.divisor;
    let scale = |point: &mut Point| {
        point.y /= divisor;
        point.interval = point.interval.map(|ends| ends.map(|end| end / divisor));
    };
    lines.iter_mut().flat_map(|line| &mut line.points).for_each(scale);
    (linear(&matrix.scale.name), lines)
}
